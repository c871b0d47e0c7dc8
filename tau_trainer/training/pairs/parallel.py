"""ParallelTrainer: N pairs under one semaphore."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from tau_trainer.errors import sentence_of
from tau_trainer.metrics import MetricsHub, PairState
from tau_trainer.training.pairs.pair import Coordinator, Pair

FINISH_S = 5.0
"""Seconds for pairs to finish their current exchange before they are cancelled."""


PairT_co = TypeVar("PairT_co", bound=Pair, covariant=True)


class ParallelTrainer(Generic[PairT_co]):
    """Runs pairs side by side, at most ``max_concurrent`` at a time.

    A pair holds the semaphore for its whole run, including the start and goodbye of its environment. A pair that fails
    never stops another; its error is in its metrics.
    """

    def __init__(
        self,
        pairs: Sequence[PairT_co],
        max_concurrent: int,
        hub: MetricsHub,
        coordinator: Coordinator,
        *,
        playing: PairState = PairState.TRAINING,
    ) -> None:
        """``playing``: the state of pairs that play."""
        self.pairs = tuple(pairs)
        self.failures: dict[int, Exception] = {}
        """The error that ended each failed pair."""
        self._max_concurrent = max_concurrent
        self._hub = hub
        self._playing = playing
        self._coordinator = coordinator
        self._tasks: list[asyncio.Task[None]] = []
        self._cancelled = False

    @property
    def active(self) -> list[PairT_co]:
        """Pairs that hold the semaphore now."""
        return [pair for pair in self.pairs if pair.state is not PairState.IDLE and not pair.state.ended]

    async def run(self) -> None:
        """Run all pairs to their ends. Never raises an error of a pair."""
        self._tasks = self._begin()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _begin(self) -> list[asyncio.Task[None]]:
        """The tasks that run the pairs."""
        semaphore = asyncio.Semaphore(self._max_concurrent)
        return [asyncio.create_task(self._alone(pair, semaphore)) for pair in self.pairs]

    async def _alone(self, pair: Pair, semaphore: asyncio.Semaphore) -> None:
        try:
            async with semaphore:
                await self._live(pair)
            self._release()
        except asyncio.CancelledError:
            self._end(pair, PairState.CANCELLED)

    def _release(self) -> None:
        """A pair has ended: pairs that are complete but wait for an engine need not wait any longer."""
        for other, task in zip(self.pairs, self._tasks, strict=True):
            if other.absent and other.complete:
                task.cancel()

    async def _live(self, pair: Pair) -> None:
        """One pair's whole run."""
        if self._cancelled or pair.finishing:
            self._end(pair, PairState.CANCELLED)
            return
        try:
            await self._prepare(pair)
            await pair.start()
            await self._conclude(pair)
        except asyncio.CancelledError:
            await asyncio.shield(self._leave(pair, PairState.CANCELLED))
        except Exception as error:
            await self._fail(pair, error)

    async def _prepare(self, pair: Pair) -> None:
        self._enter(pair, PairState.PREPARING)
        if not pair.finished:  # in a resumed run it may be finished already
            await pair.initialize()
        self._enter(pair, self._playing)

    async def _conclude(self, pair: Pair) -> None:
        """End a pair: it has made all its decisions, or was asked to end, or its environment has left for good."""
        early = not pair.complete and pair.goodbye is None
        if pair.goodbye is not None:
            self._hub.event("stopped", message=pair.goodbye, pair=pair.id)
        await pair.stop()
        if self._playing is PairState.TRAINING and not early:
            if self._coordinator.evaluates:
                self._enter(pair, PairState.EVALUATING)
            await self._coordinator.evaluate(pair)
        self._enter(pair, PairState.CANCELLED if early else PairState.COMPLETED)

    async def _fail(self, pair: Pair, error: Exception) -> None:
        self.failures[pair.id] = error
        pair.error = sentence_of(error)
        await self._leave(pair, PairState.FAILED)
        if len(self.pairs) > 1:  # a single pair's failure is reported as the run's
            self._hub.warning(f"pair {pair.id} failed: {pair.error}", pair=pair.id)

    async def _leave(self, pair: Pair, state: PairState) -> None:
        try:
            await pair.kill()
        except Exception as error:  # the environment is third-party code; the pair still ends
            self._hub.warning(
                f"the environment of pair {pair.id} could not be ended: {sentence_of(error)}", pair=pair.id
            )
        self._end(pair, state)

    def _end(self, pair: Pair, state: PairState) -> None:
        if not pair.state.ended:
            self._enter(pair, state)

    def _enter(self, pair: Pair, state: PairState) -> None:
        """Change the state of a pair and report it."""
        pair.state = state
        self._hub.event("pair", pair=pair.id, state=state.value)

    def finish(self) -> None:
        """Let every pair end after its current exchange; pairs that have not started never will."""
        for pair in self.pairs:
            pair.finish()

    async def cancel(self, grace_s: float = FINISH_S) -> None:
        """End all pairs and wait for them: those in an exchange may finish it within ``grace_s`` seconds.

        Pairs whose environment has not started yet are not waited for.
        """
        self._cancelled = True
        self.finish()
        if self._tasks:
            for task in self._starting():
                task.cancel()
            _, late = await asyncio.wait(self._tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _starting(self) -> list[asyncio.Task[None]]:
        """Tasks that wait for an environment to start."""
        return [task for task, pair in zip(self._tasks, self.pairs, strict=True) if pair.starting]
