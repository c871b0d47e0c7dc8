"""``UnityEnvironment``: one engine, stepped by blocking calls."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.bridge.ports import engine_ports
from tau_trainer.bridge.protocol import BASE_PORT, COMMUNICATION_VERSION, EDITOR_PORT
from tau_trainer.bridge.side_channels import ENVIRONMENT_PARAMETERS, SideChannelHub
from tau_trainer.envs.mlagents.base_env import (
    ActionTuple,
    AgentId,
    BaseEnv,
    BehaviorMapping,
    BehaviorName,
    BehaviorSpec,
    DecisionSteps,
    TerminalSteps,
)
from tau_trainer.envs.mlagents.exception import (
    UnityActionException,
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityException,
    UnityObservationException,
    UnityTimeOutException,
    UnityWorkerInUseException,
)
from tau_trainer.envs.mlagents.side_channel import DefaultTrainingAnalyticsSideChannel, SideChannel
from tau_trainer.envs.mlagents.side_channel.environment_parameters_channel import EnvironmentParametersChannel
from tau_trainer.envs.mlagents.side_channel.side_channel_manager import SideChannelManager
from tau_trainer.envs.mlagents.steps import behavior_spec, steps
from tau_trainer.errors import (
    DecodeError,
    EngineDisconnectedError,
    EngineError,
    EngineLeftError,
    EngineStoppedError,
    EngineTimeoutError,
    PortInUseError,
)
from tau_trainer.specs import Actions, StepBatch

T = TypeVar("T")

_log = logging.getLogger(__name__)
_RAISED: Final[tuple[tuple[type[EngineError], type[UnityException]], ...]] = (
    (EngineLeftError, UnityCommunicatorStoppedException),
    (EngineStoppedError, UnityCommunicatorStoppedException),
    (EngineTimeoutError, UnityTimeOutException),
    (EngineDisconnectedError, UnityCommunicationException),
    (DecodeError, UnityObservationException),
    (EngineError, UnityEnvironmentException),
)
"""mlagents-envs' exception for each of the bridge's; the first that matches is used."""
_ARGUMENTS: Final = {"--timeout-wait": "timeout_wait", "give --env": "give file_name", "--base-port": "base_port"}
"""Command-line flags in the bridge's messages, and the corresponding arguments here."""


