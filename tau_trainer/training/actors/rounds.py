"""Lock step: all actors play their part of a round, all of it is learned from, and all continue with new weights.

The order of everything depends only on the data (actor by actor, each in its own sequence), never on which actor was
faster. So the same seed gives the same run. A checkpoint ends a round: all environments then restart with seeds of that
moment, and a run that is resumed there continues exactly like one that was never interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tau_trainer.training.actors.async_trainer import AsyncTrainer
from tau_trainer.training.actors.pace import Push
from tau_trainer.training.pairs.pair import Coordinator


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """The news for an actor that continues after a round."""

    left: Mapping[str, int | None]
    """Decisions of each behavior until the next round, by learner; None: the behavior has reached max_steps."""
    anew: bool
    """Whether a checkpoint was written, which requires the environment to restart."""


@dataclass(slots=True, eq=False)
class _Part:
    """The part of one actor in a round."""

    trainer: AsyncTrainer
    push: Push
    count: Callable[[], None]
    """Counts the actor's decisions and records its other numbers."""
    goes_on: asyncio.Future[RoundEnd] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Rounds:
    """All rounds of a run. Belongs to the event loop.

    At the end of each round, the remaining decisions of a behavior are shared out among the actors that play, so that
    all of them together make exactly ``max_steps``.
    """

    def __init__(
        self,
        trainers: Mapping[str, AsyncTrainer],
        expected: Callable[[], set[int]],
        coordinator: Coordinator,
    ) -> None:
        """Made before any actor plays.

        Args:
            trainers: by learner, as they appear.
            expected: returns the actors that play or will play; empty once the run has reached its end.
            coordinator: writes a checkpoint after a round if one is due.
        """
        self._trainers = trainers
        self._expected = expected
        self._coordinator = coordinator
        self._parts: dict[int, _Part] = {}
        """Parts that are not learned from yet, by actor."""
        self._learned: dict[int, _Part] = {}
        """Parts that are learned from, whose actors still wait."""
        self._anew = dict[str, bool]()
        """By learner: whether environments restarted since its last part."""
        self._open = self._ending = False
        self._error: Exception | None = None
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def hand_over(self, trainer: AsyncTrainer, push: Push, count: Callable[[], None]) -> RoundEnd:
        """Deliver an actor's part, and wait until the actor can continue. Raises the error that ended learning."""
        if self._error is not None:
            raise self._error
        self._task = self._task or asyncio.create_task(self._run())
        part = self._parts[push.actor] = _Part(trainer, push, count)
        self._moved.set()
        return await part.goes_on

    def left(self, actor: int) -> dict[str, int | None]:
        """Decisions of each behavior for ``actor`` until the next round; see :class:`RoundEnd`."""
        return {name: self._share(trainer, actor) for name, trainer in self._trainers.items()}

    def _share(self, trainer: AsyncTrainer, actor: int) -> int | None:
        if trainer.over:
            return None
        players = self._expected() | {actor}
        place = sum(other < actor for other in players)
        return trainer.left // len(players) + (place < trainer.left % len(players))

    def wake(self) -> None:
        """The set of actors to wait for may have changed."""
        self._moved.set()

    def open(self) -> None:
        """Stop waiting for actors: the parts that arrive now are the last."""
        self._open = True
        self.wake()

    async def finish(self) -> None:
        """Learn from the delivered parts, and end. If learning failed, the error is in the learners' ``error``."""
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
        except Exception as error:  # waiting actors must get every error
            self._error = error
            for part in (*self._parts.values(), *self._learned.values()):
                if not part.goes_on.done():
                    part.goes_on.set_exception(error)

    @property
    def _complete(self) -> bool:
        """Whether every expected actor has delivered a part, or waits for more decisions."""
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
        """Write a checkpoint if one is due; True if it was written. The last one of a run is not written here."""
        if self._open or not self._expected():
            return False
        saved = await self._coordinator.round_over()
        if saved:
            self._anew = dict.fromkeys(self._trainers, True)
        return saved

    def _go_on(self, *, anew: bool) -> None:
        """Let all actors continue.

        If fewer decisions are left than there are actors, only those with a share continue.
        """
        last = self._open or not self._expected()
        for actor, part in sorted(self._learned.items()):
            end = RoundEnd(self.left(actor), anew)
            if last or anew or end.left[part.trainer.learner.name] != 0:
                del self._learned[actor]
                if not part.goes_on.done():  # a cancelled pair does not wait
                    part.goes_on.set_result(end)
