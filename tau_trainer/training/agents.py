"""The AgentTrainer: rewards, episodes and experience of the agents of one environment."""

from __future__ import annotations

from asyncio import Future
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import numpy as np

from tau_trainer.collection.decisions import ExperienceSink, TauAgent
from tau_trainer.columns import EXTRINSIC, GROUP, Rows
from tau_trainer.evaluation.episodes import EpisodeScores, earned
from tau_trainer.memory import StepFacts
from tau_trainer.metrics import MetricsHub, TaskKeys, keys
from tau_trainer.models import Decision
from tau_trainer.rewards import EngineReward, Rewarder, RewardResult
from tau_trainer.runs.callbacks import NOBODY, Callbacks, EpisodeInfo
from tau_trainer.specs import Actions, Behaviors, BehaviorSpec, BoolArray, FloatArray, IntArray, StepBatch, Terminals

OnEpisodes = Callable[[str, FloatArray], None]
"""Called with a behavior's short name and the undiscounted returns [k] of its episodes that ended."""
_NOTHING: FloatArray = np.zeros(0, np.float32)
_NOBODY: Rows = np.zeros(0, np.intp)
_MOMENTS: Final = count(1)
"""Numbers of messages about a behavior. Unique in a process: all that feed one memory run in the same process."""


@dataclass(slots=True)
class Tally:
    """What a pair has done."""

    decisions: int = 0
    """Number of decisions of its agents, including those of earlier runs that were resumed."""
    episodes: Counter[str] = field(default_factory=Counter)
    """Number of episodes that ended, by learner."""


@dataclass(slots=True)
class _Role:
    """The state that an AgentTrainer keeps of one behavior."""

    agent: TauAgent
    rewarder: Rewarder
    episodes: EpisodeScores = field(default_factory=EpisodeScores)
    decisions: int = 0
    """Number of counted decisions."""
    group_paid: bool = False
    """True once the engine has sent a reward for a group."""

    @property
    def paid_apart(self) -> bool:
        """Whether the learned reward differs from the reward that the engine sends."""
        return not isinstance(self.rewarder, EngineReward)

    @property
    def strength(self) -> float:
        """Factor on rewards before they are learned from; 0 if the engine's reward is not learned from."""
        signal = self.agent.learner.settings.reward_signals.get(EXTRINSIC)
        return 0.0 if signal is None else signal.strength

    def others(self, group_reward: FloatArray, paid: FloatArray) -> dict[str, FloatArray]:
        """Rewards [n] to sum up in addition to the agents' own.

        ``paid`` [n, R] is averaged over R and scaled by its strength.
        """
        others = {"group": group_reward} if self.group_paid else {}
        return others | {"paid": paid.mean(axis=1) * self.strength} if self.paid_apart else others

    def facts(
        self, agents: StepBatch | Terminals, paid: FloatArray, moment: int, plays_on: BoolArray | None = None
    ) -> StepFacts:
        """The facts about ``agents`` [n] that the memory needs.

        A rewarder pays [n, R] for own and group reward together.
        """
        group_reward = agents.group_reward if self.group_paid and not self.paid_apart else None
        rewards = {EXTRINSIC: paid if group_reward is None else agents.reward[:, None]}
        return StepFacts(rewards, group_reward, agents.group_id, plays_on, moment, self.agent.team)


@dataclass(slots=True)
class _Step:
    """A step of one behavior that is not yet recorded."""

    role: _Role
    batch: StepBatch
    rows: Rows
    ended: Rows
    """Rows of the agents whose episode ended."""
    decision: Decision | None = None
    """None if no agent asked for a decision, or until it is answered."""
    sent: Actions | None = None


