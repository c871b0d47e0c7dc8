from __future__ import annotations

import errno
import json
import math
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.metrics import BaselineScore, Event, MetricsHub, Recorder, RunSnapshot, Summary
from tau_trainer.metrics import keys as names
from tau_trainer.metrics.summary import Statistics
from tau_trainer.specs import Aggregation
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from tests.remembering import Memory


class Screen(Recorder):
    """Shows nothing, for this reason."""

    shows = True

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def on_event(self, event: Event) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "said", "lost"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device", True),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "its reader has closed it", False),
    ],
)
def test_what_cannot_be_shown_is_said_elsewhere(
    memory: Memory, error: OSError, said: str, lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with MetricsHub([Screen(error), memory]) as hub:
        for number in range(3):
            hub.event("note", message=str(number))
        hub.drain(60.0)
        whole = f"the output cannot be written ({said}), so nothing more is shown"
        assert hub.losses == ([whole] if lost else []), "a reader that leaves may do so; a disk may not be full"
    assert [record.getMessage() for record in caplog.records] == [
        f"{whole}; training continues, and log.jsonl in the run's folder has all of it"
    ]
    assert [event.message for event in memory.events if event.kind == "note"] == ["0", "1", "2"]


def test_a_recorder_that_asks_for_the_end_costs_the_others_nothing(memory: Memory) -> None:
    with MetricsHub([Screen(SystemExit(1)), memory]) as hub:
        hub.event("note", message="a")
        hub.event("note", message="b")
        assert hub.drain(60.0)
    assert [event.message for event in memory.events if event.kind == "note"] == ["a", "b"]


finite = st.floats(-1e6, 1e6, width=32)
chunks = st.lists(st.one_of(finite, st.lists(finite, max_size=20)), min_size=1, max_size=20)


@given(chunks)
def test_flush_keeps_every_value(values: list[float | list[float]]) -> None:
    hub = MetricsHub()
    for value in values:
        hub.add("A", "key", value if isinstance(value, float) else np.array(value, np.float32))
    flat = np.concatenate([np.atleast_1d(np.array(value, np.float64)) for value in values])
    got = hub.flush("A", 10).statistics["key"]
    assert got.count == len(flat)
    if len(flat):
        assert got.sum == pytest.approx(flat.sum(), rel=1e-9, abs=1e-6)
        assert got.mean == pytest.approx(flat.mean(), rel=1e-9, abs=1e-6)
        assert got.std == pytest.approx(flat.std(), rel=1e-9, abs=1e-6)
        assert (got.min, got.max, got.last) == (flat.min(), flat.max(), flat[-1])


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("AB"), finite), max_size=40), st.integers(1, 5))
def test_flushes_partition_the_values(items: list[tuple[int, str, float]], every: int) -> None:
    """Whatever the moments of the flushes: each value is in one summary, of its behavior and of its pair."""
    hub = MetricsHub()
    summaries: list[Summary] = []
    array = np.zeros(1, np.float32)
    for number, (pair, behavior, value) in enumerate(items):
        array[:] = value  # what was added is a copy
        hub.add(behavior, "key", array, pair=pair)
        if number % every == 0:
            summaries.append(hub.flush(behavior, number))
    summaries += [hub.flush(behavior, len(items)) for behavior in "AB"]
    for behavior in "AB":
        mine = [one for one in summaries if one.behavior == behavior]
        assert _count(mine, None) == sum(name == behavior for _, name, _ in items)
        for pair in range(4):
            assert _count(mine, str(pair)) == sum((pair, behavior) == one[:2] for one in items)
        added = [np.float64(value) for _, name, value in items if name == behavior]
        assert sum(one.statistics["key"].sum for one in mine if "key" in one.statistics) == pytest.approx(sum(added))


def _count(summaries: list[Summary], pair: str | None) -> int:
    tables = [one.statistics if pair is None else one.pairs.get(pair, {}) for one in summaries]
    return sum(table["key"].count for table in tables if "key" in table)


def test_threads_lose_nothing() -> None:
    hub = MetricsHub()
    seen: list[Summary] = []
    done = threading.Event()

    def flusher() -> None:
        while not done.is_set():
            seen.append(hub.flush("A", len(seen)))

    def adder(value: float) -> None:
        for _ in range(500):
            hub.add("A", "sum", np.full(4, value), Aggregation.SUM, pair=int(value))

    adders = [threading.Thread(target=adder, args=(float(i),)) for i in range(1, 5)]
    flushing = threading.Thread(target=flusher)
    flushing.start()
    for thread in adders:
        thread.start()
    for thread in adders:
        thread.join()
    done.set()
    flushing.join()
    seen.append(hub.flush("A", len(seen)))
    assert sum(one.values.get("sum", 0.0) for one in seen) == 500 * 4 * (1 + 2 + 3 + 4)
    for pair in range(1, 5):
        own = [one.pairs[str(pair)]["sum"] for one in seen if str(pair) in one.pairs]
        assert sum(one.count for one in own) == 2000
        assert {one.mean for one in own} == {float(pair)}


@pytest.mark.parametrize(("number", "expected"), [(0, 2.0), (1, 1.0), (2, 6.0), (3, 2.0)])
def test_aggregations_are_numbered_as_on_the_wire(number: int, expected: float) -> None:
    hub, aggregation = MetricsHub(), Aggregation(number)
    for value in (2.0, 3, np.float32(1.0)):
        hub.add("A", "key", value, aggregation)
    got = hub.flush("A", 1).statistics["key"]
    assert got.value == expected
    assert (got.histogram is not None) == (aggregation is Aggregation.HISTOGRAM)


