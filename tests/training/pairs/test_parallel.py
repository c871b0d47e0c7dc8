from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tau_trainer.errors import EngineExitedError
from tau_trainer.metrics import MetricsHub, PairState
from tau_trainer.training.pairs.pair import Pair
from tests.training.fakes import Memory
from tests.training.pairs.pairs import Make, Team
from tests.waiting import HANG_S, until


def most_at_once(team: Team) -> Callable[[], int]:
    """Watch how many pairs run at the same time, engine start and goodbye included."""
    peak = 0
    for pair in team.pairs:
        for name in ("initialize", "advance", "stop"):
            original = getattr(pair, name)

            async def watched(original: Any = original) -> None:
                nonlocal peak
                peak = max(peak, sum(one.running for one in team.pairs) + (original.__name__ == "initialize"))
                await original()

            setattr(pair, name, watched)
    return lambda: peak


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize(("count", "most"), [(6, 2), (5, 1), (3, 3)])
def test_at_most_m_pairs_run_at_once_and_m_do(make: Make, count: int, most: int, deterministic: bool) -> None:
    """The original's semaphore had as many places as there were pairs, and was held for their start only."""
    team = make(count, most, pause_s=0.002, deterministic=deterministic)
    peak = most_at_once(team)
    team.run()
    assert peak() == most
    assert team.states == ["Completed"] * count


def test_the_semaphore_is_held_for_the_whole_run(make: Make) -> None:
    team = make(3, 1, exchanges=3)
    team.run()
    whole = ["initialize", "advance", "advance", "advance", "stop"]
    assert team.log == [f"{what} {i}" for i in range(3) for what in whole]


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("moment", ["initialize", "advance", "stop"])
def test_a_failing_pair_stops_no_other(make: Make, moment: str, deterministic: bool) -> None:
    team = make(4, 2, deterministic=deterministic)
    team.pairs[1].fails_at = moment
    team.run()
    assert team.states == ["Completed", "Failed", "Completed", "Completed"]
    assert isinstance(team.parallel.failures[1], EngineExitedError)
    assert team.pairs[1].error == "engine 1 ended"
    assert "kill 1" in team.log
    assert not any(pair.running for pair in team.pairs)


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_pair_whose_environment_cannot_even_be_ended_stops_no_other(
    make: Make, deterministic: bool, hub: MetricsHub, memory: Memory
) -> None:
    team = make(3, 2, deterministic=deterministic)
    team.pairs[1].fails_at, team.pairs[1].fails_to_end = "advance", True
    team.run()
    assert team.states == ["Completed", "Failed", "Completed"]
    assert team.pairs[1].error == "engine 1 ended", "why it failed, not how it ended"
    hub.drain(5.0)
    assert any("internal error: OSError: no window to close" in warning for warning in memory.warnings)


@pytest.mark.parametrize("evaluates", [True, False])
def test_each_pair_is_evaluated_as_it_ends(make: Make, *, evaluates: bool) -> None:
    evaluated: list[tuple[int, PairState]] = []

    async def evaluate(pair: Pair) -> None:
        evaluated.append((pair.id, pair.state))

    team = make(2, 1)
    team.coordinator.evaluates = evaluates
    team.coordinator.evaluate = evaluate  # type: ignore[method-assign]
    team.run()
    state = PairState.EVALUATING if evaluates else PairState.TRAINING
    assert evaluated == [(0, state), (1, state)]


@pytest.mark.parametrize("deterministic", [False, True])
async def test_cancel_reaches_running_pairs_and_those_that_wait(make: Make, deterministic: bool) -> None:
    """The original cancelled a token that nobody looked at, and threw where a pair waited."""
    team = make(4, 2, exchanges=1_000_000, pause_s=0.001, deterministic=deterministic)

    running = asyncio.create_task(team.parallel.run())
    await asyncio.to_thread(until, lambda: len(team.parallel.active) == 2)
    assert [pair.id for pair in team.parallel.active] == [0, 1]
    await asyncio.wait_for(team.parallel.cancel(), HANG_S)
    await asyncio.wait_for(running, HANG_S)
    assert team.states == ["Cancelled"] * 4
    assert {"stop 0", "stop 1"} <= set(team.log), "running pairs came to a good end"
    assert not {"initialize 2", "initialize 3"} & set(team.log), "pairs that waited never began"


@pytest.mark.parametrize("deterministic", [False, True])
async def test_cancel_ends_pairs_that_hang(make: Make, deterministic: bool) -> None:
    team = make(3, 2, exchanges=5, pause_s=1000.0, deterministic=deterministic)

    running = asyncio.create_task(team.parallel.run())
    await asyncio.sleep(0.02)
    await asyncio.wait_for(team.parallel.cancel(0.05), HANG_S)
    await asyncio.wait_for(running, HANG_S)
    assert team.states == ["Cancelled"] * 3
    assert "kill 0" in team.log
    assert not any(pair.running for pair in team.pairs)


def test_a_pair_that_had_all_its_decisions_is_no_victim_of_a_cancel(make: Make) -> None:
    team = make(1, 1, exchanges=0)
    team.pairs[0].finishing = True
    team.pairs[0].state = PairState.TRAINING
    asyncio.run(team.parallel._conclude(team.pairs[0]))
    assert team.states == ["Completed"]


@pytest.mark.parametrize("state", list(PairState))
def test_an_ended_pair_keeps_its_state(make: Make, hub: MetricsHub, memory: Memory, state: PairState) -> None:
    team = make(1, 1)
    for following in (state, PairState.CANCELLED):
        team.parallel._end(team.pairs[0], following)
    hub.drain(5.0)
    told = [state.value] if state.value in ("Completed", "Failed", "Cancelled") else [state.value, "Cancelled"]
    assert (memory.states(0), team.states) == (told, told[-1:])


@pytest.mark.parametrize("deterministic", [False, True])
async def test_cancel_does_not_wait_for_environments_that_have_yet_to_begin(make: Make, deterministic: bool) -> None:
    team = make(3, 2, exchanges=5, pause_s=1000.0, deterministic=deterministic)
    for pair in team.pairs:
        pair.starting = True

    running = asyncio.create_task(team.parallel.run())
    await asyncio.sleep(0.02)
    await asyncio.wait_for(team.parallel.cancel(1000.0), HANG_S)
    await asyncio.wait_for(running, HANG_S)
    assert team.states == ["Cancelled"] * 3
    assert not any(pair.running for pair in team.pairs)
