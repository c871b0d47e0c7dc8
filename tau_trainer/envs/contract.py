"""What a pair needs of the thing it plays: one page, whoever fulfils it.

The environment asks, we answer: a step is a list of :class:`~tau_trainer.specs.StepBatch`, one a behavior, with the
agents that want a decision and those whose episode ended. Who steps in this process, and blocks meanwhile, derives from
:class:`~tau_trainer.envs.threaded.ThreadedEnvironment`. Scripts of users stand on the other contract of this folder,
:class:`~tau_trainer.envs.mlagents.base_env.BaseEnv`; :mod:`tau_trainer.envs.base_env` leads from that one to this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tau_trainer import plugins
from tau_trainer.bridge.side_channels import Sampler, Stat
from tau_trainer.errors import EngineError, SettingsError
from tau_trainer.specs import Actions, BehaviorSpec, StepBatch

if TYPE_CHECKING:
    from tau_trainer.settings import RunSettings

Parameters = Mapping[str, float | Sampler]
"""What environments are told as they begin, by name; ``seed`` where a run is to be repeatable."""
OnStat = Callable[[Stat], None]
"""Called with a number that the game reports by itself."""


class OnEvent(Protocol):
    """Called with a sentence for the person who watches."""

    def __call__(self, message: str, /, *, restart: int = ...) -> object:
        """``restart``: told where an environment is started again, how often it has been, this time included."""


class Environment(Protocol):
    """One game, with any number of agents of any number of behaviors.

    Use: ``await start(parameters)``, then ``answer(actions)`` and ``await next()`` in turn; after an EngineError
    ``await recover(error)`` gives the first step of a fresh game or raises; ``await close()``, or ``await kill()``.
    ``tell(parameters)`` before an answer where they change.
    """

    @property
    def specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviors met so far, by full name."""

    @property
    def exchanges(self) -> int:
        """Steps so far."""

    @property
    def restarts(self) -> int:
        """How often it was replaced by a fresh one."""

    @property
    def waits_for(self) -> str | None:
        """What it is waited for to do (``engine 3 to answer a step``); None while it waits for us."""

    @property
    def absent(self) -> str | None:
        """Why nothing happens until a person goes on with the game (it is paused, say); None while it runs."""

    async def start(self, parameters: Parameters) -> list[StepBatch]:
        """Begin; the first step of every behavior. Raises EngineError."""

    async def reset(self, parameters: Parameters) -> list[StepBatch]:
        """Begin all episodes anew; nothing is told of those that were open. Raises EngineError."""

    def tell(self, parameters: Parameters) -> None:
        """The parameters have become these: it reads them when it likes, at an episode's begin most often."""

    def answer(self, actions: Mapping[str, Actions]) -> None:
        """Give every agent that asked its action, by behavior, in the order they asked. Returns at once."""

    async def next(self) -> list[StepBatch]:
        """The next step. Raises EngineStoppedError when somebody who may has ended it, else EngineError."""

    async def recover(self, error: EngineError) -> list[StepBatch]:
        """Replace a game that failed to start, failed later or was refused, or wait for who ended it; its first step.

        A game is refused by an EngineRefusedError. Raises ``error`` if no other game can take its place.
        """

    async def close(self) -> None:
        """Say goodbye and wait for its end."""

    async def kill(self) -> None:
        """End it at once."""


class EnvironmentSource(Protocol):
    """Makes the environments of a run. Made by :func:`open_source` before anything is started."""

    invitation: str | None
    """What a person has to do so that it begins, as a sentence; None: nothing."""
    warnings: tuple[str, ...]
    """What should be said before it begins."""

    def make(self, index: int, on_stat: OnStat, on_event: OnEvent) -> Environment:
        """The environment of pair ``index``, not yet started."""


def no_engine(settings: RunSettings, count: int, log_folder: Path) -> EnvironmentSource:
    """What is asked to make environments of a batched one. Raises SettingsError."""
    path = settings.env_settings.env_path
    raise SettingsError(
        f"--env {path} is no environment of this command; `tau-train parallel --policy independent --env {path}` and "
        "`tau-train batch` train on batched ones"
    )


def open_source(
    settings: RunSettings,
    count: int,
    log_folder: Path,
    engine_args: tuple[str, ...] = (),
    *,
    only: int | None = None,
) -> EnvironmentSource:
    """What ``env_settings.env_path`` (``--env``) asks for: a plug-in by its prefix (``gym:``, ...), else engines.

    Args:
        settings: of the run.
        count: environments that will be made.
        log_folder: where engines may write.
        engine_args: what an engine is told on its command line besides the user's own words.
        only: the one of them that this process makes; None: all.

    Raises:
        SettingsError, LaunchError, PortInUseError: there is no such thing here.
    """
    from tau_trainer.settings.problems import check_chosen  # with pydantic, which users' scripts do without

    check_chosen(settings, "env_settings")
    prefix, colon, _ = (settings.env_settings.env_path or "").partition(":")
    if colon and prefix in plugins.names("environments"):
        source: EnvironmentSource = plugins.load("environments", prefix)(settings, count, log_folder)
        return source
    from tau_trainer.envs.engines import EngineSource

    return EngineSource(settings, count, log_folder, engine_args, only)
