"""The interface between a training pair and its environment, for all kinds of environments.

The environment asks, the trainer answers. A step is a list of :class:`~tau_trainer.specs.StepBatch`, one for each
behavior, with the agents that need a decision and those whose episode ended. Environments that step (and block) in this
process derive from :class:`~tau_trainer.envs.threaded.ThreadedEnvironment`. Users' scripts use the other contract of
this folder, :class:`~tau_trainer.envs.mlagents.base_env.BaseEnv`; :mod:`tau_trainer.envs.base_env` adapts that one to
this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tau_trainer import plugins
from tau_trainer.bridge.side_channels import Sampler, Stat
from tau_trainer.errors import EngineError, SettingsError
from tau_trainer.specs import Actions, Behaviors, StepBatch

if TYPE_CHECKING:
    from tau_trainer.settings import RunSettings

Parameters = Mapping[str, float | Sampler]
"""Environment parameters by name, sent when an environment starts; includes ``seed`` if the run is repeatable."""
OnStat = Callable[[Stat], None]
"""Called with a statistic that the game reports."""


class OnEvent(Protocol):
    """Called with a message for the user."""

    def __call__(self, message: str, /, *, restart: int = ...) -> object:
        """``restart``: only if an environment is restarted; the number of its restarts so far, including this one."""


class Watched(Protocol):
    """What is seen of a pair's environment, wherever it is."""

    @property
    def exchanges(self) -> int:
        """Number of steps so far."""

    @property
    def restarts(self) -> int:
        """Number of times that it was replaced by a new one."""

    @property
    def waits_for(self) -> str | None:
        """What the trainer waits for (``engine 3 to answer a step``); None while it waits for the trainer."""

    @property
    def absent(self) -> str | None:
        """Why nothing happens until a person continues the game (for example, it is paused); None while it runs."""


class Environment(Watched, Protocol):
    """One game, with any number of agents of any number of behaviors.

    Usage: call ``await start(parameters)``, then ``answer(actions)`` and ``await next()`` in turn. After an
    EngineError, ``await recover(error)`` returns the first step of a new game or raises. If the parameters change, call
    ``tell(parameters)`` before the next answer. End with ``await close()`` or ``await kill()``.
    """

    @property
    def specs(self) -> Behaviors:
        """The behaviors seen so far, by full name."""

    async def start(self, parameters: Parameters) -> list[StepBatch]:
        """Start it and return the first step of every behavior. Raises EngineError."""

    async def reset(self, parameters: Parameters) -> list[StepBatch]:
        """Restart all episodes; the interrupted ones report no end. Raises EngineError."""

    def tell(self, parameters: Parameters) -> None:
        """Set new parameters. The environment decides when it reads them, usually when an episode starts."""

    def answer(self, actions: Mapping[str, Actions]) -> None:
        """Pass the actions of all agents that asked, by behavior, in the order they asked. Returns at once."""

    async def next(self) -> list[StepBatch]:
        """The next step. Raises EngineStoppedError if the user ended the game, else EngineError."""

    async def recover(self, error: EngineError) -> list[StepBatch]:
        """Replace a game that failed or was refused, or wait until the user restarts one; returns its first step.

        An EngineRefusedError means that the trainer refused the game. Raises ``error`` if no game can replace it.
        """

    async def close(self) -> None:
        """End the game in an orderly way and wait until it has ended."""

    async def kill(self) -> None:
        """End the game at once."""


class EnvironmentSource(Protocol):
    """Makes the environments of a run. :func:`open_source` creates it before anything starts."""

    invitation: str | None
    """What the user must do so that the run starts, as a sentence; None: nothing."""
    warnings: tuple[str, ...]
    """Warnings to show before the run starts."""

    def make(self, index: int, on_stat: OnStat, on_event: OnEvent) -> Environment:
        """The environment of pair ``index``, not yet started."""


def no_engine(settings: RunSettings, count: int, log_folder: Path) -> EnvironmentSource:
    """Always raises SettingsError: a batched environment cannot be used as an engine."""
    path = settings.env_settings.env_path
    raise SettingsError(
        f"--env {path} does not work with this command; to train on a batched environment, use `tau-train batch` or "
        f"`tau-train parallel --policy independent --env {path}`"
    )


def open_source(
    settings: RunSettings,
    count: int,
    log_folder: Path,
    engine_args: tuple[str, ...] = (),
    *,
    only: int | None = None,
) -> EnvironmentSource:
    """The source for ``env_settings.env_path`` (``--env``): a plug-in by its prefix (``gym:``, ...), else engines.

    Args:
        settings: settings of the run.
        count: number of environments.
        log_folder: folder for the engines' logs.
        engine_args: arguments for an engine's command line in addition to the user's.
        only: index of the only environment that this process makes; None: all.

    Raises:
        SettingsError, LaunchError, PortInUseError: the environments are not available here.
    """
    from tau_trainer.settings.problems import check_chosen  # imports pydantic, which users' scripts do not need

    check_chosen(settings, "env_settings")
    prefix, colon, _ = (settings.env_settings.env_path or "").partition(":")
    if colon and prefix in plugins.names("environments"):
        source: EnvironmentSource = plugins.load("environments", prefix)(settings, count, log_folder)
        return source
    from tau_trainer.envs.engines import EngineSource

    return EngineSource(settings, count, log_folder, engine_args, only)
