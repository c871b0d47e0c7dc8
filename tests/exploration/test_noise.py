"""Noise on continuous actions has the statistics of its formulas, agent by agent."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from tau_trainer.collection.decisions import Actor
from tau_trainer.columns import Arrays
from tau_trainer.exploration import Explorer, make_exploration
from tau_trainer.models import MLPPolicy, ModulePolicy, Policy
from tau_trainer.settings.exploration import GaussianWhiteNoiseSettings, OrnsteinUhlenbeckSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.exploration.making import NOBODY
from tests.networks import make_network, observations, policy_of

SPEC = BehaviorSpec("Agent", (ObservationSpec("vector", (5,)),), ActionSpec(3))


def walked(settings: OrnsteinUhlenbeckSettings, steps: int, rows: int = 4000) -> Any:
    """Noise [steps, rows] of one action from the episode's begin on."""
    noise = make_exploration(settings, ActionSpec(1))
    numbers, rng = noise.numbers(0.0, NOBODY), np.random.default_rng(3)
    state: Arrays = {column.name: column.empty(rows) for column in noise.state_columns}
    found = []
    for _ in range(steps):
        values, state = noise.perturb(np.zeros((rows, 1), np.float32), numbers, state, rng)
        found.append(values[:, 0])
    return np.array(found, np.float64)


def test_gaussian_noise_is_gaussian_and_each_actions_own() -> None:
    noise = make_exploration(GaussianWhiteNoiseSettings(mu=0.5, sigma=0.3), ActionSpec(2))
    actions = np.full((50_000, 2), [0.25, -0.5], np.float32)
    before = actions.copy()
    found, state = noise.perturb(actions, noise.numbers(0.0, NOBODY), {}, np.random.default_rng(1))
    assert found.dtype == np.float32
    assert not state
    np.testing.assert_array_equal(actions, before)
    np.testing.assert_allclose(found.mean(axis=0), [0.75, 0.0], atol=0.01)
    np.testing.assert_allclose(found.std(axis=0), 0.3, atol=0.005)
    deviations = found - found.mean(axis=0)
    assert abs(np.mean(deviations[:, 0] * deviations[:, 1])) < 0.02 * 0.3**2


def test_ornstein_uhlenbeck_has_the_stationary_deviation() -> None:
    """sigma sqrt(dt) / sqrt(1 - (1 - theta dt)²), around mu."""
    settings = OrnsteinUhlenbeckSettings(theta=0.3, dt=0.5, sigma=0.2, mu=0.1)
    values = walked(settings, 400)[100:]
    wanted = 0.2 * math.sqrt(0.5) / math.sqrt(1.0 - (1.0 - 0.15) ** 2)
    assert values.std() == pytest.approx(wanted, abs=0.001)
    assert values.mean() == pytest.approx(0.1, abs=0.002)


def test_ornstein_uhlenbeck_remembers_as_damping_says() -> None:
    """Damping d = theta dt, deviation s of a step: covariance s² / (1 - (1 - d)²) (1 - d)^10 after ten steps."""
    damping, deviation = 0.15, 0.2
    values = walked(OrnsteinUhlenbeckSettings(theta=damping, dt=1.0, sigma=deviation), 400)[100:]
    variance = deviation**2 / (1.0 - (1.0 - damping) ** 2)
    assert values.std() == pytest.approx(math.sqrt(variance), abs=0.001)
    assert np.mean(values[10:] * values[:-10]) == pytest.approx(variance * (1.0 - damping) ** 10, abs=0.001)


