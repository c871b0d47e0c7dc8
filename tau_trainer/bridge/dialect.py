"""The dialects of engines: how one kind of engine introduces itself, speaks on the wire, and is started.

:class:`~tau_trainer.bridge.engine.Engine` and everything above it are the same for all dialects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import override

from tau_trainer.bridge.codec import (
    EngineMessage,
    TrainerCodec,
    TrainerInitialization,
    encode_close,
    encode_initialization,
    parse_engine_message,
)
from tau_trainer.bridge.package import Package, order_of
from tau_trainer.bridge.protocol import (
    COMMUNICATION_VERSION,
    OLD_PACKAGE_VERSION,
    PACKAGE_VERSION,
    UNITY_WIRE,
    UNREAL_WIRE,
    Command,
    Wire,
    understood,
)
from tau_trainer.errors import DecodeError, VersionError
from tau_trainer.settings.engines import SENT
from tau_trainer.specs import Actions, BehaviorSpec, StepBatch

if TYPE_CHECKING:
    from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec


class Codec(Protocol):
    """The trainer's end of one engine: messages to and from arrays."""

    specs: dict[str, BehaviorSpec]
    """The behaviors seen so far, by full name."""
    unsettled: dict[str, tuple[str, ...]]
    """By behavior, the sensors whose image order is a guess."""

    def parse(self, data: bytes) -> EngineMessage:
        """The same as :meth:`Dialect.parse`."""

    def steps(self, message: EngineMessage) -> list[StepBatch]:
        """Arrays of every behavior with agents in ``message``. Raises DecodeError."""

    def reply(self, command: Command, actions: Mapping[str, Actions], side_channel: bytes = b"") -> bytes:
        """The answer with these actions, in the order of the agents that asked."""


Meeting = tuple[Package, Codec, bytes | None]
"""What :meth:`Dialect.meet` returns."""


class Dialect(ABC):
    """One kind of engine."""

    game: str
    """Its name, for messages."""
    plugin: str
    """The name of the package in the game that speaks to trainers."""
    quiet: str = "does every Agent have a Decision Requester or call RequestDecision()"
    """A question for the user of a game that connects but asks for no decision."""
    says_goodbye: bool = True
    """Whether a game that the user ends says so before it disconnects."""
    side_channels: bool = False
    """Whether it can be sent environment parameters, the time scale and the window's size."""

    @abstractmethod
    def parse(self, data: bytes) -> EngineMessage:
        """Read the envelope of a message. Raises DecodeError."""

    def objection(self, data: bytes) -> str | None:
        """Why a first message is not from an engine; None if it is."""
        try:
            introduced = self.parse(data).initialization is not None
        except DecodeError as error:
            return str(error)
        return None if introduced else "its first message is not an introduction"

    @abstractmethod
    def meet(self, first: EngineMessage, options: EngineOptions, index: int) -> Meeting:
        """Its package, a codec, and the answer to its introduction ``first``.

        None instead of an answer: the first reset answers it. Raises VersionError, as the end of a sentence about the
        engine.
        """

    @abstractmethod
    def farewell(self) -> bytes:
        """The answer that ends the connection."""

    @abstractmethod
    def arguments(self, launch: LaunchSpec, port: int, index: int) -> list[str]:
        """The flags of a build, without the user's own."""


class _OverGrpc(Dialect):
    """Engines that call one method over gRPC, with ML-Agents' messages and field numbers of their own."""

    wire: Wire

    @override
    def parse(self, data: bytes) -> EngineMessage:
        return parse_engine_message(data, self.wire)

    @override
    def farewell(self) -> bytes:
        return encode_close()