def test_episodes_have_mlagents_names() -> None:
    hub = MetricsHub()
    hub.episode("A", 3, np.array([1.0, 3.0]), np.array([10, 20]))
    hub.episode("A", 4, [], [])
    hub.episode("A", None, [5.0], [30])
    got = hub.flush("A", 60)
    assert got.values[names.CUMULATIVE_REWARD] == 3.0
    assert got.values[names.EPISODE_LENGTH] == 20.0
    assert got.pair_values() == {"Pair 3/Cumulative Reward": 2.0, "Pair 3/Episode Length": 15.0}


def test_speed_and_eta_follow_the_clock() -> None:
    now = 100.0
    hub = MetricsHub(clock=lambda: now)
    hub.begin("A", step=1000, max_steps=3000)
    now = 102.0
    first = hub.flush("A", 1500)
    assert (first.decisions_per_second, first.eta_s, first.elapsed_s) == (250.0, 6.0, 2.0)
    now = 103.0
    assert hub.flush("A", 2500).decisions_per_second == 1000.0
    assert hub.flush("A", 2500).values[names.DECISIONS_PER_SECOND] == 0.0
    now = 105.0
    hub.rest("A")
    now = 160.0  # a behavior that is done is flushed for the last time when all others are
    assert hub.flush("A", 2700).decisions_per_second == 100.0, "the time after the last decision says nothing"
    now = 170.0
    assert hub.flush("A", 2750).decisions_per_second == 5.0, "it went on"
    without_begin = hub.flush("B", 140)
    assert (without_begin.decisions_per_second, without_begin.eta_s) == (2.0, None)


def test_recorders_get_everything_in_order(memory: Memory) -> None:
    with MetricsHub([memory]) as hub:
        hub.begin("A", step=5, hyperparameters={"gamma": 0.0})
        hub.baselines({"ridge": BaselineScore(0.5, 0.9)})
        hub.add_all("A", {"x": 1.0, "y": [1, 2, 3]})
        for step in range(50):
            hub.flush("A", step, training=step < 40)
        hub.warning("careful", where="here")
    assert [one.step for one in memory.summaries] == list(range(50))
    assert [one.training for one in memory.summaries] == [True] * 40 + [False] * 10
    assert memory.summaries[0].values.items() >= {"x": 1.0, "y": 2.0}.items()
    assert [one.kind for one in memory.events] == ["resumed", "hyperparameters", "baselines", "warning"]
    assert memory.events[-1].message == "careful"
    assert memory.closed == 1


class Broken(Recorder):
    """Raises whatever it is asked."""

    def on_summary(self, summary: Summary) -> None:
        raise OSError("disk full")

    def on_event(self, event: Event) -> None:
        raise ValueError("no")

    def close(self) -> None:
        raise RuntimeError("never")


@pytest.mark.parametrize("keeps", [False, True])
def test_a_failing_recorder_costs_one_warning_and_one_that_was_to_last_is_a_loss(memory: Memory, keeps: bool) -> None:
    broken = Broken()
    broken.keeps = keeps
    with MetricsHub([broken, memory]) as hub:
        for step in range(5):
            hub.flush("A", step)
        assert hub.drain(5.0)
        assert hub.losses == ["Broken could not write everything: disk full"] * keeps
    assert len(memory.summaries) == 5
    assert [one.kind for one in memory.events] == ["warning"]
    assert "disk full" in memory.warnings[0]
    assert memory.closed == 1


class Slow(Recorder):
    """A terminal that takes its time."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.release = threading.Event()

    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        self.release.wait(HANG_S)
        self.seen.append(snapshot.decisions)


def test_adding_never_waits_for_a_recorder() -> None:
    slow = Slow()
    hub = MetricsHub([slow])
    for decisions in range(100):
        hub.snapshot(RunSnapshot("r", "parallel", decisions=decisions))
        hub.flush("A", decisions)
    try:
        assert not hub.drain(0.01)
        assert slow.seen == [], "all was added while it took its time"
    finally:
        slow.release.set()
    hub.close()
    assert slow.seen[-1] == 99
    assert len(slow.seen) <= 3


def test_what_nobody_kept_each_of_is_told() -> None:
    hub = MetricsHub()
    hub.add("B", "Losses/Value", 1.0)
    known = Statistics(Aggregation.AVERAGE, 12, 3.0, 0.5, 2.0, 4.0, 36.0, math.nan)
    hub.carry("B", {"Environment/Cumulative Reward": known})
    summary = hub.flush("B", 100)
    found = summary.statistics["Environment/Cumulative Reward"]
    assert (found, found.value) == (known, 3.0)
    assert summary.statistics["Losses/Value"].mean == 1.0
    assert "Environment/Cumulative Reward" not in hub.flush("B", 200).statistics, "it was of those decisions"
    hub.close()


def test_what_was_open_when_a_checkpoint_was_written_counts_in_the_next_summary() -> None:
    """To the bit, over two checkpoints."""
    returns = np.random.default_rng(0).normal(3.0, 2.0, (3, 7)).astype(np.float32)
    whole, parts = MetricsHub(), [MetricsHub() for _ in returns]
    told: dict[str, Any] = {}
    for hub, part in zip(parts, returns, strict=True):
        whole.episode("A", 0, part, part, part)
        hub.carry("A", {key: Statistics.from_plain(one) for key, one in told.items()})
        hub.episode("A", 0, part, part, part)
        told = json.loads(
            json.dumps({key: one.plain() for key, one in hub.pending("A", names.EPISODE_REWARDS).items()})
        )
    expected, found = whole.flush("A", 1).statistics, parts[-1].flush("A", 1).statistics
    for key in names.EPISODE_REWARDS:
        one, other = expected[key].plain(), found[key].plain()
        assert other.pop("std") == pytest.approx(one.pop("std"))
        assert one == other
    assert MetricsHub().pending("A", names.EPISODE_REWARDS) == {}
