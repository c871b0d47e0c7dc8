"""The eight policies over values: formulas and defaults and defaults, masks, seeds, and faults that are absent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pydantic import ValidationError

from tau_trainer.exploration import Exploration, Explorer, make_exploration
from tau_trainer.exploration.values import GumbelSoftmax
from tau_trainer.settings.exploration import (
    VALUE_EXPLORATIONS,
    BoltzmannGumbelSettings,
    EpsGreedySettings,
    ExplorationSettings,
    GreedySettings,
    GumbelSoftmaxSettings,
)
from tau_trainer.specs import ActionSpec

ALL = sorted(VALUE_EXPLORATIONS)
VALUES = np.array([0.1, 0.5, 0.3, 0.1], np.float32)
ROWS = 40_000


def shares(settings: Mapping[str, Any], values: NDArray[Any], forbidden: Any = None, rows: int = ROWS) -> Any:
    """How often each value is chosen, of many rows that are alike."""
    explorer = Explorer(settings, len(values), seed=3)
    mask = None if forbidden is None else np.tile(np.asarray(forbidden, np.bool_), (rows, 1))
    chosen = explorer.choose(np.tile(values, (rows, 1)), mask)
    return (np.bincount(chosen, minlength=len(values)) / rows).tolist()


def near(expected: Any) -> Any:
    return pytest.approx(expected, abs=0.011)  # more than four deviations of a share of 40,000 rows


def test_defaults_are_those_of_the_papers() -> None:
    defaults = {
        name: settings.model_validate({}).model_dump(exclude={"type"}) for name, settings in VALUE_EXPLORATIONS.items()
    }
    assert defaults == {
        "softmax": {},
        "greedy": {},
        "eps_greedy": {"eps": 0.1, "eps_min": None, "n_steps_annealing": None, "annealing": "linear"},
        "adaptive_eps_greedy": {"initial_eps": 1.0, "min_eps": 0.1, "decay_rate": 1e-4},
        "boltzmann": {"tau": 1.0, "clip": (-500.0, 500.0)},
        "max_boltzmann": {"eps": 0.1, "tau": 1.0, "clip": (-500.0, 500.0)},
        "boltzmann_gumbel": {"C": 1.0},
        "gumbel_softmax": {"temperature": 1.0, "eps": 0.01},
    }


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


def made(settings: Mapping[str, Any], branches: tuple[int, ...] = (4,)) -> Exploration:
    kind = VALUE_EXPLORATIONS[settings["type"]]
    return make_exploration(kind.model_validate(dict(settings)), ActionSpec(0, branches))


def epsilon(settings: Mapping[str, Any], decisions: int) -> float:
    exploration = made(settings)
    clock = exploration.tick(exploration.clock(), np.zeros((decisions, 1), np.int32))
    return float(exploration.numbers(clock[0], clock[1:])[0])


def test_border_s_epsilon_falls_linearly() -> None:
    border = {"type": "eps_greedy", "eps": 1.0, "eps_min": 0.02}
    found = [epsilon(border, at) for at in (0, 50_000, 100_000, 200_000)]
    assert found == pytest.approx([1.0, 0.51, 0.02, 0.02])


def test_epsilon_falls_over_a_fifth_of_a_run_unless_it_is_said_how_long() -> None:
    falling = EpsGreedySettings(eps=1.0, eps_min=0.0)
    assert [falling.over(50_000).fallen(at) for at in (0, 5_000, 10_000, 50_000)] == [0.0, 0.5, 1.0, 1.0]
    assert falling.over(0).fallen(1) == 1.0, "a run that learns nothing"
    said = EpsGreedySettings(eps=1.0, eps_min=0.0, n_steps_annealing=700)
    assert said.over(50_000) is said
    assert GreedySettings().over(50_000) == GreedySettings()


def test_epsilon_falls_exponentially() -> None:
    settings = {"type": "eps_greedy", "eps": 1.0, "eps_min": 0.01, "n_steps_annealing": 100, "annealing": "exponential"}
    assert [epsilon(settings, at) for at in (0, 50, 100, 101)] == pytest.approx([1.0, 0.1, 0.01, 0.01])


def test_epsilon_stays_where_nothing_anneals_it() -> None:
    assert epsilon({"type": "eps_greedy"}, 1_000_000) == pytest.approx(0.1)
    assert epsilon({"type": "eps_greedy", "eps": 0.0, "eps_min": 0.0}, 10) == 0.0


def test_adaptive_epsilon() -> None:
    found = [epsilon({"type": "adaptive_eps_greedy"}, at) for at in (0, 10_000)]
    assert found == pytest.approx([1.0, 0.43109], abs=1e-5)


def test_epsilon_is_obeyed_as_it_falls() -> None:
    explorer = Explorer({"type": "eps_greedy", "eps": 1.0, "eps_min": 0.0, "n_steps_annealing": ROWS}, 4, seed=1)
    values = np.tile(VALUES, (ROWS, 1))
    assert (explorer.choose(values) == 1).mean() == near(0.25)
    assert explorer.numbers == [0.0]
    assert (explorer.choose(values) == 1).all()


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


def test_gumbel_softmax_draws_and_takes_any_action_with_eps() -> None:
    values = np.array([0.0, np.log(3.0)])
    assert shares({"type": "gumbel_softmax", "eps": 0.0, "temperature": 5.0}, values) == near([0.25, 0.75])
    assert shares({"type": "gumbel_softmax", "eps": 1.0}, np.array([0.0, 50.0])) == near([0.5, 0.5])


@pytest.mark.parametrize("temperature", [0.1, 1.0, 100.0])
def test_gumbel_softmax_before_it_is_made_hard(temperature: float) -> None:
    exploration = made({"type": "gumbel_softmax", "temperature": temperature}, (3,))
    assert isinstance(exploration, GumbelSoftmax)
    values = np.tile(np.array([300.0, 300.5, 299.0], np.float32), (1000, 1))
    forbidden = np.tile([False, False, True], (1000, 1))
    soft = exploration.soft(values, forbidden, np.random.default_rng(0))
    np.testing.assert_allclose(soft.sum(axis=1), 1.0, rtol=1e-5)
    assert (soft[:, 2] == 0.0).all()
    widest = soft.max(axis=1).mean()
    assert (widest > 0.95) if temperature < 1.0 else (widest < 0.53 if temperature > 1.0 else 0.6 < widest < 0.9)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("rows", [0, 1, 500])
def test_masks_are_obeyed(kind: str, rows: int) -> None:
    rng = np.random.default_rng(4)
    forbidden = rng.random((rows, 6)) < 0.7
    values = rng.random((rows, 6), np.float32)
    chosen = Explorer({"type": kind}, 6, seed=2).choose(values, forbidden)
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


@pytest.mark.parametrize("kind", ALL)
def test_inputs_are_left_as_they_are(kind: str) -> None:
    values, forbidden = np.random.default_rng(0).random((20, 4), np.float32), np.zeros((20, 4), np.bool_)
    forbidden[:, 2] = True
    kept = values.copy(), forbidden.copy()
    Explorer({"type": kind}, 4).choose(values, forbidden)
    np.testing.assert_array_equal(values, kept[0])
    np.testing.assert_array_equal(forbidden, kept[1])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"type": "eps_greedy", "epsilon": 0.2}, "epsilon"),
        ({"type": "eps_greedy", "eps": 1.2}, "less than or equal to 1"),
        ({"type": "eps_greedy", "eps": 0.1, "eps_min": 0.2}, "eps_min 0.2 is larger than eps 0.1"),
        ({"type": "eps_greedy", "eps_min": 0.0, "annealing": "exponential"}, "must be above 0"),
        ({"type": "boltzmann", "tau": 0}, "greater than 0"),
        ({"type": "boltzmann", "clip": [1.0, -1.0]}, "smaller number first"),
        ({"type": "gready"}, "unknown type"),
        ({"eps": 0.1}, "type"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Explorer(settings, 3)


def test_settings_may_be_read_already() -> None:
    settings: ExplorationSettings = GumbelSoftmaxSettings(eps=0.0)
    assert Explorer(settings, 2).choose([[0.0, 100.0]]).tolist() == [1]


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
