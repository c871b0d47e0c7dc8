"""DDPG and TD3 against their papers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.off_policy.ddpg import DDPG
from tau_trainer.algorithms.off_policy.td3 import TD3
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.errors import SettingsError
from tau_trainer.export import export_onnx
from tau_trainer.models import ModulePolicy
from tau_trainer.settings import (
    DDPGHyperparameters,
    DDPGTrainerSettings,
    NetworkSettings,
    TD3Hyperparameters,
    TD3TrainerSettings,
)
from tau_trainer.specs import ActionSpec, BehaviorSpec
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, TWO_STREAMS, behavior, paying, states_equal
from tests.algorithms.reference_sac import hidden, q_values
from tests.algorithms.replayed import copied, random_batch, random_everywhere, trained
from tests.networks import IMAGE, LIST

KINDS: dict[str, Any] = {
    "ddpg": (DDPG, DDPGTrainerSettings, DDPGHyperparameters),
    "td3": (TD3, TD3TrainerSettings, TD3Hyperparameters),
}
both = pytest.mark.parametrize("name", KINDS)


def make(
    name: str,
    spec: BehaviorSpec | ActionSpec = CONTINUOUS,
    network: dict[str, Any] | None = None,
    signals: Any = None,
    seed: int = 1,
    fused: bool = True,
    **numbers: Any,
) -> DDPG:
    kind, settings, hyperparameters = KINDS[name]
    numbers = {"batch_size": 16, "buffer_size": 1000, "learning_rate": 1e-2, "buffer_init_steps": 0} | numbers
    options = settings(
        hyperparameters=hyperparameters(**numbers),
        network_settings=NetworkSettings().model_copy(update={"hidden_units": 16, **(network or {})}),
    )
    options = paying(options, signals)
    spec = behavior(spec) if isinstance(spec, ActionSpec) else spec
    learner: DDPG = kind(Setup(spec, options, seed), fused=fused)
    return learner


class Textbook:
    """The same in float64, with a network for everything, a loop over transitions and an Adam for actor and Qs each."""

    def __init__(self, learner: DDPG, rate: float, tau: float) -> None:
        self.weights = {name: one.detach().double().requires_grad_() for name, one in learner.module.named_parameters()}
        self.learner, self.tau = learner, tau
        self.gammas = [stream.gamma for stream in learner.streams]
        self.optimizers = {
            part: torch.optim.Adam([one for name, one in self.weights.items() if name.startswith(part)], lr=rate)
            for part in ("network.", "q.")
        }
        self.count = 0

    def actor(self, network: str, obs: torch.Tensor) -> torch.Tensor:
        features = hidden(self.weights, f"{network}.body", 0, obs)
        return torch.tanh(features @ self.weights[f"{network}.action.weight"] + self.weights[f"{network}.action.bias"])

    def q(self, network: str, twin: int, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        own = {name.replace(f"{network}.", "q.", 1): one for name, one in self.weights.items() if f"{network}." in name}
        return q_values(own, twin, obs, action, len(self.gammas))[:, 0]

    def step(self, batch: Transitions, smoothing: torch.Tensor) -> dict[str, float]:
        learner = self.learner
        found = torch.zeros(learner.estimates, dtype=torch.float64)
        self.errors = torch.zeros(len(batch.rewards))
        rows = range(len(batch.rewards))
        for row in rows:
            following = batch.following[0][row].double()
            with torch.no_grad():
                action = self.actor("target", following) + smoothing[row].double()
                action = action.clip(-1.0, 1.0)
                after = [self.q("q_target", twin, following, action) for twin in range(learner.estimates)]
                least = after[0] if len(after) == 1 else torch.minimum(*after)
                goal = batch.rewards[row] + batch.goes_on[row] * torch.tensor(self.gammas) * least
            for twin in range(learner.estimates):
                q = self.q("q", twin, batch.inputs[0][row].double(), batch.continuous[row].double())
                weight = batch.weights[row].double() if len(batch.weights) else 1.0
                found = found + torch.eye(learner.estimates)[twin] * 0.5 * weight * (q - goal).square().mean() / len(
                    rows
                )
                self.errors[row] += float((q - goal).detach().abs().mean()) / learner.estimates
        self._descend("q.", found.sum())
        self.count += 1
        told = {f"Losses/Q{twin + 1} Loss": float(found[twin].detach()) for twin in range(learner.estimates)}
        if self.count % learner.delay:
            return told
        seen = [batch.inputs[0][row].double() for row in rows]
        loss: Any = -sum(self.q("q", 0, obs, self.actor("network", obs)).mean() for obs in seen) / len(rows)
        self._descend("network.", loss)
        with torch.no_grad():
            for name, one in self.weights.items():
                for target, source in (("target.", "network."), ("q_target.", "q.")):
                    if name.startswith(target):
                        one.lerp_(self.weights[source + name.removeprefix(target)], self.tau)
        return {**told, "Losses/Policy Loss": float(loss.detach())}

    def _descend(self, part: str, loss: Any) -> None:
        for one in self.weights.values():
            one.grad = None
        loss.backward()
        self.optimizers[part].step()


@pytest.mark.parametrize(
    ("signals", "weighted", "layers"), [(None, False, 2), (TWO_STREAMS, False, 0), (TWO_STREAMS, True, 3)]
)
@pytest.mark.parametrize("fused", [False, True])
@both
def test_steps_are_the_papers(name: str, fused: bool, signals: Any, weighted: bool, layers: int) -> None:
    """Weights after five steps, of which TD3's actor takes two, and what each step reports."""
    noise: dict[str, Any] = {"target_policy_noise": 0.4, "target_noise_clip": 0.5} if name == "td3" else {}
    learner = make(name, network={"num_layers": layers}, signals=signals, tau=0.3, fused=fused, **noise)
    assert learner.holds_lock != fused
    random_everywhere(learner)
    textbook = Textbook(learner, 1e-2, 0.3)
    generator = torch.Generator()
    generator.set_state(learner.generator.get_state())
    for step in range(5):
        batch = random_batch(learner, seed=step, weighted=weighted)[0]
        smoothing = torch.zeros(9, 2)
        if name == "td3":
            smoothing = (0.4 * torch.randn(9, 2, generator=generator)).clip(-0.5, 0.5)
        wanted = textbook.step(batch, smoothing)
        with torch.no_grad():
            told = learner.report(learner.learn(batch, 1, 1e-2).mean(dim=0).tolist())
        values = {f"Policy/{stream.name.capitalize()} Value" for stream in learner.streams}
        assert {key: told[key] for key in told if key not in values} == pytest.approx(wanted, rel=1e-3)
        assert values < told.keys()
        if weighted:
            torch.testing.assert_close(batch.errors, textbook.errors, rtol=1e-3, atol=1e-4)
    assert ("Losses/Policy Loss" in wanted) == (name == "ddpg")
    for key, parameter in learner.module.named_parameters():
        found = parameter.detach().numpy()
        np.testing.assert_allclose(found, textbook.weights[key].detach().numpy(), rtol=5e-3, atol=2e-4, err_msg=key)


