"""Learners for tests: tiny, and fed by hand."""

from __future__ import annotations

from concurrent.futures import Executor
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from tau_trainer.algorithms import Algorithm, Counters, Setup, make_algorithm
from tau_trainer.collection.decisions import Actor
from tau_trainer.columns import EXTRINSIC, Arrays, Column, Rows, action_columns, observation_columns
from tau_trainer.memory import Rollout, RolloutMemory, StepFacts, Work
from tau_trainer.metrics import MetricsHub
from tau_trainer.models import ActorCritic, Decision, Policy
from tau_trainer.specs import BehaviorSpec, BoolArray, Observations
from tau_trainer.training.learning.learner import Learner, Shared
from tau_trainer.training.learning.loop import UpdateLoop, Watcher
from tests.algorithms.experience import acted
from tests.training.fakes import ppo_settings, vector_spec

SPEC = vector_spec()


def make_learner(
    hub: MetricsHub, *, name: str = "Agent", seed: int = 1, validator: Any = None, **settings: Any
) -> Learner:
    """A learner of 1000 decisions."""
    setup = Setup(SPEC, ppo_settings(**settings), seed)
    return Learner(name, setup, make_algorithm(setup), Shared(hub, validator))


def make_loop(hub: MetricsHub, executor: Executor, *, most: int = 1, after: Any = None, **given: Any) -> UpdateLoop:
    """Its loop, which learns in ``executor``."""
    return UpdateLoop(make_learner(hub, **given), executor, most, watching(after))


def watching(updated: Any) -> Watcher | None:
    """Awaits ``updated`` with a learner's name after each of its updates, and does nothing else."""
    return None if updated is None else cast(Watcher, SimpleNamespace(updated=updated))


def learn(learner: Learner, reward: float = 1.0) -> None:
    """One rollout, and the update that it makes."""
    collect(learner, reward=reward)
    work = learner.algorithm.ready(Counters(learner.decisions, learner.version))
    assert work is not None
    learner.update(work)


def collect(learner: Learner, rollouts: int = 1, reward: float = 1.0) -> None:
    """Fill the memory ``rollouts`` times with decisions of 16 agents, without waiting in between."""
    rows = np.arange(16)
    for _ in range(rollouts + 1):
        obs = np.random.default_rng(3).normal(size=(16, 3)).astype(np.float32)
        decision = learner.actor.decide(rows, (obs,), None)
        paid = StepFacts({EXTRINSIC: np.full((16, 1), reward, np.float32)})
        learner.memory.append(rows, paid, acted((obs,), decision), decision.version)
        learner.count(16)


class FixedPolicy(Policy):
    """Always samples 6.0 and the last value of each branch; ``remembers``: counts the decisions of an episode."""

    def __init__(self, spec: BehaviorSpec, version: int = 4, *, remembers: bool = False) -> None:
        self.spec = spec
        self.version = version
        self.state_columns = (Column("count", (), np.int64),) if remembers else ()
        self.seen: list[list[tuple[int, ...]]] = []
        self.counted: list[list[int]] = []

    def act(
        self,
        obs: Observations,
        mask: BoolArray | None,
        rng: np.random.Generator,
        *,
        state: Arrays | None = None,
        deterministic: bool = False,
    ) -> Decision:
        self.seen.append([sensor.shape for sensor in obs])
        n, actions, state = len(obs[0]), self.spec.actions, dict(state or {})
        if state:
            self.counted.append(state["count"].tolist())
        return Decision(
            np.full((n, actions.continuous_size), 6.0, np.float32),
            np.tile(np.array(actions.discrete_branches, np.int32) - 1, (n, 1)),
            self.version,
            {"log_prob": np.zeros((n, actions.components), np.float32), **state},
            {name: values + 1 for name, values in state.items()},
        )

    def network(self) -> ActorCritic:
        raise NotImplementedError


class FakeLearner:
    """A learner with a memory and a fixed policy, that never learns."""

    def __init__(self, visible: BehaviorSpec, *, remembers: bool = False, name: str | None = None) -> None:
        self.name = name or visible.short_name
        self.spec = visible
        self.policy = FixedPolicy(visible, remembers=remembers)
        self.actor = Actor(self.policy, np.random.default_rng(0))
        extras = (Column("log_prob", (visible.actions.components,)), *self.policy.state_columns)
        self.memory = RolloutMemory(
            observation_columns(visible),
            (*action_columns(visible, visible.actions), *extras),
            rewards={EXTRINSIC: 1},
            capacity=64,
            horizon=8,
        )
        self.settings = ppo_settings(reward_signals={EXTRINSIC: {"strength": 0.5}})
        self.rows = self.decisions = self.waits = 0
        self.done = False
        self.returns: list[float] = []

    def new_rows(self, count: int) -> Rows:
        self.rows += count
        return np.arange(self.rows - count, self.rows)

    def count(self, decisions: int) -> None:
        self.decisions += decisions

    def ended(self, returns: Any) -> None:
        self.returns += returns.tolist()

    async def hand_over(self) -> None:
        self.waits += 1

    def taken(self) -> Rollout:
        """Everything that is known to have an outcome."""
        return Rollout(self.memory.take().data)


def experience(algorithm: Algorithm, policy: Policy, seed: int, reward: float | None = None) -> Work:
    """Work for one update: three decisions of 16 agents as ``policy`` makes them, random rewards if none is given."""
    spec, rng, rows = policy.spec, np.random.default_rng(seed), np.arange(16)
    width = algorithm.state()[1]["reward_components"]
    for _ in range(3):
        obs = tuple(
            rng.integers(0, 256, (16, *sensor.shape), np.uint8)
            if sensor.dtype == np.uint8
            else rng.normal(size=(16, *sensor.shape)).astype(np.float32)
            for sensor in spec.observations
        )
        mask = rng.random((16, spec.actions.mask_size)) < 0.2
        decision = policy.act(obs, mask, rng)
        paid = rng.normal(size=(16, width)) if reward is None else np.full((16, width), reward)
        facts = StepFacts({EXTRINSIC: paid.astype(np.float32)})
        algorithm.memory.append(rows, facts, acted(obs, decision, mask), decision.version)
    last = rng.random(16) < 0.3
    algorithm.memory.end(rows, StepFacts({EXTRINSIC: np.ones((16, width), np.float32)}), obs, last)
    work = algorithm.ready(Counters(0, policy.version))
    assert work is not None
    return work
