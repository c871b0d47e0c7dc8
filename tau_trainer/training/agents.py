"""The two sides of a pair: the TauAgent acts and hands its experience on, the AgentTrainer knows what it is worth."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tau_trainer.collection.decisions import Actor, DecisionBatcher
from tau_trainer.collection.rows import RowTable
from tau_trainer.columns import MOMENT, Rows
from tau_trainer.errors import SettingsError
from tau_trainer.evaluation.episodes import EpisodeScores, earned
from tau_trainer.memory import Memory
from tau_trainer.memory.joint import GROUP
from tau_trainer.metrics import MetricsHub, PairState, TaskKeys, keys
from tau_trainer.models import Decision
from tau_trainer.rewards import EngineReward, Rewarder, RewardResult
from tau_trainer.rewards.streams import EXTRINSIC
from tau_trainer.runs.callbacks import NOBODY, Callbacks, EpisodeInfo
from tau_trainer.settings import TrainerSettings
from tau_trainer.specs import (
    Actions,
    BehaviorSpec,
    BoolArray,
    FloatArray,
    Observations,
    StepBatch,
)
from tau_trainer.training.pairs.states import allowed

OnEpisodes = Callable[[str, FloatArray], None]
"""Called with a behavior's short name and the undiscounted returns [k] of its episodes that ended."""
_NOTHING: FloatArray = np.zeros(0, np.float32)
_NOBODY: Rows = np.zeros(0, np.intp)
_PATIENCE: Final = 10_000
"""Messages about a behavior after which an agent that was in none of them is let go (at the latest after twice as
many). At the slowest *Decision Requester*, one decision in 20 steps, that is 500 decisions of the agent, and at one
message a step 200 seconds of the game without a word. Who comes back later is welcome as a new agent: all that it costs
is the outcome of one decision."""


class ExperienceSink(Protocol):
    """What a TauAgent needs of who learns: a learner has it, and so has the collecting side of one elsewhere."""

    @property
    def name(self) -> str:
        """Its key in metrics and files."""

    @property
    def spec(self) -> BehaviorSpec:
        """The behavior with the sensors that the policy sees."""

    @property
    def settings(self) -> TrainerSettings:
        """Of the behavior."""

    @property
    def actor(self) -> Actor:
        """What acts."""

    @property
    def memory(self) -> Memory:
        """Where experience waits."""

    @property
    def done(self) -> bool:
        """Whether nothing more is remembered."""

    def new_rows(self, count: int) -> Rows:
        """Rows in the memory for ``count`` agents more."""

    @property
    def decisions(self) -> int:
        """Made so far."""

    def count(self, decisions: int) -> None:
        """Count decisions."""

    def ended(self, returns: FloatArray) -> None:
        """Count the undiscounted returns [k], those of groups included, of episodes that ended, in this order."""

    def next_moment(self) -> int:
        """A number for decisions that were made together."""

    async def wait_for_learner(self) -> None:
        """Hand over what is ready, and wait where learning is behind."""


