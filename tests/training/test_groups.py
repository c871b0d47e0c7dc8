"""What an AgentTrainer tells the memory of groups: who decided together, what each got, and whose group plays on."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.collection.decisions import DecisionBatcher, TauAgent
from tau_trainer.columns import EXTRINSIC, GROUP, MOMENT, TEAM, Column, action_columns, observation_columns
from tau_trainer.memory import Rollout, RolloutMemory
from tau_trainer.metrics import MetricsHub
from tau_trainer.rewards import EngineReward
from tau_trainer.specs import BehaviorSpec, StepBatch, Terminals
from tau_trainer.training.agents import AgentTrainer
from tau_trainer.training.learning.learner import Learner
from tests.training.fakes import ended, step, vector_spec
from tests.training.learners import FakeLearner

SPECS = [vector_spec(name=name) for name in ("Cat?team=0", "Cat?team=3", "Dog?team=0")]
AGENTS = 4
"""Of each behavior."""


class Watched:
    """An environment of three behaviors, two of them teams of one learner, whose memories keep all that is known."""

    def __init__(self, hub: MetricsHub) -> None:
        self.learners: dict[str, FakeLearner] = {}
        batcher = DecisionBatcher()
        self.trainer = AgentTrainer(
            0,
            lambda spec: self._agent(spec, batcher),
            lambda spec: EngineReward(),
            hub,
        )

    def _agent(self, spec: BehaviorSpec, batcher: DecisionBatcher) -> TauAgent:
        learner = self._learner(spec)
        return TauAgent(cast(Learner, learner), spec, batcher, learner.hand_over)

    def _learner(self, spec: BehaviorSpec) -> FakeLearner:
        if spec.short_name not in self.learners:
            learner = self.learners[spec.short_name] = FakeLearner(spec)
            learner.memory = RolloutMemory(
                observation_columns(spec),
                (*action_columns(spec, spec.actions), Column("log_prob", (2,)), MOMENT, GROUP, TEAM),
                rewards={EXTRINSIC: 1},
                capacity=64,
                horizon=1000,
            )
        return self.learners[spec.short_name]

    def hears(self, *batches: StepBatch) -> None:
        asyncio.run(self.trainer.decide(batches, {spec.name: spec for spec in SPECS}))
        self.trainer.record()

    def taken(self) -> dict[str, Rollout]:
        return {name: learner.taken() for name, learner in self.learners.items()}


def asks(spec: BehaviorSpec, agents: dict[int, int], marker: float) -> StepBatch:
    """Agents decide, each of a group; they see ``marker``, and have got a tenth of it, their group a half."""
    count = len(agents)
    batch = step(spec, list(agents), marker / 10, obs=(np.full((count, 3), marker, np.float32),))
    batch.group_id[:] = list(agents.values())
    batch.group_reward[:] = np.where(batch.group_id != 0, marker / 2, 0.0)
    return batch


def ends(spec: BehaviorSpec, agents: dict[int, int], truncated: list[bool]) -> Terminals:
    over = ended(spec, list(agents), [0.0] * len(agents))
    over.group_id[:], over.truncated[:] = list(agents.values()), truncated
    return over


def test_own_and_group_rewards_and_teams_and_moments_stay_apart(hub: MetricsHub) -> None:
    watched, (cats, others, _) = Watched(hub), SPECS
    for marker in (1.0, 2.0, 3.0):
        watched.hears(asks(cats, {1: 7, 2: 0}, marker), asks(others, {1: 7}, marker))
    rollout = watched.taken()["Cat"]
    assert rollout.rewards[EXTRINSIC][:, 0].tolist() == np.array([0.2, 0.2, 0.2, 0.3, 0.3, 0.3], np.float32).tolist()
    assert rollout.group_reward is not None
    assert rollout.group_reward.tolist() == [1.0, 0.0, 1.0, 1.5, 0.0, 1.5]
    assert rollout.column("team").tolist() == [0, 0, 3] * 2
    assert rollout.column("group").tolist() == [7, 0, 7] * 2
    _, together = np.unique(rollout.column("moment"), return_inverse=True)
    assert together.tolist() == [0, 0, 1, 2, 2, 3]


_does = st.sampled_from(["asks", "asks", "asks", "silent", "dies", "dies", "cut", "dies and asks"])
_message = st.tuples(
    st.lists(_does, min_size=3 * AGENTS, max_size=3 * AGENTS),
    st.lists(st.integers(0, 2), min_size=3 * AGENTS, max_size=3 * AGENTS),
)


@settings(max_examples=40)
@given(st.lists(st.one_of(_message, _message, _message, st.none()), max_size=12))
def test_groups_end_as_a_plain_reference_says(messages: list[Any]) -> None:
    """Agents of three behaviors come, change their group, are silent and die in any order; None: the game is lost."""
    with MetricsHub() as hub:
        watched = Watched(hub)
        playing: dict[int, tuple[int, float]] = {}  # by agent: its group, and what it saw when it decided
        expected: dict[float, str] = {}  # by what was seen in the episode's last decision
        seen = 0.0
        for message in messages:
            if message is None:
                watched.trainer.abandon()
                playing.clear()
                continue
            over = {
                agent: "truncated" if does == "cut" else "terminated"
                for agent, does in enumerate(message[0])
                if does in ("dies", "cut", "dies and asks") and agent in playing
            }
            asking = {
                agent: message[1][agent]
                for agent, does in enumerate(message[0])
                if does in ("asks", "dies and asks") or (does != "silent" and agent not in playing)
            }
            going = [asking.get(agent, group) for agent, (group, _) in playing.items() if agent not in over]
            for agent, how in over.items():
                group, marker = playing[agent]
                leaves = how == "terminated" and group != 0 and group in going
                expected[marker] = "left" if leaves else how
            batches = []
            for number, spec in enumerate(SPECS):
                mine = range(number * AGENTS, (number + 1) * AGENTS)
                dead = {agent: playing[agent][0] for agent in mine if agent in over}
                last = ends(spec, dead, [over[agent] == "truncated" for agent in dead])
                alive = {agent: asking[agent] for agent in mine if agent in asking}
                markers = seen + 1.0 + np.arange(len(alive), dtype=np.float32)
                obs = (np.repeat(markers[:, None], 3, axis=1),)
                batch = step(spec, list(alive), 0.0, last, obs)
                batch.group_id[:] = list(alive.values())
                batches.append(batch)
                for agent in dead:
                    del playing[agent]
                playing |= {agent: (alive[agent], float(markers[i])) for i, agent in enumerate(alive)}
                seen += len(alive)
            watched.hears(*batches)
        found = {}
        for rollout in watched.taken().values():
            markers = rollout.observations[0][:, 0].tolist() if len(rollout) else []
            for i, marker in enumerate(markers):
                if rollout.terminated[i] or rollout.truncated[i]:
                    found[marker] = "truncated" if rollout.truncated[i] else "left" if rollout.left[i] else "terminated"
        assert found == expected
