"""Implicit quantile networks against the paper in numpy, what they do with any network, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from tau_trainer.algorithms.off_policy.iqn import IQN
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.export.build import build_model
from tau_trainer.export.verify import verify
from tau_trainer.models import ModulePolicy
from tau_trainer.models.distributions import branch_bounds
from tau_trainer.settings import IQNHyperparameters
from tau_trainer.specs import ActionSpec, Float64Array
from tests.algorithms.experience import CONTINUOUS, DISCRETE, behavior
from tests.algorithms.off_policy.test_dqn import MEMORY, ONE
from tests.algorithms.replayed import Collector, iqn, iqn_settings, random_batch, random_everywhere, trained
from tests.networks import IMAGE, LIST

Weights = dict[str, Float64Array]
SWITCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "double": {"double": True},
    "careful": {"cvar": 0.3, "kappa": 0.5},
    "sizes": {"num_tau_samples": 3, "num_tau_prime_samples": 5, "num_quantile_samples": 7, "quantile_embedding_dim": 4},
}


def quantiles(weights: Weights, network: str, x: Float64Array, fractions: Float64Array) -> Float64Array:
    """Z_tau of every value [N, M] of one observation, layer by layer."""
    hidden = x
    for layer in range(2):
        z = hidden @ weights[f"{network}.body.{layer}.weight"][0] + weights[f"{network}.body.{layer}.bias"][0, 0]
        hidden = z / (1 + np.exp(-z))
    head = {name: weights[f"{network}.action.{name}"] for name in ("weight", "bias", "embedding.weight")}
    found = []
    for tau in fractions:
        cosines = np.array([np.cos(np.pi * i * tau) for i in range(len(head["embedding.weight"]))])
        phi = np.maximum(0, cosines @ head["embedding.weight"] + weights[f"{network}.action.embedding.bias"])
        z = (hidden * phi) @ weights[f"{network}.action.hidden.weight"] + weights[f"{network}.action.hidden.bias"]
        found.append((z / (1 + np.exp(-z))) @ head["weight"] + head["bias"])
    return np.array(found)


class Textbook:
    """Dabney et al. 2018, equations 2 and 3, one transition and one pair of fractions after the other."""

    def __init__(self, learner: IQN, batch: Transitions) -> None:
        self.learner, self.batch = learner, batch
        numbers: Any = learner.hyperparameters
        self.hyperparameters = numbers
        self.bounds = branch_bounds(learner.network.action.choices.discrete_branches)
        drawn = torch.Generator()
        drawn.set_state(learner.generator.get_state())
        sizes = self.hyperparameters.num_tau_samples, self.hyperparameters.num_tau_prime_samples
        self.taus, self.primes = (
            torch.rand(len(batch.rewards), size, generator=drawn).double().numpy() for size in sizes
        )

    def goals(self, weights: Weights) -> Float64Array:
        """[n, N']."""
        batch, numbers, found = self.batch, self.hyperparameters, []
        middles = numbers.cvar * (np.arange(numbers.num_quantile_samples) + 0.5) / numbers.num_quantile_samples
        for row, seen in enumerate(batch.following[0].double().numpy()):
            judge = "network" if numbers.double else "target"
            means = quantiles(weights, judge, seen, middles).mean(axis=0)
            after = quantiles(weights, "target", seen, self.primes[row])
            best = []
            for begin, end in self.bounds:
                allowed = [place for place in range(begin, end) if not batch.forbidden_after[row, place]]
                best.append(after[:, max(allowed, key=lambda place: float(means[place]))])
            gamma = self.learner.streams[0].gamma * float(batch.goes_on[row, 0])
            found.append(float(batch.rewards[row, 0]) + gamma * np.mean(best, axis=0))
        return np.array(found)

    def losses(self, weights: Weights, goals: Float64Array) -> Float64Array:
        """[n], before they are weighed."""
        kappa, found = self.hyperparameters.kappa, []
        for row, seen in enumerate(self.batch.inputs[0].double().numpy()):
            every = quantiles(weights, "network", seen, self.taus[row])  # [N, M]
            columns = [begin + int(self.batch.discrete[row, i]) for i, (begin, _) in enumerate(self.bounds)]
            total = 0.0
            for tau, worth in zip(self.taus[row], every[:, columns].mean(axis=1), strict=True):
                for goal in goals[row]:
                    delta = goal - worth
                    huber = 0.5 * delta**2 if abs(delta) <= kappa else kappa * (abs(delta) - 0.5 * kappa)
                    total += abs(tau - (delta < 0)) * huber / kappa / len(goals[row])
            found.append(total)
        return np.array(found)

    def loss(self, weights: Weights, goals: Float64Array) -> float:
        count = self.batch.weights.double().numpy() if len(self.batch.weights) else 1.0
        return float((self.losses(weights, goals) * count).mean())


@pytest.mark.parametrize(("actions", "weighted"), [(ONE, False), (DISCRETE, True)])
@pytest.mark.parametrize("switches", SWITCHES)
def test_loss_and_gradient_are_the_textbooks(switches: str, actions: ActionSpec, weighted: bool) -> None:
    learner = iqn(actions, iqn_settings({"hidden_units": 6}, **SWITCHES[switches]))
    random_everywhere(learner)
    batch = random_batch(learner, rows=5, weighted=weighted)[0]
    weights = {name: values.detach().double().numpy() for name, values in learner.module.named_parameters()}
    book = Textbook(learner, batch)
    goals = book.goals(weights)
    with torch.no_grad():
        found = learner.learn(batch, 1, 0.0)
    assert float(found[0, 0]) == pytest.approx(book.loss(weights, goals), rel=1e-4)
    if weighted:
        np.testing.assert_allclose(batch.errors, book.losses(weights, goals), rtol=1e-4)
    rng = np.random.default_rng(3)
    for name, gradient in learner.parameters.views(learner.parameters.optimizer.gradient).items():
        if name.startswith("target.") or not gradient.numel() or name.endswith("log_sigma"):
            assert not gradient.any(), name
            continue
        way = rng.standard_normal(gradient.shape)  # the slope along it, by differences
        steps = [book.loss(weights | {name: weights[name] + step * way}, goals) for step in (1e-5, -1e-5)]
        slope = (steps[0] - steps[1]) / 2e-5
        assert float((gradient.double().numpy() * way).sum()) == pytest.approx(slope, rel=1e-3, abs=1e-5), name


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(("memory", "sensors"), [(None, (IMAGE, LIST)), (MEMORY, ())])
def test_any_network_learns_acts_and_is_exported(memory: Any, sensors: Any) -> None:
    spec = behavior(DISCRETE, *sensors)
    learner = iqn(spec, iqn_settings({"memory": memory, "normalize": True}, steps_per_update=10.0))
    assert "network.action.fractions" not in learner.module.state_dict()
    collector, before = Collector(learner), learner.weights()
    for _ in range(2):
        result = learner.update(collector.collect(), 0.0, None)
    assert result["Losses/Q Loss"] > 0
    after = learner.weights()
    assert [name for name in before if after[name].size and np.array_equal(before[name], after[name])] == []
    policy = learner.snapshot()
    assert isinstance(policy, ModulePolicy)
    verify(build_model(learner.network, spec).SerializeToString(), learner.network, spec, policy)


def test_levels_and_priorities_are_learned_with_and_go_on_to_the_bit() -> None:
    options = iqn_settings({"action_levels": 3}, save_replay_buffer=True, prioritized={}, n_step=3)
    learner, other = iqn(CONTINUOUS, options), iqn(CONTINUOUS, options, seed=2)
    trained(learner)
    assert learner.network.action.choices.discrete_branches == (3, 3)
    other.load(*learner.state(), fresh=False)
    for one in (learner, other):
        one.learn(one.draw(1), 1, 1e-3)
    np.testing.assert_equal(other.parameters.state(), learner.parameters.state())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dueling": True}, "dueling is not supported by iqn; remove it, or use trainer_type: dqn"),
        ({"noisy": True}, "noisy is not supported by iqn; remove it, or use trainer_type: dqn"),
        ({"loss": "mse"}, "loss is not supported by iqn; set kappa instead"),
        ({"clip_td_err": 1.0}, "clip_td_err is not supported by iqn; set kappa instead"),
        ({"cvar": 0.0}, "cvar"),
    ],
)
def test_what_it_does_not_have_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        IQNHyperparameters(**given)