@pytest.mark.parametrize("fused", [False, True])
def test_several_minibatches_are_steps_one_after_the_other(fused: bool) -> None:
    learner, other = make("td3", fused=fused), make("td3", fused=fused)
    batches = [random_batch(learner, seed=seed)[0] for seed in range(3)]
    together = Transitions(
        *(
            [torch.cat([one[0] for one in parts])] if isinstance(parts[0], list) else torch.cat(parts)
            for parts in zip(*batches, strict=True)
        )  # type: ignore[arg-type]
    )
    with torch.no_grad():
        found = learner.learn(together, 3, 1e-2)
        wanted = torch.cat([other.learn(batch, 1, 1e-2) for batch in batches])
    torch.testing.assert_close(found, wanted)
    assert found[:, 1].tolist() == [0.0, 1.0, 0.0]
    for one, two in zip(learner.module.parameters(), other.module.parameters(), strict=True):
        torch.testing.assert_close(one, two)


@both
def test_at_the_start_targets_are_what_they_follow(name: str) -> None:
    learner = make(name, network={"normalize": True})
    vector = learner.parameters.optimizer.parameters
    actor, q, target, q_target = learner.parts
    assert torch.equal(vector[learner.parameters.span(actor, q)], vector[learner.parameters.span(target, q_target)])
    assert len(learner.module.q.weight) == (2 if name == "td3" else 1)
    assert "target.normalizer.mean" not in learner.module.state_dict(), "what goes in is normalised already"
    assert [key for key in learner.weights() if "log_sigma" in key or key.startswith("q")] == []


@pytest.mark.parametrize(
    ("actions", "instead"), [(DISCRETE, r"\[3, 2\]; use trainer_type: dqn$"), (HYBRID, "use trainer_type: sac or ppo$")]
)
@both
def test_discrete_actions_are_refused(name: str, actions: ActionSpec, instead: str) -> None:
    settings = KINDS[name][1]
    with pytest.raises(SettingsError, match=f"^behavior 'Walker': {name} learns only continuous actions.*{instead}"):
        make_algorithm(Setup(behavior(actions), settings(), 1))


def test_levels_are_refused() -> None:
    with pytest.raises(SettingsError, match="action_levels"):
        make("ddpg", network={"action_levels": 5})


def test_a_learner_that_was_read_back_goes_on_the_same() -> None:
    """With its ring, its moments, its random numbers and the time of its noise."""
    noise = {"type": "ornstein_uhlenbeck", "theta": 1, "sigma_min": 0.1, "n_steps_annealing": 400}
    own: Any = {"save_replay_buffer": True, "exploration": noise}
    learner, other = (make("td3", network={"normalize": True}, seed=seed, **own) for seed in (1, 2))
    collector = trained(learner)
    other.load(*copied(learner.state()), fresh=False)
    assert learner.network.get_buffer("clock")[0] == learner.seen > 100
    assert other.snapshot()._numbers == learner.snapshot()._numbers < 1.0  # type: ignore[attr-defined]
    work = {key: values if isinstance(values, int) else np.array(values) for key, values in collector.collect().items()}
    results = [one.update(work, 0.5, None) for one in (learner, other)]
    for result in results:
        del result["Train/Update Seconds"]
    assert results[0] == results[1]
    states_equal(learner, other)


@pytest.mark.usefixtures("toys")
@both
def test_encoders_learn_and_are_exported(name: str, tmp_path: Any) -> None:
    learner = make(name, behavior(CONTINUOUS, IMAGE, LIST), {"normalize": True})
    before = {key: one.detach().clone() for key, one in learner.module.named_parameters()}
    trained(learner)
    still = [key for key, one in learner.module.named_parameters() if torch.equal(one, before[key]) and one.numel()]
    assert not still
    assert isinstance(learner.snapshot(), ModulePolicy)
    assert export_onnx(learner.snapshot(), learner.spec, tmp_path / "policy.onnx").is_file()
