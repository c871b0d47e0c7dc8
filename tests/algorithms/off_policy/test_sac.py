from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms.off_policy.sac import SAC, losses
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.export import export_onnx
from tau_trainer.models import ModulePolicy
from tau_trainer.models.observation_encoder import TowerFeatures
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import ActionSpec, ObservationSpec, ObservationType
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, TWO_STREAMS, behavior
from tests.algorithms.reference_sac import gradients, textbook
from tests.algorithms.replayed import (
    Collector,
    random_batch,
    random_everywhere,
    sac,
    sac_ln,
    sac_ln_settings,
    settings,
    trained,
)
from tests.networks import IMAGE, LIST

GOAL = ObservationSpec("goal", (3,), (), ObservationType.GOAL_SIGNAL)
KINDS = {"continuous": CONTINUOUS, "discrete": DISCRETE, "hybrid": HYBRID, "one branch": ActionSpec(0, (4,))}


def expected(learner: SAC, batch: Transitions, noise: torch.Tensor) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    named = learner.module.named_parameters()
    weights = {name: one.detach().double().requires_grad_() for name, one in named}
    gammas = torch.tensor([stream.gamma for stream in learner.streams])
    found = textbook(weights, learner.network.action.choices, batch, noise, gammas)
    return found, gradients(weights, found)


@pytest.mark.parametrize("signals", [None, TWO_STREAMS])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_gradients_are_the_textbooks(kind: str, signals: Any) -> None:
    learner = sac(KINDS[kind], settings(signals=signals))
    random_everywhere(learner)
    batch, noise = random_batch(learner)
    wanted, slopes = expected(learner, batch, noise)
    gammas = torch.tensor([stream.gamma for stream in learner.streams])
    found = losses(learner.module, batch, noise, gammas)
    told = {"policy": found.policy, "value": found.value, "q1": found.q[0], "q2": found.q[1]}
    for name, loss in {**told, "coefficients": found.coefficients}.items():
        assert float(loss.detach()) == pytest.approx(float(wanted[name].detach()), rel=2e-4, abs=1e-5), name
    learner.parameters.optimizer.gradient.zero_()
    (found.policy + found.value + found.q.sum() + found.coefficients).backward()  # type: ignore[no-untyped-call]
    for name, parameter in learner.module.named_parameters():
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad.numpy(), slopes[name].numpy(), rtol=2e-3, atol=2e-5, err_msg=name)


@pytest.mark.parametrize(("kind", "fused"), [("hybrid", False), ("hybrid", True), ("one branch", True)])
def test_steps_are_those_of_three_optimizers(kind: str, fused: bool) -> None:
    """ML-Agents has one Adam for the policy, one for V and both Qs, one for the coefficients."""
    learner = sac(KINDS[kind], settings(tau=0.3), fused=fused)
    random_everywhere(learner)
    weights = {name: one.detach().double().requires_grad_() for name, one in learner.module.named_parameters()}
    own = {name: one for name, one in weights.items() if not name.startswith("target.")}
    optimizer = torch.optim.Adam(own.values(), lr=0.01)
    generator = torch.Generator()
    generator.set_state(learner.generator.get_state())
    for step in range(3):
        batch, _ = random_batch(learner, seed=step)
        noise = torch.randn(batch.continuous.shape, generator=generator)
        found = textbook(weights, learner.network.action.choices, batch, noise, torch.tensor([0.99]))
        slopes = gradients(weights, found)
        for name, one in own.items():
            one.grad = slopes[name]
        optimizer.step()
        with torch.no_grad():
            for name, one in weights.items():
                if name.startswith("target."):
                    source = weights["network." + name.removeprefix("target.")]
                    one.copy_(0.7 * one + 0.3 * source)
        with torch.no_grad():
            learner.learn(batch, 1, 0.01)
    for name, parameter in learner.module.named_parameters():
        if name != "target.action.log_sigma":
            wanted = weights[name].detach().numpy()
            np.testing.assert_allclose(parameter.detach().numpy(), wanted, rtol=5e-3, atol=1e-4, err_msg=name)


def test_at_the_start_the_target_is_the_network() -> None:
    learner = sac(HYBRID, settings({"normalize": True}))
    inputs = [torch.randn(5, 7)]
    torch.testing.assert_close(learner.module.target.values(inputs), learner.network.values(inputs))
    assert "target.normalizer.mean" not in learner.module.state_dict(), "what goes in is normalised already"


def test_coefficients_begin_where_they_are_told() -> None:
    for start, actions, size in ((0.5, HYBRID, 3), (1.0, CONTINUOUS, 1), (0.1, DISCRETE, 2)):
        learner = sac(actions, settings(init_entcoef=start))
        assert learner.module.log_coefficients.exp().tolist() == pytest.approx([start] * size)
    assert sac(HYBRID, settings({"action_levels": 5})).module.log_coefficients.numel() == 4, "levels are branches"
    learner = sac(HYBRID, settings(init_entcoef=0.0))
    trained(learner)
    assert learner.module.log_coefficients.exp().max() < 1e-7
    assert learner.parameters.finite()


