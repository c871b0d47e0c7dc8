"""The trainer's end of the communicator API: messages to and from arrays.

Protobuf decodes the envelope, and :mod:`~tau_trainer.bridge.agent_records` the list of agents in it. The trainer's
answers are written here. The engine's end is :mod:`~tau_trainer.bridge.engine_codec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import DecodeError as ProtobufDecodeError

from tau_trainer.bridge.agent_records import AgentDecoder
from tau_trainer.bridge.package import DECLARED
from tau_trainer.bridge.protocol import (
    COMMUNICATION_VERSION,
    PACKAGE_VERSION,
    STATUS_CLOSE,
    STATUS_OK,
    UNITY_WIRE,
    AgentAction,
    Command,
    Wire,
)
from tau_trainer.bridge.records import BYTES, Template, fill_floats, fill_varints, varint, varint_width
from tau_trainer.errors import DecodeError
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, StepBatch


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of one side (``UnityRLCapabilitiesProto``)."""

    base_rl: bool = True
    concatenated_png: bool = True
    compressed_channel_mapping: bool = True
    hybrid_actions: bool = True
    training_analytics: bool = True
    variable_length: bool = True
    multi_agent_groups: bool = True


@dataclass(frozen=True, slots=True)
class EngineInitialization:
    """An engine's first message."""

    name: str = "AcademySingleton"
    communication_version: str = COMMUNICATION_VERSION
    package_version: str = "3.0.0"
    """The package whose order of uncompressed images :func:`encode_engine_message` writes."""
    capabilities: Capabilities = Capabilities()


@dataclass(frozen=True, slots=True)
class TrainerInitialization:
    """The trainer's answer to an engine's first message."""

    seed: int = 0
    communication_version: str = COMMUNICATION_VERSION
    package_version: str = PACKAGE_VERSION
    capabilities: Capabilities = Capabilities()
    num_areas: int = 1


_Init = Capabilities | EngineInitialization | TrainerInitialization
_InitT = TypeVar("_InitT", bound=_Init)


@dataclass(slots=True)
class EngineMessage:
    """A message from an engine. ``agent_lists`` holds each behavior's agents, still encoded."""

    status: int
    initialization: EngineInitialization | None = None
    action_specs: dict[str, ActionSpec] = field(default_factory=dict)
    agent_lists: dict[str, bytes] = field(default_factory=dict)
    side_channel: bytes = b""


def parsed(data: bytes, wire: Wire = UNITY_WIRE) -> Any:
    """Parse a message of the protocol. Raises DecodeError."""
    try:
        return wire.message.FromString(data)
    except (ProtobufDecodeError, UnicodeDecodeError) as error:  # protobuf 3.20 without its C core raises the second
        raise DecodeError(f"received {len(data)} bytes that are not a message of the protocol") from error


def read(kind: type[_InitT], message: Any) -> _InitT:
    """A dataclass with the fields of a message of the same names; the others keep their defaults."""
    known = message.DESCRIPTOR.fields_by_name
    given = {item.name: getattr(message, item.name) for item in fields(kind) if item.name in known}
    if "capabilities" in given:
        given["capabilities"] = read(Capabilities, given["capabilities"])
    return kind(**given)


def write(message: Any, values: _Init) -> None:
    """The reverse of :func:`read`."""
    message.SetInParent()  # even if nothing is set: Unity's package reads it without checking
    known = message.DESCRIPTOR.fields_by_name
    for item in (item for item in fields(values) if item.name in known):
        value = getattr(values, item.name)
        if isinstance(value, Capabilities):
            write(message.capabilities, value)
        else:
            setattr(message, item.name, value)


def read_action_spec(brain: Any) -> ActionSpec:
    """A behavior's actions; packages before API 1.3 fill only the deprecated fields."""
    spec = brain.action_spec
    sizes = tuple(getattr(brain, "vector_action_size_deprecated", ()))
    if spec.num_continuous_actions or spec.num_discrete_actions:
        actions = ActionSpec(spec.num_continuous_actions, tuple(spec.discrete_branch_sizes))
    elif getattr(brain, "vector_action_space_type_deprecated", 0) == 1:
        actions = ActionSpec(continuous_size=sizes[0] if sizes else 0)
    else:
        actions = ActionSpec(discrete_branches=sizes)
    if actions.continuous_size < 0 or any(size < 1 for size in actions.discrete_branches):
        raise DecodeError(
            f"behavior '{brain.brain_name}' describes {actions.continuous_size} continuous actions and branches of "
            f"{list(actions.discrete_branches)} choices; sizes start at 1"
        )
    return actions


def describe(brain: Any, spec: BehaviorSpec) -> None:
    """The reverse: a behavior's name and actions."""
    brain.brain_name = spec.name
    brain.action_spec.SetInParent()
    brain.action_spec.num_continuous_actions = spec.actions.continuous_size
    brain.action_spec.num_discrete_actions = spec.actions.discrete_size
    brain.action_spec.discrete_branch_sizes.extend(spec.actions.discrete_branches)


def parse_engine_message(data: bytes, wire: Wire = UNITY_WIRE) -> EngineMessage:
    """Read the envelope of an engine's message. Raises DecodeError."""
    message = parsed(data, wire)
    result = EngineMessage(message.header.status)
    output = message.engine_output
    if output.HasField("rl_initialization_output"):
        init = output.rl_initialization_output
        if init.communication_version:
            result.initialization = read(EngineInitialization, init)
        result.action_specs = {brain.brain_name: read_action_spec(brain) for brain in init.brain_parameters}
    if output.HasField("rl_output"):
        result.agent_lists = dict(output.rl_output.agent_infos)
        result.side_channel = output.rl_output.side_channel
    return result


