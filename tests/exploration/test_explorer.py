"""How a policy explores whose network says how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from tau_trainer.collection.decisions import Actor
from tau_trainer.columns import Column
from tau_trainer.exploration import Exploration, explorer
from tau_trainer.models import MLPPolicy, ModulePolicy, Policy
from tau_trainer.models.actor_critic import CLOCK
from tau_trainer.models.distributions import branch_bounds
from tau_trainer.settings import MemorySettings
from tau_trainer.settings.exploration import (
    BoltzmannGumbelSettings,
    EpsGreedySettings,
    ExplorationSettings,
    GreedySettings,
)
from tau_trainer.specs import ActionSpec, BehaviorSpec, FloatArray, ObservationSpec
from tests.networks import make_network, observations, policy_of

SPEC = BehaviorSpec("Agent", (ObservationSpec("vector", (5,)),), ActionSpec(0, (3, 4)))
ANY = EpsGreedySettings(eps=1.0, eps_min=0.0, n_steps_annealing=1000)


def best(policy: Policy, obs: Any, mask: Any = None) -> Any:
    return policy.act(obs, mask, np.random.default_rng(0), deterministic=True).discrete


@pytest.mark.parametrize("kind", [MLPPolicy, ModulePolicy])
def test_explores_unless_it_is_deterministic(kind: type[Policy]) -> None:
    network, obs = make_network(SPEC, exploration=ANY), observations(SPEC, 4000)
    policy = kind(network, policy_of(network).weights, 1)  # type: ignore[call-arg]
    assert policy.explores
    assert not policy_of(make_network(SPEC)).explores
    decision = policy.act(obs, None, np.random.default_rng(2))
    assert decision.discrete.dtype == np.int32
    assert "log_prob" not in decision.extras
    outputs = network.outputs(network.prepare(obs)).detach().numpy()
    for branch, (begin, end) in enumerate(branch_bounds((3, 4))):
        np.testing.assert_array_equal(best(policy, obs)[:, branch], outputs[:, begin:end].argmax(axis=1))
        drawn = np.bincount(decision.discrete[:, branch], minlength=end - begin) / 4000
        np.testing.assert_allclose(drawn, 1.0 / (end - begin), atol=0.04)


def test_time_is_in_the_weights() -> None:
    network, obs = make_network(SPEC, exploration=ANY), observations(SPEC, 4000)
    early = policy_of(network)
    network.tick(np.zeros((500, 2), np.int32))
    half = policy_of(network)
    network.tick(np.zeros((600, 2), np.int32))
    late = policy_of(network)
    assert [float(policy.weights[CLOCK][0]) for policy in (early, half, late)] == [0.0, 500.0, 1100.0]
    found = [
        (policy.act(obs, None, np.random.default_rng(2)).discrete[:, 0] == best(policy, obs)[:, 0]).mean()
        for policy in (early, half, late)
    ]
    np.testing.assert_allclose(found, [1 / 3, 2 / 3, 1.0], atol=0.03)
    assert found[2] == 1.0


def test_counts_of_actions_are_in_the_weights() -> None:
    """So they are those of all processes that act."""
    network = make_network(SPEC, exploration=BoltzmannGumbelSettings())
    network.tick(np.array([[0, 3], [0, 1]], np.int32))
    assert policy_of(network).weights[CLOCK].tolist() == [2.0, 3.0, 1.0, 1.0, 1.0, 2.0, 1.0, 2.0]
    network.get_buffer(CLOCK)[1:] = 1e12
    policy, obs = policy_of(network), observations(SPEC, 500)
    np.testing.assert_array_equal(policy.act(obs, None, np.random.default_rng(0)).discrete, best(policy, obs))


def test_whoever_acts_may_explore_in_its_own_way() -> None:
    """With the weights of another's network, as an actor of its own epsilon does."""
    learner, obs = make_network(SPEC, exploration=ANY), observations(SPEC, 1000)
    actor = make_network(SPEC, exploration=EpsGreedySettings(eps=0.0))
    policy = MLPPolicy(actor, policy_of(learner).weights, 1)
    np.testing.assert_array_equal(policy.act(obs, None, np.random.default_rng(0)).discrete, best(policy, obs))


@pytest.mark.parametrize("settings", [ANY, GreedySettings()])
def test_masks_are_obeyed(settings: ExplorationSettings) -> None:
    policy, obs = policy_of(make_network(SPEC, exploration=settings)), observations(SPEC, 500)
    mask = np.random.default_rng(3).random((500, 7)) < 0.6
    discrete = policy.act(obs, mask, np.random.default_rng(2)).discrete
    for branch, (begin, end) in enumerate(branch_bounds((3, 4))):
        blocked = mask[:, begin:end]
        assert not (blocked[np.arange(500), discrete[:, branch]] & ~blocked.all(axis=1)).any()


class Drift(Exploration):
    """Adds how often an agent has decided in its episode, in tenths times time."""

    state_columns = (Column("drift", (2,), fill=1.0),)

    @override
    def numbers(self, decisions: float, counts: Any) -> FloatArray:
        return np.array([0.1 * decisions], np.float32)

    @override
    def perturb(
        self, actions: Any, numbers: FloatArray, state: Mapping[str, Any], rng: Any
    ) -> tuple[Any, Mapping[str, Any]]:
        return actions + numbers[0] * state["drift"], {"drift": state["drift"] + 1.0}


@pytest.mark.parametrize("memory", [None, MemorySettings(memory_size=4)])
def test_continuous_actions_are_disturbed_by_agent(
    monkeypatch: pytest.MonkeyPatch, memory: MemorySettings | None
) -> None:
    monkeypatch.setitem(explorer._KINDS, "drift", Drift)
    spec = BehaviorSpec("Agent", SPEC.observations, ActionSpec(2))
    network = make_network(spec, squashed=True, exploration=ExplorationSettings(type="drift"), memory=memory)
    network.tick(np.zeros((1, 0), np.int32))
    assert "drift" not in [column.name for column in network.state_columns], "they belong to their agents only"
    actor = Actor(policy_of(network), np.random.default_rng(0))
    still = Actor(actor.policy, np.random.default_rng(0), deterministic=True)
    obs, rows = observations(spec, 3, scale=0.1), np.arange(3)
    for step in range(1, 4):
        moved, mean = (one.decide(rows, obs, None) for one in (actor, still))
        expected = (mean.continuous + 0.1 * step).clip(-1.0, 1.0)
        np.testing.assert_allclose(moved.continuous, expected, atol=1e-6)
        np.testing.assert_array_equal(moved.to_env().continuous, moved.continuous)
        assert set(moved.extras) == ({"memory"} if memory else set())
        np.testing.assert_array_equal(actor.state["drift"][:3], step + 1.0)
        np.testing.assert_array_equal(still.state["drift"][:3], 1.0)
    actor.forget(np.array([1]))
    assert actor.state["drift"][:3, 0].tolist() == [4.0, 1.0, 4.0]
    network.tick(np.zeros((1000, 0), np.int32))
    far = policy_of(network).act(
        obs,
        None,
        np.random.default_rng(0),
        state={c: actor.state[c][:3] for c in [column.name for column in actor.state.columns]},
    )
    assert (far.continuous == 1.0).all()
