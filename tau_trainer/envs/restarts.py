"""Restart limits: how often a failing environment can be restarted, and how long to wait before each restart."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tau_trainer.envs.contract import OnEvent
from tau_trainer.errors import EngineError, EnvironmentFaultError
from tau_trainer.specs import StepBatch

if TYPE_CHECKING:
    from tau_trainer.settings import EnvSettings


class RestartBudget:
    """ML-Agents' restart limits (``max_lifetime_restarts``, ``restarts_rate_limit_*``; -1 = unlimited), with back-off.

    The wait before a restart doubles with each restart in a row. It is short again once the environment has worked for
    ``PROOF_STEPS`` steps.
    """

    FIRST_WAIT_S = 0.25
    LONGEST_WAIT_S = 30.0
    PROOF_STEPS = 100
    """Number of steps after which an environment counts as working."""

    def __init__(
        self,
        lifetime: int,
        rate_n: int,
        rate_period_s: float,
        on_event: OnEvent = lambda message, restart=0: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``on_event`` gets a sentence for every restart."""
        self.on_event = on_event
        self.restarts = 0
        self._lifetime = lifetime
        self._rate_n = rate_n
        self._period_s = rate_period_s
        self._clock = clock
        self._recent: deque[float] = deque()
        self._in_a_row = 0

    @staticmethod
    def of(env: EnvSettings, on_event: OnEvent) -> RestartBudget:
        """The limits in a run's settings."""
        limits = env.max_lifetime_restarts, env.restarts_rate_limit_n, env.restarts_rate_limit_period_s
        return RestartBudget(*limits, on_event)

    def refusal(self) -> str | None:
        """Why another restart is not allowed now, as the end of a sentence; None if it is allowed."""
        if 0 <= self._lifetime <= self.restarts:
            return f"it was restarted {_times(self.restarts)}, the most that max_lifetime_restarts allows"
        now = self._clock()
        while self._recent and now - self._recent[0] >= self._period_s:
            self._recent.popleft()
        if 0 <= self._rate_n <= len(self._recent):
            return (
                f"it was restarted {_times(len(self._recent))} within {self._period_s:g} s, "
                "the most that restarts_rate_limit_n allows"
            )
        return None

    def spend(self) -> float:
        """Count one restart; return the seconds to wait before it."""
        self.restarts += 1
        self._in_a_row += 1
        self._recent.append(self._clock())
        doublings = min(self._in_a_row - 1, 30)  # far beyond the longest wait, far below what a float can hold
        return min(self.FIRST_WAIT_S * float(2**doublings), self.LONGEST_WAIT_S)

    async def revive(self, error: EngineError, start: Callable[[], Awaitable[list[StepBatch]]]) -> list[StepBatch]:
        """Restart until a start works; returns the first step.

        Raises the last error once the budget is used up, or at once if another restart cannot help.
        """
        while True:
            if isinstance(error, EnvironmentFaultError):
                raise error
            refusal = self.refusal()
            if refusal is not None:
                raise type(error)(f"{error} (not started again: {refusal})") from error
            wait_s = self.spend()
            message = f"{error}; starting it again in {wait_s:g} s (restart {self.restarts})"
            self.on_event(message, restart=self.restarts)
            await asyncio.sleep(wait_s)
            try:
                return await start()
            except EngineError as again:
                error = again

    def worked(self, steps: int) -> None:
        """Report its steps since the start; after ``PROOF_STEPS``, the next failure is the first in a row."""
        if steps >= self.PROOF_STEPS:
            self._in_a_row = 0


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