def test_an_episode_begins_with_a_draw_of_its_own() -> None:
    """At N(mu, sigma), so with one step more the deviation is known; who goes on stays near where he was."""
    values = walked(OrnsteinUhlenbeckSettings(theta=0.15, sigma=0.5), 2, rows=40_000)
    assert values[0].std() == pytest.approx(0.5 * math.sqrt((1 - 0.0015) ** 2 + 0.01), rel=0.01)
    assert np.abs(values[1] - values[0]).max() < 0.3
    noise = make_exploration(OrnsteinUhlenbeckSettings(theta=1.0, dt=1.0, sigma=0.0, mu=0.5), ActionSpec(1))
    state = {"noise": np.array([[0.2], [0.2]], np.float32), "noise_begun": np.array([True, False])}
    found, after = noise.perturb(
        np.zeros((2, 1), np.float32), noise.numbers(0.0, NOBODY), state, np.random.default_rng(0)
    )
    assert found.tolist() == [[0.5], [0.5]]
    assert after["noise_begun"].all()
    np.testing.assert_allclose(state["noise"], 0.2)  # what was handed in is the caller's


@pytest.mark.parametrize("kind", [MLPPolicy, ModulePolicy])
def test_a_policys_actions_are_disturbed_and_stay_within_their_range(kind: type[Policy]) -> None:
    network = make_network(SPEC, deterministic=True, exploration=GaussianWhiteNoiseSettings(sigma=0.5))
    policy, obs = kind(network, policy_of(network).weights, 1), observations(SPEC, 4000)  # type: ignore[call-arg]
    best = policy.act(obs, None, np.random.default_rng(0), deterministic=True)
    noisy = policy.act(obs, None, np.random.default_rng(0))
    assert noisy.continuous.dtype == np.float32
    assert np.abs(noisy.to_env().continuous).max() == 1.0
    wanted = best.continuous + 0.5 * np.random.default_rng(0).standard_normal((4000, 3), dtype=np.float32)
    np.testing.assert_allclose(noisy.continuous, wanted.clip(-1.0, 1.0), atol=1e-6)
    again = policy.act(obs, None, np.random.default_rng(0))
    np.testing.assert_array_equal(noisy.continuous, again.continuous)


def test_noise_goes_on_by_agent_and_is_reset_where_an_episode_ends() -> None:
    settings = OrnsteinUhlenbeckSettings(theta=0.15, sigma=0.2)
    network = make_network(SPEC, deterministic=True, exploration=settings)
    policy, obs = policy_of(network), observations(SPEC, 2000)
    best = policy.act(obs, None, np.random.default_rng(0), deterministic=True).continuous
    actor, rows = Actor(policy, np.random.default_rng(1)), np.arange(2000)
    first = actor.decide(rows, obs, None)
    assert "noise" not in first.extras, "the memory of transitions has no use for it"
    seen = actor.state["noise"][:2000].copy()
    np.testing.assert_allclose(first.continuous, (best + seen).clip(-1, 1), atol=1e-6)
    actor.forget(rows[:1000])
    actor.decide(rows, obs, None)
    moved = np.abs(actor.state["noise"][:2000] - seen)
    assert moved[1000:].max() < 0.15, "a step's deviation is 0.02"
    assert moved[:1000].mean() > 0.15, "two draws of deviation 0.2"


def test_noise_for_a_loop_of_ones_own_goes_on_from_its_state() -> None:
    settings = {"type": "ornstein_uhlenbeck", "theta": 0.15, "sigma": 0.3, "sigma_min": 0.1, "n_steps_annealing": 100}
    first, second = (Explorer(settings, actions=2, seed=5) for _ in range(2))
    zeros = np.zeros((3, 2))
    for _ in range(10):
        first.perturb(zeros)
    assert first.clock.tolist() == [30.0]
    assert first.numbers == pytest.approx([0.3 - 0.2 * 0.3])
    second.load(json.loads(json.dumps(first.state())))
    for explorer in (first, second):
        explorer.reset(np.array([1]))
    for _ in range(3):
        np.testing.assert_array_equal(first.perturb(zeros), second.perturb(zeros))
    before = first.perturb(zeros)
    first.reset(np.array([1]))
    moved = np.abs(first.perturb(zeros) - before).max(axis=1)
    assert moved[1] > max(moved[0], moved[2])
    assert np.abs(Explorer({"type": "gaussian_white_noise", "sigma": 9}, 2).perturb(np.zeros((50, 2)))).max() == 1.0
