"""The contract of an algorithm: everything else in the trainer uses only these few methods.

An algorithm is one file and one registered name (:mod:`tau_trainer.plugins`, kind ``trainers``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
from tau_trainer.specs import BehaviorSpec, Json

Publish = Callable[[Policy], None]
"""Lets agents act with a policy from their next decision on. May be called in the middle of an update."""
OnBatch = Callable[[int, Mapping[str, float] | None], None]
"""Called with a number of minibatches that are learned from in one go: first with None, then with known losses."""
State = tuple[dict[str, NDArray[Any]], dict[str, Any]]
"""Arrays by name, and facts as JSON values: the state that a checkpoint keeps."""


@dataclass(frozen=True, slots=True)
class TensorCopies:
    """The copies of a batched environment that one policy plays."""

    num_envs: int
    """``E``, over all ranks."""
    agents: int
    """``A``: number of the policy's agents in each copy."""

    @property
    def decisions(self) -> int:
        """Decisions in one step of all copies."""
        return self.num_envs * self.agents

    def steps_in(self, buffer_size: int) -> int:
        """Steps that fill the buffer. Raises SettingsError if there are none."""
        if buffer_size < self.decisions:
            raise SettingsError(
                f"hyperparameters.buffer_size {buffer_size:,} is less than one step of "
                f"{self.num_envs:,} copies with {self.agents:,} agents each; raise it to a multiple of "
                f"{self.decisions:,}, or lower environment.num_envs (--num-envs)"
            )
        return buffer_size // self.decisions


@dataclass(frozen=True, slots=True)
class Setup:
    """The facts that an algorithm is made from."""

    spec: BehaviorSpec
    """The behavior with the sensors that the policy sees."""
    settings: TrainerSettings
    seed: int
    """Seed of the weights and of the order of learning."""
    reward_width: int = 1
    """``R``, numbers in one reward: 1, or the number of action components (credit by component)."""
    device: str = "cpu"
    """Device for learning."""
    environment: tuple[str, ...] = ()
    """The environment, as in ``--env`` and ``--env-args``, for algorithms that query it; empty: none is played."""
    learns: bool = True
    """Whether it will learn; otherwise it acts with loaded weights and needs no demonstrations."""
    images: ImageOrder = RECORDED
    """Order of the pixels in demonstrations that Unity recorded."""
    max_steps: int | None = None
    """Decisions of this learner; None: those of the settings, which several learners may share."""
    ranks: Ranks = field(default_factory=Ranks, compare=False)
    """The processes that learn together; each gets all experience, or that of its own copies, and takes a part of every
    minibatch."""
    on_batch: OnBatch | None = field(default=None, compare=False)
    """Called for the minibatches of updates, in their thread, if the algorithm supports it; None: not needed."""
    copies: TensorCopies | None = None
    """Copies whose rollouts of tensors it learns from; None: it learns from its :attr:`Algorithm.memory`."""

    @property
    def decisions(self) -> int:
        """Number of decisions of this learner, in all sessions together."""
        return self.settings.max_steps if self.max_steps is None else self.max_steps

    @property
    def streams(self) -> tuple[RewardStream, ...]:
        """The reward streams that are learned from."""
        return paid_streams(self.settings.reward_signals, self.reward_width)


@dataclass(frozen=True, slots=True)
class Counters:
    """Progress of a learner."""

    decisions: int
    """Made for it so far, including earlier sessions of a resumed run."""
    updates: int
    """Number of updates, finished and running, in all sessions."""
    push: int = 0
    """Transitions that an actor hands over at once; 0: the algorithm decides."""
    idle: bool = False
    """Whether the learner rests, and would take more gradient steps if it had more experience."""


