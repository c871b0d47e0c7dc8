"""The eight policies over values: formulas and defaults and defaults, masks, seeds, and faults that are absent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tau_trainer.exploration import Explorer
from tests.exploration.making import ROWS, VALUES, epsilon, made, near, shares


def test_greedy() -> None:
    assert shares({"type": "greedy"}, VALUES) == [0.0, 1.0, 0.0, 0.0]


def test_softmax_draws_from_probabilities_as_they_are() -> None:
    assert shares({"type": "softmax"}, VALUES) == near([0.1, 0.5, 0.3, 0.1])


@pytest.mark.parametrize("wrong", [[0.5, -0.1, 0.6, 0.0], [0.0, 0.0, 0.0, 0.0]])
def test_softmax_refuses_what_is_no_probability(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="softmax draws from probabilities"):
        Explorer({"type": "softmax"}, 4).choose([wrong])


def test_softmax_of_what_a_network_says() -> None:
    softmax = made({"type": "softmax"}, (2,))
    values = np.tile(np.array([-200.0, -200.0 + np.log(3.0)], np.float32), (ROWS, 1))
    discrete = softmax.decide(values, None, np.zeros(0, np.float32), np.random.default_rng(0))
    assert discrete.mean() == near(0.75)


def test_eps_greedy() -> None:
    assert shares({"type": "eps_greedy", "eps": 0.4}, VALUES) == near([0.1, 0.7, 0.1, 0.1])


FALLS = {"type": "eps_greedy", "eps": 1.0, "eps_min": 0.01, "n_steps_annealing": 100, "annealing": "exponential"}


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"type": "eps_greedy", "eps": 1.0, "eps_min": 0.02}, {0: 1.0, 50_000: 0.51, 100_000: 0.02, 200_000: 0.02}),
        (FALLS, {0: 1.0, 50: 0.1, 100: 0.01, 101: 0.01}),
        ({"type": "eps_greedy"}, {1_000_000: 0.1}),
        ({"type": "eps_greedy", "eps": 0.0, "eps_min": 0.0}, {10: 0.0}),
        ({"type": "adaptive_eps_greedy"}, {0: 1.0, 10_000: 0.43109}),
    ],
    ids=["border's, linearly", "exponentially", "by default not", "none", "adaptively"],
)
def test_epsilon_falls(settings: dict[str, Any], found: dict[int, float]) -> None:
    assert {at: epsilon(settings, at) for at in found} == pytest.approx(found, abs=1e-5)


def test_boltzmann() -> None:
    assert shares({"type": "boltzmann"}, np.array([0.0, np.log(3.0)])) == near([0.25, 0.75])
    assert shares({"type": "boltzmann", "tau": 2.0}, np.array([0.0, np.log(9.0)])) == near([0.25, 0.75])


@pytest.mark.parametrize("values", [[300.0, 299.0], [-300.0, -301.0], [3e38, -3e38], [1e4, 1e4]])
def test_boltzmann_does_not_overflow(values: list[float]) -> None:
    """exp overflows float32 above 88, so a clip at 500 alone makes NaN; far below, everything would be 0."""
    found = shares({"type": "boltzmann", "tau": 0.5 if values[0] > 1e38 else 1.0}, np.array(values, np.float32))
    first = {1.0: 1.0 / (1.0 + np.exp(-1.0)), 0.0: 0.5}.get(values[0] - values[1], 1.0)
    assert found == near([first, 1.0 - first])


def test_boltzmann_clips() -> None:
    assert shares({"type": "boltzmann", "clip": [-1.0, 1.0]}, np.array([5.0, 50.0])) == near([0.5, 0.5])


def test_max_boltzmann_draws_with_eps_and_is_greedy_else() -> None:
    values = np.array([0.0, np.log(3.0)])
    assert shares({"type": "max_boltzmann", "eps": 0.4}, values) == near([0.1, 0.9])
    assert shares({"type": "max_boltzmann", "eps": 0.0}, values) == [0.0, 1.0]


def test_boltzmann_gumbel_is_a_softmax_while_every_count_is_one() -> None:
    assert shares({"type": "boltzmann_gumbel"}, np.array([0.0, np.log(3.0)])) == near([0.25, 0.75])
    assert shares({"type": "boltzmann_gumbel", "C": 0.0}, np.array([0.0, 0.1])) == [0.0, 1.0]


def test_boltzmann_gumbel_explores_less_what_it_knows() -> None:
    explorer = Explorer({"type": "boltzmann_gumbel"}, 2, seed=1)
    assert explorer.numbers == [1.0, 1.0]
    chosen = explorer.choose(np.zeros((399, 2), np.float32))
    counts = 1 + np.bincount(chosen, minlength=2)
    assert explorer.numbers == pytest.approx((1.0 / np.sqrt(counts)).tolist())
    explorer.clock = np.array([0.0, 10_000.0, 10_000.0])
    assert (explorer.choose(np.tile([0.0, 0.2], (1000, 1))) == 1).all()


def test_gumbel_softmax_draws_and_takes_any_action_with_eps() -> None:
    values = np.array([0.0, np.log(3.0)])
    assert shares({"type": "gumbel_softmax", "eps": 0.0, "temperature": 5.0}, values) == near([0.25, 0.75])
    assert shares({"type": "gumbel_softmax", "eps": 1.0}, np.array([0.0, 50.0])) == near([0.5, 0.5])
