"""One place where an engine runs, again and again if it must: the same index and port, a fresh process each time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tau_trainer.bridge.engine import Engine, EngineOptions
from tau_trainer.bridge.launcher import LaunchSpec
from tau_trainer.bridge.side_channels import Sampler, SideChannelHub, Stat
from tau_trainer.collection.restarts import RestartBudget
from tau_trainer.errors import EngineError, EngineStoppedError, PortInUseError
from tau_trainer.specs import Actions, StepBatch

Parameters = Mapping[str, float | Sampler]

_PROOF_EXCHANGES = 100
"""Exchanges after which an engine counts as working."""


class EngineWorker:
    """Keeps one engine running.

    Use: ``await start(parameters)``, ``await step(actions)`` ...; after an EngineError ``await recover(error)`` gives
    the first step of a fresh engine or raises; ``await close()``.
    """

    def __init__(
        self,
        index: int,
        port: int,
        launch: LaunchSpec | None,
        options: EngineOptions,
        budget: RestartBudget,
        *,
        fixed_port: bool = True,
        on_stat: Callable[[Stat], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> None:
        """``fixed_port``: that port or none; else any free one where it is taken."""
        self.index = index
        self.exchanges = 0
        self._port = port
        self._fixed_port = fixed_port
        self._launch = launch
        self._options = options
        self._budget = budget
        self._on_stat = on_stat
        self._on_event = on_event or (lambda message: None)
        self._parameters: Parameters = {}
        self.engine: Engine | None = None

    @property
    def restarts(self) -> int:
        """How often the engine was started again."""
        return self._budget.restarts

    @property
    def waits_for(self) -> str:
        """What this worker's engine is waited for to do, for the watchdog's report."""
        return f"engine {self.index} to {self.engine.stage}" if self.engine else f"engine {self.index} to start"

    async def start(self, parameters: Parameters) -> list[StepBatch]:
        """Launch, shake hands, reset with ``parameters``; the first step of every behavior. Raises EngineError."""
        self._parameters = parameters
        try:
            return await self._start()
        except PortInUseError:
            if self._fixed_port:
                raise
        self._port = 0
        return await self._start()

    async def _start(self) -> list[StepBatch]:
        self.engine = Engine(
            self.index, self._port, self._launch, self._options, channels=SideChannelHub(self._on_stat)
        )
        try:
            await self.engine.start()
            return await self.engine.reset(self._parameters)
        except BaseException:
            await self.kill()
            raise

    def answer(self, actions: Mapping[str, Actions]) -> None:
        """Answer the agents that asked: the engine goes on."""
        assert self.engine is not None
        self.engine.answer(actions)

    async def next(self) -> list[StepBatch]:
        """What the engine says next. Raises EngineError."""
        assert self.engine is not None
        batches = await self.engine.next()
        self.exchanges += 1
        if self.engine.exchanges == _PROOF_EXCHANGES:
            self._budget.proved()
        return batches

    async def reset(self, parameters: Parameters) -> list[StepBatch]:
        """Begin all episodes anew. Raises EngineError."""
        assert self.engine is not None
        self._parameters = parameters
        return await self.engine.reset(parameters)

    async def recover(self, error: EngineError) -> list[StepBatch]:
        """Replace an engine that failed while stepping; its first step.

        An engine that never took a step, one that said goodbye, and one that somebody else starts are not replaced:
        their error is raised, and so is the last one when the budget is spent.
        """
        while True:
            worked = self.engine is not None and self.engine.exchanges > 1
            await self.kill()
            if isinstance(error, EngineStoppedError) or self._launch is None or not (worked or self.restarts):
                raise error
            refusal = self._budget.refusal()
            if refusal is not None:
                raise type(error)(f"{error} (not started again: {refusal})") from error
            wait_s = self._budget.spend()
            self._on_event(f"{error}; starting it again in {wait_s:g} s (restart {self.restarts})")
            await asyncio.sleep(wait_s)
            try:
                return await self.start(self._parameters)
            except EngineError as again:
                error = again

    async def kill(self) -> None:
        """End the engine at once."""
        if self.engine is not None:
            await self.engine.kill()

    async def close(self) -> None:
        """Say goodbye and wait for the engine to end."""
        if self.engine is not None:
            await self.engine.close()
            self.engine = None  # not before: until then a cancelled goodbye leaves something to kill
