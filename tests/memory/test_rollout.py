from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.columns import Column, action_columns
from tau_trainer.memory import Rollout, RolloutMemory, StepFacts, Work, WorkData, rollout
from tau_trainer.specs import ActionSpec, BehaviorSpec
from tests.memory.memory_oracle import OracleMemory, Record, value_of
from tests.memory.memory_oracle import advantages as oracle_advantages

SENSORS = (Column("obs_0", (1,)), Column("obs_1", (2, 3), np.uint8))
SPEC = BehaviorSpec("Any", (), ActionSpec(2, (3, 2)))
ACTIONS = action_columns(SPEC, SPEC.actions)
MEMORY = Column("memory", (2, 3), fill=0.5)
ROWS = 5

_rows = st.sets(st.integers(0, ROWS - 1), min_size=1).map(sorted)
_append = st.tuples(st.just("append"), _rows, st.booleans())
_operation = st.one_of(
    _append,
    _append,
    st.just(("append", list(range(ROWS)), False)),  # else long trajectories would be rare
    st.just(("append", list(range(ROWS)), True)),
    st.just(("append", list(range(ROWS)), False)),
    st.tuples(st.just("end"), _rows, st.integers(0, 2**ROWS - 1)),
    st.tuples(st.just("abandon"), _rows),
    st.tuples(st.just("take")),
)


def operations(most: int) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """What may happen to a memory."""
    return st.lists(_operation, max_size=most)


class Driver:
    """Runs the same operations on the memory and on its oracle; every number written is different."""

    def __init__(self, horizon: int, components: int) -> None:
        self.widths = {"extrinsic": components, "second": 2}
        columns = (*ACTIONS, MEMORY)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rollout, "_SPARE", 1)  # so that the log grows
            self.memory = RolloutMemory(SENSORS, columns, rewards=self.widths, capacity=3, horizon=horizon)
        self.oracle = OracleMemory(horizon)
        self.counter = 0

    def numbers(self, *shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        count = int(np.prod(shape))
        self.counter += count
        return (np.arange(self.counter - count, self.counter) / 7).astype(np.float32).reshape(shape)

    def split(self, rewards: Any) -> dict[str, Any]:
        first = self.widths["extrinsic"]
        return {"extrinsic": rewards[:, :first], "second": rewards[:, first:]}

    def append(self, rows: list[int], masked: bool) -> None:
        reward, markers = self.numbers(len(rows), sum(self.widths.values())), self.numbers(len(rows), 1)
        version = len(self.memory)
        for index, row in enumerate(rows):
            self.oracle.append(row, reward[index].tolist(), float(markers[index, 0]), masked, version)
        values = values_of(markers)
        if not masked:
            values["mask"] = values["memory"] = None
        self.memory.append(np.array(rows), StepFacts(self.split(reward)), values, version)

    def end(self, rows: list[int], bits: int) -> None:
        reward, markers = self.numbers(len(rows), sum(self.widths.values())), self.numbers(len(rows), 1)
        truncated = np.array([bool(bits >> row & 1) for row in rows])
        for index, row in enumerate(rows):
            self.oracle.end(row, reward[index].tolist(), float(markers[index, 0]), bool(truncated[index]))
        self.memory.end(np.array(rows), StepFacts(self.split(reward)), (markers, image_of(markers)), truncated)

    def abandon(self, rows: list[int]) -> None:
        self.memory.abandon(np.array(rows))
        for row in rows:
            self.oracle.abandon(row)

    def run(self, happening: list[tuple[Any, ...]], *, last: bool = True) -> list[tuple[Rollout, list[Record]]]:
        """What every take gives; ``last``: one more at the end."""
        taken = []
        for kind, *arguments in [*happening, *([("take",)] if last else [])]:
            if kind != "take":
                getattr(self, kind)(*arguments)
            else:
                expected = self.oracle.take()
                assert self.memory.completed == len(expected)
                taken.append((Rollout(self.take()), expected))
                assert len(taken[-1][0]) == len(expected)
            assert self.memory.open_rows.tolist() == sorted(self.oracle.open)
            if last:
                assert len(self.memory) == len(self.oracle.records)
        return [one for one in taken if one[1]]

    def take(self) -> WorkData:
        """Every second rollout is read from a copy, after the memory's own arrays have served again."""
        work = self.memory.take()
        if self.counter % 2:
            return work.data
        data = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in work.data.items()}
        work.release()
        return data


