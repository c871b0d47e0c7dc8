"""What an algorithm promises: everything else in the trainer works with these few methods.

An algorithm is one file and one registered name (:mod:`tau_trainer.plugins`, kind ``trainers``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer import plugins
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.bridge.package import RECORDED, ImageOrder
from tau_trainer.columns import Arrays
from tau_trainer.errors import SettingsError
from tau_trainer.memory import Memory, Work, WorkData
from tau_trainer.models import Policy
from tau_trainer.rewards.streams import RewardStream, paid_streams
from tau_trainer.settings import TrainerSettings, trainer_type
from tau_trainer.specs import BehaviorSpec

Publish = Callable[[Policy], None]
"""Lets agents act with a policy from their next decision on. May be called in the middle of an update."""
OnBatch = Callable[[int, Mapping[str, float] | None], None]
"""Told of so many minibatches that are learned from in one go: None as that begins, then losses as far as known."""
State = tuple[dict[str, NDArray[Any]], dict[str, Any]]
"""Arrays by name, and facts that JSON can hold: what a checkpoint keeps."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What an algorithm is made from."""

    spec: BehaviorSpec
    """The behavior with the sensors that the policy sees."""
    settings: TrainerSettings
    seed: int
    """Of weights and of the order in which is learned."""
    reward_width: int = 1
    """``R``, numbers in one reward: 1, or the number of action components (credit by component)."""
    device: str = "cpu"
    """Where learning happens."""
    environment: tuple[str, ...] = ()
    """What is played, as ``--env`` and ``--env-args`` say, for who has to ask it something; empty: nothing is."""
    learns: bool = True
    """Whether it will; else it acts with what is loaded, and needs no demonstrations."""
    images: ImageOrder = RECORDED
    """How images of demonstrations lie that Unity recorded."""
    max_steps: int | None = None
    """Decisions that this learner has; None: those of the settings, which several may have between them."""
    ranks: Ranks = field(default_factory=Ranks, compare=False)
    """Who learns together, each from all that comes: of every minibatch each takes a part."""

    @property
    def decisions(self) -> int:
        """Those that this learner has, in all runs together."""
        return self.settings.max_steps if self.max_steps is None else self.max_steps

    @property
    def streams(self) -> tuple[RewardStream, ...]:
        """The reward streams that are learned from."""
        return paid_streams(self.settings.reward_signals, self.reward_width)


@dataclass(frozen=True, slots=True)
class Counters:
    """Where a learner stands."""

    decisions: int
    """Made for it so far, earlier runs that were resumed included."""
    updates: int
    """Behind it and under way, in all runs."""
    push: int = 0
    """Transitions that an actor hands over at once; 0: as many as the algorithm likes."""
    idle: bool = False
    """Whether the learner rests, and would take more gradient steps if there were more experience."""


