"""Engines as environments: how they are started and configured, and a worker that keeps one engine running.

A worker is a slot for one engine, with a fixed index and port. It starts a new process each time the engine is
restarted.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from tau_trainer import __version__
from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.godot.dialect import EDITOR_PORT as GODOT_PORT
from tau_trainer.bridge.godot.dialect import Godot
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.bridge.ports import check_address, engine_ports
from tau_trainer.bridge.protocol import BASE_PORT, EDITOR_PORT, PACKAGE_VERSION, TrainingEnvironmentInitialized
from tau_trainer.bridge.side_channels import SideChannelHub
from tau_trainer.bridge.tls import read_tls
from tau_trainer.envs.contract import OnEvent, OnStat, Parameters
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import EngineError, EngineRefusedError, EngineStoppedError, PortInUseError, SettingsError
from tau_trainer.settings import RunSettings
from tau_trainer.specs import Actions, Behaviors, StepBatch

_FAREWELL_S = 1.0
"""Seconds in which an ended engine can still receive the trainer's goodbye."""


class EngineSource:
    """The engines of a run: builds, scenes of the headless engine, games that join, or the editor."""

    def __init__(
        self,
        settings: RunSettings,
        count: int,
        log_folder: Path,
        engine_args: tuple[str, ...],
        only: int | None = None,
    ) -> None:
        """``only``: the index of the one engine made here. Raises SettingsError, LaunchError, PortInUseError."""
        env = settings.env_settings
        self._env = env
        editor = env.place is None
        if editor and count > 1:
            raise SettingsError(f"there is only one editor; to use {count} engines, name a build with --env")
        self._options = _engine_options(settings)
        godot, graphics = self._options.godot, settings.engine_settings
        self._launch: LaunchSpec | None = None
        if not env.awaited:
            self._launch = LaunchSpec.of(
                env.place or "",
                godot=godot,
                no_graphics=graphics.no_graphics,
                no_graphics_monitor=graphics.no_graphics_monitor,
                env_args=(*engine_args, *(env.env_args or ())),
                log_folder=log_folder,
                bound=only is not None,  # actors can be killed, and must not leave an engine behind
            )
        own_port = EDITOR_PORT if godot is None else GODOT_PORT
        self._ports = _ports(settings, count, own_port, only)
        if settings.collection.listen is not None:
            check_address(settings.collection.listen)
        self.invitation: str | None = None
        if editor:
            self.invitation = f"waiting for the editor on port {self._ports[0]}: press Play in the editor"
        elif env.attached:
            first, *_, last = *self._ports, self._ports[-1]  # they are consecutive
            where = f"port {first}" if first == last else f"ports {first} to {last}"
            flag = "--port=PORT" if env.godot else "--mlagents-port PORT (Unreal: -mlAgentPort=PORT)"
            self.invitation = f"waiting for engines to join on {where}: start one a port, with {flag}"
        self.warnings = (*_exposure(self._options), *_other_port(settings, own_port))
        self._playable = Playable()

    def make(self, index: int, on_stat: OnStat, on_event: OnEvent) -> EngineWorker:
        """The engine of pair ``index``, not yet started."""
        budget = RestartBudget.of(self._env, on_event)
        worker = EngineWorker(index, self._ports[index], self._launch, self._options, budget, on_stat)
        worker.playable = self._playable
        return worker


class Playable:
    """State shared by the workers of one build: whether any of its engines has ever answered a step."""

    proved = False


