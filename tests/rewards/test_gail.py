from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tau_trainer.rewards import gail
from tau_trainer.rewards.gail import GAIL
from tau_trainer.rewards.learned import Experience
from tau_trainer.settings.signals import GAILSettings
from tau_trainer.specs import BehaviorSpec, ObservationSpec
from tests.rewards.peer import HYBRID, SMALL, Case, Layers, case_of, experience_in, layers, parameters, same, spec_of

from tests.rewards.peer import same_gradients, take_over  # isort: skip

LAYERS: Layers = {**layers("features.body", "encoder."), "estimate": ["_estimator.0"]}
VAIL: Layers = LAYERS | {"code": ["_z_mu_layer"]}


def model(network: dict[str, object] | None = None, spec: BehaviorSpec | None = None, **options: Any) -> GAIL:
    given = {"demo_path": "x", "network_settings": SMALL | (network or {}), **options}
    return GAIL(spec or spec_of(HYBRID), GAILSettings.model_validate(given), torch.Generator().manual_seed(1))


def of_both(case: Case) -> tuple[Experience, Experience]:
    return experience_in(case), experience_in(case, "expert.")


def drawing(made: GAIL, case: Case) -> None:
    """Let it draw what the peer drew, in that order."""
    drawn = iter([case[f"drawn.{place}"] for place in range(sum(name.startswith("drawn.") for name in case))])
    made.uniform = made.normal = lambda like: next(drawn)  # type: ignore[method-assign]


