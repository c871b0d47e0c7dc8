"""One engine from launch to close: the process, its server, the handshake, and the exchange of steps.

The engine calls and the trainer answers, so every method here answers the pending call and waits for the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tau_trainer.bridge.codec import EngineMessage
from tau_trainer.bridge.dialect import Codec, Dialect
from tau_trainer.bridge.launcher import EngineOptions, EngineProcess, LaunchSpec
from tau_trainer.bridge.package import Package
from tau_trainer.bridge.protocol import STATUS_OK, Command
from tau_trainer.bridge.server import Admission
from tau_trainer.bridge.side_channels import Sampler, SideChannelHub
from tau_trainer.errors import (
    EngineDisconnectedError,
    EngineError,
    EngineExitedError,
    EngineLeftError,
    EngineStoppedError,
    EngineTimeoutError,
    VersionError,
)
from tau_trainer.specs import Actions, Behaviors, StepBatch

_WATCH_S = 0.25
_CLOSE_S = 10.0
_REAP_S = 1.0
"""Seconds to wait for the process to end after its connection broke."""
_HANDSHAKE = "answer the handshake"


@dataclass(slots=True)
class _Wait:
    """What the trainer waits for, and since when."""

    stage: str
    """What the engine must do."""
    message: asyncio.Future[bytes] | None = None
    """Its next message; the watcher sets an exception if none can come."""
    since: float = 0.0
    paused: str | None = None
    stranger: str | None = None
    """The last refused caller and the reason; None once the engine is connected."""


class Engine:
    """One engine on one port.

    Usage: ``await start()``, ``await reset()``, then ``await step(actions)`` repeatedly, ``await close()``.
    """

    def __init__(
        self,
        index: int,
        port: int,
        launch: LaunchSpec | None,
        options: EngineOptions | None = None,
        channels: SideChannelHub | None = None,
        on_event: Callable[[str], object] = lambda said: None,
    ) -> None:
        """``port`` 0: any free port. ``launch`` None: it is started elsewhere, for example in the editor.

        ``on_event``: called with messages for the user: each :attr:`paused`, and callers that are not the engine.
        """
        self.index = index
        self.port = port
        self.channels = channels or SideChannelHub()
        self.process: EngineProcess | None = None
        self.exchanges = 0
        self.package = Package()
        self._launch = launch
        self._options = options = options or EngineOptions()
        self._on_event = on_event
        self._codec: Codec | None = None
        """Known once the engine has introduced itself."""
        self._server = options.server(Admission(Dialect.objection, self._refused))
        self._watcher: asyncio.Task[None] | None = None
        how = "" if options.tls is None else " with TLS (which ML-Agents' own client cannot)"
        self._wait = _Wait(f"connect{how}")

    @property
    def specs(self) -> Behaviors:
        """The behaviors seen so far, by full name."""
        return {} if self._codec is None else self._codec.specs

    @property
    def notes(self) -> list[str]:
        """Notes on its package: unsupported features and open questions, added once known. The caller removes them."""
        return self.package.notes

    @property
    def awaited(self) -> bool:
        """Whether the trainer waits for the engine (and not the engine for the trainer)."""
        return self._wait.message is not None and not self._wait.message.done()

    @property
    def stage(self) -> str:
        """What the engine must do next: connect, introduce itself, ask for a decision, answer a step."""
        return self._wait.stage

    @property
    def paused(self) -> str | None:
        """A message once an editor has played no step for longer than the timeout; None while it plays."""
        return self._wait.paused

    async def start(self, *, patient: bool = False) -> None:
        """Listen, launch, and shake hands; afterwards the engine waits until the first reset.

        ``patient``: wait without limit until it connects.

        Raises PortInUseError, LaunchError, EngineExitedError, EngineDisconnectedError, EngineTimeoutError,
        VersionError.
        """
        self.port = await self._server.start(self.port)
        try:
            if self._launch is not None:
                self.process = await EngineProcess.start(self._launch, self.port, self.index)
            self._watcher = asyncio.create_task(self._watch(patient))
            await self._handshake()
        except BaseException:
            await self.kill()
            raise

    def _refused(self, peer: str, why: str) -> None:
        """Report a refused caller that is not the engine."""
        stranger = self._wait.stranger = f"{peer} called but is not an engine ({why}) and was refused"
        self._on_event(f"{stranger}; still waiting for {self._name}")

    async def _handshake(self) -> None:
        first = await self._message()
        try:
            self.package, self._codec, answer = self._dialect.meet(first, self._options, self.index)
        except VersionError as error:
            raise VersionError(f"{self._name}: {error}") from None
        self._wait.stage, self._wait.stranger = _HANDSHAKE, None
        if answer is not None:
            self._server.reply(answer)
            self._check(await self._message())
        engine = first.initialization
        if self._dialect.side_channels:
            analytics = self.index == 0 and engine is not None and engine.capabilities.training_analytics
            self.channels.introduce(self._options.configuration, self._options.trainer if analytics else None)

    async def reset(self, parameters: Mapping[str, float | Sampler] | None = None) -> list[StepBatch]:
        """Send environment parameters, restart all episodes, and return the first step of every behavior.

        Unfinished trajectories are lost: the engine sends no end for them.
        """
        self.channels.send_environment_parameters(parameters or {})
        if parameters and not self._dialect.side_channels:
            self._note(f"{', '.join(parameters)}: no effect, because {self._dialect.game} games receive no parameters")
        self._wait.stage = "ask for a decision"
        self._reply(Command.RESET, {})
        return await self.next()

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def tell(self, parameters: Mapping[str, float | Sampler]) -> None:
        """Send environment parameters with the next :meth:`answer`, during running episodes."""
        self.channels.send_environment_parameters(parameters)

    async def step(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        """Answer every agent that asked, by behavior, in the order they asked; return the next step.

        Raises EngineStoppedError if the user ends the game in the editor, or a build that may leave does, else
        EngineExitedError, EngineDisconnectedError, EngineTimeoutError, DecodeError.
        """
        self.answer(actions)
        return await self.next()

    def answer(self, actions: Mapping[str, Actions]) -> None:
        """The first half of :meth:`step`: the engine continues, and you can do other work until :meth:`next`."""
        self._wait.stage = "answer a step"
        self._reply(Command.STEP, actions)

    def _reply(self, command: Command, actions: Mapping[str, Actions]) -> None:
        assert self._codec is not None
        said = self.channels.take()
        self._server.reply(self._codec.reply(command, actions, said if self._dialect.side_channels else b""))

    async def next(self) -> list[StepBatch]:
        """The second half of :meth:`step`: the next step of every behavior. Raises the same errors."""
        message = await self._message()
        self._check(message)
        assert self._codec is not None
        self.exchanges += 1
        if message.side_channel:
            self.channels.receive(message.side_channel)
        batches = self._codec.steps(message)
        if len(self.specs) > self.package.behaviors:
            self.package.look_at(self.specs, self._codec.unsettled)
        return batches

    def _check(self, message: EngineMessage) -> None:
        if message.status != STATUS_OK:
            if self._launch is None:
                left = "left" if self._options.attached else "stopped the game"
                raise EngineStoppedError(f"{self._game} {left}{self._refusal}")
            if self._refusal:
                raise EngineExitedError(f"{self._name} left in the handshake{self._refusal}")
            if self._options.may_leave:
                raise EngineStoppedError(f"{self._name} has left the game")
            raise EngineLeftError(f"{self._name} closed the session unexpectedly (status {message.status})")

    @property
    def _dialect(self) -> Dialect:
        return self._server.dialect

    async def _message(self) -> EngineMessage:
        """The engine's next message."""
        data = await self._receive()  # the first one tells the dialect
        return (self._dialect if self._codec is None else self._codec).parse(data)

    def _next_message(self) -> asyncio.Future[bytes]:
        self._wait.message, self._wait.since = self._server.receive(), time.monotonic()
        return self._wait.message

    async def _receive(self) -> bytes:
        try:
            message = await self._next_message()
            self._wait.paused = None
            return message
        except EngineDisconnectedError as error:
            raise await self._departure(str(error)) from None

    async def _departure(self, how: str) -> EngineError:
        """The error for a lost connection. If the process has ended, its exit says more."""
        if self.process is not None and await self.process.wait(_REAP_S):
            return self._exited()
        if self._launch is None:
            why = " (crashed or was killed?)" if self._dialect.says_goodbye else ""
            return EngineStoppedError(f"{self._game} {how}{self._refusal or why}")
        tail = self.process.log_tail() if self.process is not None else ""
        return EngineDisconnectedError(f"{self._name} {how} while it should {self._wait.stage}{self._refusal}{tail}")

    def _exited(self) -> EngineExitedError:
        assert self.process is not None
        return EngineExitedError(
            f"{self._name} ended while it should {self._wait.stage}{self._refusal}: {self.process.describe_exit()}"
        )

    @property
    def _refusal(self) -> str:
        """Why an old engine may have left during the handshake, as a part of a sentence; empty for others."""
        if self._wait.stage != _HANDSHAKE or not self.package.old:
            return ""
        return (
            f" (com.unity.ml-agents {self.package.version} may refuse this trainer's version, like other packages "
            "before 2.0; see its log; use a package from 2.0 to 4.x)"
        )

    @property
    def _name(self) -> str:
        return f"engine {self.index}"

    @property
    def _game(self) -> str:
        """Name of a game that is started elsewhere."""
        return self._name if self._options.attached else f"the {self._dialect.game} editor"

    async def _watch(self, patient: bool) -> None:
        """Watch the process and the clock, so that exchanges need no timers."""
        wait = self._wait
        while True:
            timeout_s = self._options.timeout_s
            await asyncio.sleep(_WATCH_S)
            if wait.message is None or wait.message.done():
                continue
            if self.process is not None and self.process.returncode is not None:
                wait.message.set_exception(self._exited())
            elif time.monotonic() - wait.since > timeout_s:
                if self._launch is None and wait.stage == "answer a step":  # there Pause is a button
                    if wait.paused is None:
                        wait.paused = f"{self._game} has played no step for {timeout_s:g} s"
                        self._on_event(
                            f"{wait.paused}; if it is paused, continue it to continue the run, or press Ctrl-C to "
                            "end it"
                        )
                elif not (patient and wait.stage == "connect"):
                    wait.message.set_exception(EngineTimeoutError(self._timeout_message()))

    def _timeout_message(self) -> str:
        waited = f"{self._options.timeout_s:g} s"
        tail = self.process.log_tail() if self.process else ""
        other = f" ({self._wait.stranger})" if self._wait.stranger else ""
        if self._wait.stage == "connect":
            if self.process is None:
                return f"nothing connected to port {self.port} within {waited}{other}; press Play in the editor"
            return (
                f"{self._name} did not connect to port {self.port} within {waited}{other}; "
                f"check that it is a build with {self._dialect.plugin}{tail}"
            )
        if self._wait.stage == "ask for a decision":
            return f"{self._name} connected but asked for no decision within {waited}; {self._dialect.quiet}?{tail}"
        return (
            f"{self._name} did not {self.stage} within {waited}{other}{self._refusal}; raise --timeout-wait if the "
            f"game is this slow{tail}"
        )

    async def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Close the session with status 400, wait for the process to end, and kill it if it does not."""
        alive = self.process is None or self.process.returncode is None
        if not self._server.owes_reply and self._watcher is not None and alive:
            await self._await_last_call(timeout_s)
        while self._server.owes_reply:
            self._server.reply(self._dialect.farewell())
        await self._server.stop()
        if self.process is not None:
            await self.process.stop(timeout_s)
        await self._end_watcher()

    async def _await_last_call(self, timeout_s: float) -> None:
        """Wait for one more call: the closing message is sent in a reply."""
        waiting = self._wait.message
        if waiting is None or waiting.done():
            waiting = self._next_message()
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
        if self._wait.message is not None:
            self._wait.message.cancel()
