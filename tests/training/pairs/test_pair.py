from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from tau_trainer.envs import Environment, Parameters
from tau_trainer.errors import EngineError, EngineExitedError, EngineStoppedError
from tau_trainer.metrics import Timer
from tau_trainer.settings import RunSettings
from tau_trainer.training.agents import AgentTrainer, Tally
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.pairs.pair import AgentTrainerPair, Coordinator, Pair


class FakeEnvironment:
    """Answers with numbered batches; fails where the script has an error."""

    absent = None

    def __init__(self, script: list[Exception | None] | None = None, recovers: bool = True) -> None:
        self.specs = {"A": "spec"}
        self.script = script or []
        self.recovers = recovers
        self.log: list[str] = []
        self.restarts = 0

    async def start(self, parameters: Mapping[str, float]) -> list[str]:
        self.log.append(f"start {parameters['x']:g}")
        return ["first"]

    def tell(self, parameters: Mapping[str, float]) -> None:
        self.log.append(f"tell {parameters['x']:g}")

    def answer(self, actions: Any) -> None:
        self.log.append(f"answer {actions}")

    async def next(self) -> list[str]:
        self.log.append("next")
        if self.script and (error := self.script.pop(0)) is not None:
            raise error
        return ["next"]

    async def reset(self, parameters: Mapping[str, float]) -> list[str]:
        self.log.append(f"reset {parameters['x']:g}")
        if self.script and (error := self.script.pop(0)) is not None:
            raise error
        return ["anew"]

    async def recover(self, error: EngineError) -> list[str]:
        if not self.recovers:
            raise error
        self.restarts += 1
        return ["fresh"]

    async def close(self) -> None:
        self.log.append("close")


class FakeTrainer:
    """Ten decisions for every step."""

    def __init__(self, log: list[str]) -> None:
        self.id = 4
        self.tally, self.abandoned = Tally(), 0
        self.seen: list[str] = []
        self.log = log

    async def decide(self, batches: list[str], specs: dict[str, Any]) -> str:
        assert specs == {"A": "spec"}
        self.seen += batches
        return f"for {batches[0]}"

    def record(self) -> None:
        self.log.append("record")
        self.tally.decisions += 10

    async def hand_over(self) -> None:
        self.log.append("wait")

    def abandon(self) -> None:
        self.abandoned += 1


class Until(Coordinator):
    """A pair has had enough after so many decisions."""

    def __init__(self, decisions: int, told: Callable[[int], Parameters]) -> None:
        self.most, self.told = decisions, told

    def enough(self, pair: Pair) -> bool:
        return pair.tally.decisions >= self.most

    def parameters(self, pair: int) -> Parameters:
        return self.told(pair)


def pair_of(environment: FakeEnvironment, decisions: int = 30) -> tuple[AgentTrainerPair, FakeTrainer]:
    trainer = FakeTrainer(environment.log)
    pair = AgentTrainerPair(
        cast(Environment, environment),
        cast(AgentTrainer, trainer),
        Until(decisions, lambda number: {"x": float(number)}),
    )
    return pair, trainer


async def live(pair: AgentTrainerPair) -> None:
    await pair.initialize()
    await pair.start()
    await pair.stop()


def test_a_whole_life() -> None:
    """The environment has its answer before rewards are worked out, and plays while the learner is waited for."""
    environment = FakeEnvironment()
    pair, trainer = pair_of(environment)
    assert not pair.finished
    asyncio.run(live(pair))
    turns = ["answer for first", "record", "wait", "next", *["answer for next", "record", "wait", "next"] * 2]
    assert environment.log == ["start 4", *turns[:-1], "close"], "what is asked last is not waited for"
    assert (trainer.tally.decisions, trainer.abandoned) == (30, 1)
    played, waited = pair.played_s
    assert played > waited > 0.0
    assert pair.complete
    assert pair.finished


def test_what_play_takes_and_how_much_of_it_is_waiting() -> None:
    timer = Timer()
    spent = {"start the environment": 50.0, "wait for the environment": 3.0, "decide": 1.5, "wait for a person": 70.0}
    for part, seconds in spent.items():
        timer.part(part).total = seconds
    environment = FakeEnvironment()
    trainer = cast(AgentTrainer, FakeTrainer(environment.log))
    pair = AgentTrainerPair(cast(Environment, environment), trainer, Coordinator(), timer=timer)
    assert pair.played_s == (4.5, 3.0)
    assert pair_of(environment)[0].played_s == (0.0, 0.0)


@pytest.mark.parametrize("require_reset", [False, True])
def test_a_lesson_that_begins_is_told_before_the_next_answer(require_reset: bool) -> None:
    criteria = {"behavior": "A", "measure": "progress", "threshold": 0.5, "require_reset": require_reset}
    lessons = [{"name": "a", "value": 1, "completion_criteria": criteria}, {"name": "b", "value": 2}]
    environment, progress = FakeEnvironment(), iter([0.1, 0.9])
    parameters = RunSettings.model_validate({"environment_parameters": {"x": {"curriculum": lessons}}})
    book = Lessons(parameters.environment_parameters or {}, lambda behavior: next(progress))
    trainer = FakeTrainer(environment.log)
    pair = AgentTrainerPair(
        cast(Environment, environment),
        cast(AgentTrainer, trainer),
        Until(40, lambda number: book.parameters),
        book,
    )
    asyncio.run(live(pair))
    told = [one for one in environment.log if not one.startswith(("record", "wait", "next"))]
    playing = "answer for anew" if require_reset else "answer for next"
    change = "reset 2" if require_reset else "tell 2"
    assert told == ["start 1", "answer for first", "answer for next", change, playing, "answer for next", "close"]
    assert trainer.abandoned == 1 + require_reset


