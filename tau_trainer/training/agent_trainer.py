"""AgentTrainer: the training side of a pair. It knows the reward, keeps the episodes, and tells the TauAgent to act."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.rewards import RewardComputer, RewardResult
from tau_trainer.specs import Actions, BehaviorSpec, BoolArray, FloatArray, StepBatch
from tau_trainer.training.scores import DecisionScores, EpisodeScores
from tau_trainer.training.slots import Slots, SlotTable
from tau_trainer.training.states import PairState, allowed
from tau_trainer.training.tau_agent import Action, TauAgent

TARGET_SENSOR = "target"
"""The sensor from which an AgentTrainer computes rewards; the policy never sees it."""

MakeAgent = Callable[[BehaviorSpec], TauAgent]
MakeReward = Callable[[BehaviorSpec], RewardComputer]


@dataclass(slots=True)
class _Role:
    """What an AgentTrainer keeps of one behavior."""

    agent: TauAgent
    reward: RewardComputer
    target: int | None
    """Index of the target sensor if the trainer computes the reward itself; None: the engine's reward counts."""
    table: SlotTable
    episodes: EpisodeScores
    pending: FloatArray
    """float32 [slots, R]: reward of each slot's last decision, where the trainer computes it as it acts."""


class AgentTrainer:
    """Answers every step of one engine: rewards, episodes and experience of all its behaviors.

    Attributes:
        state: where it stands; see :class:`~tau_trainer.training.states.PairState`.
        decisions: decisions of its agents, earlier runs that were resumed included.
        error: one sentence once it has failed.
    """

    def __init__(self, number: int, make_agent: MakeAgent, make_reward: MakeReward, hub: MetricsHub) -> None:
        """``number``: the pair's; ``make_agent`` and ``make_reward`` are called once for every behavior that shows."""
        self.id = number
        self.state = PairState.IDLE
        self.decisions = 0
        self.error: str | None = None
        self.scores = DecisionScores()
        self._make_agent = make_agent
        self._make_reward = make_reward
        self._hub = hub
        self._roles: dict[str, _Role] = {}
        self._open: list[tuple[_Role, StepBatch, Action | None]] = []
        """Steps that were answered and wait for :meth:`record`."""

    def enter(self, state: PairState) -> None:
        """Go to ``state``. Raises RuntimeError for a step that no life takes (Completed to Training, say)."""
        if not allowed(self.state, state):
            raise RuntimeError(f"an AgentTrainer cannot go from {self.state.value} to {state.value}")
        self.state = state
        self._hub.event("pair", pair=self.id, state=state.value)

    @property
    def agents(self) -> list[TauAgent]:
        """Its TauAgents, one a behavior."""
        return [role.agent for role in self._roles.values()]

    @property
    def episodes(self) -> int:
        """Episodes that ended."""
        return sum(role.episodes.episodes for role in self._roles.values())

    @property
    def mean_return(self) -> float | None:
        """Mean return of recent episodes, over behaviors; None before the first."""
        returns = [role.episodes.recent_return.value for role in self._roles.values()]
        known = [value for value in returns if value is not None]
        return sum(known) / len(known) if known else None

    async def decide(self, batches: Sequence[StepBatch], specs: Mapping[str, BehaviorSpec]) -> dict[str, Actions]:
        """The actions of every behavior, in the order its agents asked: all that the engine waits for.

        What the step means for learning is worked out by :meth:`record`, when the engine has its answer.
        """
        actions: dict[str, Actions] = {}
        for batch in batches:
            role = self._roles.get(batch.behavior) or self._begin(specs[batch.behavior])
            action = await role.agent.act(batch) if len(batch) else None
            self._open.append((role, batch, action))
            if action is not None:
                actions[batch.behavior] = action.sent
        return actions

    def record(self) -> None:
        """Rewards, episodes and experience of what :meth:`decide` has answered."""
        steps, self._open = self._open, []
        for role, batch, action in steps:
            if len(batch.terminals):
                self._end(role, batch)
            if action is not None:
                self._step(role, batch, action)

    def _step(self, role: _Role, batch: StepBatch, action: Action) -> None:
        """Agents that decided: the reward of their decision before, and this one to remember."""
        slots = role.table(batch.agent_ids)
        engine_reward = batch.reward + batch.group_reward
        if role.target is None:
            answered = role.episodes.acted(slots)
            result = role.reward.compute(slots, engine_reward=engine_reward, answered=answered)
            self._score(role, result, answered)
            reward = result.reward
        else:
            reward = self._pending(role, slots)
        role.episodes.step(slots, engine_reward)
        role.agent.remember(slots, reward, batch, action)
        self.decisions += len(slots)
        if role.target is not None:
            result = role.reward.compute(slots, output=action.sent.continuous, target=batch.obs[role.target])
            role.pending[slots] = result.reward
            self._score(role, result, None)

    def _begin(self, spec: BehaviorSpec) -> _Role:
        """A behavior shows itself for the first time."""
        agent, reward = self._make_agent(spec), self._make_reward(spec)
        target = None
        if reward.source == "trainer":
            target = [sensor.name for sensor in spec.observations].index(TARGET_SENSOR)
        role = _Role(agent, reward, target, SlotTable(), EpisodeScores(), np.zeros((64, reward.components), np.float32))
        self._roles[spec.name] = role
        return role

    def _end(self, role: _Role, batch: StepBatch) -> None:
        """Episodes that ended: their last reward, their return, and their slots."""
        ended = batch.terminals
        slots = role.table(ended.agent_ids)
        engine_reward = ended.reward + ended.group_reward
        if role.target is None:
            done, answered = np.ones(len(slots), np.bool_), role.episodes.acted(slots)
            result = role.reward.compute(slots, engine_reward=engine_reward, done=done, answered=answered)
            self._score(role, result, answered)
            reward = result.reward
        else:
            reward = self._pending(role, slots)
            outcome = role.reward.conclude(slots)
            if outcome is not None:
                self._score(role, outcome, None)
                reward = outcome.reward
        role.agent.end(slots, reward, ended.obs, ended.truncated)
        returns, lengths = role.episodes.end(slots, engine_reward)
        self._hub.episode(role.agent.learner.name, self.id, returns, lengths)
        gone = ~np.isin(ended.agent_ids, batch.agent_ids)
        if gone.any():
            role.table.release(ended.agent_ids[gone])

    @staticmethod
    def _pending(role: _Role, slots: Slots) -> FloatArray:
        largest = int(slots.max(initial=-1))
        if largest >= len(role.pending):
            more = max(largest + 1, 2 * len(role.pending)) - len(role.pending)
            role.pending = np.concatenate([role.pending, np.zeros((more, role.pending.shape[1]), np.float32)])
        return role.pending[slots]

    def _score(self, role: _Role, result: RewardResult, answered: BoolArray | None) -> None:
        """Count rewards of decisions; ``answered`` leaves out messages that answer none."""
        name = role.agent.learner.name
        mean = result.mean if answered is None else result.mean[answered]
        if len(mean):
            self.scores.reward.add(mean)
            self._hub.add(name, keys.MEAN_REWARD, mean, pair=self.id)
        success = _known(result.success)
        if len(success):
            self.scores.success.add(success)
            self._hub.add(name, keys.SUCCESS_RATE, success, pair=self.id)
        aggregated = _known(result.aggregated)
        if len(aggregated):
            self._hub.add(name, keys.AGGREGATED_REWARD, aggregated, pair=self.id)

    def abandon(self) -> None:
        """The engine was lost or reset: open decisions are no experience, all agents begin anew."""
        self._open = []
        for role in self._roles.values():
            role.agent.abandon()
            role.reward.clear()
            role.table.clear()
            role.episodes.clear()

    async def admit(self) -> None:
        """Let every learner take what it needs before the engine gets its answer."""
        for role in self._roles.values():
            await role.agent.learner.admit()


def _known(values: FloatArray | None) -> FloatArray:
    """Those that are decided: NaN stands for an outcome that is still open."""
    if values is None:
        return np.zeros(0, np.float32)
    return values[~np.isnan(values)]
