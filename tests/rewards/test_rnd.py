from __future__ import annotations

import torch

from tau_trainer.rewards.rnd import LOSS, RND
from tau_trainer.settings.signals import RNDSettings
from tau_trainer.specs import ActionSpec
from tests.rewards.peer import (
    SMALL,
    case_of,
    experience_in,
    layers,
    parameters,
    same,
    same_gradients,
    spec_of,
    take_over,
)

PREDICTOR = layers("predictor.body", "predictor._encoder.")
LAYERS = PREDICTOR | layers("target.body", "target._encoder.")


def model(**network: object) -> RND:
    settings = RNDSettings.model_validate({"network_settings": SMALL | network})
    return RND(spec_of(ActionSpec(0, (3, 2))), settings, torch.Generator().manual_seed(1))


def test_it_pays_and_learns_as_mlagents_does() -> None:
    case, made = case_of("rnd"), model()
    take_over(made, case, LAYERS)
    played = experience_in(case)
    same(made.rewards(played), case["rewards"])
    loss, said = made.loss(played, None)
    same(said[LOSS], case[f"said.{LOSS}"])
    loss.backward()  # type: ignore[no-untyped-call]
    same_gradients(made, parameters(case, "g", PREDICTOR))


def test_what_is_paid_is_the_squared_distance_and_only_one_network_learns() -> None:
    made, played = model(), experience_in(case_of("rnd"))
    x = [played.inputs[0]]
    wanted = (made.predictor(x) - made.target(x)).pow(2).sum(dim=1)
    torch.testing.assert_close(made.rewards(played), wanted)
    assert float(wanted.detach().min()) > 0.0, "they begin with other weights"
    torch.testing.assert_close(made.loss(played, None)[0], wanted.mean())
    assert not any(parameter.requires_grad for parameter in made.target.parameters())
    elsewhere = played._replace(following=[played.following[0] + 1.0], discrete=1 - played.discrete.clamp(max=1))
    torch.testing.assert_close(made.rewards(elsewhere), made.rewards(played), msg="it looks at what was decided upon")


def test_what_was_seen_often_is_worth_less_than_what_was_not() -> None:
    made, played = model(), experience_in(case_of("rnd"))
    other = played._replace(inputs=[played.inputs[0].roll(1, 0) * -2.0])
    before, before_other = (made.rewards(side).detach().mean() for side in (played, other))
    optimizer = torch.optim.Adam(made.predictor.parameters(), 3e-3)
    for _ in range(200):
        optimizer.zero_grad()
        made.loss(played, None)[0].backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert float(made.rewards(played).detach().mean()) < 0.05 * float(before)
    assert float(made.rewards(other).detach().mean()) > 0.3 * float(before_other)


def test_both_networks_see_what_is_normalised_by_the_same_statistics() -> None:
    made, played = model(normalize=True), experience_in(case_of("rnd"))
    assert made.target.normalizer is None
    before = made.rewards(played)
    made.observe(played, expert=False)
    normal = made.predictor.normalizer
    assert normal is not None
    assert float(normal.count) == 9.0
    seen = [normal(played.inputs[0])]
    wanted = (made.predictor(seen) - made.target(seen)).pow(2).sum(dim=1)
    torch.testing.assert_close(made.rewards(played), wanted)
    assert not torch.allclose(before, wanted)
