"""Spaces as sensors and actions: every action is in its space, whole numbers have equal shares, all comes back."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import DTypeLike, NDArray

from tau_trainer.envs.pettingzoo import Copies, Parallel, PettingZooEnvironment
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.envs.spaces import action_spec, from_space, open_ended, to_space
from tau_trainer.specs import Actions, ActionSpec
from tests.envs.gyms import Probe
from tests.envs.playing import Sentences, play, small_run
from tests.envs.test_pettingzoo import Together
from tests.training.fakes import Memory

FLOATS = [np.float16, np.float32, np.float64]
WHOLE = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_]
SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)
DECIDED = st.one_of(st.floats(-1, 1, width=32), st.sampled_from([-1.0, 0.0, 1.0, -3.0, 3.0]))


def continuous(*rows: Any) -> Actions:
    table = np.array(rows, np.float32)
    return Actions(table, np.zeros((len(table), 0), np.int32))


@st.composite
def bounds(draw: st.DrawFn, dtype: Any, shape: tuple[int, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Of a box: any numbers of the type, or none."""
    size = int(np.prod(shape))
    if dtype in FLOATS:
        numbers: Any = st.floats(width=np.dtype(dtype).itemsize * 8, allow_nan=False, allow_infinity=False)
        open_below = open_above = st.booleans()
    else:
        known = (0, 1) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        numbers = st.integers(int(max(known[0], -(2**63))), int(min(known[1], 2**63 - 2)))
        open_below = open_above = st.just(False)
    low, high = [], []
    for _ in range(size):
        one, other = sorted((draw(numbers), draw(numbers)))
        low.append(-np.inf if draw(open_below) else one)
        high.append(np.inf if draw(open_above) else other)
    return np.array(low, dtype).reshape(shape), np.array(high, dtype).reshape(shape)


@st.composite
def boxes(draw: st.DrawFn) -> spaces.Box:
    dtype: Any = draw(st.sampled_from([*FLOATS, *WHOLE]))
    shape = draw(SHAPES)
    signed = dtype not in FLOATS and np.dtype(dtype).kind == "i"
    if signed and draw(st.booleans()):  # with infinity as a bound of whole numbers, which only a scalar can be
        return spaces.Box(*draw(st.sampled_from([(-np.inf, np.inf), (-3, np.inf), (-np.inf, 120)])), shape, dtype)
    low, high = draw(bounds(dtype, shape))
    return spaces.Box(low, high, shape, dtype)


@given(st.data(), boxes(), st.integers(1, 4))
def test_every_action_is_in_its_box(data: st.DataObject, box: spaces.Box, n: int) -> None:
    size = action_spec(box).continuous_size
    decided = data.draw(st.lists(st.lists(DECIDED, min_size=size, max_size=size), min_size=n, max_size=n))
    given_ = Actions(np.array(decided, np.float32).reshape(n, size), np.zeros((n, 0), np.int32))
    found = to_space(box, given_)
    assert (found.shape, found.dtype) == ((n, *box.shape), box.dtype)
    for row in found:
        assert box.contains(np.asarray(row)), row


@given(st.data(), st.sampled_from(WHOLE), st.integers(1, 40))
def test_every_whole_number_has_an_equal_share(data: st.DataObject, dtype: Any, count: int) -> None:
    count = min(count, 2) if dtype is np.bool_ else count
    least = 0 if dtype is np.bool_ else int(np.iinfo(dtype).min)
    most = 1 if dtype is np.bool_ else int(np.iinfo(dtype).max)
    most = min(most, 2**63 - 2)  # Gymnasium's own limit
    low = data.draw(st.integers(max(least, -(2**63)), most - count + 1))
    box = spaces.Box(np.array([low], dtype), np.array([low + count - 1], dtype), dtype=dtype)
    each = 32
    centres = (np.arange(count * each) + 0.5) / (count * each) * 2.0 - 1.0
    found = to_space(box, Actions(centres.astype(np.float32)[:, None], np.zeros((len(centres), 0), np.int32)))
    assert [int(value) for value in found[:, 0]] == [low + i for i in range(count) for _ in range(each)]
    ends = to_space(box, continuous([-1.0], [1.0]))
    assert [int(value) for value in ends[:, 0]] == [low, low + count - 1]