def test_what_is_reported() -> None:
    learner = sac(HYBRID, settings(signals=TWO_STREAMS, learning_rate_schedule="linear", steps_per_update=2.0))
    collector = trained(learner, rounds=1)
    result = learner.update(collector.collect(), 0.25, None)
    shared = {"Policy Age", "Update Seconds", "Minibatches"}
    of_policy = "Continuous Entropy Coeff", "Discrete Entropy Coeff", "Entropy", "Extrinsic Value", "Bonus Value"
    wanted = {f"Losses/{name} Loss" for name in ("Policy", "Value", "Q1", "Q2")}
    wanted |= {f"Policy/{name}" for name in (*of_policy, "Learning Rate")}
    assert {name for name in result if name.rpartition("/")[2] not in shared} == wanted
    assert all(math.isfinite(value) for value in result.values())
    assert result["Policy/Learning Rate"] == pytest.approx(0.0075)
    assert result["Policy/Continuous Entropy Coeff"] == pytest.approx(learner.module.log_coefficients.exp().tolist()[0])
    assert result["Train/Minibatches"] == 30.0


MAKERS: dict[str, Any] = {
    "sac": lambda spec, network: sac(spec, settings(network)),
    "sac_ln": lambda spec, network: sac_ln(spec, sac_ln_settings(network)),
}


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_encoders_goals_and_lists_learn_and_are_exported(make: Any, tmp_path: Any) -> None:
    learner = make(behavior(HYBRID, IMAGE, LIST, GOAL), {"normalize": True})
    before = {name: one.detach().clone() for name, one in learner.module.named_parameters()}
    trained(learner)
    still = [name for name, one in learner.module.named_parameters() if torch.equal(one, before[name])]
    unused = "network.value" if learner.name == "sac_ln" else "none"  # its Qs take the place of values
    assert [name for name in still if not name.startswith(unused)] == []
    assert learner.replay.state()[0]["input_1"].dtype == np.uint8
    assert isinstance(learner.snapshot(), ModulePolicy)
    assert export_onnx(learner.snapshot(), learner.spec, tmp_path / "policy.onnx").is_file()


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("sensors", [(IMAGE,), (IMAGE, GOAL), (GOAL, IMAGE, LIST)])
def test_blocks_of_q_learn_from_q_alone(sensors: tuple[ObservationSpec, ...]) -> None:
    """The policy's loss goes through Q to the actions, and moves nothing of Q."""
    learner = sac(behavior(CONTINUOUS, *sensors))
    random_everywhere(learner)
    trained(learner, rounds=1)
    batch = learner.draw(1)
    noise = torch.randn(batch.continuous.shape)
    found = losses(learner.module, batch, noise, torch.tensor([0.99]))
    learner.parameters.optimizer.gradient.zero_()
    found.policy.backward()  # type: ignore[no-untyped-call]
    for name, parameter in learner.module.named_parameters():
        assert parameter.grad is not None
        moved = bool(parameter.grad.any())
        own = name.startswith(("network.action", "network.body", "network.encoders.0", "network.hyper"))
        assert moved == own, name


RECURRENT = {"memory": MemorySettings(memory_size=6, sequence_length=4), "normalize": True}


def test_recurrent_qs_begin_every_sequence_with_nothing_and_teach_actions_alone_where_frozen() -> None:
    learner = sac(HYBRID, settings(RECURRENT))
    random_everywhere(learner)
    batch, _ = random_batch(learner)
    q, seen = learner.module.q, learner.module.q.see(batch.inputs)
    begins = torch.arange(9) % 4 == 0
    continuous = batch.continuous.clone().requires_grad_()
    found = q(seen, continuous, begins, frozen=True)
    for first, last in ((0, 4), (4, 8), (8, 9)):
        alone = [TowerFeatures(*(values[first:last] for values in one)) for one in seen]
        torch.testing.assert_close(
            found[:, first:last], q(alone, continuous[first:last], torch.zeros(last - first) > 0)
        )
    found.sum().backward()
    assert continuous.grad is not None
    assert continuous.grad.any(dim=1).all()
    assert not learner.parameters.optimizer.gradient.any()
    q(seen, batch.continuous, begins).sum().backward()
    moved = {name for name, one in q.named_parameters() if one.grad is not None and one.grad.any()}
    assert {name for name in moved if name.startswith("memories")} == {
        f"memories.{tower}.{name}" for tower in range(2) for name in ("input.weight", "input.bias", "hidden.weight")
    }


def test_minibatches_of_a_recurrent_network_are_sequences_in_time() -> None:
    """A row's state is what the policy carried, and what came after it is what the next row of its sequence sees."""
    learner = sac(HYBRID, settings(RECURRENT, batch_size=30))
    collector = Collector(learner)
    learner.update(collector.collect(20), 0.0, None)
    batch = learner.draw(1)
    assert batch.begins.shape == (30,)
    assert batch.begins[0]
    assert int(batch.begins.sum()) < 20
    inside = torch.arange(30)[~batch.begins]
    torch.testing.assert_close(batch.inputs[0][inside], batch.following[0][inside - 1])
    lengths = torch.diff(torch.cat((batch.begins.nonzero()[:, 0], torch.tensor([30]))))
    assert int(lengths.max()) == 4
    rows = torch.from_numpy(np.concatenate([one["state"][None] for one in collector.closed()]))
    same = (batch.state.flatten(1)[:, None] == rows.flatten(1)).all(dim=2)
    assert same.any(dim=1).all()
    assert len(batch.state.unique(dim=0)) > 10  # type: ignore[no-untyped-call]
