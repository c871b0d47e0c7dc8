from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tau_trainer.memory.rollout import RolloutMemory
from tau_trainer.models.policy import ActResult
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, ObservationSpec, StepBatch
from tau_trainer.training.learner import Learner
from tau_trainer.training.tau_agent import TauAgent
from tests.training.fakes import step

FULL = BehaviorSpec(
    "TauAgent?team=0",
    (ObservationSpec("prompt", (3,)), ObservationSpec("target", (2,)), ObservationSpec("mood", (1,))),
    ActionSpec(2, (3,)),
)
VISIBLE = BehaviorSpec(FULL.name, (FULL.observations[0], FULL.observations[2]), FULL.actions)


class FakeLearner:
    """A learner whose policy always samples 6.0 and branch 2."""

    def __init__(self) -> None:
        self.spec = VISIBLE
        self.memory = RolloutMemory(VISIBLE.observations, VISIBLE.actions, capacity=64, horizon=8)
        self.batcher = SimpleNamespace(decide=self._decide, parties=0)
        self.slots = self.decisions = 0
        self.done = False
        self.seen: list[tuple[int, ...]] = []

    async def _decide(self, obs: Any, mask: Any) -> tuple[ActResult, int]:
        self.seen.append(tuple(sensor.shape[1] for sensor in obs))
        count = len(obs[0])
        full = np.full((count, 2), 6.0, np.float32)
        return ActResult(full, np.full((count, 1), 2, np.int32), np.zeros((count, 3), np.float32)), 4

    def new_slots(self, count: int) -> Any:
        self.slots += count
        return np.arange(self.slots - count, self.slots)

    def count(self, decisions: int) -> None:
        self.decisions += decisions


@pytest.fixture
def learner() -> FakeLearner:
    return FakeLearner()


def agent_of(learner: FakeLearner) -> TauAgent:
    return TauAgent(cast(Learner, learner), FULL)


def slots(*values: int) -> Any:
    return np.array(values, np.intp)


def reward(*values: float) -> Any:
    return np.array(values, np.float32)[:, None]


def act(agent: TauAgent, where: Any, earned: Any, batch: StepBatch) -> Actions:
    """Decide and remember, as an AgentTrainer has it done."""
    action = asyncio.run(agent.act(batch))
    agent.remember(where, earned, batch, action)
    return action.sent


def test_the_policy_never_sees_the_target(learner: FakeLearner) -> None:
    batch = step(FULL, [1, 2])
    act(agent_of(learner), slots(0, 1), reward(0, 0), batch)
    assert learner.seen == [(3, 1)]


def test_the_engine_gets_clipped_actions_and_the_memory_raw_ones(learner: FakeLearner) -> None:
    agent = agent_of(learner)
    actions = act(agent, slots(0), reward(0), step(FULL, [1]))
    assert actions.continuous.tolist() == [[1.0, 1.0]]
    assert actions.discrete.tolist() == [[2]]
    act(agent, slots(0), reward(0.25), step(FULL, [1]))
    rollout = learner.memory.take()
    assert rollout.continuous.tolist() == [[6.0, 6.0]]
    assert rollout.reward.tolist() == [[0.25]]
    assert rollout.version.tolist() == [4]
    assert learner.decisions == 2


def test_pairs_share_a_memory_without_sharing_slots(learner: FakeLearner) -> None:
    one, two = agent_of(learner), agent_of(learner)
    for agent in (one, two):
        act(agent, slots(0, 1), reward(0, 0), step(FULL, [1, 2]))
    assert learner.memory.open_slots.tolist() == [0, 1, 2, 3]
    one.abandon()
    assert learner.memory.open_slots.tolist() == [2, 3], "the other engine's agents go on"


def test_ends_close_what_is_open(learner: FakeLearner) -> None:
    agent = agent_of(learner)
    act(agent, slots(0, 1), reward(0, 0), step(FULL, [1, 2]))
    last = tuple(np.zeros((1, *sensor.shape), np.float32) for sensor in FULL.observations)
    agent.end(slots(1), reward(3.0), last, np.array([True]))
    rollout = learner.memory.take()
    assert rollout.reward.tolist() == [[3.0]]
    assert learner.memory.open_slots.tolist() == [0]


def test_a_learner_that_is_done_gets_no_more_experience(learner: FakeLearner) -> None:
    learner.done = True
    actions = act(agent_of(learner), slots(0), reward(0), step(FULL, [1]))
    assert len(actions) == 1
    assert len(learner.memory) == 0
    assert learner.decisions == 1