def encode_initialization(initialization: TrainerInitialization, wire: Wire = UNITY_WIRE) -> bytes:
    """The trainer's reply to an engine's first message."""
    message = wire.message()
    message.header.status = STATUS_OK
    write(message.trainer_input.rl_initialization_input, initialization)
    return bytes(message.SerializeToString())


def encode_reply(
    command: Command,
    actions: Mapping[str, bytes] | None = None,
    side_channel: bytes = b"",
    wire: Wire = UNITY_WIRE,
) -> bytes:
    """The trainer's reply to a step: a command, and the packed actions of each behavior."""
    message = wire.message()
    message.header.status = STATUS_OK
    rl_input = message.trainer_input.rl_input
    rl_input.SetInParent()
    if command:
        rl_input.command = int(command)
    if side_channel:
        rl_input.side_channel = side_channel
    for name, packed in (actions or {}).items():
        rl_input.agent_actions[name] = packed
    return bytes(message.SerializeToString())


def encode_close() -> bytes:
    """A message with header status 400: the other side must end. The same bytes in both directions and dialects."""
    return bytes(UNITY_WIRE.message(header={"status": STATUS_CLOSE}).SerializeToString())


class ActionEncoder:
    """Encodes :class:`Actions` as ``ListAgentActionProto``: one template for all agents, filled column by column."""

    def __init__(self, spec: ActionSpec, *, legacy: bool = False, numbers: AgentAction = UNITY_WIRE.action) -> None:
        """``legacy`` adds the deprecated copy that packages before API 1.3 read."""
        self._spec = spec
        self._legacy = legacy
        self._width = varint_width(max((size - 1 for size in spec.discrete_branches), default=0))
        c, b = spec.continuous_size, spec.discrete_size
        body = bytearray()
        if legacy:
            body += varint(numbers.legacy << 3 | BYTES) + varint(4 * (c + b))
            self._legacy_at = len(body)
            body += bytes(4 * (c + b))
        if c:
            body += varint(numbers.continuous << 3 | BYTES) + varint(4 * c)
            self._continuous_at = len(body)
            body += bytes(4 * c)
        if b:
            body += varint(numbers.discrete << 3 | BYTES) + varint(self._width * b)
            self._discrete_at = len(body)
            body += bytes(self._width * b)
        self._head = b"\x0a" + varint(len(body))
        self._template = Template(self._head + bytes(body))

    def encode(self, actions: Actions) -> bytes:
        """Bytes of the list; empty for no agents."""
        if len(actions) == 0:
            return b""
        rows = self._template.table(len(actions))
        offset = len(self._head)
        if self._legacy:
            both = np.concatenate([actions.continuous, actions.discrete.astype(np.float32)], axis=1)
            fill_floats(rows, offset + self._legacy_at, both)
        if self._spec.continuous_size:
            fill_floats(rows, offset + self._continuous_at, actions.continuous)
        for branch in range(self._spec.discrete_size):
            start = offset + self._discrete_at + branch * self._width
            fill_varints(rows, start, self._width, actions.discrete[:, branch])
        return rows.tobytes()


class TrainerCodec:
    """The trainer's end of one engine: remembers the engine's behaviors and the layouts of its records."""

    def __init__(self, wire: Wire = UNITY_WIRE) -> None:
        self._wire = wire
        self.specs: dict[str, BehaviorSpec] = {}
        self.legacy_actions = False
        """Set for engines without the hybridActions capability: they read the deprecated copy of actions."""
        self.images = DECLARED
        """Order of the engine's image data; set before the first step."""
        self.unsettled: dict[str, tuple[str, ...]] = {}
        """By behavior, the sensors whose image order is a guess."""
        self.notes: list[str] = []
        """Notes for the user."""
        self._action_specs: dict[str, ActionSpec] = {}
        self._decoders: dict[str, AgentDecoder] = {}
        self._encoders: dict[str, ActionEncoder] = {}

    def parse(self, data: bytes) -> EngineMessage:
        """See :func:`parse_engine_message`."""
        return parse_engine_message(data, self._wire)

    def steps(self, message: EngineMessage) -> list[StepBatch]:
        """Arrays of every behavior with agents in ``message``, by name; registers behaviors when they first appear.

        Raises DecodeError.
        """
        self._action_specs.update(message.action_specs)
        lists = sorted(message.agent_lists.items())  # protobuf's own order differs from run to run
        # Behaviors are in the order in which the engine describes them, as in mlagents-envs.
        for name in (*message.action_specs, *(name for name, _ in lists)):
            if name not in self.specs and message.agent_lists.get(name):
                self._register(name, message.agent_lists[name])
        return [self._decoders[name].decode(payload, self.specs[name]) for name, payload in lists if payload]

    def _register(self, name: str, payload: bytes) -> None:
        if name not in self._action_specs:
            raise DecodeError(f"the engine sent agents of behavior '{name}' without ever describing its actions")
        decoder = AgentDecoder(name, self.images, self.notes, self._wire)
        spec = BehaviorSpec(name, decoder.specs(payload), self._action_specs[name])
        self.specs[name] = spec
        self.unsettled[name] = decoder.unsettled
        self._decoders[name] = decoder
        self._encoders[name] = ActionEncoder(spec.actions, legacy=self.legacy_actions, numbers=self._wire.action)

    def reply(self, command: Command, actions: Mapping[str, Actions], side_channel: bytes = b"") -> bytes:
        """Bytes of a reply with these actions, in the order of the agents that asked."""
        packed = {name: self._encoders[name].encode(value) for name, value in actions.items()}
        return encode_reply(command, packed, side_channel, self._wire)
