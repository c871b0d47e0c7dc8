"""Decisions: one forward pass for all waiting environments, and the experience that is stored of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tau_trainer.algorithms import Algorithm
from tau_trainer.collection.rows import RowTable
from tau_trainer.columns import ColumnTable, Rows
from tau_trainer.errors import SettingsError
from tau_trainer.memory import Memory, StepFacts
from tau_trainer.models import Decision, Policy
from tau_trainer.settings import TrainerSettings
from tau_trainer.specs import BehaviorSpec, BoolArray, FloatArray, Observations, StepBatch, Terminals

_NOBODY: Rows = np.zeros(0, np.intp)
_ROUND: Final = 500
"""Number of messages about a behavior in a round. An agent that is in none of them is *silent*."""
_PATIENCE: Final = 20
"""Number of rounds after which a silent agent is released.

With the slowest *Decision Requester*, one decision in 20 steps, they are 500 decisions of the agent, and with one
message per step 200 seconds of the game without a message. An agent that returns later counts as a new one: this costs
only the outcome of one decision.
"""
_MOST_SILENT: Final = 32 << 20
"""Bytes that silent agents may take. If they take more, those that have been silent the longest are released at once.

So a game in which agents vanish all the time does not need more memory over time. An agent that decides at least once
in 500 messages is never released early.
"""
_BYTES_AN_AGENT: Final = 400
"""Memory of an agent in addition to its open decision: measured, including the spare room of growing tables."""


HandOver = Callable[[], Awaitable[None]]
"""Hands over experience that is enough for an update; waits as long as agents would act too far ahead."""


class Actor:
    """Acts for a (behavior, team): a policy, its random numbers, and its state for each agent.

    Attributes:
        policy: may be replaced at any time, from any thread; the next forward pass uses the new one.
        state: the policy's ``state_columns`` by memory row, for recurrence and for noise with a state.
        parties: number of environments that ask. A single one is answered at once, because no others share the pass.
    """

    def __init__(self, policy: Policy, rng: np.random.Generator, *, deterministic: bool = False) -> None:
        self.policy = policy
        self.rng = rng
        self.deterministic = deterministic
        self.state = ColumnTable(policy.state_columns)
        self.parties = 0

    @property
    def spec(self) -> BehaviorSpec:
        """The behavior with the sensors that the policy sees."""
        return self.policy.spec

    def forget(self, rows: Rows) -> None:
        """Episodes of these rows ended, or their engine was lost: they restart without a past."""
        if self.state.columns:
            self.state.clear(rows)

    def decide(self, rows: Rows, obs: Observations, mask: BoolArray | None) -> Decision:
        """One forward pass for ``n`` agents. Raises NonFiniteError."""
        policy, before = self.policy, {}
        if self.state.columns:
            self.state.fit(rows)
            before = {column.name: self.state[column.name][rows] for column in self.state.columns}
        decision = policy.act(obs, mask, self.rng, state=before, deterministic=self.deterministic)
        for column in self.state.columns:
            self.state[column.name][rows] = decision.state[column.name]
        return decision


@dataclass(frozen=True, slots=True)
class _Request:
    """Agents of one environment and one behavior that ask for decisions."""

    rows: Rows
    obs: Observations
    mask: BoolArray | None
    answer: asyncio.Future[Decision]


class DecisionBatcher:
    """Gathers the requests of one turn of the event loop and answers them with one forward pass per actor.

    Attributes:
        actors: the actor of each (behavior's key, team).
    """

    def __init__(self) -> None:
        self.actors: dict[tuple[str, int], Actor] = {}
        self._requests: dict[Actor, list[_Request]] = {}

    def decide(
        self, behavior: str, team: int, rows: Rows, obs: Observations, mask: BoolArray | None
    ) -> asyncio.Future[Decision]:
        """Request ``n`` decisions.

        Args:
            behavior: key of the behavior whose actor decides.
            team: the agents' team.
            rows: the agents' rows in the learner's memory, under which state is kept.
            obs: one [n, *shape] for each sensor that the policy sees.
            mask: bool [n, sum of branches], True = forbidden; None forbids nothing.
        """
        loop = asyncio.get_running_loop()
        request = _Request(rows, obs, mask, loop.create_future())
        actor = self.actors[behavior, team]
        if actor.parties <= 1:
            self._answer(actor, [request])
            return request.answer
        if not self._requests:
            loop.call_soon(self._flush)
        self._requests.setdefault(actor, []).append(request)
        return request.answer

    def _flush(self) -> None:
        waiting, self._requests = self._requests, {}
        for actor, requests in waiting.items():
            alive = [request for request in requests if not request.answer.done()]
            if alive:
                self._answer(actor, alive)

    def _answer(self, actor: Actor, requests: list[_Request]) -> None:
        sizes = [len(request.rows) for request in requests]
        try:
            decision = actor.decide(_join([request.rows for request in requests]), *_together(requests, sizes))
        except Exception as error:  # every waiting environment must get every error
            for request in requests:
                request.answer.set_exception(error)
            return
        if len(requests) == 1:
            requests[0].answer.set_result(decision)
            return
        begin = 0
        for request, size in zip(requests, sizes, strict=True):
            request.answer.set_result(decision.part(slice(begin, begin + size)))
            begin += size


def _join(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _together(requests: list[_Request], sizes: list[int]) -> tuple[Observations, BoolArray | None]:
    """Observations and masks of all requests; one without a mask forbids nothing."""
    obs = tuple(_join(list(sensor)) for sensor in zip(*(request.obs for request in requests), strict=True))
    width = next((request.mask.shape[1] for request in requests if request.mask is not None), None)
    if width is None:
        return obs, None
    masks = [
        np.zeros((size, width), np.bool_) if request.mask is None else request.mask
        for request, size in zip(requests, sizes, strict=True)
    ]
    return obs, _join(masks)


class ExperienceSink(Protocol):
    """The part of a learner that a TauAgent needs: of a local learner, or the collecting side of a remote one."""

    @property
    def name(self) -> str:
        """Its key in metrics and files."""

    @property
    def spec(self) -> BehaviorSpec:
        """The behavior with the sensors that the policy sees."""

    @property
    def settings(self) -> TrainerSettings:
        """Settings of the behavior."""

    @property
    def actor(self) -> Actor:
        """The acting side."""

    @property
    def memory(self) -> Memory:
        """Memory for experience."""

    @property
    def done(self) -> bool:
        """True once no more transitions are stored."""

    def new_rows(self, count: int) -> Rows:
        """Rows in the memory for ``count`` more agents."""

    @property
    def decisions(self) -> int:
        """Number of decisions so far."""

    def count(self, decisions: int) -> None:
        """Count decisions."""

    def ended(self, returns: FloatArray) -> None:
        """Count the undiscounted returns [k], those of groups included, of episodes that ended, in this order."""


class Sink:
    """The collecting side of an algorithm, which every :class:`ExperienceSink` has: its memory, and rows for agents.

    Attributes:
        algorithm: the instance that collects.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self._rows = 0

    @property
    def memory(self) -> Memory:
        """Holds the experience."""
        return self.algorithm.memory

    def new_rows(self, count: int) -> Rows:
        """Rows in the memory for ``count`` more agents."""
        rows = np.arange(self._rows, self._rows + count)
        self._rows += count
        return rows


class TauAgent:
    """Acts for all agents of one behavior in one environment, with the learner's newest policy."""

    def __init__(
        self, learner: ExperienceSink, spec: BehaviorSpec, batcher: DecisionBatcher, hand_over: HandOver
    ) -> None:
        self._hand_over = hand_over
        self.spec = spec
        self.team = spec.team
        self.learner = learner
        self.table = RowTable(learner.new_rows)
        self._messages = 0
        self._batcher = batcher
        self._actor = batcher.actors.setdefault((learner.name, self.team), learner.actor)
        self._actor.parties += 1
        names = [sensor.name for sensor in learner.spec.observations]
        self._visible = tuple(i for i, sensor in enumerate(spec.observations) if sensor.name in names)

    @property
    def learns(self) -> bool:
        """Whether its decisions are learned from and counted."""
        return True

    def act_with(self, actor: Actor) -> None:
        """Let ``actor`` decide from now on for this team, in all environments."""
        self._actor.parties -= 1
        self._actor = self._batcher.actors[self.learner.name, self.team] = actor
        self._actor.parties += 1

    def meet(self, spec: BehaviorSpec) -> None:
        """Accept the behavior of a restarted environment. Raises SettingsError if the behavior has changed."""
        if spec != self.spec:
            raise SettingsError(
                f"behavior '{spec.short_name}' has other sensors or actions than before its engine restarted; "
                "start another run to train it as it is now"
            )
        self.spec = spec

    def see(self, obs: Observations) -> Observations:
        """The observations of the sensors that the policy sees."""
        return tuple(obs[i] for i in self._visible)

    def ask(self, batch: StepBatch, rows: Rows, ended: Rows) -> asyncio.Future[Decision] | None:
        """Request decisions for the agents of ``batch`` [n]; those in ``ended`` lose their past.

        None: there are no agents in the batch.
        """
        self.forget(ended)
        if not len(batch):
            return None
        return self._batcher.decide(self.learner.name, self.team, rows, self.see(batch.obs), batch.action_mask)

    def forget(self, rows: Rows) -> None:
        """Let agents of these rows restart without a past."""
        self._actor.forget(rows)

    def remember(self, rows: Rows, facts: StepFacts, batch: StepBatch, decision: Decision) -> bool:
        """Store the decisions for ``batch`` [n]; rewards in ``facts`` are for the previous decisions.

        Returns:
            Whether these decisions count.
        """
        if not self.learner.done:
            values: dict[str, NDArray[Any] | None] = {f"obs_{i}": x for i, x in enumerate(self.see(batch.obs))}
            values |= {"continuous": decision.continuous, "discrete": decision.discrete, "mask": batch.action_mask}
            values.update(decision.extras)
            self.learner.memory.append(rows, facts, values, decision.version)
        self.learner.count(len(rows))
        return True

    def end(self, rows: Rows, facts: StepFacts, obs: Observations, truncated: BoolArray) -> None:
        """Episodes of ``rows`` [m] ended, with their last rewards and observations, cut by a limit or not."""
        self.learner.memory.end(rows, facts, self.see(obs), truncated)

    def counted(self, acted: BoolArray, ended: Terminals, plays_on: BoolArray | None) -> BoolArray:
        """Which of the ended episodes [m] count, bool [m].

        Args:
            acted: bool [m], whether a decision was made in it.
            ended: the agents of the last call of :meth:`ask`.
            plays_on: see :class:`~tau_trainer.memory.StepFacts`.
        """
        return acted

    async def hand_over(self) -> None:
        """See :data:`HandOver`."""
        await self._hand_over()

    def let_go(self) -> Rows:
        """Release the rows of agents that have vanished without an end, and return them; usually none.

        Call once per message.

        An agent is released after 10,000 messages about its behavior without it. If all agents that were in none of the
        newest 500 messages take more than 32 MB, those that have been silent the longest are released earlier.
        """
        self._messages += 1
        if self._messages < _ROUND:
            return _NOBODY
        self._messages = 0
        silent, rounds = self.table.silent()
        kept = self.learner.memory.columns
        # Open decisions are in two logs: the one that is being written, and the previous one, which is learned from.
        most = _MOST_SILENT // (_BYTES_AN_AGENT + 2 * sum(column.size for column in kept))
        longest_first = np.argsort(-rounds, kind="stable")
        count = max(int(np.count_nonzero(rounds >= _PATIENCE)), len(silent) - most, 0)
        gone = silent[longest_first[:count]]
        rows = self.table(gone)
        self.learner.memory.abandon(rows)
        self.forget(rows)
        self.table.release(gone)
        return rows

    def abandon(self) -> None:
        """The environment was lost or restarts: discard decisions without an outcome."""
        self._messages = 0
        self.learner.memory.abandon(self.table.rows)
        self.forget(self.table.rows)
        self.table.clear()
