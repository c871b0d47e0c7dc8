from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.models.policy import ActResult
from tau_trainer.rewards import RewardComputer
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, FloatArray, ObservationSpec, StepBatch
from tau_trainer.training.agent_trainer import AgentTrainer
from tau_trainer.training.states import PairState
from tau_trainer.training.tau_agent import Action, TauAgent
from tests.training.fakes import Memory, ended, step, vector_spec

SPEC = vector_spec()
TARGETED = BehaviorSpec(
    "TauAgent?team=0", (ObservationSpec("prompt", (3,)), ObservationSpec("target", (2,))), ActionSpec(2)
)


class FakeAgent:
    """Writes down what an AgentTrainer tells its TauAgent; always answers 0.5."""

    def __init__(self, spec: BehaviorSpec) -> None:
        self.spec = spec
        self.learner = SimpleNamespace(name=spec.short_name, admit=self._admit)
        self.acted: list[tuple[list[int], list[list[float]]]] = []
        self.ended: list[tuple[list[int], list[list[float]], list[bool]]] = []
        self.abandoned = self.admitted = 0

    async def _admit(self) -> None:
        self.admitted += 1

    async def act(self, batch: StepBatch) -> Action:
        actions = Actions.zeros(self.spec.actions, len(batch))
        actions.continuous[:] = 0.5
        return Action(ActResult(actions.continuous, actions.discrete, actions.continuous), 0, actions)

    def remember(self, slots: Any, reward: FloatArray, batch: StepBatch, action: Action) -> None:
        self.acted.append((slots.tolist(), reward.tolist()))

    def end(self, slots: Any, reward: FloatArray, obs: Sequence[FloatArray], truncated: Any) -> None:
        self.ended.append((slots.tolist(), reward.tolist(), truncated.tolist()))

    def abandon(self) -> None:
        self.abandoned += 1


class Bench:
    """An AgentTrainer with fake agents."""

    def __init__(self, hub: MetricsHub, **reward: Any) -> None:
        self.agents: dict[str, FakeAgent] = {}
        self.reward = {"source": "engine"} | reward
        self.trainer = AgentTrainer(3, self._agent, self._reward, hub)
        self.hub = hub

    def _agent(self, spec: BehaviorSpec) -> TauAgent:
        return cast(TauAgent, self.agents.setdefault(spec.name, FakeAgent(spec)))

    def _reward(self, spec: BehaviorSpec) -> RewardComputer:
        return RewardComputer(action_components=spec.actions.components, **self.reward)

    def respond(self, *batches: StepBatch, spec: BehaviorSpec = SPEC) -> dict[str, Actions]:
        specs = {batch.behavior: spec for batch in batches}
        actions = asyncio.run(self.trainer.decide(batches, specs))
        self.trainer.record()
        return actions

    def of(self, spec: BehaviorSpec = SPEC) -> FakeAgent:
        return self.agents[spec.name]


@pytest.fixture
def bench(hub: MetricsHub) -> Bench:
    return Bench(hub)


def test_rewards_follow_their_agents(bench: Bench) -> None:
    bench.respond(step(SPEC, [5, 9], [0.0, 0.0]))
    bench.respond(step(SPEC, [9, 5], [2.0, 1.0]))
    assert bench.of().acted == [([0, 1], [[0.0], [0.0]]), ([1, 0], [[2.0], [1.0]])]
    assert bench.trainer.decisions == 4


def test_actions_come_in_the_order_of_the_agents(bench: Bench) -> None:
    actions = bench.respond(step(SPEC, [1, 2, 3]))
    assert actions[SPEC.name].continuous.shape == (3, 2)
    assert bench.respond(step(SPEC, [])) == {}


def test_ends_come_before_the_next_episode(bench: Bench, memory: Memory) -> None:
    bench.respond(step(SPEC, [1, 2]))
    bench.respond(step(SPEC, [1, 2], 1.0))
    bench.respond(step(SPEC, [1], 0.0, ended(SPEC, [1, 2], [5.0, 6.0], truncated=True)))
    assert bench.of().ended == [([0, 1], [[5.0], [6.0]], [True, True])]
    assert bench.of().acted[-1] == ([0], [[0.0]])
    assert bench.trainer.episodes == 2
    assert bench.trainer.mean_return == pytest.approx(6.5, abs=0.01)
    bench.respond(step(SPEC, [7]))
    assert bench.of().acted[-1][0] == [1], "agent 2 ended and did not ask again: its slot is free"


