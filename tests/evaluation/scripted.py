"""An environment of given steps, and its play."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from tau_trainer.errors import EngineError
from tau_trainer.evaluation.play import Play
from tau_trainer.evaluation.players import ScriptedPlayer
from tau_trainer.evaluation.recording import Recording
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec, StepBatch, Terminals

SPEC = BehaviorSpec("Walker?team=0", (ObservationSpec("a", (1,)),), ActionSpec(0, (3,)))


def batch(ids: list[int], ended: list[int], step: int) -> StepBatch:
    """Observations are ten times the agent plus the step, rewards the step."""

    def obs(agents: list[int]) -> Any:
        return (np.array([[10.0 * agent + step] for agent in agents], np.float32).reshape(len(agents), 1),)

    def zeros(agents: list[int]) -> Any:
        return np.zeros(len(agents), np.int32)

    def paid(agents: list[int]) -> Any:
        return np.full(len(agents), step, np.float32)

    agents, others = np.array(ids, np.int32), np.array(ended, np.int32)
    nothing, cut = np.zeros(len(ids), np.float32), np.array([agent == 2 for agent in ended], np.bool_)
    last = Terminals(others, obs(ended), paid(ended), cut, zeros(ended), np.zeros(len(ended), np.float32))
    return StepBatch(SPEC.name, agents, obs(ids), paid(ids), zeros(ids), nothing, last)


class Scripted:
    """An environment of given steps; an EngineError among them is raised once."""

    def __init__(self, steps: list[Any]) -> None:
        self.steps, self.specs, self.closed = steps, {SPEC.name: SPEC}, False
        self.exchanges = self.restarts = 0
        self.waits_for = self.absent = None
        self.sent: list[Any] = []

    async def start(self, parameters: Any) -> list[StepBatch]:
        return [self.steps.pop(0)]

    def answer(self, actions: Any) -> None:
        self.sent.append(actions)

    async def next(self) -> list[StepBatch]:
        step = self.steps.pop(0)
        if isinstance(step, EngineError):
            raise step
        return [step]

    async def reset(self, parameters: Any) -> list[StepBatch]:
        return await self.next()

    async def recover(self, error: EngineError) -> list[StepBatch]:
        return [self.steps.pop(0)]

    async def close(self) -> None:
        self.closed = True


def play_of(steps: list[Any]) -> tuple[Play, Scripted]:
    """By chance, and recorded."""
    environment: Any = Scripted(steps)
    return Play(environment, lambda spec: ScriptedPlayer(spec, 0), Recording), environment


def played(steps: list[Any], episodes: int) -> tuple[Play, Scripted]:
    """Until so many episodes have ended."""
    play, environment = play_of(steps)
    asyncio.run(play.run({}, lambda play: play.ended >= episodes))
    return play, environment


def recording_of(play: Play) -> Recording:
    recording = play.sides[SPEC.name].recording
    assert recording is not None
    return recording