def test_an_engine_that_fails_is_replaced() -> None:
    pair, trainer = pair_of(FakeEnvironment([None, EngineExitedError("gone")]), 50)
    asyncio.run(live(pair))
    assert trainer.seen == ["first", "next", "fresh", "next", "next"]
    assert trainer.abandoned == 2, "once for the loss, once at the end"
    assert pair.metrics().restarts == 1


def test_an_engine_that_cannot_be_replaced_is_the_pairs_end() -> None:
    pair, trainer = pair_of(FakeEnvironment([EngineExitedError("gone")], recovers=False))
    with pytest.raises(EngineExitedError, match="gone"):
        asyncio.run(live(pair))
    assert trainer.abandoned == 1


def test_goodbye_of_who_is_not_to_be_replaced() -> None:
    environment = FakeEnvironment([None, EngineStoppedError("engine 0 has left the game")], recovers=False)
    pair, trainer = pair_of(environment, 500)
    asyncio.run(live(pair))
    assert pair.goodbye == "engine 0 has left the game"
    assert pair.finished
    assert not pair.complete
    assert trainer.seen == ["first", "next"]


async def test_finishing_from_outside_ends_after_the_exchange() -> None:
    pair, _ = pair_of(FakeEnvironment(), 500)

    await pair.initialize()
    pair.finishing = True
    await pair.start()
    assert pair.finished
    assert not pair.complete


@pytest.mark.parametrize(
    ("script", "seen"), [([], "anew"), ([EngineExitedError("gone")], "fresh")], ids=["reset", "replaced"]
)
async def test_begin_anew(script: list[Exception | None], seen: str) -> None:
    environment = FakeEnvironment(script)
    pair, trainer = pair_of(environment)

    await pair.initialize()
    await pair.begin_anew()
    assert environment.log == ["start 4", "reset 4"]
    assert trainer.seen[-1] == seen
    assert trainer.abandoned >= 1


def test_decisions_are_dropped_with_an_environment_that_cannot_be_ended() -> None:
    class Stubborn(FakeEnvironment):
        async def kill(self) -> None:
            raise OSError("no window to close")

    pair, trainer = pair_of(Stubborn())
    asyncio.run(pair.initialize())
    assert pair.met
    with pytest.raises(OSError, match="no window"):
        asyncio.run(pair.kill())
    assert (trainer.abandoned, pair.met) == (1, {})


def test_metrics() -> None:
    pair, _ = pair_of(FakeEnvironment())
    asyncio.run(live(pair))
    told = pair.metrics()
    assert (told.id, told.decisions, told.mean_reward) == (4, 30, None)
    pair.error = "lost"
    assert pair.metrics().error == "lost"


async def test_it_starts_while_its_environment_begins_or_is_replaced() -> None:
    """Only then is nothing lost when it is ended at once."""
    seen: list[bool] = []

    class Watched(FakeEnvironment):
        async def start(self, parameters: Mapping[str, float]) -> list[str]:
            seen.append(pair.starting)
            return await super().start(parameters)

        async def next(self) -> list[str]:
            seen.append(pair.starting)
            return await super().next()

        async def recover(self, error: EngineError) -> list[str]:
            seen.append(pair.starting)
            return await super().recover(error)

    environment = Watched([EngineExitedError("gone"), EngineExitedError("gone")])
    pair, _ = pair_of(environment)

    await pair.initialize()
    await pair.advance()
    environment.recovers = False
    with pytest.raises(EngineExitedError):
        await pair.advance()
    assert seen == [True, False, True, False, True]
    assert not pair.starting


@pytest.mark.parametrize("at_the_start", [False, True])
def test_a_person_who_stops_the_game_is_waited_for(at_the_start: bool) -> None:
    """What was open is no experience, what was learned is kept, and the next game goes on with the run."""
    stop = EngineStoppedError("the Unity editor stopped the game")
    seen: list[tuple[str | None, bool]] = []

    class Editor(FakeEnvironment):
        async def start(self, parameters: Mapping[str, float]) -> list[str]:
            if at_the_start:
                raise stop
            return await super().start(parameters)

        async def recover(self, error: EngineError) -> list[str]:
            seen.append((pair.absent, pair.starting))
            return await super().recover(error)

    async def keep() -> None:
        seen.append((pair.absent, pair.starting))

    environment = Editor([] if at_the_start else [None, stop])
    pair, trainer = pair_of(environment, 50)
    pair._coordinator.absent = keep  # type: ignore[method-assign]
    asyncio.run(live(pair))
    assert seen == [(str(stop), False), (str(stop), True)]
    assert pair.absent is None
    assert pair.goodbye is None
    assert pair.complete
    assert trainer.seen[:3] == (["fresh", "next", "next"] if at_the_start else ["first", "next", "fresh"])
    assert trainer.abandoned == 2, "as the game was lost, and at the end"