def image_of(markers: Any) -> Any:
    return (np.round(markers * 7)[:, :, None] + np.arange(6).reshape(2, 3)).astype(np.int64).astype(np.uint8)


def values_of(markers: Any) -> dict[str, Any]:
    """Everything is a function of the marker, so that a mixed-up row shows."""
    whole = np.round(markers * 7).astype(np.int32)
    return {
        "obs_0": markers,
        "obs_1": image_of(markers),
        "continuous": np.concatenate((markers * 2, markers * 3), axis=1),
        "discrete": (whole + np.arange(2)) % np.array([3, 2]),
        "mask": (whole + np.arange(5)) % 4 == 0,
        "memory": -markers[:, :, None] - np.arange(6, dtype=np.float32).reshape(2, 3),
    }


@given(operations(40), st.integers(1, 6), st.sampled_from([1, 3]))
def test_memory_equals_the_oracle(happening: list[tuple[Any, ...]], horizon: int, components: int) -> None:
    for taken, expected in Driver(horizon, components).run(happening):
        _check_columns(taken, expected)
        _check_rewards(taken, expected, components)
        _check_links(taken, expected, horizon)


def _check_columns(taken: Rollout, expected: list[Record]) -> None:
    markers = np.array([[record.marker] for record in expected], np.float32)
    wanted, masked = values_of(markers), np.array([record.masked for record in expected], np.bool_)
    mask, memory = wanted.pop("mask") & masked[:, None], wanted.pop("memory")
    if taken.mask is not None:
        np.testing.assert_array_equal(taken.mask, mask)
        np.testing.assert_array_equal(taken.column("memory"), np.where(masked[:, None, None], memory, MEMORY.fill))
    assert taken.mask is not None or not masked.any()
    for name, values in wanted.items():
        np.testing.assert_array_equal(taken.column(name), values)
    for values, other in zip(taken.observations, (markers, image_of(markers)), strict=True):
        np.testing.assert_array_equal(values, other)
        assert values.dtype == other.dtype
    assert taken.rows.tolist() == [record.row for record in expected]
    assert taken.version.tolist() == [record.version for record in expected]


def _check_rewards(taken: Rollout, expected: list[Record], components: int) -> None:
    rewards = np.array([record.reward for record in expected], np.float32)
    assert set(taken.rewards) == {"extrinsic", "second"}
    np.testing.assert_array_equal(taken.rewards["extrinsic"], rewards[:, :components])
    np.testing.assert_array_equal(taken.rewards["second"], rewards[:, components:])


def _check_links(taken: Rollout, expected: list[Record], horizon: int) -> None:
    position = {record: index for index, record in enumerate(expected)}
    bootstraps, images = taken.bootstrap_observations[0], taken.bootstrap_observations[1]
    np.testing.assert_array_equal(images, image_of(bootstraps))
    assert taken.terminated.tolist() == [record.terminated for record in expected]
    assert taken.truncated.tolist() == [record.final is not None for record in expected]
    assert taken.cut.tolist() == [record.step == horizon - 1 for record in expected]
    for index, record in enumerate(expected):
        successor = -1 if record.following is None else position.get(record.following, -1)
        assert taken.following[index] == successor
        after = record.final if record.following is None else record.following.marker
        if successor >= 0 or after is None:
            assert taken.bootstrap[index] == -1
        else:
            assert bootstraps[taken.bootstrap[index], 0] == np.float32(after)
    assert taken.bootstrap[taken.bootstrapped].tolist() == list(range(len(bootstraps)))
    used = [int(index) for index in taken.bootstrap if index >= 0]
    assert sorted(used) == list(range(len(bootstraps))), "every bootstrap observation belongs to one transition"


