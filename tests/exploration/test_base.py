"""What every kind of exploration does."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.exploration import Explorer, make_exploration
from tau_trainer.settings.exploration import VALUE_EXPLORATIONS, BoltzmannGumbelSettings
from tau_trainer.specs import ActionSpec
from tests.exploration.making import ROWS, VALUES, made, near, shares

ALL = sorted(VALUE_EXPLORATIONS)


def test_counts_are_by_branch() -> None:
    exploration = make_exploration(BoltzmannGumbelSettings(), ActionSpec(0, (2, 3)))
    clock = exploration.tick(exploration.clock(), np.array([[0, 2], [1, 2], [1, 2]], np.int32))
    assert clock.tolist() == [3.0, 2.0, 3.0, 1.0, 1.0, 4.0]
    values, sure = np.zeros((ROWS, 5), np.float32), np.array([0.0, 1.0, 0.0, 0.0, 1.0], np.float32)
    values[:, [0, 4]] = 0.5, 0.1
    discrete = exploration.decide(values, None, sure, np.random.default_rng(0))
    # argmax(0.5, Gumbel) and argmax(0, 0, 0.1 + Gumbel)
    assert (discrete[:, 0] == 0).mean() == near(np.exp(-np.exp(-0.5)))
    assert (discrete[:, 1] == 2).mean() == near(1.0 - np.exp(-np.exp(0.1)))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("rows", [0, 1, 500])
def test_masks_are_obeyed(kind: str, rows: int) -> None:
    rng = np.random.default_rng(4)
    forbidden = rng.random((rows, 6)) < 0.7
    values = rng.random((rows, 6), np.float32)
    kept = values.copy(), forbidden.copy()
    chosen = Explorer({"type": kind}, 6, seed=2).choose(values, forbidden)
    np.testing.assert_equal((values, forbidden), kept)
    assert chosen.shape == (rows,)
    free = forbidden.all(axis=1)
    assert not (forbidden[np.arange(rows), chosen] & ~free).any()
    if rows == 500:
        assert free.any()
        assert len(np.unique(chosen)) == 6


@pytest.mark.parametrize("kind", ["eps_greedy", "gumbel_softmax"])
def test_any_action_is_any_that_is_allowed(kind: str) -> None:
    found = shares({"type": kind, "eps": 1.0}, VALUES, [False, True, False, False])
    assert found == near([1 / 3, 0.0, 1 / 3, 1 / 3])


@pytest.mark.parametrize("kind", ALL)
def test_rows_are_drawn_independently(kind: str) -> None:
    """A draw that is shared by all rows would be all or nothing."""
    settings = {"type": kind} | ({"eps": 0.5} if "eps" in VALUE_EXPLORATIONS[kind].model_fields else {})
    chosen = Explorer(settings, 2, seed=1).choose(np.full((1000, 2), 0.5, np.float32))
    assert kind == "greedy" or np.bincount(chosen, minlength=2).min() > 100


@pytest.mark.parametrize("kind", ALL)
def test_same_seed_same_choices_and_state_goes_on(kind: str) -> None:
    values = np.random.default_rng(0).random((50, 5), np.float32)
    first, second = (Explorer({"type": kind}, 5, seed=9) for _ in range(2))
    np.testing.assert_array_equal(first.choose(values), second.choose(values))
    other = Explorer({"type": kind}, 5, seed=10)
    other.load(json.loads(json.dumps(first.state())))
    for _ in range(3):
        np.testing.assert_array_equal(first.choose(values), other.choose(values))
    assert first.state() == other.state()
    if kind != "greedy":
        strange = Explorer({"type": kind}, 5, seed=11)
        assert any((strange.choose(values) != second.choose(values)).any() for _ in range(20))


def test_what_is_for_values_disturbs_nothing() -> None:
    with pytest.raises(NotImplementedError, match="discrete"):
        made({"type": "greedy"}).perturb(
            np.zeros((1, 1), np.float32), np.zeros(0, np.float32), {}, np.random.default_rng(0)
        )


# Not boltzmann_gumbel: batched runs do not count how often each value was chosen.
TENSORS: list[dict[str, Any]] = [
    {"type": "greedy"},
    {"type": "eps_greedy", "eps": 0.4},
    {"type": "adaptive_eps_greedy", "initial_eps": 0.7, "min_eps": 0.1, "decay_rate": 0.01},
    {"type": "softmax"},
    {"type": "boltzmann", "tau": 0.5},
    {"type": "max_boltzmann", "tau": 0.5, "eps": 0.3},
    {"type": "gumbel_softmax", "eps": 0.2},
]


@pytest.mark.parametrize("given", TENSORS, ids=lambda given: given["type"])
@pytest.mark.parametrize("masked", [True, False], ids=["masked", "free"])
def test_tensors_are_chosen_from_as_arrays_are(given: dict[str, Any], masked: bool) -> None:
    exploration = make_exploration(VALUE_EXPLORATIONS[given["type"]].model_validate(given), ActionSpec(0, (4, 2)))
    rows = 40_000
    values = np.tile(np.array([[0.3, 1.2, -0.5, 0.9, 0.1, 0.4]], np.float32), (rows, 1))
    forbidden = np.tile(np.array([[False, False, False, True, False, False]]), (rows, 1)) if masked else None
    clock = exploration.clock()
    numbers = exploration.numbers(30.0, clock[1:])
    wanted = exploration.decide(values, forbidden, numbers, np.random.default_rng(0))
    tensors = (torch.from_numpy(values), None if forbidden is None else torch.from_numpy(forbidden))
    found = exploration.decide(*tensors, numbers, torch.Generator().manual_seed(0))
    assert found.shape == wanted.shape == (rows, 2)
    for branch in range(2):
        ours, theirs = (np.bincount(np.asarray(one)[:, branch], minlength=4) for one in (found, wanted))
        assert not masked or branch or ours[3] == 0
        assert np.abs(ours - theirs).max() < 6 * np.sqrt(rows / 4)
