from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tau_trainer.errors import EngineExitedError
from tau_trainer.metrics import MetricsHub, PairState
from tau_trainer.training.agents import Tally
from tau_trainer.training.pairs.pair import AgentTrainerPair, Coordinator, Pair
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tau_trainer.training.pairs.turns import InTurn
from tests.training.fakes import Memory
from tests.waiting import HANG_S


class FakePair(Pair):
    """A pair whose exchanges are short sleeps."""

    def __init__(self, number: int, coordinator: Coordinator, log: list[str], exchanges: int, pause_s: float) -> None:
        super().__init__(number, cast(Any, None), Tally(), coordinator)
        self.log = log
        self.left = exchanges
        self.pause_s = pause_s
        self.fails_at: str | None = None
        self.fails_to_end = False
        self.running = False

    @property
    def absent(self) -> str | None:
        return None

    @property
    def complete(self) -> bool:
        return self.left <= 0

    def _note(self, what: str) -> None:
        self.log.append(f"{what} {self.id}")
        if self.fails_at == what:
            raise EngineExitedError(f"engine {self.id} ended")

    async def initialize(self) -> None:
        self.running = True
        self._note("initialize")
        await asyncio.sleep(self.pause_s)

    async def advance(self) -> None:
        self._note("advance")
        await asyncio.sleep(self.pause_s)
        self.left -= 1

    async def begin_anew(self) -> None:
        self._note("anew")

    async def start(self) -> None:
        while not self.finished:
            await self.advance()

    async def stop(self) -> None:
        self._note("stop")
        self.running = False

    async def kill(self) -> None:
        self.log.append(f"kill {self.id}")
        self.running = False
        if self.fails_to_end:
            raise OSError("no window to close")


class Team:
    """Pairs and their ParallelTrainer."""

    def __init__(
        self,
        hub: MetricsHub,
        count: int,
        most: int,
        exchanges: int = 4,
        pause_s: float = 0.0,
        *,
        deterministic: bool = False,
    ) -> None:
        self.log: list[str] = []
        self.coordinator = Coordinator()
        self.pairs = [FakePair(i, self.coordinator, self.log, exchanges, pause_s) for i in range(count)]
        kind = InTurn if deterministic else ParallelTrainer
        self.parallel = kind(cast(list[AgentTrainerPair], self.pairs), most, hub, self.coordinator)

    def run(self) -> None:
        asyncio.run(self.parallel.run())

    @property
    def states(self) -> list[str]:
        return [pair.state.value for pair in self.pairs]


Make = Callable[..., Team]


@pytest.fixture
def make(hub: MetricsHub) -> Make:
    return lambda *args, **more: Team(hub, *args, **more)


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
    assert team.parallel.peak == most
    assert team.states == ["Completed"] * count


def test_the_semaphore_is_held_for_the_whole_run(make: Make) -> None:
    team = make(3, 1, exchanges=3)
    team.run()
    whole = ["initialize", "advance", "advance", "advance", "stop"]
    assert team.log == [f"{what} {i}" for i in range(3) for what in whole]


def test_in_turn_one_exchange_each_in_fixed_order(make: Make) -> None:
    team = make(3, 2, exchanges=2, deterministic=True)
    team.run()
    assert team.log == [
        "initialize 0", "initialize 1", "advance 0", "advance 1", "advance 0", "stop 0", "advance 1", "stop 1",
        "initialize 2", "advance 2", "advance 2", "stop 2",
    ]  # fmt: skip


def test_a_pair_that_was_finished_before_takes_no_turn(make: Make) -> None:
    team = make(3, 2, exchanges=2, deterministic=True)
    team.pairs[0].left = 0
    team.run()
    assert team.log[:4] == ["stop 0", "initialize 1", "initialize 2", "advance 1"]
    assert team.states == ["Completed"] * 3


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


def test_engines_begin_anew_where_the_round_says_so(make: Make) -> None:
    rounds = iter([False, True, False, False])

    async def after_round() -> bool:
        return next(rounds)

    team = make(2, 2, exchanges=3, deterministic=True)
    team.coordinator.round_over = after_round  # type: ignore[method-assign]
    team.pairs[1].fails_at = "anew"
    team.run()
    assert team.log.count("anew 0") == team.log.count("anew 1") == 1
    assert team.states == ["Completed", "Failed"]


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
def test_cancel_reaches_running_pairs_and_those_that_wait(make: Make, deterministic: bool) -> None:
    """The original cancelled a token that nobody looked at, and threw where a pair waited."""
    team = make(4, 2, exchanges=1_000_000, pause_s=0.001, deterministic=deterministic)

    async def work() -> None:
        running = asyncio.create_task(team.parallel.run())
        await asyncio.sleep(0.05)
        assert [pair.id for pair in team.parallel.active] == [0, 1]
        await asyncio.wait_for(team.parallel.cancel(), HANG_S)
        await asyncio.wait_for(running, HANG_S)

    asyncio.run(work())
    assert team.states == ["Cancelled"] * 4
    assert {"stop 0", "stop 1"} <= set(team.log), "running pairs came to a good end"
    assert not {"initialize 2", "initialize 3"} & set(team.log), "pairs that waited never began"


@pytest.mark.parametrize("deterministic", [False, True])
def test_cancel_ends_pairs_that_hang(make: Make, deterministic: bool) -> None:
    team = make(3, 2, exchanges=5, pause_s=1000.0, deterministic=deterministic)

    async def work() -> None:
        running = asyncio.create_task(team.parallel.run())
        await asyncio.sleep(0.02)
        await asyncio.wait_for(team.parallel.cancel(0.05), HANG_S)
        await asyncio.wait_for(running, HANG_S)

    asyncio.run(work())
    assert team.states == ["Cancelled"] * 3
    assert "kill 0" in team.log
    assert not any(pair.running for pair in team.pairs)


def test_a_pair_that_had_all_its_decisions_is_no_victim_of_a_cancel(make: Make) -> None:
    team = make(1, 1, exchanges=0)
    team.pairs[0].finishing = True
    team.pairs[0].state = PairState.TRAINING
    asyncio.run(team.parallel._conclude(team.pairs[0]))
    assert team.states == ["Completed"]


def test_states_go_one_way(make: Make, hub: MetricsHub, memory: Memory) -> None:
    team = make(1, 1)
    team.parallel._enter(team.pairs[0], PairState.PREPARING)
    with pytest.raises(RuntimeError, match="from Preparing to Completed"):
        team.parallel._enter(team.pairs[0], PairState.COMPLETED)
    hub.drain(5.0)
    assert (memory.states(0), team.states) == (["Preparing"], ["Preparing"])


@pytest.mark.parametrize("deterministic", [False, True])
def test_cancel_does_not_wait_for_environments_that_have_yet_to_begin(make: Make, deterministic: bool) -> None:
    team = make(3, 2, exchanges=5, pause_s=1000.0, deterministic=deterministic)
    for pair in team.pairs:
        pair.starting = True

    async def work() -> None:
        running = asyncio.create_task(team.parallel.run())
        await asyncio.sleep(0.02)
        await asyncio.wait_for(team.parallel.cancel(1000.0), HANG_S)
        await asyncio.wait_for(running, HANG_S)

    asyncio.run(work())
    assert team.states == ["Cancelled"] * 3
    assert not any(pair.running for pair in team.pairs)
