from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import TauError
from tau_trainer.search.scaling import Failure, Probe, scaled


class Machine:
    """Faster by ``1 / (1 + knee / n)`` with ``n`` at a time, until ``room`` is full."""

    def __init__(self, knee: float = 100.0, room: int = 10**9, failure: Failure = "memory") -> None:
        self.knee, self.room, self.failure = knee, room, failure
        self.asked: list[int] = []

    def __call__(self, size: int) -> Probe:
        self.asked.append(size)
        if size > self.room:
            return Probe(size, failure=self.failure, text=f"no room for {size}")
        return Probe(size, 1000.0 / (1.0 + self.knee / size))


def test_it_doubles_while_that_pays_and_bisects_what_is_left() -> None:
    machine = Machine(knee=100.0)
    found = scaled(machine, 16)
    # From n a doubling brings 10 % while (n + 100) / (n + 50) >= 1.1, up to n = 450; half a doubling counts as half.
    # What seems too slow is measured again, with what it is compared to; then halfway between 512 and 1024, and so on.
    assert machine.asked == [16, 32, 64, 128, 256, 512, 1024, 1024, 512, 768, 896, 832]
    assert found.best == 768
    assert found.rate == pytest.approx(1000.0 / (1.0 + 100.0 / 768))
    assert found.ended == "832 gains less than 10% per doubling"


@given(room=st.integers(1, 5000), first=st.integers(1, 64))
def test_what_fits_is_found_to_an_eighth(room: int, first: int) -> None:
    found = scaled(Machine(knee=1e12, room=room), first)  # every copy more is worth it
    assert room * 8 / 9 - 1 <= found.best <= room
    assert found.ended.endswith("does not fit into memory")
    assert len(found.probes) < 20


def test_no_size_at_all_is_an_error() -> None:
    with pytest.raises(TauError, match="no room for 1"):
        scaled(Machine(room=0), 4)


def test_what_no_size_changes_is_told_at_once() -> None:
    machine = Machine(room=0, failure="error")
    with pytest.raises(TauError, match="no room for 64"):
        scaled(machine, 64)
    assert machine.asked == [64]


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        ("memory", "18 does not fit into memory"),
        ("time", "18 did not finish in time"),
        ("ended", "18 failed: no room for 18"),
        ("error", "18 failed: no room for 18"),
    ],
)
def test_a_failure_on_the_way_is_a_bound(failure: Failure, text: str) -> None:
    found = scaled(Machine(knee=1e12, room=16, failure=failure), 4)
    assert found.best == 16
    assert found.ended == text


def test_a_machine_that_gets_busier_is_asked_again() -> None:
    """From the third probe on everything is four times slower."""
    asked: list[int] = []

    def measure(size: int) -> Probe:
        asked.append(size)
        return Probe(size, size / (4.0 if len(asked) > 2 else 1.0))

    found = scaled(measure, 8, most=64)
    assert (found.best, found.ended) == (64, "64 is the maximum")
    assert asked == [8, 16, 32, 32, 16, 64]
    assert [(one.size, one.rate) for one in found.curve] == [(8, 8.0), (16, 16.0), (32, 8.0), (64, 16.0)]


def test_the_most_need_be_no_double() -> None:
    found = scaled(lambda size: Probe(size, float(size)), 8, most=100)
    assert [one.size for one in found.probes] == [8, 16, 32, 64, 100]
    assert found.best == 100


def test_a_loss_of_speed_is_not_taken_for_a_gain() -> None:
    found = scaled(lambda size: Probe(size, 1000.0 / size), 8)
    assert found.best == 8
    assert [one.size for one in found.probes] == [8, 16, 16, 8, 12, 10, 9]


def test_what_was_found_when_it_is_stopped_stays() -> None:
    tried: list[int] = []

    def measure(size: int) -> Probe:
        tried.append(size)
        return Probe(size, float(size))

    found = scaled(measure, 8, stopped=lambda: len(tried) >= 3)
    assert found.best == 32
    assert found.ended == "it was stopped"
