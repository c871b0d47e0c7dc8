"""Rounds, fed by hand: what is learned from when, how many decisions each actor gets, who waits for whom."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from tau_trainer.errors import NonFiniteError
from tau_trainer.training.actors.rounds import RoundEnd, Rounds
from tau_trainer.training.pairs.pair import Coordinator
from tests.training.actors.stage import FakeLearner, Stage, settle
from tests.waiting import HANG_S


class Ring(Coordinator):
    """Some actors in lock step that play behaviors, each with a fake learner."""

    def __init__(self, *actors: int, behaviors: tuple[str, ...] = ("Agent",), max_steps: int = 1000) -> None:
        self.actors = set(actors)
        self.stages = {name: Stage(FakeLearner(), mode="lock_step") for name in behaviors}
        for name, stage in self.stages.items():
            stage.learner.name, stage.learner.progress.max_steps = name, max_steps
        self.asked = 0
        self.saves = False
        self.counted: list[tuple[str, int]] = []
        trainers = {name: stage.trainer for name, stage in self.stages.items()}
        self.rounds = Rounds(trainers, self._expected, self)

    def _expected(self) -> set[int]:
        return set() if all(stage.trainer.over for stage in self.stages.values()) else self.actors

    async def round_over(self) -> bool:
        self.asked += 1
        return self.saves

    async def brings(self, actor: int, samples: int = 10, decisions: int = 10, name: str = "Agent") -> RoundEnd:
        stage = self.stages[name]

        def count() -> None:
            self.counted.append((name, actor))
            stage.trainer.count(decisions)

        return await self.rounds.hand_over(stage.trainer, stage.push(samples, actor), count)

    def updates(self, name: str = "Agent") -> list[int | None]:
        return [source for source, rows, _ in self.stages[name].learner.taken if rows]


async def test_everybody_waits_for_all_and_is_learned_from_in_order() -> None:
    ring = Ring(0, 1, 2)
    learner, channel = ring.stages["Agent"].learner, ring.stages["Agent"].channel
    first = [asyncio.create_task(ring.brings(actor)) for actor in (2, 0)]
    await settle()
    assert learner.taken == []
    end = await asyncio.wait_for(ring.brings(1), HANG_S)
    assert [one.left for one in await asyncio.gather(*first)] == [{"Agent": 323}, {"Agent": 324}]
    assert end == RoundEnd({"Agent": 323}, anew=False)
    assert learner.progress.opts == 29
    assert ring.updates() == [0, 1, 2]
    assert channel.written == 2, "once a round"
    assert channel.read().opts == 29
    ring.actors.remove(1)
    ring.rounds.wake()
    again = [asyncio.create_task(ring.brings(actor)) for actor in (2, 0)]
    await asyncio.wait_for(asyncio.gather(*again), HANG_S)
    assert ring.updates() == [0, 1, 2, 0, 2]
    await ring.rounds.finish()


async def test_who_comes_first_makes_no_difference() -> None:
    """Three actors and two behaviors: whoever is faster, the same rounds."""

    async def play(order: tuple[int, ...]) -> list[Any]:
        ring = Ring(0, 1, 2, behaviors=("A", "B"))
        parts = {0: ("A", "A", "B"), 1: ("B", "A", "B"), 2: ("A", "B", "B")}

        async def actor(number: int) -> None:
            for samples, name in enumerate(parts[number], start=5 + number):
                for _ in range(order.index(number)):
                    await settle()
                await ring.brings(number, samples, samples, name)

        await asyncio.wait_for(asyncio.gather(*map(actor, parts)), HANG_S)
        await ring.rounds.finish()
        return [ring.counted, *(stage.learner.taken for stage in ring.stages.values())]

    runs = [await play(order) for order in itertools.permutations(range(3))]
    assert all(one == runs[0] for one in runs)
    assert runs[0][0][:3] == [("A", 0), ("B", 1), ("A", 2)]


@pytest.mark.parametrize("max_steps", [1, 2, 3, 50, 101])
async def test_all_together_make_exactly_the_decisions_that_were_asked_for(max_steps: int) -> None:
    ring = Ring(0, 1, 2, max_steps=max_steps)

    async def actor(number: int) -> None:
        left = ring.rounds.left(number)["Agent"]
        while left is not None:
            made = min(left, 7 + number)
            left = (await ring.brings(number, made, made)).left["Agent"]

    await asyncio.wait_for(asyncio.gather(*map(actor, range(3))), HANG_S)
    assert ring.stages["Agent"].learner.progress.decisions == max_steps
    await ring.rounds.finish()


async def test_what_a_dead_actor_was_to_do_the_others_do() -> None:
    ring = Ring(0, 1, max_steps=21)
    waiting = asyncio.create_task(ring.brings(1))
    await settle()
    assert not waiting.done()
    assert ring.rounds.left(0) == {"Agent": 11}
    ring.actors.remove(0)
    ring.rounds.wake()
    assert (await asyncio.wait_for(waiting, HANG_S)).left == {"Agent": 11}
    await ring.rounds.finish()


async def test_who_has_nothing_to_do_waits_and_gets_what_becomes_free() -> None:
    ring = Ring(0, 1, max_steps=21)
    ends = [asyncio.create_task(ring.brings(actor)) for actor in range(2)]
    await settle()
    assert [end.done() for end in ends] == [True, False], "one decision is left, and actor 0 gets it"
    ring.actors.remove(0)
    ring.rounds.wake()
    assert (await asyncio.wait_for(ends[1], HANG_S)).left == {"Agent": 1}
    await ring.rounds.finish()


async def test_a_checkpoint_lets_all_begin_anew_and_learning_forgets_what_was_open() -> None:
    ring = Ring(0, 1)
    taken = list[bool]()
    trainer = ring.stages["Agent"].trainer
    take_in = trainer.take_in

    async def taking(push: Any, *, anew: bool) -> None:
        taken.append(anew)
        await take_in(push, anew=anew)

    trainer.take_in = taking  # type: ignore[method-assign]
    ring.saves = True
    ends = await asyncio.gather(ring.brings(0), ring.brings(1))
    assert [end.anew for end in ends] == [True, True]
    ring.saves = False
    ends = await asyncio.gather(ring.brings(0), ring.brings(1))
    assert [end.anew for end in ends] == [False, False]
    assert taken == [False, False, True, False]
    assert ring.asked == 2
    await ring.rounds.finish()


async def test_the_last_round_writes_no_checkpoint() -> None:
    ring = Ring(0, max_steps=10)
    ring.saves = True
    assert await ring.brings(0) == RoundEnd({"Agent": None}, anew=False)
    assert ring.asked == 0
    await ring.rounds.finish()


async def test_a_stop_holds_nobody() -> None:
    ring = Ring(0, 1, 2)
    waiting = asyncio.create_task(ring.brings(1))
    await settle()
    assert not waiting.done()
    ring.rounds.open()
    await asyncio.wait_for(waiting, HANG_S)
    await asyncio.wait_for(ring.brings(0), HANG_S)
    await ring.rounds.finish()
    assert ring.updates() == [1, 0]


async def test_at_max_opts_a_round_is_taken_in_whole_and_is_the_last() -> None:
    ring = Ring(0, 1)
    stage = ring.stages["Agent"] = Stage(FakeLearner(), mode="lock_step", max_opts=5)
    ring.rounds = Rounds({"Agent": stage.trainer}, ring._expected, ring)
    ends = await asyncio.gather(ring.brings(0), ring.brings(1))
    assert [end.left for end in ends] == [{"Agent": None}] * 2
    assert (stage.learner.progress.opts, stage.learner.progress.samples, stage.trainer.over) == (5, 20, True)
    await ring.rounds.finish()


async def test_what_ends_learning_is_told_to_whoever_waits_and_whoever_comes() -> None:
    ring = Ring(0, 1)
    ring.stages["Agent"].learner.error = NonFiniteError("NaN three times")
    results = await asyncio.gather(ring.brings(0), ring.brings(1), return_exceptions=True)
    assert [type(one) for one in results] == [NonFiniteError] * 2
    with pytest.raises(NonFiniteError):
        await ring.brings(0)
    await ring.rounds.finish()