class UnityEnvironment(BaseEnv):
    """A Unity build, a scene of the headless engine (``headless:balance``), or the editor.

    Images are [C, H, W]. Uncompressed images are read in the order of their shape, as in mlagents-envs. Packages
    3.0.0-exp.1 to 4.0.0 write them in another order: with several channels, ``obs.reshape(-1, H, W, C).transpose(0, 3,
    1, 2)`` is the game's picture. PNG images are right with every package.
    """

    API_VERSION = COMMUNICATION_VERSION
    DEFAULT_EDITOR_PORT = EDITOR_PORT
    BASE_ENVIRONMENT_PORT = BASE_PORT

    def __init__(
        self,
        file_name: str | None = None,
        worker_id: int = 0,
        base_port: int | None = None,
        seed: int = 0,
        no_graphics: bool = False,
        no_graphics_monitor: bool = False,
        timeout_wait: int = 60,
        additional_args: list[str] | None = None,
        side_channels: list[SideChannel] | None = None,
        log_folder: str | None = None,
        num_areas: int = 1,
    ) -> None:
        """Start the engine, and wait for its handshake.

        Args:
            file_name: the build; None: wait until someone presses Play in the editor.
            worker_id: number of this engine among those that run at the same time; its port is
                ``base_port + worker_id``.
            base_port: default 5005, or 5004 for the editor; 0: any free port.
            seed: the game's seed.
            no_graphics: start it without a display.
            no_graphics_monitor: the same for all workers but 0.
            timeout_wait: the longest wait for one answer, in seconds.
            additional_args: the engine's own, appended to its command line.
            side_channels: channels for other messages than observations and actions.
            log_folder: folder for ``Player-<worker_id>.log``; None: no log.
            num_areas: copies of the training area, in games that can replicate it.

        Raises:
            UnityEnvironmentException: the build does not exist, does not start, ends, or has another protocol version.
            UnityWorkerInUseException: its port is taken.
            UnityTimeOutException: it did not connect in time.
        """
        if file_name is None and worker_id != 0:
            raise UnityEnvironmentException(
                f"there is only one editor, and it is worker 0, not {worker_id}; to start a build, give file_name"
            )
        if base_port is None:
            base_port = self.BASE_ENVIRONMENT_PORT if file_name is not None else self.DEFAULT_EDITOR_PORT
        self._loaded = self._began = False
        self._failure: UnityException | None = None
        self._worker_id = worker_id
        self._timeout_s = float(timeout_wait)
        self._specs: dict[BehaviorName, BehaviorSpec] = {}
        self._state: dict[BehaviorName, tuple[DecisionSteps, TerminalSteps]] = {}
        self._actions: dict[BehaviorName, ActionTuple] = {}
        channels = list(side_channels or ())
        given = {channel.channel_id for channel in channels}
        analytics: DefaultTrainingAnalyticsSideChannel | None = None
        if DefaultTrainingAnalyticsSideChannel.CHANNEL_ID not in given:
            analytics = DefaultTrainingAnalyticsSideChannel()
            channels.append(analytics)
        if ENVIRONMENT_PARAMETERS not in given:
            channels.append(EnvironmentParametersChannel())  # sends nothing unless an adapter sets a seed
        self._side_channel_manager = SideChannelManager(channels)
        self._hub = _Hub(self._side_channel_manager)
        self._blocking = _Blocking()
        try:
            with self._translated():
                launch = None
                if file_name is not None:
                    launch = LaunchSpec.of(
                        str(file_name),
                        no_graphics=no_graphics,
                        no_graphics_monitor=no_graphics_monitor,
                        env_args=tuple(additional_args or ()),
                        log_folder=Path(log_folder) if log_folder is not None else None,
                    )
                port = engine_ports(1, base_port + worker_id)[0] if base_port else 0
                if launch is None:
                    _log.warning("waiting for the editor on port %d: press Play in the editor", port)
                # The bridge sends the seed plus the engine's number; here the seed is the engine's own.
                options = EngineOptions(seed - worker_id, num_areas, self._timeout_s, image_order="declared")
                self._engine = Engine(worker_id, port, launch, options, self._hub, on_event=_log.warning)
                self._blocking(self._engine.start())
                self._engine.notes.clear()  # they are about exported models, and here there is none
        except BaseException:
            self._blocking.close()
            raise
        self._loaded = True
        atexit.register(self._close)
        if analytics is not None:
            analytics.environment_initialized()

    @property
    def behavior_specs(self) -> Mapping[BehaviorName, BehaviorSpec]:
        """The behaviors seen so far, by full name; empty before the first step or reset."""
        return BehaviorMapping(self._specs)

    def reset(self) -> None:
        """Restart all episodes. Raises the same errors as :meth:`step`."""
        self._check_loaded()
        self._exchange(self._engine.reset())

    def step(self) -> None:
        """Continue with the actions that were set; agents without actions get zeros. The first step is a reset.

        Raises:
            UnityEnvironmentException: it is closed, or its process ended.
            UnityCommunicatorStoppedException: the game closed the connection.
            UnityCommunicationException: the connection broke.
            UnityTimeOutException: it did not answer in time.
            UnityObservationException: its data cannot be read, or is not finite.
        """
        if not self._began:
            self.reset()
            return
        self._check_loaded()
        actions = {}
        for name, (decisions, _) in self._state.items():
            if len(decisions):
                chosen = self._actions.get(name) or self._specs[name].action_spec.empty_action(len(decisions))
                actions[name] = Actions(chosen.continuous, chosen.discrete)
        self._exchange(self._engine.step(actions))

    def get_steps(self, behavior_name: BehaviorName) -> tuple[DecisionSteps, TerminalSteps]:
        """The agents that ask for a decision, and those whose episode ended, in the last step."""
        self._check_behavior(behavior_name)
        return self._state[behavior_name]

    def set_actions(self, behavior_name: BehaviorName, action: ActionTuple) -> None:
        """Set the actions of all agents of a behavior. Raises UnityActionException if they do not fit."""
        self._check_behavior(behavior_name)
        asking = len(self._state[behavior_name][0])
        self._actions[behavior_name] = self._specs[behavior_name].action_spec._validate_action(
            action, asking, behavior_name
        )

    def set_action_for_agent(self, behavior_name: BehaviorName, agent_id: AgentId, action: ActionTuple) -> None:
        """Set the action of one agent: arrays of one row. Raises UnityActionException.

        Raises IndexError if the agent did not ask for a decision.
        """
        self._check_behavior(behavior_name)
        spec = self._specs[behavior_name].action_spec
        decisions = self._state[behavior_name][0]
        spec._validate_action(action, 1, behavior_name)
        if behavior_name not in self._actions:
            self._actions[behavior_name] = spec.empty_action(len(decisions))
        if agent_id not in decisions:
            raise IndexError(f"agent {agent_id} of behavior '{behavior_name}' did not ask for a decision")
        place = decisions.agent_id_to_index[agent_id]
        self._actions[behavior_name].continuous[place] = action.continuous[0]
        self._actions[behavior_name].discrete[place] = action.discrete[0]

    def close(self) -> None:
        """End the engine and wait until it has ended. Raises UnityEnvironmentException if it is already closed."""
        self._check_loaded(broken=True)
        self._close()

    def _close(self) -> None:
        atexit.unregister(self._close)
        self._loaded = False
        try:
            broken = self._failure is not None
            self._blocking(self._engine.kill() if broken else self._engine.close(self._timeout_s))
        finally:
            self._blocking.close()

    def _exchange(self, work: Coroutine[Any, Any, list[StepBatch]]) -> None:
        """Wait for the next step and store it."""
        with self._translated():
            batches = self._blocking(work)
        for name, wire in self._engine.specs.items():
            if name not in self._specs:
                self._specs[name] = behavior_spec(wire)
        heard = {batch.behavior: batch for batch in batches}
        self._state = {name: steps(spec, heard.get(name)) for name, spec in self._specs.items()}
        self._began = True
        for note in self._engine.notes:
            _log.warning(note)
        self._engine.notes.clear()
        self._actions.clear()
        self._hub.hand_out()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate exceptions to those of mlagents-envs."""
        try:
            yield
        except PortInUseError as error:
            raise UnityWorkerInUseException(self._worker_id) from error
        except EngineError as error:
            kind = next(unity for ours, unity in _RAISED if isinstance(error, ours))
            text = str(error)
            for flag, argument in _ARGUMENTS.items():
                text = text.replace(flag, argument)
            translated = kind(text)
            if not isinstance(error, DecodeError):  # after one, the engine still waits for an answer
                self._failure = translated
            raise translated from error

    def _check_loaded(self, *, broken: bool = False) -> None:
        """Raise UnityEnvironmentException if it is closed; the earlier failure if it failed, unless ``broken``."""
        if not self._loaded:
            raise UnityEnvironmentException("this environment is closed; make another one")
        if self._failure is not None and not broken:
            raise type(self._failure)(f"{self._failure} (close this environment and make another one)")

    def _check_behavior(self, name: BehaviorName) -> None:
        if name not in self._specs:
            known = ", ".join(f"'{other}'" for other in self._specs) or "none before the first reset"
            raise UnityActionException(f"unknown behavior '{name}'; this environment has {known}")


class _Hub(SideChannelHub):
    """Connects the user's channels to the bridge. Messages that a training run would send to engines are dropped.

    Received messages are kept until the step that they came with is stored.
    """

    def __init__(self, manager: SideChannelManager) -> None:
        super().__init__()
        self._manager = manager
        self._received: list[bytes] = []

    def take(self) -> bytes:
        """The queued messages of all channels."""
        return bytes(self._manager.generate_side_channel_messages())

    def receive(self, data: bytes) -> None:
        """Store messages for :meth:`hand_out`."""
        self._received.append(data)

    def hand_out(self) -> None:
        """Pass the stored messages to the channels."""
        received, self._received = self._received, []
        for data in received:
            self._manager.process_side_channel_message(data)


class _Blocking:
    """Runs coroutines to their end on its own loop, in the caller's thread, which avoids switching threads.

    If the caller's thread already runs a loop, as in notebooks, another thread is used.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._aside: ThreadPoolExecutor | None = None

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``. An interruption (Ctrl-C) cancels it."""
        task = self._loop.create_task(work)
        try:
            return self._turn(task)
        except BaseException:
            if not task.done():
                self._loop.call_soon_threadsafe(task.cancel)
                with contextlib.suppress(asyncio.CancelledError):
                    self._turn(task)
            raise

    def _turn(self, task: asyncio.Task[T]) -> T:
        turn: Callable[[asyncio.Task[T]], T] = self._loop.run_until_complete
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return turn(task)
        self._aside = self._aside or ThreadPoolExecutor(1, "unity-environment")
        return self._aside.submit(turn, task).result()

    def close(self) -> None:
        """End the loop."""
        if self._aside is not None:
            self._aside.shutdown()
        self._loop.close()