class TauAgent:
    """Acts for all agents of one behavior in one environment, with the learner's newest policy."""

    def __init__(self, learner: ExperienceSink, spec: BehaviorSpec, batcher: DecisionBatcher) -> None:
        self.spec = spec
        self.learner = learner
        self.table = RowTable(learner.new_rows)
        self._messages = 0
        self._batcher = batcher
        self._actor = batcher.actors.setdefault((learner.name, spec.team), learner.actor)
        self._actor.parties += 1
        paid = learner.settings.reward_signals.get(EXTRINSIC)
        self.strength = paid.strength if paid is not None else 0.0
        """Factor on rewards before they are learned from; 0 where they are not."""
        names = [sensor.name for sensor in learner.spec.observations]
        self._visible = tuple(i for i, sensor in enumerate(spec.observations) if sensor.name in names)

    def meet(self, spec: BehaviorSpec) -> None:
        """The behavior of an environment that began again. Raises SettingsError if it was changed meanwhile."""
        if spec != self.spec:
            raise SettingsError(
                f"behavior '{spec.short_name}' has other sensors or actions than before its engine began again; "
                "start another run to train it as it is now"
            )
        self.spec = spec

    def see(self, obs: Observations) -> Observations:
        """The sensors that the policy may see."""
        return tuple(obs[i] for i in self._visible)

    def ask(self, batch: StepBatch, rows: Rows, ended: Rows) -> Future[Decision]:
        """Have the policy decide for the agents of ``batch`` [n]; those in ``ended`` have no past any more."""
        self._actor.forget(ended)
        return self._batcher.decide(self.learner.name, self.spec.team, rows, self.see(batch.obs), batch.action_mask)

    def remember(self, rows: Rows, reward: FloatArray, batch: StepBatch, decision: Decision) -> None:
        """Hand on what was decided for ``batch`` [n]; ``reward`` float32 [n, R] is that of the decision before."""
        if not self.learner.done:
            values: dict[str, NDArray[Any] | None] = {f"obs_{i}": x for i, x in enumerate(self.see(batch.obs))}
            values |= {"continuous": decision.continuous, "discrete": decision.discrete, "mask": batch.action_mask}
            values[GROUP] = batch.group_id
            values.update(decision.extras)
            if MOMENT in self.learner.memory.columns:
                values[MOMENT.name] = np.full(len(rows), self.learner.next_moment(), np.int64)
            self.learner.memory.append(rows, {EXTRINSIC: reward}, values, decision.version)
        self.learner.count(len(rows))

    def end(self, rows: Rows, reward: FloatArray, obs: Observations, truncated: BoolArray) -> None:
        """Episodes of ``rows`` [m] ended: ``reward`` float32 [m, R], last observations, cut by a limit or not."""
        self.learner.memory.end(rows, {EXTRINSIC: reward}, self.see(obs), truncated)

    def let_go(self) -> Rows:
        """Rows of agents that have vanished without an end, given back; nearly always nobody's. Call once a message."""
        self._messages += 1
        if self._messages < _PATIENCE:
            return _NOBODY
        self._messages = 0
        gone = self.table.unmet()
        rows = self.table(gone)
        self.learner.memory.abandon(rows)
        self._actor.forget(rows)
        self.table.release(gone)
        return rows

    def abandon(self) -> None:
        """The environment was lost or begins anew: decisions without an outcome are no experience."""
        self._messages = 0
        self.learner.memory.abandon(self.table.rows)
        self._actor.forget(self.table.rows)
        self.table.clear()


@dataclass(slots=True)
class _Role:
    """What an AgentTrainer keeps of one behavior."""

    agent: TauAgent
    rewarder: Rewarder
    episodes: EpisodeScores = field(default_factory=EpisodeScores)
    has_group: bool = False
    """Whether a reward for a group was ever sent."""

    @property
    def paid_apart(self) -> bool:
        """Whether what is learned from is something else than what the engine sends."""
        return not isinstance(self.rewarder, EngineReward)

    def others(self, group_reward: FloatArray, paid: FloatArray) -> dict[str, FloatArray]:
        """Rewards [n] beside the agents' own that have to be summed up; ``paid`` [n, R] as a mean, by its strength."""
        others = {"group": group_reward} if self.has_group else {}
        return others | {"paid": paid.mean(axis=1) * self.agent.strength} if self.paid_apart else others


@dataclass(frozen=True, slots=True)
class _Answered:
    """A step of one behavior that was answered and waits to be recorded."""

    role: _Role
    batch: StepBatch
    rows: Rows
    ended: Rows
    """Rows of the agents whose episode ended."""
    decision: Decision | None
    """None where nobody asked."""
    sent: Actions | None


