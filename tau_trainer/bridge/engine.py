"""One engine from launch to close: the process, its server, the handshake, and the exchange of steps.

The engine calls and we answer, so every method here answers the call that is pending and waits for the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tau_trainer.bridge.codec import (
    EngineMessage,
    TrainerCodec,
    TrainerInitialization,
    encode_close,
    encode_initialization,
    parse_engine_message,
)
from tau_trainer.bridge.image_order import order_of
from tau_trainer.bridge.launcher import EngineProcess, LaunchSpec
from tau_trainer.bridge.protocol import (
    COMMUNICATION_VERSION,
    OLD_PACKAGE_VERSION,
    PACKAGE_VERSION,
    STATUS_OK,
    Command,
    before_2,
    package_note,
    understood,
)
from tau_trainer.bridge.server import EngineServer
from tau_trainer.bridge.serving import Server
from tau_trainer.bridge.side_channels import Sampler, SideChannelHub
from tau_trainer.bridge.tls import Tls
from tau_trainer.errors import (
    DecodeError,
    EngineDisconnectedError,
    EngineError,
    EngineExitedError,
    EngineLeftError,
    EngineStoppedError,
    EngineTimeoutError,
    VersionError,
)
from tau_trainer.settings import EngineSettings
from tau_trainer.specs import Actions, BehaviorSpec, StepBatch

_WATCH_S = 0.25
_CLOSE_S = 10.0
_REAP_S = 1.0
"""Seconds in which a process ends whose connection broke because it ends."""
_HANDSHAKE = "answer the handshake"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What every engine of a run is told."""

    seed: int = 0
    """Engine ``i`` gets ``seed + i``."""
    num_areas: int = 1
    timeout_s: float = 60.0
    """The longest wait for one message of the engine."""
    configuration: EngineSettings = field(default_factory=EngineSettings)
    trainer: Any = None
    """What engine 0 is told of us over the training analytics channel: its message; None: nothing."""
    may_leave: bool = False
    """Whether a build that says goodbye has ended well, as somebody's who closes its window."""
    listen: str | None = None
    """An address for engines on other machines, served by grpcio; None: loopback alone, by our own server."""
    tls: Tls | None = None
    """What that server shows its clients; None: clear text."""
    image_order: Literal["auto", "declared", "channels_last"] = "auto"
    """Of uncompressed images: as its package writes them, in the order of their shape, or [H, W, C]."""
    flat_sensors: tuple[str, ...] = ()
    """Sensors whose images come in the order of their shape, whatever :attr:`image_order` is."""

    def server(self) -> Server:
        """A new server for one engine."""
        if self.listen is None:
            return EngineServer()
        from tau_trainer.bridge.grpcio_server import GrpcioServer  # slow to import and seldom asked for

        return GrpcioServer(self.listen, self.tls)