class Unity(_OverGrpc):
    """Games with com.unity.ml-agents, and the headless engine."""

    game = "Unity"
    plugin = "ML-Agents"
    side_channels = True
    wire = UNITY_WIRE

    @override
    def meet(self, first: EngineMessage, options: EngineOptions, index: int) -> Meeting:
        engine = first.initialization
        assert engine is not None  # or the server would have refused it
        api, version = engine.communication_version, engine.package_version
        if not understood(api):
            raise VersionError(
                f"package {version or 'of unknown version'} uses communicator API {api}, this trainer "
                f"{COMMUNICATION_VERSION}; use com.unity.ml-agents 2.0 to 4.x in the project"
            )
        package = Package(version, order_of(version, options.image_order, options.flat_sensors))
        codec = TrainerCodec()
        if package.old:
            package.notes.append(
                f"package {version} (API {api}) can train, but cannot load the resulting model (it supports "
                "version_number 2, the model has 3); to use the model, upgrade com.unity.ml-agents to 2.0 or newer"
            )
        codec.legacy_actions = not engine.capabilities.hybrid_actions
        codec.images, codec.notes = package.images, package.notes
        reply = TrainerInitialization(
            options.seed + index,
            package_version=OLD_PACKAGE_VERSION if package.old else PACKAGE_VERSION,
            num_areas=options.num_areas,
        )
        return package, codec, encode_initialization(reply)

    @override
    def arguments(self, launch: LaunchSpec, port: int, index: int) -> list[str]:
        log = launch.log_file(index)
        return [
            *(["-nographics", "-batchmode"] if launch.hidden(index) else []),
            "--mlagents-port",
            str(port),
            *(["-logFile", str(log)] if log else []),
        ]


class Unreal(_OverGrpc):
    """Games with the UnrealMLAgents plugin, by its sources at 1.0.0."""

    game = "Unreal"
    plugin = "UnrealMLAgents"
    wire = UNREAL_WIRE

    @override
    def meet(self, first: EngineMessage, options: EngineOptions, index: int) -> Meeting:
        engine = first.initialization
        assert engine is not None  # or the server would have refused it
        api = engine.communication_version
        if not api.startswith(_UNREAL_VERSIONS):
            raise VersionError(
                f"its plugin {engine.package_version or 'of unknown version'} uses communication version {api}, this "
                f"trainer {self.wire.version}; use UnrealMLAgents 1.x in the project"
            )
        chosen = options.configuration
        idle = ", ".join(f"engine_settings.{key}" for key in SENT if chosen.changed(key))
        notes = [f"{idle}: no effect, because an Unreal game receives no settings"] if idle else []
        # The plugin compares the versions (below 1.0 the second numbers too), so its own is right.
        reply = TrainerInitialization(options.seed + index, api, self.wire.version, num_areas=options.num_areas)
        return Package(notes=notes), _UnrealCodec(self.wire), encode_initialization(reply, self.wire)

    @override
    def arguments(self, launch: LaunchSpec, port: int, index: int) -> list[str]:
        # A value after a space would not be read: the plugin looks for the text `mlAgentPort=`.
        return [
            f"-mlAgentPort={port}",
            "-unattended",
            *(["-nullrhi"] if launch.hidden(index) else []),
            *(["-stdout", "-FullStdOutLogOutput"] if launch.log_file(index) else []),  # the launcher keeps its output
        ]


class _UnrealCodec(TrainerCodec):
    """The plugin obeys a reply's command only if the reply has actions of a behavior, even of no agents."""

    @override
    def reply(self, command: Command, actions: Mapping[str, Actions], side_channel: bytes = b"") -> bytes:
        if command is not Command.STEP:
            actions = {name: Actions.zeros(spec.actions, 0) for name, spec in self.specs.items()}
        return super().reply(command, actions, side_channel)


_UNREAL_VERSIONS: Final = "1.", "0.1."
"""Communication versions of the released plugin and of those before it; both have the same messages."""
UNITY: Final = Unity()
UNREAL: Final = Unreal()
BY_METHOD: Final[Mapping[str, Dialect]] = {dialect.wire.method: dialect for dialect in (UNITY, UNREAL)}
"""Dialects over gRPC, by the HTTP/2 path of their only unary call: it tells them apart before the first message."""
