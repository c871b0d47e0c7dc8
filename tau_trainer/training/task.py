"""What a task adds to a run: all of it is one object, and a run without a task is an ordinary one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """What agents are given to do, where that is more than the engine's own reward."""

    keys: TaskKeys
    """Names of its scalars."""
    columns: tuple[str, ...]
    """Columns that the table of pairs shows for it: ``success``."""
    pairs: int
    """Pairs that are asked for."""
    max_concurrent: int | None
    """Pairs that may run at the same time; None = as many as make sense."""
    shared: bool
    """Whether all pairs feed one learner a behavior."""
    evaluates: bool
    """Whether policies are to be evaluated."""
    subject: str
    """What is learned from, in a word or two."""

    def engine_args(self, given: Sequence[str]) -> tuple[str, ...]:
        """What an engine is told on its command line, since specs cannot change later, besides the user's own words.

        Raises SettingsError where ``given`` says otherwise.
        """

    @property
    def editor_parameters(self) -> Mapping[str, float]:
        """The same for the Unity editor, which has no command line, as environment parameters."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What a run that goes on must find as it was, by what it is called: ``{"data set": digest}``."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know before it begins."""

    def visible(self, spec: BehaviorSpec) -> BehaviorSpec:
        """The behavior as the policy sees it."""

    def rewarder(self, spec: BehaviorSpec) -> Rewarder:
        """The rewards of one pair for a behavior. Raises SettingsError where it lacks what they are made from."""

    def check(self, spec: BehaviorSpec) -> None:
        """Raises SettingsError for a behavior that cannot be evaluated; called for :meth:`visible` ones."""

    @property
    def baselines(self) -> Mapping[str, BaselineScore]:
        """What policies are compared with while they learn, by name, on the rows of :meth:`quick_scores`."""

    batched: str
    """The batched environment that plays it, as ``--env batched:...`` calls it; empty: none does."""
    copies: int
    """Of that environment in each pair."""

    @property
    def batched_spec(self) -> BehaviorSpec:
        """The behavior that an engine would show in its place."""

    def batched_env(self, seed: Tensor, device: str) -> BatchedEnv:
        """A copy for each seed, int64 [E]. Raises SettingsError, DataError."""

    def batched_target(self, env: BatchedEnv) -> Tensor:
        """What the policy does not see and rewards need, of each copy now: [E, 1, c]."""


def sized(settings: RunSettings) -> RunSettings:
    """Settings with what a task's data say where a file says nothing, of a task that has a ``sized``.

    Raises DataError, SettingsError.
    """
    for name in plugins.names("tasks"):
        if getattr(settings, name, None) is not None:
            check_chosen(settings, name)
            size: Callable[[RunSettings], RunSettings] | None = getattr(plugins.load("tasks", name), "sized", None)
            return settings if size is None else size(settings)
    return settings


def task_of(settings: RunSettings) -> Task | None:
    """The task that a section of the settings asks for. Raises DataError, SettingsError."""
    for name in plugins.names("tasks"):
        section = getattr(settings, name, None)
        if section is not None:
            check_chosen(settings, name)
            task: Task = plugins.load("tasks", name)(section)
            return task
    return None