@pytest.mark.parametrize(("name", "options"), [("gail", {}), ("gail_actions", {"use_actions": True})])
def test_it_pays_and_learns_as_mlagents_does(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer's penalty looks at its first sensor alone: with actions beside it was left out on both sides.

    Its loader would give the expert's actions one decision late (oddity 5): it was handed a batch instead.
    """
    case, made = case_of(name), model(**options)
    if options:
        monkeypatch.setattr(gail, "GRADIENT_PENALTY", 0.0)
    else:
        drawing(made, case)
    take_over(made, case, LAYERS)
    played, expert = of_both(case)
    same(made.rewards(played), case["rewards"])
    loss, said = made.loss(played, expert)
    for key, value in said.items():
        if f"said.{key}" in case:
            same(value, case[f"said.{key}"], key)
    same(loss, case["loss"][0])
    loss.backward()  # type: ignore[no-untyped-call]
    same_gradients(made, parameters(case, "g", LAYERS))


def test_the_bottleneck_is_that_of_mlagents_but_that_beta_moves_after_the_step() -> None:
    """The peer writes its new beta over the old one before it differentiates, so its gradient goes by the new one.

    Ours by the old one, as the loss does: it is given the new one where gradients are compared.
    """
    case, made = case_of("vail"), model(use_vail=True)
    played, expert = of_both(case)
    take_over(made, case, VAIL, sigma=case["w._z_sigma"])
    same(made.rewards(played), case["rewards"])
    made.beta.fill_(0.3)
    drawing(made, case)
    loss, said = made.loss(played, expert)
    same(loss, case["loss"][0])
    for key, value in said.items():
        same(value, case[f"said.{key}"], key)
    made.beta.copy_(case["said.Policy/GAIL Beta"])
    drawing(made, case)
    made.loss(played, expert)[0].backward()  # type: ignore[no-untyped-call]
    same_gradients(made, parameters(case, "g", VAIL) | {"sigma": case["g._z_sigma"]})


def test_losses_and_rewards_are_those_of_the_paper() -> None:
    made, (played, expert) = model(), of_both(case_of("gail"))
    d_played, d_expert = (made._logits(made._seen(side), noisy=False)[0].sigmoid() for side in (played, expert))
    torch.testing.assert_close(made.rewards(played), -(1.0 - d_played).log(), rtol=1e-4, atol=1e-5)
    state = made._generator.get_state()
    loss, said = made.loss(played, expert)
    torch.testing.assert_close(said[gail.LOSS], -d_expert.log().mean() - (1.0 - d_played).log().mean())
    made._generator.set_state(state)
    penalty = 10.0 * made._steepness(made._seen(played), made._seen(expert))
    torch.testing.assert_close(loss, said[gail.LOSS] + penalty)
    torch.testing.assert_close(said[gail.EXPERT_ESTIMATE], d_expert.mean())


def test_the_penalty_is_how_far_the_slope_between_both_sides_is_from_one() -> None:
    """Of D, by finite differences, for all that is seen together."""
    made, (played, expert) = model(use_actions=True), of_both(case_of("gail_actions"))
    made = made.double()
    for layer in made.parameters():
        layer.data.mul_(1.5)
    played, expert = (
        side._replace(
            inputs=[side.inputs[0].double()], continuous=side.continuous.double(), goes_on=side.goes_on.double()
        )
        for side in (played, expert)
    )
    made.features.prepare = lambda inputs: [*inputs]  # type: ignore[method-assign]  # it would round
    made.uniform = lambda like: torch.full_like(like, 0.25)  # type: ignore[method-assign]
    seen = [made._seen(side) for side in (played, expert)]
    between = [0.25 * mine + 0.75 * theirs for mine, theirs in zip(*seen, strict=True)]
    slopes = []
    for part, values in enumerate(between):
        for column in range(values.shape[1]):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [x.clone() for x in between]
                moved[part][:, column] += step
                ends.append(made._logits(moved, noisy=False)[0].sigmoid())
            slopes.append((ends[0] - ends[1]) / 2e-6)
    wanted = ((torch.stack(slopes).square().sum(dim=0) + gail.EPSILON).sqrt() - 1.0).square().mean()
    torch.testing.assert_close(made._steepness(*seen), wanted, rtol=1e-5, atol=1e-7)


def test_what_is_paid_is_never_negative_and_has_an_end() -> None:
    made, (played, _) = model(), of_both(case_of("gail"))
    with torch.no_grad():
        made.estimate.bias.fill_(60.0)
    assert float(made.rewards(played).detach().max()) == pytest.approx(-math.log(gail.EPSILON), rel=0.02)
    with torch.no_grad():
        made.estimate.bias.fill_(-60.0)
    assert float(made.rewards(played).detach().min()) == pytest.approx(0.0, abs=1e-6)


def test_actions_and_real_ends_count_where_they_are_asked_for_and_nowhere_else() -> None:
    played, _ = of_both(case_of("gail"))
    others = (
        played._replace(continuous=played.continuous + 1.0),
        played._replace(discrete=(played.discrete + 1) % 2),
        played._replace(goes_on=1.0 - played.goes_on),
    )
    for use_actions in (False, True):
        made = model(use_actions=use_actions)
        for other in others:
            assert torch.allclose(made.rewards(other), made.rewards(played)) != use_actions


def test_beta_grows_while_codes_hold_too_much_and_never_falls_below_nothing() -> None:
    made, (played, expert) = model(use_vail=True), of_both(case_of("vail"))
    assert made.code is not None

    def kl_of(scale: float) -> float:
        with torch.no_grad():
            made.code.weight.mul_(scale)  # type: ignore[union-attr]
        return float(made.loss(played, expert)[1][gail.KL_LOSS].detach())

    assert kl_of(0.01) < gail.INFORMATION
    assert float(made.beta) == 0.0
    surplus = kl_of(3000.0) - gail.INFORMATION
    assert surplus > 1.0
    assert float(made.beta) == pytest.approx(gail.BETA_RATE * surplus, rel=1e-5)
    assert "beta" in dict(made.named_buffers())


def test_images_are_told_apart_too() -> None:
    sensors = (ObservationSpec("camera", (3, 6, 6), dtype="uint8"),)
    made = model({"vis_encode_type": "match3"}, BehaviorSpec("Sees", sensors, HYBRID))
    generator = torch.Generator().manual_seed(2)
    sides = [
        side._replace(
            inputs=[torch.zeros(8, 0), torch.randint(*span, (8, 3, 6, 6), dtype=torch.uint8, generator=generator)]
        )
        for side, span in zip(of_both(case_of("gail")), ((0, 120), (100, 256)), strict=True)
    ]
    optimizer = torch.optim.Adam(made.parameters(), 3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        loss, said = made.loss(*sides)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert float(said[gail.EXPERT_ESTIMATE].detach()) > float(said[gail.POLICY_ESTIMATE].detach()) + 0.2
    paid, to_expert = (made.rewards(side).detach().mean() for side in sides)
    assert float(to_expert) > 2.0 * float(paid)
