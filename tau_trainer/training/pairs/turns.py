"""Pairs in turn: one exchange each, in fixed order, so that nothing depends on which environment is faster."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from typing_extensions import override

from tau_trainer.metrics import PairState
from tau_trainer.training.pairs.pair import AgentTrainerPair
from tau_trainer.training.pairs.parallel import ParallelTrainer


class InTurn(ParallelTrainer[AgentTrainerPair]):
    """A :class:`ParallelTrainer` whose pairs take turns; the next one joins when one leaves."""

    @override
    def _begin(self) -> list[asyncio.Task[None]]:
        self._round: list[AgentTrainerPair] = []
        """Pairs that take turns now."""
        return [asyncio.create_task(self._all())]

    async def _all(self) -> None:
        waiting = deque(self.pairs)
        try:
            while waiting or self._round:
                while waiting and len(self._round) < self._max_concurrent:
                    await self._join(waiting.popleft())
                for pair in tuple(self._round):
                    await self._take_turn(pair, pair.advance)
                if self._round and await self._coordinator.round_over():
                    for pair in tuple(self._round):
                        await self._take_turn(pair, pair.begin_anew)
        except asyncio.CancelledError:
            for pair in self.pairs:
                if not pair.state.ended:
                    await self._leave(pair, PairState.CANCELLED)

    async def _join(self, pair: AgentTrainerPair) -> None:
        if self._cancelled or pair.finishing:
            self._end(pair, PairState.CANCELLED)
            return
        self._round.append(pair)
        await self._take_turn(pair, partial(self._prepare, pair))

    async def _take_turn(self, pair: AgentTrainerPair, turn: Callable[[], Awaitable[None]]) -> None:
        """Let ``pair`` take one turn, and end it when it has finished or failed."""
        try:
            if not pair.finished or pair.state is PairState.IDLE:
                await turn()
            if pair.finished:
                await self._conclude(pair)
        except Exception as error:
            await self._fail(pair, error)
        self._round = [each for each in self._round if not each.state.ended]

    @override
    def _starting(self) -> list[asyncio.Task[None]]:
        return self._tasks if any(pair.starting for pair in self.pairs) else []
