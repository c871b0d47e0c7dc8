from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tau_trainer.errors import StalledError
from tau_trainer.metrics import PairState
from tau_trainer.training.learning.loop import UpdateLoop
from tau_trainer.training.pairs import watchdog
from tau_trainer.training.pairs.pair import Pair
from tau_trainer.training.pairs.watchdog import watch, who_waits
from tests.waiting import HANG_S

STALL_S = 100.0


class Clock:
    """Seconds that pass where a test says so; the watch looks whenever it can."""

    def __init__(self) -> None:
        self.now = 5.0

    def monotonic(self) -> float:
        return self.now

    async def pass_by(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(watchdog, "time", made)
    return made


def fake_pair(number: int, *, awaited: bool) -> Any:
    waits_for = f"engine {number} to answer a step" if awaited else None
    return SimpleNamespace(
        id=number,
        absent=None,
        state=PairState.TRAINING,
        environment=SimpleNamespace(waits_for=waits_for, exchanges=0, restarts=0),
    )


def fake_loop(*, idle: bool) -> Any:
    bound = SimpleNamespace(outstanding=0 if idle else 1)
    return SimpleNamespace(bound=bound, learner=SimpleNamespace(name="TauAgent", policy=SimpleNamespace(version=0)))


def test_who_waits_for_whom() -> None:
    pairs = [cast(Pair, fake_pair(0, awaited=True)), cast(Pair, fake_pair(1, awaited=False))]
    assert who_waits(pairs, [cast(UpdateLoop, fake_loop(idle=False))]) == (
        "pair 0 waits for engine 0 to answer a step; pair 1 waits for its learner; learner 'TauAgent' is in an update"
    )
    assert who_waits([], [cast(UpdateLoop, fake_loop(idle=True))]) == "no pair is active"


@pytest.mark.parametrize("others", [0, 1])
async def test_no_movement_is_a_stall(clock: Clock, others: int) -> None:
    """Also while other pairs wait for an engine that may join."""
    pairs = [fake_pair(number, awaited=True) for number in range(1 + others)]
    for other in pairs[1:]:
        other.absent = "no engine has joined"

    watching = asyncio.create_task(watch(lambda: pairs, list, STALL_S, 0.0))
    await clock.pass_by(0.0)
    await clock.pass_by(STALL_S)
    assert not watching.done()
    await clock.pass_by(0.1)
    with pytest.raises(StalledError, match=r"nothing has moved for 100 s: pair 0 waits for engine 0.*--timeout-wait"):
        await asyncio.wait_for(watching, HANG_S)


async def test_while_a_person_has_stopped_the_game_nothing_has_to_move(clock: Clock) -> None:
    pair = fake_pair(0, awaited=True)
    pair.absent = "the Unity editor stopped the game"

    watching = asyncio.create_task(watch(lambda: [pair], list, STALL_S, 0.0))
    for _ in range(4):
        await clock.pass_by(3 * STALL_S)
    assert not watching.done()
    pair.absent = None
    await clock.pass_by(0.9 * STALL_S)
    assert not watching.done(), "from now on"
    await clock.pass_by(0.2 * STALL_S)
    with pytest.raises(StalledError):
        await asyncio.wait_for(watching, HANG_S)


@pytest.mark.parametrize("what", ["exchange", "update", "restart", "state"])
async def test_any_movement_is_enough(clock: Clock, what: str) -> None:
    pair, loop = fake_pair(0, awaited=True), fake_loop(idle=True)

    watching = asyncio.create_task(watch(lambda: [pair], lambda: [loop], STALL_S, 0.0))
    await clock.pass_by(0.0)
    for turn in range(8):
        clock.now += 0.6 * STALL_S
        pair.environment.exchanges += what == "exchange"
        pair.environment.restarts += what == "restart"
        loop.learner.policy.version += what == "update"
        if what == "state":
            pair.state = PairState.PREPARING if turn % 2 == 0 else PairState.TRAINING
        await clock.pass_by(0.0)
    assert not watching.done()
    watching.cancel()