class Engine:
    """One engine on one port.

    Use: ``await start()``, ``await reset()``, then ``await step(actions)`` again and again, ``await close()``.
    """

    def __init__(
        self,
        index: int,
        port: int,
        launch: LaunchSpec | None,
        options: EngineOptions = EngineOptions(),
        channels: SideChannelHub | None = None,
        *,
        patient: bool = False,
        on_event: Callable[[str], None] = lambda said: None,
    ) -> None:
        """``port`` 0: any free one. ``launch`` None: somebody else starts the engine (the Unity editor).

        ``patient``: wait for it to connect without limit. ``on_event``: told sentences for the person who watches: of
        each :attr:`paused`, and of others than the engine who call first.
        """
        self.index = index
        self.port = port
        self.channels = channels or SideChannelHub()
        self.process: EngineProcess | None = None
        self.exchanges = 0
        self.notes: list[str] = []
        """What its package cannot do here, and what it leaves open, as soon as that is known, until it is taken out."""
        self.paused: str | None = None
        """That an editor plays no step, once that has taken longer than a message may; None while it plays."""
        self._launch = launch
        self._options = options
        self._patient = patient
        self._on_event = on_event
        self._codec = TrainerCodec()
        self._server = options.server()
        self._server.objection = _objection
        self._server.on_stranger = self._refused
        self._stranger: str | None = None
        """Who was refused last, and why; None once the engine is there."""
        self._watcher: asyncio.Task[None] | None = None
        self._waiting: asyncio.Future[bytes] | None = None
        self._waiting_since = 0.0
        self._package = ""
        self._behaviors = 0
        """How many of them were looked at."""
        self._guessed = False
        """Whether it was said that the order of its images is a guess."""
        self._stage = "connect" if options.tls is None else "connect with TLS (which ML-Agents' own client cannot)"

    @property
    def specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviors met so far, by full name."""
        return self._codec.specs

    @property
    def awaited(self) -> bool:
        """Whether we wait for the engine (and not the engine for us)."""
        return self._waiting is not None and not self._waiting.done()

    @property
    def stage(self) -> str:
        """What the engine is waited for to do: connect, introduce itself, ask for a decision, answer a step."""
        return self._stage

    async def start(self) -> None:
        """Listen, launch, and shake hands; afterwards the engine stands still until the first reset.

        Raises PortInUseError, LaunchError, EngineExitedError, EngineDisconnectedError, EngineTimeoutError,
        VersionError.
        """
        self.port = await self._server.start(self.port)
        try:
            if self._launch is not None:
                self.process = await EngineProcess.start(self._launch, self.port, self.index)
            self._watcher = asyncio.create_task(self._watch())
            await self._handshake()
        except BaseException:
            await self.kill()
            raise

    def _refused(self, peer: str, why: str) -> None:
        """Somebody called who is not the engine."""
        self._stranger = f"{peer} called, was no engine ({why}) and was refused"
        self._on_event(f"{self._stranger}; {self._name} is waited for all the same")

    async def _handshake(self) -> None:
        first = parse_engine_message(await self._receive())
        engine = first.initialization
        assert engine is not None  # or the server would have refused it
        api, self._package = engine.communication_version, engine.package_version
        if not understood(api):
            raise VersionError(
                f"{self._name}: package {self._package or 'of unknown version'} speaks communicator API {api}, this "
                f"trainer {COMMUNICATION_VERSION}; use com.unity.ml-agents 2.0 to 4.x in the project"
            )
        note = package_note(self._package, api)
        self.notes += [] if note is None else [note]
        self._codec.legacy_actions = not engine.capabilities.hybrid_actions
        self._codec.images = order_of(self._package, self._options.image_order, self._options.flat_sensors)
        reply = TrainerInitialization(
            self._options.seed + self.index,
            package_version=OLD_PACKAGE_VERSION if before_2(self._package) else PACKAGE_VERSION,
            num_areas=self._options.num_areas,
        )
        self._stage, self._stranger = _HANDSHAKE, None
        self._server.reply(encode_initialization(reply))
        self._check(parse_engine_message(await self._receive()))
        self.channels.send_engine_configuration(self._options.configuration)
        if self._options.trainer is not None and self.index == 0 and engine.capabilities.training_analytics:
            self.channels.send_training_environment(self._options.trainer)

    async def reset(self, parameters: Mapping[str, float | Sampler] | None = None) -> list[StepBatch]:
        """Send environment parameters, begin all episodes anew, and return the first step of every behavior.

        Trajectories that were open are over: the engine sends no end for them.
        """
        self.channels.send_environment_parameters(parameters or {})
        self._stage = "ask for a decision"
        self._server.reply(self._codec.reply(Command.RESET, {}, self.channels.take()))
        return await self.next()

    def tell(self, parameters: Mapping[str, float | Sampler]) -> None:
        """Have environment parameters travel with the next :meth:`answer`, while episodes go on."""
        self.channels.send_environment_parameters(parameters)

    async def step(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        """Answer every agent that asked, by behavior, in the order they asked; return the next step.

        Raises EngineStoppedError when the person at the editor ends the game, or a build that may, else
        EngineExitedError, EngineDisconnectedError, EngineTimeoutError, DecodeError.
        """
        self.answer(actions)
        return await self.next()

    def answer(self, actions: Mapping[str, Actions]) -> None:
        """The first half of :meth:`step`: the engine goes on, and there is time for other work until :meth:`next`."""
        self._stage = "answer a step"
        self._server.reply(self._codec.reply(Command.STEP, actions, self.channels.take()))

    async def next(self) -> list[StepBatch]:
        """The second half of :meth:`step`: the next step of every behavior. Raises as it does."""
        message = parse_engine_message(await self._receive())
        self._check(message)
        self.exchanges += 1
        if message.side_channel:
            self.channels.receive(message.side_channel)
        batches = self._codec.steps(message)
        if len(self.specs) > self._behaviors:
            self._note_images(first=not self._behaviors)
            self._behaviors = len(self.specs)
        return batches

    def _note_images(self, *, first: bool) -> None:
        """Say what is open about images now that there are new behaviors; ``first``: and there were none before."""
        sensors = sorted({sensor.name for spec in self.specs.values() for sensor in spec.observations})
        for name in self._options.flat_sensors if first else ():
            if name not in sensors:
                self.notes.append(f"collection.flat_sensors names '{name}', but sensors are {', '.join(sensors)}")
        open_ = [(behavior, name) for behavior, names in self._codec.unsettled.items() for name in names]
        if open_ and not self._guessed:
            self._guessed = True
            behavior, name = open_[0]
            self.notes.append(
                f"sensor '{name}' of behavior '{self.specs[behavior].short_name}' sends uncompressed images, and their "
                f"order is open in package {self._package or 'of unknown version'}: {self._codec.images.guess}"
            )

    def _check(self, message: EngineMessage) -> None:
        if message.status != STATUS_OK:
            if self._refusal:
                raise EngineExitedError(f"{self._name} left in the handshake{self._refusal}")
            if self._launch is None:
                raise EngineStoppedError("the Unity editor stopped the game")
            if self._options.may_leave:
                raise EngineStoppedError(f"{self._name} has left the game")
            raise EngineLeftError(f"{self._name} said goodbye before it was asked to (status {message.status})")

    def _wait(self) -> asyncio.Future[bytes]:
        """The engine's next message; the watcher puts an exception there if none can come."""
        self._waiting, self._waiting_since = self._server.receive(), time.monotonic()
        return self._waiting

    async def _receive(self) -> bytes:
        try:
            message = await self._wait()
            self.paused = None
            return message
        except EngineDisconnectedError as error:
            raise await self._departure(str(error)) from None

    async def _departure(self, how: str) -> EngineError:
        """Why the connection is gone: most often the process has ended, and then that says more."""
        if self.process is not None and await self.process.wait(_REAP_S):
            return self._exited()
        if self._launch is None and self._stage != _HANDSHAKE:
            return EngineStoppedError(f"the Unity editor {how} (crashed or was killed?)")
        tail = self.process.log_tail() if self.process is not None else ""
        return EngineDisconnectedError(f"{self._name} {how} while it should {self._stage}{self._refusal}{tail}")

    def _exited(self) -> EngineExitedError:
        assert self.process is not None
        return EngineExitedError(
            f"{self._name} ended while it should {self._stage}{self._refusal}: {self.process.describe_exit()}"
        )

    @property
    def _refusal(self) -> str:
        """Why an old engine leaves that has just heard who we are, as a part of a sentence; else nothing."""
        if self._stage != _HANDSHAKE or not before_2(self._package):
            return ""
        return (
            f" (com.unity.ml-agents {self._package} may refuse this trainer's version, as packages before 2.0 do; "
            "its log says so; use a package from 2.0 to 4.x)"
        )

    @property
    def _name(self) -> str:
        return f"engine {self.index}"

    async def _watch(self) -> None:
        """Look after the process and the clock, so that no exchange needs a timer of its own."""
        while True:
            await asyncio.sleep(_WATCH_S)
            waiting = self._waiting
            if waiting is None or waiting.done():
                continue
            if self.process is not None and self.process.returncode is not None:
                waiting.set_exception(self._exited())
            elif time.monotonic() - self._waiting_since > self._options.timeout_s:
                if self._launch is None and self._stage == "answer a step":  # there Pause is a button
                    if self.paused is None:
                        self.paused = f"the Unity editor has played no step for {self._options.timeout_s:g} s"
                        self._on_event(
                            f"{self.paused}; if it is paused, let it play to go on with the run, or press Ctrl-C to "
                            "end it"
                        )
                elif not (self._patient and self._stage == "connect"):
                    waiting.set_exception(EngineTimeoutError(self._timeout_message()))

    def _timeout_message(self) -> str:
        waited = f"{self._options.timeout_s:g} s"
        tail = self.process.log_tail() if self.process else ""
        other = f" ({self._stranger})" if self._stranger else ""
        if self._stage == "connect":
            if self.process is None:
                return f"nothing connected to port {self.port} within {waited}{other}; press Play in the Unity editor"
            return (
                f"{self._name} did not connect to port {self.port} within {waited}{other}; is it an ML-Agents build?"
                f"{tail}"
            )
        if self._stage == "ask for a decision":
            return (
                f"{self._name} connected but asked for no decision within {waited}; "
                f"does every Agent have a Decision Requester or call RequestDecision()?{tail}"
            )
        return (
            f"{self._name} did not {self._stage} within {waited}{other}{self._refusal}; raise --timeout-wait if the "
            f"game is this slow{tail}"
        )

    async def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Say goodbye with status 400, wait for the process to end, and end it if it does not."""
        alive = self.process is None or self.process.returncode is None
        if not self._server.owes_reply and self._watcher is not None and alive:
            await self._await_last_call(timeout_s)
        while self._server.owes_reply:
            self._server.reply(encode_close())
        await self._server.stop()
        if self.process is not None:
            await self.process.stop(timeout_s)
        await self._end_watcher()

    async def _await_last_call(self, timeout_s: float) -> None:
        """The goodbye travels in a reply, so the engine must call once more."""
        waiting = self._waiting
        if waiting is None or waiting.done():
            waiting = self._wait()
        try:
            await asyncio.wait_for(asyncio.shield(waiting), timeout_s)
        except (TimeoutError, EngineError):
            waiting.cancel()

    async def kill(self) -> None:
        """End the process at once and stop listening: for engines that crashed, hang or send garbage."""
        if self.process is not None:
            self.process.kill()
        await self._server.stop(0)
        if self.process is not None:
            await self.process.wait(_CLOSE_S)
        await self._end_watcher()

    async def _end_watcher(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
            self._watcher = None
        if self._waiting is not None:
            self._waiting.cancel()


def _objection(message: bytes) -> str | None:
    """Why a first message is none of an engine's; None: an engine introduces itself."""
    try:
        introduced = parse_engine_message(message).initialization is not None
    except DecodeError as error:
        return str(error)
    return None if introduced else "its first message is no introduction"