class Algorithm(ABC):
    """The learning of one behavior. Made from a :class:`Setup`.

    Collecting and learning may happen in two threads, or in two processes: then there are two instances, of which one
    only collects (:attr:`memory`, :meth:`ready`, :meth:`policy`) and the other only learns. So what :meth:`update`
    needs travels in the :class:`~tau_trainer.memory.Work`, and nothing else connects the two sides.

    Attributes:
        memory: where experience waits; only the collecting side touches it.
        version: number of updates behind the weights; only the learning side touches it.
    """

    memory: Memory
    version: int = 0
    searched_rate: float | None = None
    """The learning rate instead of the settings', while one is searched for; only the learning side reads it."""
    holds_lock: bool = True
    """Whether an update computes with the interpreter's lock in its hands: then it had better have a process of its
    own, lest acting waits for it."""
    on_policy: bool = True
    """Whether it learns from what the policy of now did: then agents that act beside an update do so as late as they
    can, with weights as new as they can be."""
    on_batch: OnBatch | None = None
    """Whom updates tell of their minibatches, if they can; None: nobody asks."""
    exports: bool = True
    """Whether policies become model files."""
    falls: bool = False
    """Whether it may lose at any time what it knows, so that the last policy is a matter of luck."""
    data_parallel: bool = False
    """Whether several processes can learn together, each from a part of every minibatch."""
    large: bool = False
    """Whether single operations of an update, such as those on images, are worth several threads each."""

    @property
    def rollout_size(self) -> int:
        """New transitions that an update waits for; 0: it has a memory of its own, and takes as many as there are."""
        return 0

    @abstractmethod
    def ready(self, counters: Counters) -> Work | None:
        """The work of one update, if there is enough experience for it."""

    @abstractmethod
    def update(self, work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        """Learn; :attr:`version` grows by one.

        Args:
            work: what :meth:`ready` gave. Where several actors collect, and learning is not bound to what came, it says
                whose it is and how many gradient steps to take now: see :class:`~tau_trainer.memory.Work`.
            progress: share of ``max_steps`` that is behind us, 0 to 1, for schedules.
            publish: may be called with the policy so far, while the update goes on, so that agents act with weights
                that are little behind; its version is the one that the update ends with. None: agents stand still
                until the update is over.

        Returns:
            Statistics by TensorBoard name.

        Raises:
            NonFiniteError: NaN or infinity in the data or in what came of it; everything is as before the call.
        """

    @abstractmethod
    def weights(self) -> dict[str, NDArray[Any]]:
        """Everything that acting depends on, copied."""

    @abstractmethod
    def policy(self, weights: Arrays, version: int) -> Policy:
        """The policy with these :meth:`weights`; nobody may write to them any more."""

    def snapshot(self) -> Policy:
        """The policy of now, as an independent copy."""
        return self.policy(self.weights(), self.version)

    @abstractmethod
    def state(self) -> State:
        """Everything needed to go on bit for bit."""

    @abstractmethod
    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        """Go on from :meth:`state`; nothing is changed unless everything fits.

        ``fresh``: take over what was learned alone (weights, statistics, moments of the optimizer), with counters at
        0, random numbers of its own, and no experience.

        Raises:
            CheckpointError: the state belongs to another behavior, network or algorithm, or is damaged.
        """

    def lost(self, facts: Mapping[str, Any]) -> str:
        """What a checkpoint with these facts did not keep though learning needs it, in a sentence; empty: nothing."""
        return ""

    def unshared(self, ranks: int) -> str:
        """Why so many cannot learn together (:attr:`Setup.ranks`), as the end of a sentence; empty: they can."""
        return "" if self.data_parallel else "its algorithm learns in one process"

    @property
    @abstractmethod
    def missing(self) -> str:
        """What an update waits for, for a person whose run ended before the first: ``a buffer of 10,240``."""


def policy_age(version: int, versions: NDArray[np.integer[Any]]) -> float:
    """Mean number of updates by which the policies that acted were behind ``version``."""
    return float(version - np.mean(versions))


def make_algorithm(setup: Setup) -> Algorithm:
    """The algorithm that ``trainer_type`` names. Raises SettingsError for a behavior that it cannot learn."""
    if setup.spec.actions.components == 0:
        raise SettingsError(f"behavior '{setup.spec.short_name}' has no actions, so there is nothing to learn")
    sensors = [sensor for sensor in setup.spec.observations if not sensor.hidden]
    if not any(sensor.size for sensor in sensors):
        named = ", ".join(f"'{sensor.name}'" for sensor in sensors)
        has = f"only sensors of size 0 ({named})" if sensors else "no sensors"
        raise SettingsError(
            f"behavior '{setup.spec.short_name}' has {has}, so there is nothing to decide by; give its agents a sensor"
        )
    place = trainer_type(setup.settings.trainer_type).algorithm
    try:
        found = plugins.resolve(place)
        algorithm: Algorithm = getattr(found, "algorithm", found)(setup)  # an Agent's class knows who trains it
    except SettingsError as error:
        raise SettingsError(f"behavior '{setup.spec.short_name}': {error}") from error
    return algorithm


def check_shared(algorithm: Algorithm, spec: BehaviorSpec, devices: int) -> None:
    """Raises SettingsError where so many processes cannot learn a behavior together."""
    if devices > 1 and (why := algorithm.unshared(devices)):
        raise SettingsError(f"--devices {devices}: behavior '{spec.short_name}': {why}; remove it")


def check_served(algorithm: Algorithm, spec: BehaviorSpec) -> None:
    """Raises SettingsError where learners of a parameter server cannot learn a behavior, each from its rollouts."""
    if algorithm.rollout_size == 0:
        raise SettingsError(
            f"strategy parameter_server: behavior '{spec.short_name}': its algorithm learns from a memory, not from "
            "rollouts; use strategy: mirrored, or one device"
        )
