"""What is learned from next, and who is waited for, where actors collect beside learning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from tau_trainer.memory import Work
from tau_trainer.settings import AsyncTrainerSettings, OffPolicyHyperparameters
from tau_trainer.specs import IntArray
from tau_trainer.training.learning.budget import MOST_STEPS, Budget, budget_of

if TYPE_CHECKING:
    from tau_trainer.training.learning.learner import Learner


@dataclass(frozen=True, slots=True, eq=False)
class Push:
    """Transitions of one actor, on their way."""

    work: Work
    """What :meth:`Algorithm.ready` gave there; its source is the actor."""
    samples: int
    receiving_seconds: float = 0.0
    """What it took to get them here."""

    @property
    def versions(self) -> NDArray[np.integer[Any]]:
        """Of the policies that acted, record by record."""
        versions: NDArray[np.integer[Any]] = self.work["version"][1:]
        return versions

    @property
    def actor(self) -> int:
        """Who pushed it."""
        return self.work.source


class Pace(ABC):
    """How many gradient steps for which samples, and who is waited for.

    Attributes:
        acting: actors that play this behavior now, each with the opts of the oldest weights that it may still push
            something of.
        done: whether all gradient steps are taken.
        ending: whether no actor pushes any more: what was pushed is still learned from.
        rollouts: whether several pushes make one update.
    """

    rollouts = False

    def __init__(self, learner: Learner, settings: AsyncTrainerSettings) -> None:
        """``learner`` has its counters already, where a run is resumed."""
        self.acting: dict[int, int] = {}
        self.done = settings.max_opts is not None and learner.progress.opts >= settings.max_opts
        self.ending = False
        self._learner, self._settings = learner, settings
        self._progress = learner.progress
        self._opts_of = {learner.policy.version: learner.progress.opts}

    def published(self, version: int) -> None:
        """Actors get this version of the weights."""
        self._opts_of[version] = self._progress.opts

    def opts_behind(self, version: int) -> int:
        """Opts behind a version of the weights that actors got."""
        return self._opts_of.get(int(version), 0)

    def age_of(self, push: Push) -> int:
        """Opts behind the oldest weights that it was made with."""
        return self.opts_behind(push.versions.min())

    def lags(self, push: Push) -> IntArray:
        """Opts [n] taken since the weights that acted, record by record."""
        versions, places = np.unique(push.versions, return_inverse=True)
        return np.array([self._progress.opts - self.opts_behind(version) for version in versions], np.int32)[places]

    def current(self, actor: int, version: int) -> None:
        """An actor holds nothing any more that is older than ``version`` of the weights."""
        if actor in self.acting:
            self.acting[actor] = max(self.acting[actor], self.opts_behind(version))

    def take_in(self, samples: int) -> None:
        """So many samples are about to be learned from."""
        self._progress.samples += samples

    @abstractmethod
    def full(self, queue: Sequence[Push], actor: int) -> bool:
        """Whether what ``actor`` brings has to wait, for so much waits already."""

    @abstractmethod
    def together(self, queue: Sequence[Push]) -> Sequence[Push]:
        """What is learned from in one update, of what a round has brought; nothing: more has to come."""

    @abstractmethod
    def following(self, queue: Sequence[Push], *, hold: bool) -> Sequence[Push]:
        """What is taken in next; nothing: there is not enough, or what came before is to be learned from first.

        ``hold``: whether what is too new waits for an actor whose weights are at the bound of the lag.
        """

    @abstractmethod
    def steps(self, samples: int, queue: Iterable[Push] = ()) -> int:
        """Gradient steps to take now, with ``samples`` more, while ``queue`` waits."""


class RolloutPace(Pace):
    """Of an algorithm that learns from rollouts: one update from as many transitions as that waits for.

    While it learns the next rollout comes in. Whose push makes that one whole waits, and all that push after it, until
    it is learned from: so the weights that acted are an update old at most.
    """

    rollouts = True

    @override
    def full(self, queue: Sequence[Push], actor: int) -> bool:
        return sum(push.samples for push in queue) >= self._learner.algorithm.rollout_size

    @override
    def together(self, queue: Sequence[Push]) -> Sequence[Push]:
        return tuple(queue) if self.full(queue, -1) and not self.done else ()

    @override
    def following(self, queue: Sequence[Push], *, hold: bool) -> Sequence[Push]:
        return self.together(queue)

    @override
    def steps(self, samples: int, queue: Iterable[Push] = ()) -> int:
        return 0  # an update takes those that its rollout is worth


class ReplayPace(Pace):
    """Of an algorithm that keeps transitions: so many samples for each opt, at least and at most."""

    def __init__(self, learner: Learner, settings: AsyncTrainerSettings) -> None:
        super().__init__(learner, settings)
        numbers = cast("OffPolicyHyperparameters", learner.settings.hyperparameters)
        if settings.samples_per_update is not None:
            self._budget = Budget(learner, numbers, settings.samples_per_update)
        else:
            self._budget = budget_of(learner, numbers, repeatable=settings.mode == "lock_step")

    @override
    def take_in(self, samples: int) -> None:
        self._budget.take_in(samples)

    @override
    def full(self, queue: Sequence[Push], actor: int) -> bool:
        opts = self._progress.opts
        held = self.acting.get(actor, opts) + self._settings.max_policy_lag <= opts  # learning waits for what it has
        return len(queue) >= self._settings.channel_capacity and not held

    @override
    def together(self, queue: Sequence[Push]) -> Sequence[Push]:
        return tuple(queue)

    @override
    def following(self, queue: Sequence[Push], *, hold: bool) -> Sequence[Push]:
        if not queue:
            return ()
        if self.done or self._budget.owed() <= 0:
            return (queue[0],)
        if self.steps(0, queue) > 0:
            return ()
        # Held by its lag: only what is old enough to hold it goes on.
        oldest = min(queue, key=self.age_of)
        held_by_actor = self.age_of(oldest) > min(self.acting.values(), default=self._progress.opts)
        return () if held_by_actor and hold else (oldest,)

    @override
    def steps(self, samples: int, queue: Iterable[Push] = ()) -> int:
        opts, settings = self._progress.opts, self._settings
        if self.done:
            return 0
        # Where nobody collects any more, what is owed is all that is left to do.
        limits = [MOST_STEPS, self._budget.owed(samples) if self.ending else self._budget.allowed(samples)]
        limits.append((opts // settings.sync_interval + 1) * settings.sync_interval - opts)
        if settings.max_opts is not None:
            limits.append(settings.max_opts - opts)
        if not (settings.mode == "lock_step" or self.ending):
            oldest = min((*self.acting.values(), *map(self.age_of, queue)), default=opts)
            limits.append(oldest + settings.max_policy_lag - opts)
        return max(0, min(limits))
