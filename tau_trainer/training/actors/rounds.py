"""Lock step: all actors play their part of a round, all of it is learned from, and all go on with the new weights.

What is done in which order follows from what there is (actor by actor, each one's own sequence), never from who was
faster. So the same seed is the same run. A checkpoint ends a round: then all environments begin anew with seeds of
that moment, and a run that is resumed there goes on as the one that was never interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tau_trainer.training.actors.async_trainer import AsyncTrainer
from tau_trainer.training.actors.pace import Push
from tau_trainer.training.pairs.pair import Overseer


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """What an actor is told when it goes on."""

    left: Mapping[str, int | None]
    """Decisions that it may make of each behavior until the next round, by learner; None: it has had all of them."""
    anew: bool
    """Whether a checkpoint was written, so that its environment begins anew."""


@dataclass(slots=True, eq=False)
class _Part:
    """What one actor brought."""

    trainer: AsyncTrainer
    push: Push
    count: Callable[[], None]
    """Counts its decisions and what else is known of it."""
    goes_on: asyncio.Future[RoundEnd] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Rounds:
    """All rounds of a run. Belongs to the event loop.

    Decisions are dealt out at the end of each: of those that are left to a behavior every actor that plays may make its
    share, so that all of them together make exactly ``max_steps``.
    """

    def __init__(
        self,
        trainers: Mapping[str, AsyncTrainer],
        expected: Callable[[], set[int]],
        overseer: Overseer,
    ) -> None:
        """Made before anybody plays.

        Args:
            trainers: by learner, as they appear.
            expected: actors that play, or will; nobody once the run has had all that it was to have.
            overseer: writes a checkpoint after a round where one is due.
        """
        self._trainers = trainers
        self._expected = expected
        self._overseer = overseer
        self._parts: dict[int, _Part] = {}
        """By actor: what is not learned from."""
        self._learned: dict[int, _Part] = {}
        """The same of what is, whose actor still waits."""
        self._anew = dict[str, bool]()
        """By learner: whether environments began anew since its last part."""
        self._open = self._ending = False
        self._error: Exception | None = None
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def hand_over(self, trainer: AsyncTrainer, push: Push, count: Callable[[], None]) -> RoundEnd:
        """Bring an actor's part, and wait until it shall go on. Raises what learning has failed by."""
        if self._error is not None:
            raise self._error
        self._task = self._task or asyncio.create_task(self._run())
        part = self._parts[push.actor] = _Part(trainer, push, count)
        self._moved.set()
        return await part.goes_on

    def left(self, actor: int) -> dict[str, int | None]:
        """Decisions that ``actor`` may make of each behavior until the next round; see :class:`RoundEnd`."""
        return {name: self._share(trainer, actor) for name, trainer in self._trainers.items()}

    def _share(self, trainer: AsyncTrainer, actor: int) -> int | None:
        if trainer.over:
            return None
        players = self._expected() | {actor}
        place = sum(other < actor for other in players)
        return trainer.left // len(players) + (place < trainer.left % len(players))

    def wake(self) -> None:
        """Who is waited for may have changed."""
        self._moved.set()

    def open(self) -> None:
        """Wait for nobody any more: what comes now is the last."""
        self._open = True
        self.wake()

    async def finish(self) -> None:
        """Learn from what was brought, and end. What ended learning is the learners' ``error``."""
        self._ending = True
        self.open()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            while True:
                self._moved.clear()
                if self._complete:
                    await self._learn()
                elif self._ending and not self._parts:
                    break
                else:
                    await self._moved.wait()
        except Exception as error:  # those who wait must learn of it, whatever it is
            self._error = error
            for part in (*self._parts.values(), *self._learned.values()):
                if not part.goes_on.done():
                    part.goes_on.set_exception(error)

    @property
    def _complete(self) -> bool:
        """Whether everybody has brought a part, or waits for more to do."""
        brought = self._parts.keys() | self._learned.keys()
        return bool(brought) and (self._open or not self._expected() - brought)

    async def _learn(self) -> None:
        learned = set[AsyncTrainer]()
        while self._parts:
            actor = min(self._parts)
            part = self._parts.pop(actor)
            self._learned[actor] = part
            part.count()
            name = part.trainer.learner.name
            anew = self._anew.get(name, False)
            await part.trainer.take_in(part.push, anew=anew)
            self._anew[name] = anew and not part.push.samples
            learned.add(part.trainer)
        for trainer in learned:
            trainer.publish()
        self._go_on(anew=await self._saved())

    async def _saved(self) -> bool:
        """Whether a checkpoint was due and is written; the last one of a run is not written here."""
        if self._open or not self._expected():
            return False
        saved = await self._overseer.round_over()
        if saved:
            self._anew = dict.fromkeys(self._trainers, True)
        return saved

    def _go_on(self, *, anew: bool) -> None:
        """Let all actors go on; where fewer decisions are left than there are actors, those who get some."""
        last = self._open or not self._expected()
        for actor, part in sorted(self._learned.items()):
            end = RoundEnd(self.left(actor), anew)
            if last or anew or end.left[part.trainer.learner.name] != 0:
                del self._learned[actor]
                if not part.goes_on.done():  # nobody waits where its pair was cancelled
                    part.goes_on.set_result(end)