class AgentTrainer:
    """Answers every step of one environment: rewards, episodes and experience of all its behaviors.

    Attributes:
        state: where it stands; see :class:`~tau_trainer.training.pairs.states.PairState`.
        decisions: decisions of its agents, earlier runs that were resumed included.
        error: one sentence once it has failed.
    """

    def __init__(
        self,
        number: int,
        make_agent: Callable[[BehaviorSpec], TauAgent],
        make_rewarder: Callable[[BehaviorSpec], Rewarder],
        hub: MetricsHub,
        keys: TaskKeys | None = None,
        on_episodes: OnEpisodes = lambda behavior, returns: None,
        callbacks: Callbacks = NOBODY,
    ) -> None:
        """``number``: the pair's; both makers are called once for every behavior that shows.

        ``keys``: under which rewards of single decisions are counted; None: they are not.
        ``on_episodes``: told of every episode that ends; ``callbacks``: of those that begin, too.
        """
        self.id = number
        self.state = PairState.IDLE
        self.decisions = 0
        self.error: str | None = None
        self._make_agent = make_agent
        self._make_rewarder = make_rewarder
        self._hub = hub
        self._keys = keys
        self._on_episodes = on_episodes
        self._callbacks = callbacks
        self._roles: dict[str, _Role] = {}
        self._answered: list[_Answered] = []

    def enter(self, state: PairState) -> None:
        """Go to ``state``. Raises RuntimeError for a step that no life takes (Completed to Training, say)."""
        if not allowed(self.state, state):
            raise RuntimeError(f"an AgentTrainer cannot go from {self.state.value} to {state.value}")
        self.state = state
        self._hub.event("pair", pair=self.id, state=state.value)

    def episodes_of(self, learner: ExperienceSink) -> list[EpisodeScores]:
        """Episodes of the behaviors that ``learner`` learns from."""
        return [role.episodes for role in self._roles.values() if role.agent.learner is learner]

    @property
    def episodes(self) -> int:
        """Episodes that ended."""
        return sum(role.episodes.episodes for role in self._roles.values())

    async def decide(self, batches: Sequence[StepBatch], specs: Mapping[str, BehaviorSpec]) -> dict[str, Actions]:
        """The actions of every behavior, in the order its agents asked: all that the environment waits for.

        All behaviors ask before any is answered, so that one forward pass an actor serves the whole step. What the
        step means for learning is worked out by :meth:`record`, when the environment has its answer.
        """
        asked = [self._ask(batch, specs[batch.behavior]) for batch in batches]
        actions: dict[str, Actions] = {}
        for role, batch, rows, ended, answer in asked:
            decision = await answer if answer is not None else None
            sent = decision.to_env() if decision is not None else None
            if sent is not None:
                actions[batch.behavior] = sent
            self._answered.append(_Answered(role, batch, rows, ended, decision, sent))
        return actions

    def _ask(
        self, batch: StepBatch, spec: BehaviorSpec
    ) -> tuple[_Role, StepBatch, Rows, Rows, Future[Decision] | None]:
        role = self._roles.get(spec.name)
        if role is None:  # a behavior shows itself for the first time
            role = self._roles[spec.name] = _Role(self._make_agent(spec), self._make_rewarder(spec))
        elif role.agent.spec is not spec:  # of an environment that began again
            role.agent.meet(spec)
        ended = role.agent.table(batch.terminals.agent_ids) if len(batch.terminals) else _NOBODY
        rows = role.agent.table(batch.agent_ids)
        return role, batch, rows, ended, role.agent.ask(batch, rows, ended) if len(batch) else None

    def record(self) -> None:
        """Rewards, episodes and experience of what :meth:`decide` has answered."""
        steps, self._answered = self._answered, []
        for step in steps:
            if len(step.ended):
                self._end(step)
            if step.decision is not None and step.sent is not None:
                self._step(step, step.decision, step.sent)
            self._let_go(step.role)

    def _step(self, step: _Answered, decision: Decision, sent: Actions) -> None:
        """Agents that decided: the reward of their decision before, and this one to remember."""
        role, batch, rows = step.role, step.batch, step.rows
        engine_reward = batch.reward + batch.group_reward
        self._warn_of_groups(role, batch.group_reward)
        acted = role.episodes.acted(rows)
        reward, result = role.rewarder.answered(rows, engine_reward, acted=acted, ended=False)
        self._score(role, result)
        role.episodes.step(rows, acted, own=batch.reward, **role.others(batch.group_reward, reward))
        role.agent.remember(rows, reward, batch, decision)
        self.decisions += len(rows)
        if "on_episode_begin" in self._callbacks.wanted:
            begun = EpisodeInfo(role.agent.learner.name, self.id, role.agent.learner.decisions)
            for _ in range(int((~acted).sum())):
                self._callbacks.tell("on_episode_begin", begun)
        self._score(role, role.rewarder.decided(rows, sent, batch.obs))

    def _end(self, step: _Answered) -> None:
        """Episodes that ended: their last reward, their return, and their rows."""
        role, ended, rows = step.role, step.batch.terminals, step.ended
        engine_reward = ended.reward + ended.group_reward
        self._warn_of_groups(role, ended.group_reward)
        acted = role.episodes.acted(rows)
        reward, result = role.rewarder.answered(rows, engine_reward, acted=acted, ended=True)
        self._score(role, result)
        role.agent.end(rows, reward, ended.obs, ended.truncated)
        others = role.others(ended.group_reward, reward)
        returns, lengths = role.episodes.end(rows, acted, own=ended.reward, **others)
        name = role.agent.learner.name
        groups = np.where(ended.group_id[acted] != 0, returns["group"], np.nan) if role.has_group else _NOTHING
        self._hub.episode(name, self.id, returns["own"], lengths, groups)
        self._on_episodes(role.agent.spec.short_name, returns["own"])
        role.agent.learner.ended(earned(returns["own"], groups))
        if "on_episode_end" in self._callbacks.wanted:
            for total, length in zip(returns["own"].tolist(), lengths.tolist(), strict=True):
                told = EpisodeInfo(name, self.id, role.agent.learner.decisions, total, int(length))
                self._callbacks.tell("on_episode_end", told)
        if len(lengths):
            paid = returns["paid"] if role.paid_apart else (returns["own"] + returns["group"]) * role.agent.strength
            self._hub.add(name, keys.episode_reward(EXTRINSIC), paid)
        asking = set(step.batch.agent_ids.tolist())
        gone = [agent for agent in ended.agent_ids.tolist() if agent not in asking]
        if gone:
            role.agent.table.release(np.array(gone, np.int32))

    @staticmethod
    def _let_go(role: _Role) -> None:
        """Agents that have vanished: their trajectory is cut where it was seen last, and their episode not counted."""
        rows = role.agent.let_go()
        if len(rows):
            nothing, acted = np.zeros(len(rows), np.float32), role.episodes.acted(rows)
            role.rewarder.answered(rows, nothing, acted=acted, ended=True)  # whoever gets these rows begins anew
            role.episodes.clear(rows)

    def _warn_of_groups(self, role: _Role, group_reward: FloatArray) -> None:
        if not role.has_group and group_reward.any():
            role.has_group = True
            learner = role.agent.learner
            self._hub.warning(
                f"'{learner.name}' gets rewards for its group, which {learner.settings.trainer_type} adds to each "
                "agent's own: nobody learns what he did for the group; that is what ML-Agents has poca for, which is "
                "not trained yet",
                pair=self.id,
            )

    def _score(self, role: _Role, result: RewardResult | None) -> None:
        """Count rewards of single decisions."""
        if result is None or self._keys is None:
            return
        name = role.agent.learner.name
        for key, values in (
            (self._keys.reward, result.mean),
            (self._keys.success, result.success),
            (self._keys.aggregated, result.aggregated),
        ):
            # NaN stands for what is still open, and for messages that answer no decision.
            known = values[~np.isnan(values)] if values is not None else _NOTHING
            if len(known):
                self._hub.add(name, key, known, pair=self.id)

    def abandon(self) -> None:
        """The environment was lost or reset: open decisions are no experience, all agents begin anew."""
        self._answered = []
        for role in self._roles.values():
            role.agent.abandon()
            role.rewarder.clear()
            role.episodes.clear()

    async def wait_for_learners(self) -> None:
        """Let every learner take what it needs before the environment gets its answer."""
        for role in self._roles.values():
            await role.agent.learner.wait_for_learner()
