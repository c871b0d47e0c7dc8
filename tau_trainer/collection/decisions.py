"""One forward pass for everything that is ready: decisions of one policy, for all engines that wait for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tau_trainer.specs import BoolArray, FloatArray, IntArray

Observations = tuple[FloatArray, ...]


class Decision(Protocol):
    """What a policy decides for ``n`` agents."""

    @property
    def continuous(self) -> FloatArray:
        """float32 [n, continuous_size]: raw sample, before clipping."""

    @property
    def discrete(self) -> IntArray:
        """int32 [n, branches]."""

    @property
    def log_prob(self) -> FloatArray:
        """float32 [n, components]."""


class ActingPolicy(Protocol):
    """A policy that decides for a batch of agents."""

    @property
    def version(self) -> int:
        """Number of updates behind it."""

    def act(
        self, obs: Observations, mask: BoolArray | None, rng: np.random.Generator, deterministic: bool = False
    ) -> Decision:
        """Decide for ``n`` agents; ``obs`` holds one [n, *shape] array a sensor."""


@dataclass(frozen=True, slots=True)
class _Request:
    """One engine's agents that ask."""

    obs: Observations
    mask: BoolArray | None
    answer: asyncio.Future[tuple[Decision, int]]


class DecisionBatcher:
    """Gathers the requests of one turn of the event loop and answers them with one forward pass.

    ``policy`` may be replaced at any time; the next pass uses the new one.
    """

    def __init__(
        self,
        policy: ActingPolicy,
        make: Callable[[FloatArray, IntArray, FloatArray], Decision],
        rng: np.random.Generator,
        *,
        deterministic: bool = False,
    ) -> None:
        """``make(continuous, discrete, log_prob)`` builds the part of a decision that belongs to one request."""
        self.policy = policy
        self.passes = 0
        """Forward passes so far."""
        self.decisions = 0
        """Decisions asked for so far."""
        self._make = make
        self._rng = rng
        self._deterministic = deterministic
        self._requests: list[_Request] = []
        self.parties = 0
        """Pairs that ask here. One alone is answered at once, for there is nobody to share a pass with."""

    def decide(self, obs: Observations, mask: BoolArray | None) -> asyncio.Future[tuple[Decision, int]]:
        """Ask for ``n`` decisions; the answer comes with the version of the policy that made them."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Decision, int]] = loop.create_future()
        if self.parties <= 1:
            self._answer([_Request(obs, mask, answer)])
            return answer
        if not self._requests:
            loop.call_soon(self._flush)
        self._requests.append(_Request(obs, mask, answer))
        return answer

    def _flush(self) -> None:
        requests = [request for request in self._requests if not request.answer.done()]
        self._requests = []
        if requests:
            self._answer(requests)

    def _answer(self, requests: list[_Request]) -> None:
        policy = self.policy  # the version that is told is that of the policy that decided
        self.passes += 1
        try:
            parts = self._forward(policy, requests)
        except Exception as error:  # every waiting pair must learn of it, whatever it is
            for request in requests:
                request.answer.set_exception(error)
            return
        for request, part in zip(requests, parts, strict=True):
            request.answer.set_result((part, policy.version))

    def _forward(self, policy: ActingPolicy, requests: list[_Request]) -> list[Decision]:
        sizes = [len(request.obs[0]) for request in requests]
        self.decisions += sum(sizes)
        if len(requests) == 1:
            return [policy.act(requests[0].obs, requests[0].mask, self._rng, self._deterministic)]
        obs = tuple(np.concatenate(sensor) for sensor in zip(*(request.obs for request in requests), strict=True))
        decision = policy.act(obs, _join_masks(requests, sizes), self._rng, self._deterministic)
        bounds = np.cumsum(sizes)[:-1]
        return [
            self._make(continuous, discrete, log_prob)
            for continuous, discrete, log_prob in zip(
                np.split(decision.continuous, bounds),
                np.split(decision.discrete, bounds),
                np.split(decision.log_prob, bounds),
                strict=True,
            )
        ]


def _join_masks(requests: list[_Request], sizes: list[int]) -> BoolArray | None:
    """A request without a mask forbids nothing."""
    width = next((request.mask.shape[1] for request in requests if request.mask is not None), None)
    if width is None:
        return None
    return np.concatenate(
        [
            np.zeros((size, width), np.bool_) if request.mask is None else request.mask
            for request, size in zip(requests, sizes, strict=True)
        ]
    )
