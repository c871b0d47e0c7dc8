from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tau_trainer.errors import StalledError
from tau_trainer.metrics import PairState
from tau_trainer.training.learner import Learner
from tau_trainer.training.pair import AgentTrainerPair
from tau_trainer.training.watchdog import watch, who_waits


def fake_pair(number: int, *, awaited: bool) -> Any:
    waits_for = f"engine {number} to answer a step" if awaited else None
    return SimpleNamespace(
        id=number,
        absent=None,
        trainer=SimpleNamespace(state=PairState.TRAINING),
        environment=SimpleNamespace(waits_for=waits_for, exchanges=0, restarts=0),
    )


def fake_learner(*, idle: bool) -> Any:
    return SimpleNamespace(name="TauAgent", idle=idle, policy=SimpleNamespace(version=0))


def test_who_waits_for_whom() -> None:
    pairs = [cast(AgentTrainerPair, fake_pair(0, awaited=True)), cast(AgentTrainerPair, fake_pair(1, awaited=False))]
    assert who_waits(pairs, [cast(Learner, fake_learner(idle=False))]) == (
        "pair 0 waits for engine 0 to answer a step; pair 1 waits for its learner; learner 'TauAgent' is in an update"
    )
    assert who_waits([], [cast(Learner, fake_learner(idle=True))]) == "no pair is active"


def test_no_movement_is_a_stall() -> None:
    pair = fake_pair(0, awaited=True)
    with pytest.raises(StalledError, match=r"nothing has moved for 0.05 s: pair 0 waits for engine 0.*--timeout-wait"):
        asyncio.run(asyncio.wait_for(watch(lambda: [pair], list, 0.05, 0.01), 5))


def test_while_a_person_has_stopped_the_game_nothing_has_to_move() -> None:
    pair = fake_pair(0, awaited=True)
    pair.absent = "the Unity editor stopped the game"

    async def work() -> None:
        watching = asyncio.create_task(watch(lambda: [pair], list, 0.05, 0.01))
        await asyncio.sleep(0.3)
        assert not watching.done()
        pair.absent = None
        with pytest.raises(StalledError):
            await asyncio.wait_for(watching, 5)

    asyncio.run(work())


@pytest.mark.parametrize("what", ["exchange", "update", "restart", "state"])
def test_any_movement_is_enough(what: str) -> None:
    pair, learner = fake_pair(0, awaited=True), fake_learner(idle=True)

    async def work() -> None:
        watching = asyncio.create_task(watch(lambda: [pair], lambda: [learner], 0.2, 0.01))
        for turn in range(8):
            await asyncio.sleep(0.05)
            pair.environment.exchanges += what == "exchange"
            pair.environment.restarts += what == "restart"
            learner.policy.version += what == "update"
            if what == "state":
                pair.trainer.state = PairState.PREPARING if turn % 2 else PairState.TRAINING
        assert not watching.done()
        watching.cancel()

    asyncio.run(work())
