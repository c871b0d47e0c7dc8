from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.memory import Rollout, RolloutMemory
from tau_trainer.specs import ActionSpec, ObservationSpec
from tests.memory.memory_oracle import OracleMemory, Record, advantages, value_of

ACTIONS = ActionSpec(2, (3, 2))
SENSORS = (ObservationSpec("marker", (1,)), ObservationSpec("grid", (2, 3)))
SLOTS = 5

_slots = st.sets(st.integers(0, SLOTS - 1), min_size=1).map(sorted)
_operation = st.one_of(
    st.tuples(st.just("append"), _slots),
    st.tuples(st.just("append"), _slots),
    st.tuples(st.just("end"), _slots, st.integers(0, 2**SLOTS - 1)),
    st.tuples(st.just("abandon"), _slots),
    st.tuples(st.just("take")),
)


class Driver:
    """Runs the same operations on the memory and on its oracle; every number written is different."""

    def __init__(self, horizon: int, components: int) -> None:
        self.components = components
        self.memory = RolloutMemory(SENSORS, ACTIONS, capacity=3, horizon=horizon, reward_components=components)
        self.oracle = OracleMemory(horizon)
        self.counter = 0

    def numbers(self, *shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        count = int(np.prod(shape))
        self.counter += count
        return (np.arange(self.counter - count, self.counter) / 7).astype(np.float32).reshape(shape)

    def append(self, slots: list[int]) -> None:
        reward, markers = self.numbers(len(slots), self.components), self.numbers(len(slots), 1)
        for row, slot in enumerate(slots):
            self.oracle.append(slot, reward[row].tolist(), float(markers[row, 0]))
        # Everything else is a function of the marker, so that a mixed-up row shows.
        self.memory.append(
            np.array(slots),
            reward,
            (markers, grid_of(markers)),
            continuous_of(markers),
            discrete_of(markers),
            log_prob_of(markers),
            mask_of(markers),
            version=len(self.memory),
        )

    def end(self, slots: list[int], bits: int) -> None:
        reward, markers = self.numbers(len(slots), self.components), self.numbers(len(slots), 1)
        truncated = np.array([bool(bits >> slot & 1) for slot in slots])
        for row, slot in enumerate(slots):
            self.oracle.end(slot, reward[row].tolist(), float(markers[row, 0]), bool(truncated[row]))
        self.memory.end(np.array(slots), reward, (markers, grid_of(markers)), truncated)

    def run(self, operations: list[tuple[Any, ...]]) -> list[tuple[Rollout, list[Record]]]:
        taken = []
        for kind, *arguments in [*operations, ("take",)]:
            if kind == "append":
                self.append(*arguments)
            elif kind == "end":
                self.end(*arguments)
            elif kind == "abandon":
                self.memory.abandon(np.array(arguments[0]))
                for slot in arguments[0]:
                    self.oracle.abandon(slot)
            else:
                expected = self.oracle.take()
                assert self.memory.completed == len(expected)
                taken.append((self.memory.take(), expected))
            assert self.memory.open_slots.tolist() == sorted(self.oracle.open)
        return taken


def grid_of(markers: Any) -> Any:
    return markers[:, :, None] + np.arange(6, dtype=np.float32).reshape(2, 3)


def continuous_of(markers: Any) -> Any:
    return np.concatenate((markers * 2, markers * 3), axis=1)


def discrete_of(markers: Any) -> Any:
    return (np.round(markers * 7).astype(np.int32) + np.arange(2)) % np.array([3, 2])


def log_prob_of(markers: Any) -> Any:
    return -markers - np.arange(4, dtype=np.float32)


def mask_of(markers: Any) -> Any:
    return (np.round(markers * 7).astype(np.int32) + np.arange(5)) % 4 == 0


@given(st.lists(_operation, max_size=40), st.integers(1, 6), st.sampled_from([1, 3]))
def test_memory_equals_the_oracle(operations: list[tuple[Any, ...]], horizon: int, components: int) -> None:
    for rollout, expected in Driver(horizon, components).run(operations):
        assert len(rollout) == len(expected)
        markers = np.array([[record.marker] for record in expected], np.float32).reshape(-1, 1)
        np.testing.assert_array_equal(rollout.observations[0], markers)
        np.testing.assert_array_equal(rollout.observations[1], grid_of(markers))
        np.testing.assert_array_equal(rollout.continuous, continuous_of(markers))
        np.testing.assert_array_equal(rollout.discrete, discrete_of(markers))
        np.testing.assert_array_equal(rollout.log_prob, log_prob_of(markers))
        if len(expected):
            np.testing.assert_array_equal(rollout.mask, mask_of(markers))
        np.testing.assert_array_equal(rollout.slots, [record.slot for record in expected])
        rewards = np.array([record.reward for record in expected], np.float32).reshape(-1, components)
        np.testing.assert_array_equal(rollout.reward, rewards)
        _check_links(rollout, expected, horizon)


def _check_links(rollout: Rollout, expected: list[Record], horizon: int) -> None:
    position = {record: index for index, record in enumerate(expected)}
    bootstraps = rollout.bootstrap_observations[0][:, 0].tolist()
    assert rollout.terminated.tolist() == [record.terminated for record in expected]
    assert rollout.truncated.tolist() == [record.final is not None for record in expected]
    assert rollout.cut.tolist() == [record.step == horizon - 1 for record in expected]
    for index, record in enumerate(expected):
        successor = -1 if record.following is None else position.get(record.following, -1)
        assert rollout.following[index] == successor
        after = record.final if record.following is None else record.following.marker
        if successor >= 0 or after is None:
            assert rollout.bootstrap[index] == -1
        else:
            assert bootstraps[rollout.bootstrap[index]] == np.float32(after)
    used = [int(index) for index in rollout.bootstrap if index >= 0]
    assert sorted(used) == list(range(len(bootstraps))), "every bootstrap observation belongs to one transition"


@given(
    st.lists(_operation, max_size=60),
    st.integers(1, 8),
    st.sampled_from([1, 2]),
    st.sampled_from([(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.95)]),
)
def test_gae_equals_the_oracle(
    operations: list[tuple[Any, ...]], horizon: int, components: int, discount: tuple[float, float]
) -> None:
    gamma, lambd = discount
    for rollout, expected in Driver(horizon, components).run(operations):
        values = _values(rollout.observations[0], components)
        advantage, returns = rollout.gae(values, _values(rollout.bootstrap_observations[0], components), gamma, lambd)
        oracle = advantages(expected, horizon, gamma, lambd, components)
        wanted = np.array([oracle[record] for record in expected]).reshape(-1, components)
        np.testing.assert_allclose(advantage, wanted, rtol=1e-9, atol=1e-7)
        np.testing.assert_allclose(returns, wanted + values, rtol=1e-9, atol=1e-7)
        assert advantage.dtype == np.float64


def _values(markers: Any, components: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    rows = [[value_of(float(marker), part) for part in range(components)] for marker in markers[:, 0]]
    return np.array(rows, np.float64).reshape(-1, components)


def _filled(steps: int = 4, agents: int = 2, horizon: int = 100) -> RolloutMemory:
    memory = RolloutMemory(SENSORS[:1], ActionSpec(1), capacity=2, horizon=horizon)
    for step in range(steps):
        _add(memory, list(range(agents)), float(step))
    return memory


def _add(memory: RolloutMemory, slots: list[int], value: float) -> None:
    rows = np.full((len(slots), 1), value, np.float32)
    none = np.zeros((len(slots), 0), np.int32)
    memory.append(np.array(slots), rows, (rows,), rows, none, rows, None, version=int(value))


def test_first_reward_of_a_slot_belongs_to_nobody() -> None:
    memory = _filled(steps=1)
    assert memory.completed == 0
    _add(memory, [0], 5.0)
    rollout = memory.take()
    assert rollout.reward.tolist() == [[5.0]]


def test_reward_may_be_one_dimensional() -> None:
    memory = _filled(steps=1, agents=1)
    memory.end(np.array([0]), np.array([2.5], np.float32), (np.zeros((1, 1), np.float32),), np.array([False]))
    assert memory.take().reward.tolist() == [[2.5]]


def test_slot_numbers_may_be_large_and_sparse() -> None:
    memory = _filled(steps=2, agents=1)
    _add(memory, [100_000], 7.0)
    _add(memory, [100_000], 8.0)
    assert memory.completed == 2
    assert memory.take().slots.tolist() == [0, 100_000]


def test_end_and_abandon_ignore_slots_without_a_record() -> None:
    memory = _filled(steps=1, agents=1)
    memory.end(np.array([3]), np.ones((1, 1), np.float32), (np.ones((1, 1), np.float32),), np.array([True]))
    memory.abandon(np.array([900]))
    assert memory.completed == 0
    assert len(memory.take().bootstrap_observations[0]) == 0


def test_calls_for_no_agents_do_nothing() -> None:
    memory = _filled()
    before = memory.completed, len(memory)
    _add(memory, [], 1.0)
    nobody = np.zeros(0, np.int32)
    memory.end(nobody, np.zeros((0, 1), np.float32), (np.zeros((0, 1), np.float32),), np.zeros(0, np.bool_))
    memory.abandon(nobody)
    assert (memory.completed, len(memory)) == before


def test_open_records_live_on_in_the_next_rollout() -> None:
    memory = _filled(steps=3, agents=2)
    first = memory.take()
    assert (len(first), len(memory), memory.completed) == (4, 2, 0)
    _add(memory, [0, 1], 9.0)
    second = memory.take()
    assert second.observations[0].tolist() == [[2.0], [2.0]]
    assert second.version.tolist() == [2, 2]
    assert second.reward.tolist() == [[9.0], [9.0]]
    assert first.bootstrap_observations[0].tolist() == [[2.0], [2.0]], "the old rollout is untouched"


def test_taken_rollout_survives_later_writing_until_it_is_released() -> None:
    memory = _filled(steps=5, agents=3)
    first = memory.take()
    for step in range(20):
        _add(memory, [0, 1, 2], 100.0 + step)
    memory.take()
    _add(memory, [0, 1, 2], 500.0)
    assert np.unique(first.observations[0]).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_released_arrays_serve_again() -> None:
    memory = _filled()
    first = memory.take()
    store = first.observations[0].base
    first.release()
    first.release()
    _add(memory, [0, 1], 1.0)
    memory.take()
    _add(memory, [0, 1], 2.0)
    _add(memory, [0, 1], 3.0)
    assert memory.take().observations[0].base is store


def test_mask_is_none_unless_one_was_given() -> None:
    assert _filled().take().mask is None


def test_rollout_without_gaps_is_a_view() -> None:
    memory = _filled(steps=3, agents=1)
    zero = np.zeros((1, 1), np.float32)
    memory.end(np.array([0]), zero, (zero,), np.array([False]))
    assert memory.take().observations[0].base is not None


@pytest.mark.parametrize("arguments", [{"horizon": 0}, {"horizon": 5, "reward_components": 0}])
def test_sizes_below_one_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        RolloutMemory(SENSORS, ACTIONS, capacity=1, **arguments)
