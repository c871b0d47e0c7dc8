"""Pairs that only take turns, and a team of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from tau_trainer.errors import EngineExitedError
from tau_trainer.metrics import MetricsHub
from tau_trainer.training.agents import Tally
from tau_trainer.training.pairs.pair import AgentTrainerPair, Coordinator, Pair
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tau_trainer.training.pairs.turns import InTurn


class FakePair(Pair):
    """A pair whose exchanges are short sleeps."""

    def __init__(self, number: int, coordinator: Coordinator, log: list[str], exchanges: int, pause_s: float) -> None:
        super().__init__(number, cast(Any, None), Tally(), coordinator)
        self.log = log
        self.left = exchanges
        self.pause_s = pause_s
        self.fails_at: str | None = None
        self.fails_to_end = False
        self.running = False

    @property
    def absent(self) -> str | None:
        return None

    @property
    def complete(self) -> bool:
        return self.left <= 0

    def _note(self, what: str) -> None:
        self.log.append(f"{what} {self.id}")
        if self.fails_at == what:
            raise EngineExitedError(f"engine {self.id} ended")

    async def initialize(self) -> None:
        self.running = True
        self._note("initialize")
        await asyncio.sleep(self.pause_s)

    async def advance(self) -> None:
        self._note("advance")
        await asyncio.sleep(self.pause_s)
        self.left -= 1

    async def begin_anew(self) -> None:
        self._note("anew")

    async def start(self) -> None:
        while not self.finished:
            await self.advance()

    async def stop(self) -> None:
        self._note("stop")
        self.running = False

    async def kill(self) -> None:
        self.log.append(f"kill {self.id}")
        self.running = False
        if self.fails_to_end:
            raise OSError("no window to close")


class Team:
    """Pairs and their ParallelTrainer."""

    def __init__(
        self,
        hub: MetricsHub,
        count: int,
        most: int,
        exchanges: int = 4,
        pause_s: float = 0.0,
        *,
        deterministic: bool = False,
    ) -> None:
        self.log: list[str] = []
        self.coordinator = Coordinator()
        self.pairs = [FakePair(i, self.coordinator, self.log, exchanges, pause_s) for i in range(count)]
        kind = InTurn if deterministic else ParallelTrainer
        self.parallel = kind(cast(list[AgentTrainerPair], self.pairs), most, hub, self.coordinator)

    def run(self) -> None:
        asyncio.run(self.parallel.run())

    @property
    def states(self) -> list[str]:
        return [pair.state.value for pair in self.pairs]


Make = Callable[..., Team]
