"""What an AgentTrainer tells the memory of groups: who decided together, what each got, and whose group plays on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.readers import Reader
from tau_trainer.collection.decisions import DecisionBatcher, TauAgent
from tau_trainer.columns import EXTRINSIC, GROUP, MOMENT, TEAM, Column, action_columns, observation_columns
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import Scene
from tau_trainer.memory import Rollout, RolloutMemory
from tau_trainer.metrics import MetricsHub
from tau_trainer.metrics import keys as names
from tau_trainer.rewards import EngineReward
from tau_trainer.settings import load_settings
from tau_trainer.specs import BehaviorSpec, Observations, StepBatch, Terminals, empty_terminals
from tau_trainer.training.agents import AgentTrainer
from tau_trainer.training.learning.learner import Learner
from tests.training.fakes import Memory, Stage, ended, step, train, vector_spec
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


def asks(spec: BehaviorSpec, agents: dict[int, int], marker: float = 0.0, over: Terminals | None = None) -> StepBatch:
    """Agents decide, each of a group; they see ``marker``, and have got a tenth of it, their group a half."""
    count = len(agents)
    batch = step(spec, list(agents), marker / 10, over, (np.full((count, 3), marker, np.float32),))
    batch.group_id[:] = list(agents.values())
    batch.group_reward[:] = np.where(batch.group_id != 0, marker / 2, 0.0)
    return batch


def ends(spec: BehaviorSpec, agents: dict[int, int], *, truncated: bool = False) -> Terminals:
    over = ended(spec, list(agents), [0.0] * len(agents), truncated=truncated)
    over.group_id[:] = list(agents.values())
    return over


def left(watched: Watched) -> dict[str, list[bool]]:
    """Of the transitions that an episode ended with, in the order of decisions."""
    found = watched.taken()
    return {name: rollout.left[rollout.terminated].tolist() for name, rollout in found.items() if len(rollout)}


def test_who_dies_first_leaves_a_group_that_plays_on(hub: MetricsHub) -> None:
    watched, spec = Watched(hub), SPECS[0]
    watched.hears(asks(spec, {1: 7, 2: 7, 3: 8, 4: 0}))
    watched.hears(asks(spec, {2: 7, 3: 8}, over=ends(spec, {1: 7, 4: 0})))
    assert left(watched) == {"Cat": [True, False]}, "nobody is left behind by who has no group"
    watched.hears(asks(spec, {}, over=ends(spec, {2: 7, 3: 8})))
    assert left(watched) == {"Cat": [False, False]}


def test_a_group_that_ends_at_once_is_over_also_where_it_plays_again(hub: MetricsHub) -> None:
    """Its number is used again at once, by the same agents and by one that is new."""
    watched, spec = Watched(hub), SPECS[0]
    watched.hears(asks(spec, {1: 7, 2: 7}))
    watched.hears(asks(spec, {1: 7, 2: 7, 5: 7}, over=ends(spec, {1: 7, 2: 7})))
    assert left(watched) == {"Cat": [False, False]}
    watched.hears(asks(spec, {1: 7, 5: 7}, over=ends(spec, {2: 7})))
    assert left(watched) == {"Cat": [True]}, "it was in the next episode of the group"


def test_a_group_may_be_of_several_behaviors_and_of_agents_that_are_silent(hub: MetricsHub) -> None:
    watched, (cat, _, dog) = Watched(hub), SPECS
    watched.hears(asks(cat, {1: 7}), asks(dog, {1: 7}))
    watched.hears(asks(cat, {}, over=ends(cat, {1: 7})))
    assert left(watched) == {"Cat": [True]}, "the dog asks seldom"
    watched.hears(asks(dog, {}, over=ends(dog, {1: 7})))
    assert left(watched) == {"Dog": [False]}


def test_who_has_changed_the_group_does_not_keep_the_old_one_at_play(hub: MetricsHub) -> None:
    watched, spec = Watched(hub), SPECS[0]
    watched.hears(asks(spec, {1: 7, 2: 7}))
    watched.hears(asks(spec, {2: 0}, over=ends(spec, {1: 7})))
    assert left(watched) == {"Cat": [False]}


def test_nobody_is_at_play_in_an_environment_that_was_lost(hub: MetricsHub) -> None:
    watched, spec = Watched(hub), SPECS[0]
    watched.hears(asks(spec, {1: 7, 2: 7}))
    watched.trainer.abandon()
    watched.hears(asks(spec, {1: 7}))
    watched.hears(asks(spec, {}, over=ends(spec, {1: 7})))
    assert left(watched) == {"Cat": [False]}


def test_a_limit_is_a_limit_whoever_plays_on(hub: MetricsHub) -> None:
    watched, spec = Watched(hub), SPECS[0]
    watched.hears(asks(spec, {1: 7, 2: 7}))
    watched.hears(asks(spec, {2: 7}, over=ends(spec, {1: 7}, truncated=True)))
    rollout = watched.taken()["Cat"]
    assert rollout.truncated.tolist() == [True, False]
    assert not rollout.left.any()


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
                last = _terminals(spec, dead, [over[agent] == "truncated" for agent in dead])
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


def _terminals(spec: BehaviorSpec, agents: dict[int, int], truncated: list[bool]) -> Terminals:
    over = ends(spec, agents)
    over.truncated[:] = truncated
    return over


# --- a whole run ------------------------------------------------------------------------------------------------------


class Raid(Scene):
    """Two groups of three. The agents of each die after 2, 3 and 5 decisions, and the group gets 1 as the last dies."""

    SPEC = vector_spec(name="Raider?team=0")
    LIVES = np.array([2, 3, 5, 2, 3, 5])
    GROUPS = np.array([4, 4, 4, 9, 9, 9], np.int32)

    def __init__(self) -> None:
        self.specs = (self.SPEC,)
        self.left = self.over = self.age = 0

    def seed(self, seed: int) -> None:
        """Nothing is drawn."""

    def reset(self, parameters: EnvironmentParameters) -> list[StepBatch]:
        self.parameters, self.age = parameters, 0
        return [self._batch(empty_terminals(self.SPEC.observations))]

    def step(self, actions: Any) -> list[StepBatch]:
        self.age += 1
        dead = np.flatnonzero(self.age == self.LIVES)
        terminals = empty_terminals(self.SPEC.observations, len(dead))
        terminals.agent_ids[:], terminals.group_id[:] = dead, self.GROUPS[dead]
        last = self.age == self.LIVES.max()
        terminals.group_reward[:], terminals.reward[:] = float(last), 0.25
        self.left, self.over = self.left + len(dead) * (not last), self.over + len(dead) * last
        self.age = 0 if last else self.age
        return [self._batch(terminals)]

    def _batch(self, terminals: Terminals) -> StepBatch:
        batch = step(self.SPEC, np.flatnonzero(self.age < self.LIVES).tolist(), 0.0, terminals, None)
        batch.group_id[:] = self.GROUPS[batch.agent_ids]
        for sensor in batch.obs:
            sensor[:] = self.age
        return batch


def test_a_run_learns_from_own_and_group_rewards_and_knows_who_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: Memory
) -> None:
    Stage.opened(monkeypatch)
    scene, rollouts, seen = Raid(), cast("list[dict[str, Any]]", []), cast("list[Observations]", [])
    monkeypatch.setattr("tests.training.fakes.create_scene", lambda *_, **__: scene)
    read = PPO.read

    def watched(self: PPO, rollout: Rollout) -> Reader:
        metadata = {name: getattr(rollout, name).copy() for name in ("left", "terminated", "group_reward")}
        metadata["paid"] = rollout.earned(self.streams[0].name)[:, 0].copy()
        rollouts.append(metadata | {"own": rollout.rewards[EXTRINSIC][:, 0].copy()})
        seen.append(tuple(sensor.copy() for sensor in rollout.observations))
        return read(self, rollout)

    monkeypatch.setattr(PPO, "read", watched)
    given_settings = {
        "env_settings.env_path": "headless:basic",
        "env_settings.seed": 1,
        "checkpoint_settings.results_dir": str(tmp_path),
        "default_settings.trainer_type": "ppo",
        "default_settings.max_steps": 400,
        "default_settings.summary_freq": 200,
        "default_settings.hyperparameters": {"batch_size": 20, "buffer_size": 100},
    }
    report = train(load_settings(None, given_settings), memory, "learn")
    assert len(rollouts) >= 3
    metadata = {name: np.concatenate([one[name] for one in rollouts]) for name in rollouts[0]}
    age = np.concatenate([sensors[0][:, 0] for sensors in seen])
    assert metadata["left"].sum() == pytest.approx(2 * (metadata["terminated"] & ~metadata["left"]).sum(), abs=6)
    assert set(age[metadata["left"]].tolist()) == {1.0, 2.0}, "after two and three decisions"
    assert set(age[metadata["terminated"] & ~metadata["left"]].tolist()) == {4.0}
    last = metadata["terminated"] & ~metadata["left"]
    assert metadata["group_reward"].tolist() == last.astype(np.float32).tolist()
    assert metadata["own"].tolist() == (0.25 * metadata["terminated"]).tolist()
    assert metadata["paid"].tolist() == (metadata["own"] + metadata["group_reward"]).tolist()
    assert report.behaviors[0].mean_reward == pytest.approx(0.25)
    assert sum("poca" in text for text in memory.warnings) == 1
    assert names.GROUP_CUMULATIVE_REWARD in memory.summaries[-1].statistics
