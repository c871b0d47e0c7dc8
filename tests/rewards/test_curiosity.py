from __future__ import annotations

import pytest
import torch

from tau_trainer.rewards.curiosity import FORWARD_LOSS, HIDDEN, INVERSE_LOSS, Curiosity
from tau_trainer.rewards.learned import Experience
from tau_trainer.settings.signals import CuriositySettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.rewards.peer import HYBRID, SMALL, Layers, case_of, experience_in, layers, parameters, same, spec_of

from tests.rewards.peer import same_gradients, take_over  # isort: skip

LAYERS: Layers = {
    **layers("features.body", "_state_encoder."),
    "inverse.body.0": ["inverse_model_action_encoding.0.seq_layers.0"],
    "inverse": ["continuous_action_prediction", "discrete_action_prediction"],
    "forward_model.body.0": ["forward_model_next_state_prediction.0.seq_layers.0"],
    "forward_model": ["forward_model_next_state_prediction.1"],
}


def model(strength: float = 0.02, actions: ActionSpec = HYBRID, **network: object) -> Curiosity:
    settings = CuriositySettings.model_validate({"strength": strength, "network_settings": SMALL | network})
    return Curiosity(spec_of(actions), settings, torch.Generator().manual_seed(1))


def test_it_pays_and_learns_as_mlagents_does() -> None:
    """The peer pays nothing before its first update, and forgets on resume that it had one: it was told it had."""
    case, made = case_of("curiosity"), model()
    take_over(made, case, LAYERS)
    made.learned.fill_(1.0)
    played = experience_in(case)
    same(made.rewards(played), case["rewards"])
    loss, said = made.loss(played, None)
    for name in (FORWARD_LOSS, INVERSE_LOSS):
        same(said[name], case[f"said.{name}"], name)
    loss.backward()  # type: ignore[no-untyped-call]
    same_gradients(made, parameters(case, "g", LAYERS))


def test_losses_and_rewards_are_those_of_the_paper() -> None:
    """Written out layer by layer: equations 2 to 7 of Pathak et al., for one continuous action and a branch."""
    made, case = model(strength=1e-3, actions=ActionSpec(1, (3,))), case_of("curiosity")
    played = experience_in(case)._replace(continuous=case["continuous"][:, :1], discrete=case["discrete"][:, :1])
    swish = torch.nn.functional.silu

    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        found = dict(made.named_parameters())
        weight, bias = found[f"{name}.weight"], found[f"{name}.bias"]
        return x @ weight.reshape(weight.shape[-2:]) + bias.reshape(-1)

    def phi(x: torch.Tensor) -> torch.Tensor:
        return swish(linear("features.body.1", swish(linear("features.body.0", x))))

    before, after = phi(played.inputs[0]), phi(played.following[0])
    chosen = torch.eye(3)[played.discrete[:, 0]]
    told = linear("inverse", swish(linear("inverse.body.0", torch.cat((before, after), dim=1))))
    cross = -(chosen * torch.log_softmax(told[:, 1:], dim=1)).sum(dim=1)
    inverse = ((told[:, 0] - played.continuous[:, 0]) ** 2 + cross).mean()
    inputs = torch.cat((before, played.continuous, chosen), dim=1)
    error = 0.5 * (linear("forward_model", swish(linear("forward_model.body.0", inputs))) - after).pow(2).sum(dim=1)
    loss, said = made.loss(played, None)
    torch.testing.assert_close(loss, 10.0 * (0.2 * error.mean() + 0.8 * inverse))
    torch.testing.assert_close(said[INVERSE_LOSS], inverse)
    torch.testing.assert_close(made.rewards(played), error)
    assert made.inverse.body.size == HIDDEN


def test_nothing_is_paid_before_anything_was_learned_and_no_more_than_one_afterwards() -> None:
    made, played = model(strength=50.0), experience_in(case_of("curiosity"))
    assert not made.rewards(played).any()
    made.loss(played, None)
    assert float(made.rewards(played).detach().max()) == pytest.approx(1.0 / 50.0)
    assert float(made.learned) == 1.0
    assert "learned" in dict(made.named_buffers()), "so that a resumed run pays on"


@pytest.mark.parametrize("network", [{"normalize": True}, {"vis_encode_type": "match3"}])
def test_images_and_statistics_are_its_own(network: dict[str, object]) -> None:
    sensors = ObservationSpec("vector", (5,)), ObservationSpec("camera", (3, 6, 6), dtype="uint8")
    settings = CuriositySettings.model_validate({"network_settings": SMALL | {"vis_encode_type": "match3"} | network})
    made = Curiosity(BehaviorSpec("Sees", sensors, HYBRID), settings, torch.Generator().manual_seed(1))
    case = case_of("curiosity")
    images = torch.randint(0, 256, (8, 3, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    base = experience_in(case)
    played = Experience([base.inputs[0], images], [base.following[0], images.flip(0)], *base[2:])
    loss, _ = made.loss(played, None)
    loss.backward()  # type: ignore[no-untyped-call]
    touched = [
        name for name, parameter in made.named_parameters() if parameter.grad is not None and parameter.grad.any()
    ]
    assert any("encoders.0.images.0" in name for name in touched)
    as_floats = played._replace(inputs=[base.inputs[0], images / 255.0])
    torch.testing.assert_close(made.rewards(played), made.rewards(as_floats))
    before = made.rewards(played)
    made.observe(played, expert=False)
    assert torch.equal(before, made.rewards(played)) != bool(network.get("normalize"))