@given(st.data(), boxes(), st.integers(1, 3))
def test_what_was_done_comes_back(data: st.DataObject, box: spaces.Box, n: int) -> None:
    """Of ranges in which a float32 from -1 to 1 tells all numbers apart."""
    size = action_spec(box).continuous_size
    rows = [[data.draw(st.floats(-1, 1, width=16)) for _ in range(size)] for _ in range(n)]
    given_ = Actions(np.array(rows, np.float32).reshape(n, size), np.zeros((n, 0), np.int32))
    done = to_space(box, given_)
    back = from_space(box, done)
    assert back.continuous.shape == given_.continuous.shape
    assert np.isfinite(back.continuous).all()
    again = to_space(box, back)
    if box.dtype.kind == "f":
        scale = np.where(np.isfinite(box.high - box.low.astype(np.float64)), box.high - box.low.astype(np.float64), 2.0)
        largest = np.maximum(np.abs(done.astype(np.float64)), scale)
        error = np.abs(again.astype(np.float64) - done.astype(np.float64))
        kind: Any = box.dtype
        assert (error < (4 * float(np.finfo(kind).eps) + 2e-7) * largest + 1e-30).all()
    else:
        narrow = np.broadcast_to(
            (box.high.astype(np.float64) - box.low.astype(np.float64) < 2**20)
            | ~box.bounded_below
            | ~box.bounded_above,
            done.shape,
        )
        assert (again == done)[narrow & (np.abs(done.astype(np.float64)) < 2**50)].all()


