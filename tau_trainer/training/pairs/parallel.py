"""ParallelTrainer: N pairs under one semaphore."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from tau_trainer.errors import sentence_of
from tau_trainer.metrics import MetricsHub, PairState
from tau_trainer.training.pairs.pair import AgentTrainerPair, Overseer

FINISH_S = 5.0
"""Seconds for pairs to finish their current exchange before they are cancelled."""


class ParallelTrainer:
    """Runs pairs side by side, at most ``max_concurrent`` at a time.

    A pair holds the semaphore for its whole run, including the start and goodbye of its environment. A pair that fails
    never stops another; its error is in its metrics. ``deterministic`` runs pairs in turn, one exchange each, in fixed
    order.
    """

    def __init__(
        self,
        pairs: Sequence[AgentTrainerPair],
        max_concurrent: int,
        hub: MetricsHub,
        overseer: Overseer,
        *,
        deterministic: bool = False,
        playing: PairState = PairState.TRAINING,
    ) -> None:
        """``playing``: the state of pairs that play."""
        self.pairs = tuple(pairs)
        self.peak = 0
        """Largest number of pairs that ran at the same time."""
        self.failures: dict[int, Exception] = {}
        """The error that ended each failed pair."""
        self._max_concurrent = max_concurrent
        self._hub = hub
        self._deterministic = deterministic
        self._playing = playing
        self._overseer = overseer
        self._running = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._cancelled = False

    @property
    def active(self) -> list[AgentTrainerPair]:
        """Pairs that hold the semaphore now."""
        return [
            pair for pair in self.pairs if pair.trainer.state is not PairState.IDLE and not pair.trainer.state.ended
        ]

    async def run(self) -> None:
        """Run all pairs to their ends. Never raises an error of a pair."""
        if self._deterministic:
            self._tasks = [asyncio.create_task(self._in_turn())]
        else:
            semaphore = asyncio.Semaphore(self._max_concurrent)
            self._tasks = [asyncio.create_task(self._alone(pair, semaphore)) for pair in self.pairs]
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _alone(self, pair: AgentTrainerPair, semaphore: asyncio.Semaphore) -> None:
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

    async def _live(self, pair: AgentTrainerPair) -> None:
        """One pair's whole run."""
        if self._cancelled or pair.finishing:
            self._end(pair, PairState.CANCELLED)
            return
        self._enter()
        try:
            await self._prepare(pair)
            await pair.start()
            await self._conclude(pair)
        except asyncio.CancelledError:
            await asyncio.shield(self._leave(pair, PairState.CANCELLED))
        except Exception as error:
            await self._fail(pair, error)
        finally:
            self._running -= 1

    async def _in_turn(self) -> None:
        """Run all pairs, one exchange each, in fixed order; the next pair joins when one leaves."""
        waiting, active = deque(self.pairs), list[AgentTrainerPair]()
        try:
            while waiting or active:
                while waiting and len(active) < self._max_concurrent:
                    await self._join(waiting.popleft(), active)
                for pair in tuple(active):
                    await self._take_turn(pair, active, pair.advance)
                if active and await self._overseer.round_over():
                    for pair in tuple(active):
                        await self._take_turn(pair, active, pair.begin_anew)
        except asyncio.CancelledError:
            for pair in self.pairs:
                if not pair.trainer.state.ended:
                    await self._leave(pair, PairState.CANCELLED)

    async def _join(self, pair: AgentTrainerPair, active: list[AgentTrainerPair]) -> None:
        if self._cancelled or pair.finishing:
            self._end(pair, PairState.CANCELLED)
            return
        self._enter()
        active.append(pair)
        await self._take_turn(pair, active, partial(self._prepare, pair))

    async def _take_turn(
        self, pair: AgentTrainerPair, active: list[AgentTrainerPair], turn: Callable[[], Awaitable[None]]
    ) -> None:
        """Let ``pair`` take one turn, and end it when it has finished or failed."""
        try:
            if not pair.finished or pair.trainer.state is PairState.IDLE:
                await turn()
            if pair.finished:
                self._quit(pair, active)
                await self._conclude(pair)
        except Exception as error:
            self._quit(pair, active)
            await self._fail(pair, error)

    def _quit(self, pair: AgentTrainerPair, active: list[AgentTrainerPair]) -> None:
        if pair in active:
            active.remove(pair)
            self._running -= 1

    def _enter(self) -> None:
        self._running += 1
        self.peak = max(self.peak, self._running)

    async def _prepare(self, pair: AgentTrainerPair) -> None:
        pair.trainer.enter(PairState.PREPARING)
        if not pair.finished:  # in a resumed run it may be finished already
            await pair.initialize()
        pair.trainer.enter(self._playing)

    async def _conclude(self, pair: AgentTrainerPair) -> None:
        """End a pair: it has made all its decisions, or was asked to end, or its environment has left for good."""
        early = not pair.complete and pair.goodbye is None
        if pair.goodbye is not None:
            self._hub.event("stopped", message=pair.goodbye, pair=pair.id)
        await pair.stop()
        if self._playing is PairState.TRAINING and not early:
            if self._overseer.evaluates:
                pair.trainer.enter(PairState.EVALUATING)
            await self._overseer.evaluate(pair)
        pair.trainer.enter(PairState.CANCELLED if early else PairState.COMPLETED)

    async def _fail(self, pair: AgentTrainerPair, error: Exception) -> None:
        self.failures[pair.id] = error
        pair.trainer.error = sentence_of(error)
        await self._leave(pair, PairState.FAILED)
        if len(self.pairs) > 1:  # a single pair's failure is reported as the run's
            self._hub.warning(f"pair {pair.id} failed: {pair.trainer.error}", pair=pair.id)

    async def _leave(self, pair: AgentTrainerPair, state: PairState) -> None:
        try:
            await pair.environment.kill()
        except Exception as error:  # the environment is third-party code; the pair still ends
            self._hub.warning(
                f"the environment of pair {pair.id} could not be ended: {sentence_of(error)}", pair=pair.id
            )
        pair.trainer.abandon()
        pair.met = {}
        self._end(pair, state)

    @staticmethod
    def _end(pair: AgentTrainerPair, state: PairState) -> None:
        if not pair.trainer.state.ended:
            pair.trainer.enter(state)

    def finish(self) -> None:
        """Let every pair end after its current exchange; pairs that have not started never will."""
        for pair in self.pairs:
            pair.finishing = True

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
        """Tasks that wait for an environment to start. If pairs take turns, all share one task."""
        starting = [pair.starting for pair in self.pairs]
        if self._deterministic:
            return self._tasks if any(starting) else []
        return [task for task, waits in zip(self._tasks, starting, strict=True) if waits]