def test_the_first_message_of_an_episode_rewards_no_decision(bench: Bench, hub: MetricsHub) -> None:
    bench.respond(step(SPEC, [1, 2], 50.0))
    bench.respond(step(SPEC, [1, 2], 1.0))
    statistics = hub.flush("Agent", 4).statistics[keys.MEAN_REWARD]
    assert (statistics.count, statistics.mean) == (2, 1.0)
    assert bench.trainer.scores.reward.value == pytest.approx(1.0)


def test_group_rewards_count(bench: Bench) -> None:
    bench.respond(step(SPEC, [1]))
    batch = step(SPEC, [1], 1.0)
    batch.group_reward[:] = 0.5
    bench.respond(batch)
    assert bench.of().acted[-1][1] == [[1.5]]


def test_a_reward_computed_from_the_target_is_that_of_the_action(hub: MetricsHub) -> None:
    bench = Bench(hub, source="trainer", formula="incremental", credit="component")
    prompt = np.zeros((1, 3), np.float32)
    for target in (0.5, 0.0):
        obs = (prompt, np.full((1, 2), target, np.float32))
        bench.respond(step(TARGETED, [4], 99.0, obs=obs), spec=TARGETED)
    acted = bench.of(TARGETED).acted
    assert acted[1][1] == [[1.0, 1.0]], "0.5 was right the first time; the engine's 99 does not count"
    bench.respond(step(TARGETED, [], terminals=ended(TARGETED, [4], [99.0])), spec=TARGETED)
    assert bench.of(TARGETED).ended[0][1] == [[0.0, 0.0]], "1 - 2 * 0.5"
    assert bench.trainer.scores.reward.value == pytest.approx(0.5, abs=0.01)
    assert bench.trainer.scores.success.value == pytest.approx(0.5, abs=0.01)


def test_many_agents_grow_the_table_of_pending_rewards(hub: MetricsHub) -> None:
    bench = Bench(hub, source="trainer", formula="binary")
    for count in (3, 200):
        obs = (np.zeros((count, 3), np.float32), np.full((count, 2), 0.5, np.float32))
        bench.respond(step(TARGETED, list(range(count)), obs=obs), spec=TARGETED)
    assert bench.of(TARGETED).acted[1][1][:4] == [[1.0, 1.0]] * 3 + [[0.0, 0.0]]


def test_binary_rewards_over_a_window(hub: MetricsHub) -> None:
    bench = Bench(hub, predicate="positive", values="pm1", aggregate="majority", window=3, learn_from="aggregate")
    for reward in (0.0, 1.0, -1.0, 2.0):
        bench.respond(step(SPEC, [0], reward))
    learned = [reward[0][0] for _, reward in bench.of().acted]
    assert learned[1] == 1.0
    assert learned[3] == 1.0, "two of three were positive"
    statistics = hub.flush("Agent", 4).statistics
    assert statistics[keys.SUCCESS_RATE].mean == pytest.approx(2 / 3)
    assert statistics[keys.AGGREGATED_REWARD].count == 3


def test_behaviors_have_their_own_agents(bench: Bench) -> None:
    other = vector_spec(name="Other?team=1", actions=ActionSpec(0, (2,)))
    steps = [step(SPEC, [1]), step(other, [1, 2])]
    asyncio.run(bench.trainer.decide(steps, {SPEC.name: SPEC, other.name: other}))
    assert bench.trainer.decisions == 0, "the engine gets its answer first"
    bench.trainer.record()
    assert [agent.spec.name for agent in bench.trainer.agents] == [SPEC.name, other.name]
    assert bench.trainer.decisions == 3
    asyncio.run(bench.trainer.admit())
    assert bench.of().admitted == bench.of(other).admitted == 1


def test_abandon_forgets_open_episodes(bench: Bench) -> None:
    bench.respond(step(SPEC, [1, 2]))
    bench.trainer.abandon()
    assert bench.of().abandoned == 1
    bench.respond(step(SPEC, [], terminals=ended(SPEC, [1], [1.0])))
    assert bench.trainer.episodes == 0
    assert bench.trainer.mean_return is None


def test_states_go_one_way(bench: Bench, hub: MetricsHub, memory: Memory) -> None:
    bench.trainer.enter(PairState.PREPARING)
    with pytest.raises(RuntimeError, match="from Preparing to Completed"):
        bench.trainer.enter(PairState.COMPLETED)
    hub.drain(5.0)
    assert memory.states(3) == ["Preparing"]