@given(
    operations(60),
    st.integers(1, 8),
    st.sampled_from([1, 2]),
    st.sampled_from([(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.95)]),
)
def test_gae_equals_the_oracle(
    happening: list[tuple[Any, ...]], horizon: int, components: int, discount: tuple[float, float]
) -> None:
    gamma, lambd = discount
    for taken, expected in Driver(horizon, components).run(happening):
        values = _values(taken.observations[0], components)
        bootstraps = _values(taken.bootstrap_observations[0], components)
        advantage, returns = taken.gae(taken.rewards["extrinsic"], values, bootstraps, gamma, lambd)
        oracle = oracle_advantages(expected, horizon, gamma, lambd, components)
        wanted = np.array([oracle[record] for record in expected])
        np.testing.assert_allclose(advantage, wanted, rtol=1e-9, atol=1e-7)
        np.testing.assert_allclose(returns, wanted + values, rtol=1e-9, atol=1e-7)
        assert advantage.dtype == returns.dtype == np.float64


def _values(markers: Any, components: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    rows = [[value_of(float(marker), part) for part in range(components)] for marker in markers[:, 0]]
    return np.array(rows, np.float64).reshape(-1, components)


def small(steps: int = 4, agents: int = 2, capacity: int = 2) -> RolloutMemory:
    """One number seen, one stored besides, one reward; ``agents`` have decided ``steps`` times."""
    columns = (Column("extra"), Column("never", (2,)))
    memory = RolloutMemory(SENSORS[:1], columns, rewards={"extrinsic": 1}, capacity=capacity, horizon=100)
    for step in range(steps):
        add(memory, list(range(agents)), float(step))
    return memory


def add(memory: RolloutMemory, rows: list[int], value: float) -> None:
    values = np.full((len(rows), 1), value, np.float32)
    given_values = {"obs_0": values, "extra": values[:, 0], "never": None}
    memory.append(np.array(rows, np.int64), StepFacts({"extrinsic": values}), given_values, version=int(value))


def end(memory: RolloutMemory, rows: list[int], value: float, *, truncated: bool) -> None:
    values = np.full((len(rows), 1), value, np.float32)
    memory.end(np.array(rows, np.int64), StepFacts({"extrinsic": values}), (values,), np.full(len(rows), truncated))


def test_row_numbers_may_be_large_and_sparse() -> None:
    memory = small(steps=2, agents=1)
    add(memory, [100_000], 7.0)
    add(memory, [100_000], 8.0)
    memory.abandon(np.array([900_000]))
    assert memory.completed == 2
    assert Rollout(memory.take().data).rows.tolist() == [0, 100_000]


@pytest.mark.parametrize("ends", [False, True])
def test_the_last_observation_of_a_real_end_is_kept_where_it_is_asked_for(ends: bool) -> None:
    """Returns are none of its business."""
    memory = RolloutMemory((SENSORS[0],), (), rewards={"extrinsic": 1}, capacity=8, horizon=9, ends=ends)
    reward, rows = {"extrinsic": np.ones((2, 1), np.float32)}, np.arange(2)
    memory.append(rows, StepFacts(reward), {"obs_0": np.array([[1], [2]], np.float32)}, 0)
    memory.end(rows, StepFacts(reward), (np.array([[7], [8]], np.float32),), np.array([False, True]))
    taken = Rollout(memory.take().data)
    assert taken.next_observations(0).tolist() == [[7 if ends else 1], [8]]
    assert taken.bootstrapped.tolist() == ([0, 1] if ends else [1])
    values = np.full((len(taken.bootstrapped), 1), 100.0)
    _, returns = taken.gae(np.ones((2, 1)), np.zeros((2, 1)), values, 0.5, 0.9)
    assert returns.tolist() == [[1.0], [51.0]]


def test_calls_for_no_agents_do_nothing() -> None:
    memory = small()
    before = memory.completed, len(memory)
    add(memory, [], 1.0)
    end(memory, [], 1.0, truncated=False)
    memory.abandon(np.zeros(0, np.int64))
    assert (memory.completed, len(memory)) == before


def test_taken_rollout_survives_later_writing_until_it_is_released() -> None:
    memory = small(steps=5, agents=3)
    first = memory.take()
    for step in range(20):
        add(memory, [0, 1, 2], 100.0 + step)
    memory.take()
    add(memory, [0, 1, 2], 500.0)
    assert np.unique(Rollout(first.data).observations[0]).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_released_arrays_serve_again_once() -> None:
    memory = small()
    first = memory.take()
    first.release()
    first.release()
    add(memory, [0, 1], 1.0)
    second = memory.take()
    third = memory.take()
    assert _shared(first, third) != _shared(first, second), "the lease of one log was given back once"


def _shared(first: Work, second: Work) -> bool:
    return np.shares_memory(np.asarray(first.data["obs_0"]), np.asarray(second.data["obs_0"]))


def test_a_column_that_nobody_brought_a_value_for_is_left_out() -> None:
    work = small().take()
    assert "never" not in work.data
    assert Rollout(work.data).mask is None
    with pytest.raises(KeyError):
        Rollout(work.data).column("never")


def test_data_is_plain_and_can_be_pickled() -> None:
    memory = small(steps=5, agents=3)
    end(memory, [1], 7.0, truncated=True)
    data = memory.take().data
    assert {type(value) for value in data.values()} == {np.ndarray, int}
    assert all(value.dtype != object for value in data.values() if isinstance(value, np.ndarray))
    first, second = Rollout(data), Rollout(pickle.loads(pickle.dumps(dict(data))))
    assert second.bootstrap_observations[0].tolist() == first.bootstrap_observations[0].tolist() == [[4], [4], [7]]
    ones = np.ones((len(first), 1))
    for values, other in zip(
        first.gae(ones, ones, ones[:3], 1, 1), second.gae(ones, ones, ones[:3], 1, 1), strict=True
    ):
        np.testing.assert_array_equal(values, other)


@pytest.mark.parametrize("ended", [[0, 1], [1], []])
def test_rollout_without_gaps_is_a_view(ended: list[int]) -> None:
    """Whatever is open in the end came last."""
    memory = small(steps=3, agents=2)
    end(memory, ended, 0.0, truncated=False)
    memory.take()
    add(memory, [0, 1], 1.0)
    add(memory, [0, 1], 2.0)
    data = memory.take().data
    assert len(Rollout(data)) == 4 - len(ended)
    assert np.shares_memory(Rollout(data).observations[0], np.asarray(data["obs_0"]))


def test_a_log_does_not_grow_in_the_first_rollout() -> None:
    """While it is copied, acting waits. Beside transitions it holds open decisions and what came with the last step."""
    agents = list(range(2000))
    memory = small(0, capacity=10_000)
    arrays = memory._log.records
    before = {column.name: arrays[column.name] for column in arrays.columns}
    while memory.completed < 10_000:
        add(memory, agents, 1.0)
    assert len(memory) == 12_000
    assert all(arrays[name] is array for name, array in before.items())
    assert len(arrays) == 10_000 + 4096 + 1


@pytest.mark.parametrize("arguments", [{"horizon": 0}, {"rewards": {}}, {"rewards": {"extrinsic": 1, "more": 0}}])
def test_sizes_below_one_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        RolloutMemory(SENSORS, ACTIONS, **{"capacity": 1, "horizon": 5, "rewards": {"extrinsic": 1}, **arguments})
