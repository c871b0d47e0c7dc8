"""``UnityEnvironment``: one engine, stepped by calls that return when the step is there."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
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
"""What mlagents-envs raises where the bridge raises something; the first that fits."""
_ARGUMENTS: Final = {"--timeout-wait": "timeout_wait", "give --env": "give file_name", "--base-port": "base_port"}
"""Flags of the command line that the bridge's sentences name, and what they are called here."""


class UnityEnvironment(BaseEnv):
    """A Unity build, a scene of the headless engine (``headless:balance``), or the Unity editor.

    Images are [C, H, W]. Numbers of uncompressed ones are taken in the order of their shape, as mlagents-envs does.
    Packages 3.0.0-exp.1 to 4.0.0 write them in another: of several channels ``obs.reshape(-1, H, W, C).transpose(0, 3,
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
        """Start the engine, and wait until it has introduced itself.

        Args:
            file_name: the build; None: wait until somebody presses Play in the editor.
            worker_id: counts engines that run at the same time; its port is ``base_port + worker_id``.
            base_port: 5005 unless it is given, 5004 for the editor; 0: any port that is free.
            seed: of the game.
            no_graphics: start it without a display.
            no_graphics_monitor: the same for all workers but 0.
            timeout_wait: the longest wait for one answer, in seconds.
            additional_args: the engine's own, appended to its command line.
            side_channels: what is told and heard beside observations and actions.
            log_folder: where ``Player-<worker_id>.log`` goes; None: nowhere.
            num_areas: copies of the training area, in games that can multiply it.

        Raises:
            UnityEnvironmentException: there is no such build, it does not start, ends, or speaks another version.
            UnityWorkerInUseException: its port is taken.
            UnityTimeOutException: it did not introduce itself in time.
        """
        if file_name is None and worker_id != 0:
            raise UnityEnvironmentException(
                f"there is one editor only, and it is worker 0, not {worker_id}; give file_name to start a build"
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
            channels.append(EnvironmentParametersChannel())  # says nothing unless an adapter has a seed to tell
        self._side_channel_manager = SideChannelManager(channels)
        self._hub = _Hub(self._side_channel_manager)
        self._blocking = _Blocking()
        try:
            with self._translated():
                hidden = no_graphics or (no_graphics_monitor and worker_id != 0)
                launch = _launch(file_name, hidden, additional_args or (), log_folder)
                port = engine_ports(1, base_port + worker_id)[0] if base_port else 0
                if launch is None:
                    _log.warning("waiting for the Unity editor on port %d: press Play in the editor", port)
                # Engines are told their run's seed plus their number, and here the seed is the engine's own.
                options = EngineOptions(seed - worker_id, num_areas, self._timeout_s, image_order="declared")
                self._engine = self._blocking(_made(worker_id, port, launch, options, self._hub))
                self._blocking(self._engine.start())
                self._engine.notes.clear()  # of what a model can be used for, and here there is none
        except BaseException:
            self._blocking.close()
            raise
        self._loaded = True
        atexit.register(self._close)
        if analytics is not None:
            analytics.environment_initialized()

    @property
    def behavior_specs(self) -> Mapping[BehaviorName, BehaviorSpec]:
        """The behaviors met so far, by full name: none before the first step or reset."""
        return BehaviorMapping(self._specs)

    def reset(self) -> None:
        """Begin all episodes anew. Raises as :meth:`step` does."""
        self._check_loaded()
        self._exchange(self._engine.reset())

    def step(self) -> None:
        """Go on with the actions that were set; agents without get zeros. The first step is a reset.

        Raises:
            UnityEnvironmentException: it is closed, or its process ended.
            UnityCommunicatorStoppedException: the game said goodbye.
            UnityCommunicationException: the connection broke.
            UnityTimeOutException: it did not answer in time.
            UnityObservationException: what it sent cannot be read, or is not finite.
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
        """Set the actions of all agents of a behavior. Raises UnityActionException where they do not fit."""
        self._check_behavior(behavior_name)
        asking = len(self._state[behavior_name][0])
        self._actions[behavior_name] = self._specs[behavior_name].action_spec._validate_action(
            action, asking, behavior_name
        )

    def set_action_for_agent(self, behavior_name: BehaviorName, agent_id: AgentId, action: ActionTuple) -> None:
        """Set the action of one agent: arrays of one row. Raises UnityActionException, and IndexError.

        The latter for an agent that does not ask.
        """
        self._check_behavior(behavior_name)
        spec, decisions = self._specs[behavior_name].action_spec, self._state[behavior_name][0]
        spec._validate_action(action, 1, behavior_name)
        if behavior_name not in self._actions:
            self._actions[behavior_name] = spec.empty_action(len(decisions))
        if agent_id not in decisions:
            raise IndexError(f"agent {agent_id} of behavior '{behavior_name}' did not ask for a decision")
        place = decisions.agent_id_to_index[agent_id]
        self._actions[behavior_name].continuous[place] = action.continuous[0]
        self._actions[behavior_name].discrete[place] = action.discrete[0]

    def close(self) -> None:
        """Say goodbye, and wait until the engine has ended. Raises UnityEnvironmentException if it is closed."""
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
        """Wait for the next step, and take it in."""
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
        """Raise what mlagents-envs raises."""
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
            if not isinstance(error, DecodeError):  # after which the engine waits for an answer as before
                self._failure = translated
            raise translated from error

    def _check_loaded(self, *, broken: bool = False) -> None:
        """Raise UnityEnvironmentException if it is closed; what broke it, unless ``broken`` is no matter."""
        if not self._loaded:
            raise UnityEnvironmentException("this environment is closed; make another one")
        if self._failure is not None and not broken:
            raise type(self._failure)(f"{self._failure} (it is over; close this environment and make another one)")

    def _check_behavior(self, name: BehaviorName) -> None:
        if name not in self._specs:
            known = ", ".join(f"'{other}'" for other in self._specs) or "none, as it was not reset yet"
            raise UnityActionException(f"there is no behavior '{name}' in this environment; it has {known}")


class _Hub(SideChannelHub):
    """The user's channels at the bridge, and nothing of ours: what a run would tell its engines is dropped.

    What came is kept until the step that it came with has been taken in.
    """

    def __init__(self, manager: SideChannelManager) -> None:
        super().__init__()
        self._manager = manager
        self._received: list[bytes] = []

    def take(self) -> bytes:
        """What all channels send."""
        return bytes(self._manager.generate_side_channel_messages())

    def receive(self, data: bytes) -> None:
        """Keep it."""
        self._received.append(data)

    def hand_out(self) -> None:
        """Give the channels what came."""
        received, self._received = self._received, []
        for data in received:
            self._manager.process_side_channel_message(data)


class _Blocking:
    """Runs coroutines to their end on a loop of its own: in the caller's thread, which costs no switch of threads.

    Where the caller's thread runs a loop already, as in notebooks, another thread stands in.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._aside: ThreadPoolExecutor | None = None

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """What ``work`` returns. Whatever interrupts it (Ctrl-C) cancels it."""
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


async def _made(index: int, port: int, launch: LaunchSpec | None, options: EngineOptions, hub: _Hub) -> Engine:
    """Servers are made on the loop that they will run on."""
    return Engine(index, port, launch, options, hub, on_event=_log.warning)


def _launch(file_name: str | None, hidden: bool, arguments: Sequence[str], log_folder: str | None) -> LaunchSpec | None:
    if file_name is None:
        return None
    folder = Path(log_folder) if log_folder is not None else None
    return LaunchSpec.of(str(file_name), no_graphics=hidden, env_args=tuple(arguments), log_folder=folder)