LARGEST = float(np.finfo(np.float32).max)
"""What many write where they mean infinity."""
SHIFTED = [
    (0.0, np.inf, [-1.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0]),
    (-np.inf, 5.0, [-1.0, 0.0, 1.0, -3.0], [3.0, 4.0, 5.0, 1.0]),
    (-np.inf, np.inf, [-1.0, 0.5, 1.0, 3.0], [-1.0, 0.5, 1.0, 3.0]),
    (0.0, 10.0, [-1.0, 0.0, 1.0, 3.0], [0.0, 5.0, 10.0, 10.0]),
    (-LARGEST, LARGEST, [-1.0, 0.5, 1.0, 0.0], [-1.0, 0.5, 1.0, 0.0]),
    (2.0, LARGEST, [-1.0, 0.0, 1.0, 0.5], [2.0, 3.0, 4.0, 3.5]),
]
THREE = [(-np.inf, np.inf, [-1, 0, 0, 1]), (3, np.inf, [3, 4, 4, 5]), (-np.inf, 7, [5, 6, 6, 7])]
"""Whole numbers without a bound are three."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("low", "high", "decided", "wanted"), SHIFTED)
def test_where_minus_one_to_one_leads(
    low: float, high: float, decided: list[float], wanted: list[float], dtype: DTypeLike
) -> None:
    box = spaces.Box(low, high, (4,), dtype)  # type: ignore[arg-type]
    assert to_space(box, continuous(decided)).tolist() == [wanted]
    if max(map(abs, decided)) <= 1.0:
        assert from_space(box, np.array([wanted])).continuous.tolist() == [decided]
    for least, most, whole in THREE:
        assert to_space(spaces.Box(least, most, (4,), np.int32), continuous([-0.9, 0.0, 0.1, 0.9])).tolist() == [whole]


def test_numbers_of_one_box_may_differ() -> None:
    low, high = np.array([[0, -np.inf], [-2, -np.inf]]), np.array([[np.inf, 5], [6, np.inf]])
    box = spaces.Box(low, high, dtype=np.float64)
    assert action_spec(box) == ActionSpec(4)
    assert to_space(box, continuous([0.5, 0.5, 0.5, 0.5])).tolist() == [[[1.5, 4.5], [4.0, 0.5]]]
    assert from_space(box, [[[1.5, 4.5], [4.0, 0.5]]]).continuous.tolist() == [[0.5, 0.5, 0.5, 0.5]]


def test_a_recorded_action_beyond_what_is_reached_is_beyond_one() -> None:
    assert from_space(spaces.Box(0, np.inf, (1,)), [[57.0]]).continuous.tolist() == [[56.0]]
    assert from_space(spaces.Box(2.0, 2.0, (1,)), [[2.0]]).continuous.tolist() == [[0.0]]


FLAT = [
    (spaces.Box(-1, 1, (2, 2)), [[1.0, 0.5, 0.0, -1.0]], [[[1.0, 0.5], [0.0, -1.0]]]),
    (spaces.Box(-1, 1, ()), [[0.5]], [0.5]),
    (spaces.MultiBinary((2, 2)), [[1, 0, 0, 1]], [[[1, 0], [0, 1]]]),
    (spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])), [[1, 2, 3, 4]], [[[1, 2], [3, 4]]]),
    (spaces.MultiDiscrete(np.array([[2, 3]]), start=np.array([[7, -1]])), [[1, 2]], [[[8, 1]]]),
    (spaces.Discrete(3, start=5), [[2]], [7]),
]


@pytest.mark.parametrize(("space", "decided", "wanted"), FLAT, ids=[str(space) for space, *_ in FLAT])
def test_any_rank_is_flat_and_back(space: spaces.Space[Any], decided: list[list[float]], wanted: list[Any]) -> None:
    spec = action_spec(space)
    actions = Actions.zeros(spec, 1)
    (actions.continuous if spec.continuous_size else actions.discrete)[:] = decided
    found = to_space(space, actions)
    assert found.tolist() == wanted
    assert isinstance(space, spaces.Discrete) or space.contains(np.asarray(found[0]))
    back = from_space(space, wanted)
    assert (back.continuous.tolist(), back.discrete.tolist()) == (
        actions.continuous.tolist(),
        actions.discrete.tolist(),
    )


# --- through environments ---------------------------------------------------------------------------------------------


class Strict(Probe):
    """Takes nothing that its space does not contain."""

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(np.asarray(action)), action
        return super().step(action)


def test_a_run_acts_within_the_space_and_says_once_what_has_no_bounds(tmp_path: Path, memory: Memory) -> None:
    space = spaces.Box(*np.array([[[-np.inf, -1.0], [-np.inf, 1.0]], [[3.0, 3.0], [np.inf, 3.0]]], np.float32))
    seen = spaces.Box(-1, 1, (2, 2))
    gymnasium.register("Strict-v0", lambda **_: Strict(seen, copy.deepcopy(space)))
    several: dict[str, Any] = {"env_settings__num_envs": 2, "env_settings__num_areas": 3}
    try:
        report = small_run(tmp_path, memory, "gym:Strict-v0", default_settings__max_steps=100, **several)
    finally:
        gymnasium.registry.pop("Strict-v0")
    assert (report.outcome, report.exit_code, report.errors) == ("completed", 0, ())
    [said] = [str(event) for event in memory.events if "without a bound" in str(event)]
    assert "leaves 2 of 4 actions without a bound" in said
    whole = spaces.Discrete(3), spaces.Box(0, 255, (2, 2), np.uint8), spaces.MultiBinary(3), spaces.Box(-1, 1, (2,))
    assert [open_ended(one) for one in whole] == [None] * 4


async def test_agents_of_one_kind_are_warned_of_once() -> None:
    class Free(Together):
        def action_space(self, agent: str) -> spaces.Space[Any]:
            return spaces.Box(0, np.inf, (1,))

    warned = Sentences()
    copies = Copies([Parallel(Free(("runner_0", "runner_1"), {})) for _ in range(2)])
    environment = PettingZooEnvironment(0, lambda: copies, 3, RestartBudget(0, 0, 1.0, warned))

    await play(environment, await environment.start({}), 3)
    await environment.close()
    assert len(warned) == 1
    assert warned[0].startswith("behavior 'runner': the environment's action space Box(0.0, inf")
    assert [acted.tolist() for acts in copies[0].env.taken for acted in acts.values()] == [[1.0]] * 6