class AgentTrainer:
    """Answers every step of one environment: rewards, episodes and experience of all its behaviors.

    Attributes:
        id: the number of its pair.
        tally: of its pair.
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
        """``number``: the number of the pair. Both makers are called once for every behavior, when it first appears.

        ``keys``: names of the metrics for rewards of single decisions; None: these rewards are not counted.
        ``on_episodes``: called for every episode that ends. ``callbacks``: called for episodes that begin and end.
        """
        self.id = number
        self.tally = Tally()
        self._make_agent = make_agent
        self._make_rewarder = make_rewarder
        self._hub = hub
        self._keys = keys
        self._on_episodes = on_episodes
        self._callbacks = callbacks
        self._roles: dict[str, _Role] = {}
        self._answered: list[_Step] = []

    async def decide(self, batches: Sequence[StepBatch], specs: Behaviors) -> dict[str, Actions]:
        """The actions of every behavior, in the order in which its agents asked. The environment waits only for this.

        All behaviors ask before any is answered, so one forward pass per actor serves the whole step. :meth:`record`
        works out rewards and experience after the environment has its answer.
        """
        asked = [self._ask(batch, specs[batch.behavior]) for batch in batches]
        actions: dict[str, Actions] = {}
        for step, answer in asked:
            if answer is not None:
                step.decision = await answer
                actions[step.batch.behavior] = step.sent = step.decision.to_env()
            self._answered.append(step)
        return actions

    def _ask(self, batch: StepBatch, spec: BehaviorSpec) -> tuple[_Step, Future[Decision] | None]:
        role = self._roles.get(spec.name)
        if role is None:  # the behavior appears for the first time
            role = self._roles[spec.name] = _Role(self._make_agent(spec), self._make_rewarder(spec))
        elif role.agent.spec is not spec:  # the environment has restarted
            role.agent.meet(spec)
        ended = role.agent.table(batch.terminals.agent_ids) if len(batch.terminals) else _NOBODY
        rows = role.agent.table(batch.agent_ids)
        return _Step(role, batch, rows, ended), role.agent.ask(batch, rows, ended)

    def record(self) -> None:
        """Record rewards, episodes and experience of the steps that :meth:`decide` has answered."""
        steps, self._answered = self._answered, []
        playing = self._playing(steps)
        for step in steps:
            moment = next(_MOMENTS)
            if len(step.ended):
                self._end(step, moment, playing)
            if step.decision is not None and step.sent is not None:
                self._step(step, step.decision, step.sent, moment)
            self._let_go(step.role)

    def _playing(self, steps: Sequence[_Step]) -> IntArray | None:
        """Numbers of the groups, over all behaviors, in which at least one agent's episode continues after ``steps``.

        An agent that decides for the first time belongs to the next episode of its group. None: no agent of a group
        ends.
        """
        for step in steps:
            step.role.episodes.join(step.rows, step.batch.group_id)
        if not any(len(step.ended) and step.batch.terminals.group_id.any() for step in steps):
            return None
        ended = {step.batch.behavior: step.ended for step in steps}
        return np.concatenate(
            [role.episodes.groups(but=ended.get(behavior, _NOBODY)) for behavior, role in self._roles.items()]
        )

    def _answer(
        self, role: _Role, agents: StepBatch | Terminals, rows: Rows, *, ended: bool
    ) -> tuple[BoolArray, FloatArray]:
        """Whether each of these agents has decided before in its episode, bool [n], and the reward for that, [n, R]."""
        self._warn_of_groups(role, agents.group_reward)
        acted = role.episodes.acted(rows)
        sent = agents.reward + agents.group_reward
        paid, result = role.rewarder.answered(rows, sent, acted=acted, ended=ended)
        self._score(role, result)
        return acted, paid

    def _step(self, step: _Step, decision: Decision, sent: Actions, moment: int) -> None:
        """Agents that decided: record the reward of their previous decision, and remember this one."""
        role, batch, rows = step.role, step.batch, step.rows
        acted, paid = self._answer(role, batch, rows, ended=False)
        role.episodes.step(rows, acted, own=batch.reward, **role.others(batch.group_reward, paid))
        if not role.agent.remember(rows, role.facts(batch, paid, moment), batch, decision):
            return
        self.tally.decisions += len(rows)
        role.decisions += len(rows)
        if "on_episode_begin" in self._callbacks.wanted:
            begun = EpisodeInfo(role.agent.learner.name, self.id, role.agent.learner.decisions)
            for _ in range(int((~acted).sum())):
                self._callbacks.tell("on_episode_begin", begun)
        self._score(role, role.rewarder.decided(rows, sent, batch.obs))

    def _end(self, step: _Step, moment: int, playing: IntArray | None) -> None:
        """Episodes that ended: record their last reward, their return, and their rows."""
        role, ended, rows = step.role, step.batch.terminals, step.ended
        acted, paid = self._answer(role, ended, rows, ended=True)
        plays_on = None if playing is None else (ended.group_id != 0) & np.isin(ended.group_id, playing)
        role.agent.end(rows, role.facts(ended, paid, moment, plays_on), ended.obs, ended.truncated)
        acted = role.agent.counted(acted, ended, plays_on)
        others = role.others(ended.group_reward, paid)
        returns, lengths = role.episodes.end(rows, acted, own=ended.reward, **others)
        name = role.agent.learner.name
        self.tally.episodes[name] += len(returns["own"])
        groups = np.where(ended.group_id[acted] != 0, returns["group"], np.nan) if role.group_paid else _NOTHING
        # As in ML-Agents, the group's return is reported by the agents that see the group's end, not by those that left
        # before.
        at_end = groups if plays_on is None or not len(groups) else np.where(plays_on[acted], np.nan, groups)
        self._hub.episode(name, self.id, returns["own"], lengths, at_end)
        self._on_episodes(role.agent.spec.short_name, returns["own"])
        role.agent.learner.ended(earned(returns["own"], groups))
        if "on_episode_end" in self._callbacks.wanted:
            for total, length in zip(returns["own"].tolist(), lengths.tolist(), strict=True):
                over = EpisodeInfo(name, self.id, role.agent.learner.decisions, total, int(length))
                self._callbacks.tell("on_episode_end", over)
        if len(lengths):
            learned = returns["paid"] if role.paid_apart else (returns["own"] + returns["group"]) * role.strength
            self._hub.add(name, keys.episode_reward(EXTRINSIC), learned)
        asking = set(step.batch.agent_ids.tolist())
        gone = [agent for agent in ended.agent_ids.tolist() if agent not in asking]
        if gone:
            role.agent.table.release(np.array(gone, np.int32))

    @staticmethod
    def _let_go(role: _Role) -> None:
        """Agents that have vanished: cut their trajectory where they were last seen, and do not count their episode."""
        rows = role.agent.let_go()
        if len(rows):
            nothing, acted = np.zeros(len(rows), np.float32), role.episodes.acted(rows)
            role.rewarder.answered(rows, nothing, acted=acted, ended=True)  # later agents in these rows start afresh
            role.episodes.clear(rows)

    def _warn_of_groups(self, role: _Role, group_reward: FloatArray) -> None:
        if not role.group_paid and np.count_nonzero(group_reward):
            role.group_paid = True
            learner = role.agent.learner
            if GROUP in learner.memory.columns or not role.agent.learns:
                return
            self._hub.warning(
                f"'{learner.name}' gets rewards for its group, which {learner.settings.trainer_type} adds to each "
                "agent's own, so agents learn neither their own share of it nor from rewards after they leave; "
                "trainer_type: poca does both",
                pair=self.id,
            )

    def _score(self, role: _Role, result: RewardResult | None) -> None:
        """Count the rewards of single decisions."""
        if result is None or self._keys is None or not role.agent.learns:
            return
        name = role.agent.learner.name
        for key, values in (
            (self._keys.reward, result.mean),
            (self._keys.success, result.success),
            (self._keys.aggregated, result.aggregated),
        ):
            # NaN marks decisions whose reward is still open, and messages that answer no decision.
            known = values[~np.isnan(values)] if values is not None else _NOTHING
            if len(known):
                self._hub.add(name, key, known, pair=self.id)

    def abandon(self) -> None:
        """The environment was lost or reset: discard open decisions and start all agents from scratch."""
        self._answered = []
        for role in self._roles.values():
            role.agent.abandon()
            role.rewarder.clear()
            role.episodes.clear()

    def forget(self, learner: ExperienceSink) -> None:
        """Remove the behavior of ``learner`` as if it had never appeared; its decisions do not count.

        Call while no pair plays.
        """
        gone = [name for name, role in self._roles.items() if role.agent.learner is learner]
        self.tally.decisions -= sum(self._roles.pop(name).decisions for name in gone)
        del self.tally.episodes[learner.name]

    async def hand_over(self) -> None:
        """Hand over the experience of all behaviors; wait as long as their agents would act too far ahead."""
        for role in self._roles.values():
            await role.agent.hand_over()
