"""One forward pass for everything that is ready: decisions of a policy, for all environments that wait for one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import ColumnTable, Rows
from tau_trainer.models import Decision, Policy
from tau_trainer.specs import BehaviorSpec, BoolArray, Observations


class Actor:
    """What acts for a (behavior, team): a policy, its random numbers, and what it carries of each agent.

    Attributes:
        policy: may be replaced at any time, from any thread; the next forward pass uses the new one.
        state: the policy's ``state_columns`` by memory row, for recurrence and for noise that remembers.
        parties: environments that ask. One alone is answered at once: there is nobody to share a pass with.
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
        """Episodes of these rows ended, or their engine was lost: they begin without a past."""
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
    """Agents of one environment and one behavior that ask."""

    rows: Rows
    obs: Observations
    mask: BoolArray | None
    answer: asyncio.Future[Decision]


class DecisionBatcher:
    """Gathers the requests of one turn of the event loop and answers them with one forward pass an actor.

    Attributes:
        actors: who acts for each (behavior's key, team).
        passes: forward passes so far. decisions: decisions asked for so far.
    """

    def __init__(self) -> None:
        self.actors: dict[tuple[str, int], Actor] = {}
        self.passes = 0
        self.decisions = 0
        self._requests: dict[Actor, list[_Request]] = {}

    def decide(
        self, behavior: str, team: int, rows: Rows, obs: Observations, mask: BoolArray | None
    ) -> asyncio.Future[Decision]:
        """Ask for ``n`` decisions.

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
        self.passes += 1
        self.decisions += sum(sizes)
        try:
            decision = actor.decide(_join([request.rows for request in requests]), *_together(requests, sizes))
        except Exception as error:  # every environment that waits must learn of it, whatever it is
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
