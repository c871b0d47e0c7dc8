"""The Task: the single object through which a task extends a run. A run without a task is an ordinary run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tau_trainer import plugins
from tau_trainer.evaluation.candidates import Evaluating
from tau_trainer.metrics import BaselineScore, TaskKeys
from tau_trainer.rewards import Rewarder
from tau_trainer.settings import RunSettings
from tau_trainer.settings.problems import check_chosen
from tau_trainer.specs import BehaviorSpec

if TYPE_CHECKING:
    from torch import Tensor

    from tau_trainer.envs.batched import BatchedEnv


class Task(Evaluating, Protocol):
    """A goal for agents that goes beyond the engine's own reward."""

    keys: TaskKeys
    """Names of its scalars."""
    columns: tuple[str, ...]
    """Columns that it adds to the live table of pairs, such as ``success``."""
    pairs: int
    """Number of pairs to train."""
    max_concurrent: int | None
    """Maximum number of pairs that run at the same time; None chooses a suitable number."""
    shared: bool
    """Whether all pairs feed one learner per behavior."""
    evaluates: bool
    """Whether to evaluate policies."""
    subject: str
    """The source of learning, in a word or two."""

    def engine_args(self, given: Sequence[str]) -> tuple[str, ...]:
        """Arguments to add to an engine's command line, because specs cannot change later.

        ``given``: the user's arguments.

        Raises SettingsError if ``given`` contradicts them.
        """

    @property
    def editor_parameters(self) -> Mapping[str, float]:
        """The same values as environment parameters, for the editor, which has no command line."""

    @property
    def identity(self) -> Mapping[str, str]:
        """Facts that must not change when a run is resumed, by name: ``{"data set": digest}``."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to show to the user before the run starts."""

    def visible(self, spec: BehaviorSpec) -> BehaviorSpec:
        """The behavior as the policy sees it."""

    def rewarder(self, spec: BehaviorSpec) -> Rewarder:
        """The rewards of one pair for a behavior.

        Raises SettingsError if the behavior lacks the data that they need.
        """

    def check(self, spec: BehaviorSpec) -> None:
        """Raises SettingsError for a behavior that cannot be evaluated; called for :meth:`visible` ones."""

    @property
    def baselines(self) -> Mapping[str, BaselineScore]:
        """Baselines to compare policies with during training, by name, on the rows of :meth:`quick_scores`."""

    batched: str
    """The batched environment that plays this task, as in ``--env batched:...``; empty if there is none."""
    copies: int
    """Number of copies of that environment in each pair."""

    @property
    def batched_spec(self) -> BehaviorSpec:
        """The behavior that an engine would have for this task."""

    def batched_env(self, seed: Tensor, device: str) -> BatchedEnv:
        """A copy for each seed, int64 [E]. Raises SettingsError, DataError."""

    def batched_target(self, env: BatchedEnv) -> Tensor:
        """The values that rewards need and the policy does not see, of each copy, now: [E, 1, c]."""


def sized(settings: RunSettings) -> RunSettings:
    """Settings completed from a task's data, if they leave values open and the task has a ``sized``.

    Raises DataError, SettingsError.
    """
    for kind, _ in _chosen(settings):
        size: Callable[[RunSettings], RunSettings] | None = getattr(kind, "sized", None)
        return settings if size is None else size(settings)
    return settings


def task_of(settings: RunSettings) -> Task | None:
    """The task that a section of the settings names; None if there is none. Raises DataError, SettingsError."""
    return next((kind(section) for kind, section in _chosen(settings)), None)


def _chosen(settings: RunSettings) -> Iterator[tuple[Callable[[object], Task], object]]:
    """The tasks that the settings have a section for, each with that section."""
    for name in plugins.names("tasks"):
        section = getattr(settings, name, None)
        if section is not None:
            check_chosen(settings, name)
            yield plugins.load("tasks", name), section
