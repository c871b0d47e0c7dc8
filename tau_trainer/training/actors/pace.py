"""The pace of learning next to actors: what to learn from next, and which side waits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    """Transitions of one actor on their way to the learner."""

    work: Work
    """The work that :meth:`Algorithm.ready` returned in the actor; its source is the actor."""
    samples: int
    receiving_seconds: float = 0.0
    """Time that receiving it took."""

    @property
    def versions(self) -> NDArray[np.integer[Any]]:
        """Versions of the policies that acted, record by record."""
        versions: NDArray[np.integer[Any]] = self.work["version"][1:]
        return versions

    @property
    def actor(self) -> int:
        """Index of the actor that pushed it."""
        return self.work.source


class Pace(ABC):
    """Decides how many gradient steps to take for which samples, and which side waits.

    Attributes:
        acting: actors that play this behavior now, each with the opts behind the oldest weights whose experience it may
            still push.
        done: whether all gradient steps are taken.
        ending: whether no actor pushes any more; pushes that have arrived are still learned from.
        rollouts: whether several pushes make one update.
    """

    rollouts = False

    def __init__(self, learner: Learner, settings: AsyncTrainerSettings) -> None:
        """``learner`` has its counters already if a run is resumed."""
        self.acting: dict[int, int] = {}
        self.done = settings.max_opts is not None and learner.progress.opts >= settings.max_opts
        self.ending = False
        self._learner, self._settings = learner, settings
        self._progress = learner.progress
        self._opts_of = {learner.policy.version: learner.progress.opts}

    def published(self, version: int) -> None:
        """Report that actors get this version of the weights."""
        self._opts_of[version] = self._progress.opts

    def opts_behind(self, version: int) -> int:
        """Number of opts behind a published version of the weights."""
        return self._opts_of.get(int(version), 0)

    def age_of(self, push: Push) -> int:
        """Number of opts behind the oldest weights in a push."""
        return self.opts_behind(push.versions.min())

    def lags(self, push: Push) -> IntArray:
        """Opts [n] taken since the weights that acted were published, record by record."""
        versions, places = np.unique(push.versions, return_inverse=True)
        return np.array([self._progress.opts - self.opts_behind(version) for version in versions], np.int32)[places]

    def current(self, actor: int, version: int) -> None:
        """Report that an actor holds nothing made with weights older than ``version``."""
        if actor in self.acting:
            self.acting[actor] = max(self.acting[actor], self.opts_behind(version))

    def take_in(self, samples: int) -> None:
        """Count samples that are about to be learned from."""
        self._progress.samples += samples

    @abstractmethod
    def full(self, queue: Sequence[Push], actor: int) -> bool:
        """Whether a push of ``actor`` has to wait because the queue is full."""

    @abstractmethod
    def together(self, queue: Sequence[Push]) -> Sequence[Push]:
        """The pushes of a round to learn from in one update; empty if more have to come first."""

    @abstractmethod
    def following(self, queue: Sequence[Push], *, hold: bool) -> Sequence[Push]:
        """The pushes to take in next; empty if there are too few, or earlier ones have to be learned from first.

        ``hold``: whether pushes that are too new wait for an actor whose weights are at the bound of the lag.
        """

    @abstractmethod
    def steps(self, samples: int, queue: Iterable[Push] = ()) -> int:
        """Gradient steps to take now, with ``samples`` more, while ``queue`` waits."""


class RolloutPace(Pace):
    """For an algorithm that learns from rollouts: one update from each rollout of the size that it needs.

    During an update the next rollout arrives. The push that completes it waits until that rollout is learned from, and
    so do all later pushes. So the weights that acted are at most one update old.
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
        return 0  # the update itself takes the steps for its rollout


class ReplayPace(Pace):
    """For an algorithm with a replay memory: a minimum and maximum number of samples per opt."""

    def __init__(self, learner: Learner, settings: AsyncTrainerSettings) -> None:
        super().__init__(learner, settings)
        hyper = OffPolicyHyperparameters.of(learner.settings.hyperparameters)
        if settings.samples_per_update is not None:
            self._budget = Budget(learner, hyper, settings.samples_per_update)
        else:
            self._budget = budget_of(learner, hyper, repeatable=settings.mode == "lock_step")

    @override
    def take_in(self, samples: int) -> None:
        self._budget.take_in(samples)

    @override
    def full(self, queue: Sequence[Push], actor: int) -> bool:
        opts = self._progress.opts
        held = self.acting.get(actor, opts) + self._settings.max_policy_lag <= opts  # learning waits for this actor
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
        # The lag holds the rest back: take in only pushes old enough to cause that.
        oldest = min(queue, key=self.age_of)
        held_by_actor = self.age_of(oldest) > min(self.acting.values(), default=self._progress.opts)
        return () if held_by_actor and hold else (oldest,)

    @override
    def steps(self, samples: int, queue: Iterable[Push] = ()) -> int:
        opts, settings = self._progress.opts, self._settings
        if self.done:
            return 0
        # If no actor collects any more, only the owed steps are left to do.
        limits = [MOST_STEPS, self._budget.owed(samples) if self.ending else self._budget.allowed(samples)]
        limits.append((opts // settings.sync_interval + 1) * settings.sync_interval - opts)
        if settings.max_opts is not None:
            limits.append(settings.max_opts - opts)
        if not (settings.mode == "lock_step" or self.ending):
            oldest = min((*self.acting.values(), *map(self.age_of, queue)), default=opts)
            limits.append(oldest + settings.max_policy_lag - opts)
        return max(0, min(limits))