class EngineWorker:
    """Keeps one engine running. Implements :class:`~tau_trainer.envs.contract.Environment`."""

    def __init__(
        self,
        index: int,
        port: int,
        launch: LaunchSpec | None,
        options: EngineOptions,
        budget: RestartBudget,
        on_stat: OnStat | None = None,
    ) -> None:
        self.index = index
        self.exchanges = 0
        self._port = port
        self._launch = launch
        self._options = options
        self._budget = budget
        self._on_stat = on_stat
        self._parameters: Parameters = {}
        self._notes_reported: set[str] = set()
        self._expected = False
        """Whether the worker waits for a game to join."""
        self.engine: Engine | None = None
        self.playable = Playable()
        """Shared by all workers that start the same build."""

    @property
    def restarts(self) -> int:
        """Number of times that the engine was restarted."""
        return self._budget.restarts

    @property
    def specs(self) -> Behaviors:
        """The behaviors seen so far, by full name."""
        return self.engine.specs if self.engine is not None else {}

    @property
    def waits_for(self) -> str | None:
        """What the trainer waits for; None while the engine waits for the trainer."""
        if self._expected:
            return f"an engine to join on port {self._port}"
        if self.engine is None:
            return f"engine {self.index} to start"
        return f"engine {self.index} to {self.engine.stage}" if self.engine.awaited else None

    @property
    def absent(self) -> str | None:
        """Why nothing happens until someone continues the game or an engine joins; None while it runs."""
        if self._expected:
            return f"no engine has joined on port {self._port}"
        return self.engine.paused if self.engine is not None else None

    async def start(self, parameters: Parameters) -> list[StepBatch]:
        """Launch, shake hands, reset with ``parameters``; returns every behavior's first step. Raises EngineError."""
        self._parameters = parameters
        if self._options.attached:
            return await self._wait_for_engine()
        try:
            return await self._start()
        except PortInUseError:
            if self._options.fixed_port:
                raise
        self._port = 0
        return await self._start()

    async def _start(self, *, patient: bool = False) -> list[StepBatch]:
        channels = SideChannelHub(self._on_stat)
        on_event = self._budget.on_event
        self.engine = Engine(self.index, self._port, self._launch, self._options, channels, on_event)
        try:
            await self.engine.start(patient=patient)
            batches = await self.engine.reset(self._parameters)
            self._tell_notes()
            return batches
        except BaseException:
            await self.kill()
            raise

    def _tell_notes(self) -> None:
        """Report notes on the engine's package, once for each run: all engines are of the same build."""
        assert self.engine is not None
        notes = [note for note in self.engine.notes if self.index == 0 and note not in self._notes_reported]
        self.engine.notes.clear()
        self._notes_reported.update(notes)
        for note in notes:
            self._budget.on_event(note)

    def tell(self, parameters: Parameters) -> None:
        """Send changed parameters with the next answer. A sampler that is sent again restarts its random sequence."""
        assert self.engine is not None
        changed = {name: value for name, value in parameters.items() if self._parameters.get(name) != value}
        self.engine.tell(changed)
        self._parameters = parameters

    def answer(self, actions: Mapping[str, Actions]) -> None:
        """Answer the agents that asked, so that the engine continues."""
        assert self.engine is not None
        self.engine.answer(actions)

    async def next(self) -> list[StepBatch]:
        """The engine's next step. Raises EngineError."""
        assert self.engine is not None
        batches = await self.engine.next()
        self.exchanges += 1
        self.playable.proved = True
        if self.engine.notes:
            self._tell_notes()
        return batches

    async def reset(self, parameters: Parameters) -> list[StepBatch]:
        """Restart all episodes. Raises EngineError."""
        assert self.engine is not None
        self._parameters = parameters
        return await self.engine.reset(parameters)

    async def recover(self, error: EngineError) -> list[StepBatch]:
        """Replace an engine that failed or was refused; returns the first step of the next one.

        If the user starts the engines, wait until Play is pressed again or another engine joins, each time. If this
        program starts them, restart the engine, provided that any engine of its build has ever answered a step. If none
        has, the build does not work here and the error is raised. It is also raised if the engine was refused (the next
        one would have the same behaviors), if its port is taken, and if the restart budget is used up.
        """
        self._budget.worked(0 if self.engine is None else self.engine.exchanges)
        refused = isinstance(error, EngineRefusedError)
        if self.engine is not None and (refused or isinstance(error, EngineStoppedError)):
            await self.engine.close(_FAREWELL_S)
        await self.kill()
        if self._options.attached:
            said = f"{error}; another may join on port {self._port}"
            if refused:
                said = f"the engine on port {self._port} was refused: {error}; another may join there"
            self._budget.on_event(said)
            return await self._wait_for_engine()
        if self._launch is None:
            return await self._wait_for_play(error)
        if isinstance(error, EngineStoppedError | PortInUseError) or refused or not self.playable.proved:
            raise error
        return await self._budget.revive(error, lambda: self.start(self._parameters))

    async def _wait_for_play(self, error: EngineError) -> list[StepBatch]:
        """Wait until the user has restarted the game and return its first step. Failed starts do not end the wait.

        Raises ``error`` if the editor is still connected: then pressing Play does not help.
        """
        if not isinstance(error, EngineStoppedError | EngineRefusedError):
            raise error
        while True:
            self._budget.spend()
            self._budget.on_event(f"{error}; press Play to continue the run, or Ctrl-C to end it")
            try:
                return await self._start(patient=True)
            except PortInUseError:
                raise
            except EngineError as again:
                error = again

    async def _wait_for_engine(self) -> list[StepBatch]:
        """The first step of the next engine that joins. Engines that leave before that are reported and not counted."""
        while True:
            self._expected = True
            try:
                return await self._start(patient=True)
            except PortInUseError:
                raise
            except EngineError as error:
                self._budget.on_event(f"{error}; another may join on port {self._port}")
            finally:
                self._expected = False

    async def kill(self) -> None:
        """End the engine at once."""
        if self.engine is not None:
            await self.engine.kill()

    async def close(self) -> None:
        """Close the connection and wait until the engine has ended."""
        if self.engine is not None:
            await self.engine.close()
            self.engine = None  # not earlier: if closing is cancelled, `kill` still needs it