class Algorithm(ABC):
    """The learning of one behavior. Made from a :class:`Setup`.

    Collecting and learning may happen in two threads or in two processes. With two processes there are two instances:
    one only collects (:attr:`memory`, :meth:`ready`, :meth:`policy`) and the other only learns. So all data that
    :meth:`update` needs is in the :class:`~tau_trainer.memory.Work`, and nothing else connects the two sides.

    Attributes:
        memory: holds the experience; only the collecting side uses it. There is none for :attr:`Setup.copies`.
        version: number of updates behind the weights; only the learning side uses it.
    """

    memory: Memory
    version: int = 0
    searched_rate: float | None = None
    """Replaces the settings' learning rate during a search for one; only the learning side reads it."""
    holds_lock: bool = True
    """Whether an update computes while it holds the interpreter's lock.

    If so, it should run in a process of its own, so that acting does not wait for it.
    """
    on_policy: bool = True
    """Whether it learns from the current policy's experience.

    If so, agents act during an update as late as they can, with weights as new as they can be.
    """
    exports: bool = True
    """Whether policies are exported as model files."""
    falls: bool = False
    """Whether it may lose at any time what it has learned, so that the quality of the last policy depends on luck."""
    data_parallel: bool = False
    """Whether several processes can learn together, each from a part of every minibatch."""
    horizon: int = 0
    """Steps of each of :attr:`Setup.copies` between two updates."""

    @property
    def large(self) -> bool:
        """Whether single operations of an update, such as those on images, benefit from several threads each."""
        return False

    @property
    def rollout_size(self) -> int:
        """New transitions that an update needs; 0: the algorithm has a memory of its own, and takes any number."""
        return 0

    @abstractmethod
    def ready(self, counters: Counters) -> Work | None:
        """The work of one update, if there is enough experience for it; otherwise None."""

    @abstractmethod
    def update(self, work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        """Learn; :attr:`version` grows by one.

        Args:
            work: the result of :meth:`ready`, or the newest :attr:`horizon` steps on tensors. If several actors collect
                and learning is not bound to the new experience, it names its source and the gradient steps to take now:
                see :class:`~tau_trainer.memory.Work`.
            progress: finished share of ``max_steps``, 0 to 1, for schedules.
            publish: may be called with the policy so far, during the update, so that agents act with weights that are
            only a
                little behind; its version is the one at the end of the update. None: agents wait until the update is
                over.

        Returns:
            Statistics by TensorBoard name.

        Raises:
            NonFiniteError: NaN or infinity in the data or in the results; all state is as before the call.
        """

    @abstractmethod
    def weights(self) -> dict[str, NDArray[Any]]:
        """Copies of all values that acting depends on."""

    @abstractmethod
    def policy(self, weights: Arrays, version: int) -> Policy:
        """The policy with these :meth:`weights`, which must not be written to afterwards."""

    def snapshot(self) -> Policy:
        """The current policy, as an independent copy."""
        return self.policy(self.weights(), self.version)

    @abstractmethod
    def state(self) -> State:
        """The full state for an exact resume."""

    @abstractmethod
    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        """Restore :meth:`state`; nothing is changed unless everything fits.

        ``fresh``: restore only what was learned (weights, statistics, moments of the optimizer), with counters at 0,
        the learner's own random numbers, and no experience.

        Raises:
            CheckpointError: the state belongs to another behavior, network or algorithm, or is damaged.
        """

    def lost(self, metadata: Json) -> str:
        """A sentence on data that learning needs but a checkpoint with these facts does not have.

        Empty if there is none.
        """
        return ""

    def unshared(self, ranks: int) -> str:
        """The reason why ``ranks`` processes cannot learn together (:attr:`Setup.ranks`), as the end of a sentence.

        Empty: they can.
        """
        return "" if self.data_parallel else "its algorithm learns in one process"

    @property
    @abstractmethod
    def missing(self) -> str:
        """What an update still needs, for a user whose run ended before the first one: ``a buffer of 10,240``."""


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
        algorithm: Algorithm = getattr(found, "algorithm", found)(setup)  # an Agent's class has one that trains it
    except SettingsError as error:
        raise SettingsError(f"behavior '{setup.spec.short_name}': {error}") from error
    return algorithm


def check_shared(algorithm: Algorithm, spec: BehaviorSpec, devices: int) -> None:
    """Raises SettingsError if ``devices`` processes cannot learn a behavior together."""
    if devices > 1 and (why := algorithm.unshared(devices)):
        raise SettingsError(f"--devices {devices}: behavior '{spec.short_name}': {why}; remove it")


def check_served(algorithm: Algorithm, spec: BehaviorSpec) -> None:
    """Raises SettingsError if learners of a parameter server, each with its own rollouts, cannot learn a behavior."""
    if algorithm.rollout_size == 0:
        raise SettingsError(
            f"strategy parameter_server: behavior '{spec.short_name}': its algorithm learns from a memory, not from "
            "rollouts; use strategy: mirrored, or one device"
        )