def _ports(settings: RunSettings, count: int, own_port: int, only: int | None = None) -> list[int]:
    """Ports for the engines. The default base port means: any free ports from there up."""
    if settings.env_settings.place is None:
        try:
            return engine_ports(1, own_port)
        except PortInUseError:
            raise PortInUseError(
                f"port {own_port}, where the editor connects, is taken by another program; "
                "end it: it may be another trainer that waits for the editor"
            ) from None
    base = settings.env_settings.base_port
    if settings.env_settings.attached:  # the user who starts the engines must know the ports
        return engine_ports(count, base)
    if only is not None and base != BASE_PORT:  # the other engines may already use their ports
        return [*range(base, base + only), *engine_ports(1, base + only)]
    return engine_ports(count, None if base == BASE_PORT else base)


def _other_port(settings: RunSettings, own_port: int) -> tuple[str, ...]:
    """A port that was asked for, where the editor is waited for, which connects to its own."""
    env, port = settings.env_settings, settings.env_settings.base_port
    if env.place is not None or port in (BASE_PORT, own_port):
        return ()
    return (f"--base-port {port} has no effect: the editor always connects to port {own_port}",)


def _godot(settings: RunSettings) -> Godot | None:
    """What Godot games are told; None for other engines. Raises SettingsError."""
    env, chosen = settings.env_settings, settings.collection
    if not env.godot:
        return None
    if chosen.listen is not None:
        raise SettingsError("Godot games always connect to their own machine; leave --listen (collection.listen) out")
    return Godot(env.seed, settings.engine_settings.time_scale, chosen.action_repeat, chosen.truncate_after)


def _engine_options(settings: RunSettings) -> EngineOptions:
    env, collection = settings.env_settings, settings.collection
    return EngineOptions(
        seed=env.seed,
        num_areas=env.num_areas,
        timeout_s=float(env.timeout_wait),
        configuration=settings.engine_settings,
        trainer=TrainingEnvironmentInitialized(
            trainer_version=f"tau-trainer {__version__}",
            envs_version=PACKAGE_VERSION,
            python_version=platform.python_version(),
            torch_version=metadata.version("torch"),
            device=settings.device,
            num_envs=env.num_envs,
            num_environment_parameters=len(settings.environment_parameters or {}),
        ),
        may_leave=settings.checkpoint_settings.inference,
        listen=collection.listen,
        tls=read_tls(collection.tls_cert, collection.tls_key),
        image_order=collection.image_order,
        flat_sensors=collection.flat_sensors,
        # If the user named the port, it is fixed; else another free port is used if it becomes taken.
        attached=env.attached,
        fixed_port=env.awaited or env.base_port != BASE_PORT,
        godot=_godot(settings),
    )


def _exposure(options: EngineOptions) -> tuple[str, ...]:
    """Security warnings about listening on a network address."""
    if not options.listen:
        return ()
    how, can = "without encryption or password", "can"
    if options.tls is not None:
        how, can = "with TLS but without client authentication", "can still"
    return (
        f"listening on {options.listen}, {how}: anyone who can reach it {can} act as an "
        "engine; if the engines run on this machine, omit --listen",
    )
