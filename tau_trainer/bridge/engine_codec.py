"""The engine's end of the communicator API: arrays to messages, and trainers' answers to arrays.

The order of actions is the order of the agents that asked, so messages contain no IDs for actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Final

import numpy as np

from tau_trainer.bridge.codec import (
    Capabilities,
    EngineInitialization,
    TrainerInitialization,
    describe,
    parsed,
    read,
    write,
)
from tau_trainer.bridge.images import CHANNELS, write_pngs
from tau_trainer.bridge.protocol import STATUS_OK, UNITY_WIRE, AgentAction, Command, Observation, Wire
from tau_trainer.bridge.records import (
    BYTES,
    FIXED32,
    VARINT,
    Bytes,
    LayoutCache,
    RecordLayout,
    Span,
    Template,
    delimited,
    fields,
    fill_floats,
    fill_varints,
    float_span,
    join_floats,
    join_varints,
    varint,
    varint_spans,
    varint_width,
)
from tau_trainer.errors import DecodeError
from tau_trainer.specs import Actions, ActionSpec, Behaviors, BehaviorSpec, ObservationSpec, StepBatch, Terminals


@dataclass(frozen=True, slots=True)
class MessageReader:
    """Who reads an engine's messages."""

    wire: Wire = UNITY_WIRE
    capabilities: Capabilities | None = None
    """None: all."""


ANY_READER: Final = MessageReader()


@dataclass(slots=True)
class TrainerMessage:
    """A trainer's answer, decoded by the engine."""

    status: int
    initialization: TrainerInitialization | None = None
    has_input: bool = False
    command: Command = Command.STEP
    actions: dict[str, Actions] = field(default_factory=dict)
    side_channel: bytes = b""


def _floats_head(spec: ObservationSpec, numbers: Observation) -> bytes:
    """The bytes before the floats of one ``ObservationProto``."""
    size = 4 * spec.size
    floats = varint(1 << 3 | BYTES) + varint(size)
    return _shape(spec, numbers) + varint(numbers.floats << 3 | BYTES) + varint(len(floats) + size) + floats


def _shape(spec: ObservationSpec, numbers: Observation) -> bytes:
    return delimited(numbers.shape, b"".join(map(varint, spec.shape)))


def _tail(spec: ObservationSpec, numbers: Observation) -> bytes:
    """The bytes after the values of one ``ObservationProto``."""
    after = b""
    if spec.dimension_property:
        after += delimited(numbers.properties, b"".join(varint(int(p)) for p in spec.dimension_property))
    if spec.observation_type and numbers.type:
        after += varint(numbers.type << 3) + varint(int(spec.observation_type))
    return after + delimited(numbers.name, spec.name.encode())


def _mapping(channels: int) -> list[int]:
    """Unity's mapping of PNG channels to sensor channels; empty if no channel is unused, or there are few."""
    spare = -channels % CHANNELS
    return [*range(channels), *[-1] * spare] if channels > CHANNELS and spare else []


def _as_images(spec: ObservationSpec, capabilities: Capabilities | None) -> bool:
    """Whether a sensor is sent as PNG files: uint8 is, unless the trainer does not support several files."""
    if spec.dtype != np.uint8 or len(spec.shape) != 3:
        return False
    if capabilities is None or spec.shape[0] <= CHANNELS:
        return True
    return capabilities.concatenated_png and (capabilities.compressed_channel_mapping or not _mapping(spec.shape[0]))


class AgentEncoder:
    """Encodes a :class:`StepBatch` as ``ListAgentInfoProto``: one template, filled column by column.

    Sensors of uint8 [C, H, W] are sent as PNG files, which are inserted into the finished records.
    """

    def __init__(
        self,
        spec: BehaviorSpec,
        capabilities: Capabilities | None = None,
        *,
        channels_last: bool = False,
        wire: Wire = UNITY_WIRE,
    ) -> None:
        """``capabilities``: the trainer's; None: all. ``wire``: without PNG files, all images are sent as floats.

        ``channels_last``: write the values of uncompressed images as [H, W, C] with the shape [C, H, W].
        """
        self._spec = spec
        self._channels_last = channels_last
        self._info, self._numbers = wire.agent, wire.observation
        self._images = [
            i
            for i, sensor in enumerate(spec.observations)
            if self._numbers.compressed and _as_images(sensor, capabilities)
        ]
        self._templates: dict[tuple[int, int, bool], tuple[Template, dict[object, int]]] = {}

    def encode(self, batch: StepBatch) -> bytes:
        """Terminal records first, then those that ask for a decision."""
        ended, info = batch.terminals, self._info
        k, n = len(ended), len(batch)
        if k + n == 0:
            return b""
        mask = batch.action_mask if self._spec.actions.mask_size else None
        width, group_width = self._widths(batch)
        key = width, group_width, mask is not None
        template, at = self._templates.get(key) or self._templates.setdefault(key, self._build(*key))
        rows = template.table(k + n)
        if k:
            rows[:k, at[info.done]] = 1
            rows[:k, at[info.max_step]] = ended.truncated
            self._fill(rows[:k], at, ended, width, group_width)
        live = rows[k:] if k else rows
        self._fill(live, at, batch, width, group_width)
        if mask is not None:
            live[:, at[info.mask] : at[info.mask] + self._spec.actions.mask_size] = mask
        return self._with_images(rows, at, batch) if self._images else rows.tobytes()

    def _with_images(self, rows: Bytes, at: dict[object, int], batch: StepBatch) -> bytes:
        """The records of ``rows`` with the PNG files of all agents inserted."""
        numbers = self._numbers
        heads: dict[int, tuple[bytes, bytes]] = {}
        files: dict[int, list[bytes]] = {}
        for i in self._images:
            sensor = self._spec.observations[i]
            mapping = b"".join(varint(channel % 2**64) for channel in _mapping(sensor.shape[0]))
            tail = (delimited(numbers.mapping, mapping) if mapping else b"") + _tail(sensor, numbers)
            heads[i] = _shape(sensor, numbers) + varint(numbers.compression << 3) + varint(1), tail
            files[i] = write_pngs(batch.terminals.obs[i]) + write_pngs(batch.obs[i])
        records = []
        for number, row in enumerate(rows):
            record, parts, done = row.tobytes(), [], at["body"]
            for i, (before, after) in heads.items():
                images = before + delimited(numbers.compressed, files[i][number]) + after
                parts += [record[done : at["obs", i]], delimited(self._info.observation, images)]
                done = at["obs", i]
            records.append(delimited(1, b"".join([*parts, record[done:]])))
        return b"".join(records)

    @staticmethod
    def _widths(batch: StepBatch) -> tuple[int, int]:
        """Bytes of the widest agent ID and of the widest group ID; the latter is 0 if no agent is in a group."""
        agents = groups = 0
        grouped = False
        for part in (batch, batch.terminals):
            if len(part):
                agents = max(agents, int(np.maximum.reduce(part.agent_ids)))
                if np.count_nonzero(part.group_id) or np.count_nonzero(part.group_reward):
                    grouped = True
                    groups = max(groups, int(np.maximum.reduce(part.group_id)))
        return varint_width(agents), varint_width(groups) if grouped else 0

    def _fill(
        self, rows: Bytes, at: dict[object, int], part: StepBatch | Terminals, width: int, group_width: int
    ) -> None:
        """Write the fields that ended and continuing records share."""
        info = self._info
        fill_floats(rows, at[info.reward], part.reward[:, None])
        fill_varints(rows, at[info.id], width, part.agent_ids)
        for i, (spec, sensor) in enumerate(zip(self._spec.observations, part.obs, strict=True)):
            if i in self._images:
                continue
            if self._channels_last and sensor.ndim == 4:
                sensor = sensor.transpose(0, 2, 3, 1)
            flat = sensor if sensor.ndim == 2 else sensor.reshape(len(rows), spec.size)
            if spec.dtype == np.uint8:
                flat = np.divide(flat, np.float32(255), dtype=np.float32)
            fill_floats(rows, at["obs", i], flat)
        if group_width:
            fill_varints(rows, at[info.group], group_width, part.group_id)
            fill_floats(rows, at[info.group_reward], part.group_reward[:, None])

    def _build(self, width: int, group_width: int, masked: bool) -> tuple[Template, dict[object, int]]:
        """One record with its list header and the offset of each value; zero rewards are sent explicitly."""
        body, info = bytearray(), self._info
        at: dict[object, int] = {}

        def value(key: object, head: bytes, size: int) -> None:
            body.extend(head)
            at[key] = len(body)
            body.extend(bytes(size))

        value(info.reward, varint(info.reward << 3 | FIXED32), 4)
        value(info.done, varint(info.done << 3), 1)
        value(info.max_step, varint(info.max_step << 3), 1)
        value(info.id, varint(info.id << 3), width)
        if masked:
            size = self._spec.actions.mask_size
            value(info.mask, varint(info.mask << 3 | BYTES) + varint(size), size)
        for i, spec in enumerate(self._spec.observations):
            if i in self._images:
                at["obs", i] = len(body)
                continue
            before, after = _floats_head(spec, self._numbers), _tail(spec, self._numbers)
            length = len(before) + 4 * spec.size + len(after)
            value(("obs", i), varint(info.observation << 3 | BYTES) + varint(length) + before, 4 * spec.size)
            body.extend(after)
        if group_width:
            value(info.group, varint(info.group << 3), group_width)
            value(info.group_reward, varint(info.group_reward << 3 | FIXED32), 4)
        head = b"\x0a" + varint(len(body))
        at["body"] = 0
        return Template(head + bytes(body)), {k: v + len(head) for k, v in at.items()}


class ActionLayout(RecordLayout):
    """The layout of an ``AgentActionProto``: the positions of its floats and branch indices."""

    def __init__(self, record: bytes, numbers: AgentAction = UNITY_WIRE.action) -> None:
        self.continuous: list[Span] = []
        self.discrete: list[Span] = []
        self.legacy: list[Span] = []
        ignored: list[Span] = []
        floats = {numbers.continuous: self.continuous, numbers.legacy: self.legacy}
        for number, wire, start, stop in fields(record, 0, len(record)):
            if number in floats and wire in (BYTES, FIXED32):
                floats[number].append(float_span(start, stop))
            elif number == numbers.discrete and wire in (BYTES, VARINT):
                self.discrete += varint_spans(record, start, stop)
            elif number == numbers.value and wire in (BYTES, FIXED32):
                ignored.append(Span(start, stop))
        super().__init__(record, self.continuous + self.legacy + ignored, self.discrete)


class ActionDecoder:
    """Reads ``ListAgentActionProto`` into :class:`Actions`: the engine's side."""

    def __init__(self, spec: ActionSpec, *, legacy: bool = False, numbers: AgentAction = UNITY_WIRE.action) -> None:
        """``legacy``: accept actions with only the deprecated copy, as in old recordings."""
        self._spec = spec
        self._legacy = legacy
        self._layouts: LayoutCache[ActionLayout] = LayoutCache(partial(ActionLayout, numbers=numbers))

    def decode(self, payload: bytes) -> Actions:
        """Actions of all agents, in message order. Raises DecodeError if a record does not fit the spec."""
        alike = self._layouts.alike(payload)
        if alike is not None:
            return self._read(*alike)
        groups = self._layouts.groups(payload)
        actions = Actions.zeros(self._spec, sum(len(group.index) for group in groups))
        for group in groups:
            part = self._read(group.layout, group.rows)
            actions.continuous[group.index] = part.continuous
            actions.discrete[group.index] = part.discrete
        return actions

    def _read(self, layout: ActionLayout, rows: Bytes) -> Actions:
        """Actions of records of one layout."""
        n, spec = len(rows), self._spec
        floats = sum(span.stop - span.start for span in layout.continuous) // 4
        branches = len(layout.discrete)
        self._check(floats, branches)
        if self._legacy and layout.legacy and not floats and not branches:
            both = join_floats(layout.legacy, rows)
            self._check(spec.continuous_size, both.shape[1] - spec.continuous_size)
            return Actions(both[:, : spec.continuous_size], both[:, spec.continuous_size :].astype(np.int32))
        return Actions(
            join_floats(layout.continuous, rows) if floats else np.zeros((n, spec.continuous_size), np.float32),
            join_varints(layout.discrete, rows).astype(np.int32)
            if branches
            else np.zeros((n, spec.discrete_size), np.int32),
        )

    def _check(self, floats: int, branches: int) -> None:
        """An action can omit all values of a kind, which means zeros, but not some of them."""
        spec = self._spec
        if floats not in (0, spec.continuous_size) or branches not in (0, spec.discrete_size):
            raise DecodeError(
                f"an action has {floats} continuous values and {branches} branches; this behavior takes "
                f"{spec.continuous_size} and {spec.discrete_size}"
            )


@cache
def _encoder(spec: BehaviorSpec, reader: MessageReader) -> AgentEncoder:
    return AgentEncoder(spec, reader.capabilities, channels_last=reader.wire is UNITY_WIRE, wire=reader.wire)


@cache
def _decoder(spec: ActionSpec, wire: Wire) -> ActionDecoder:
    return ActionDecoder(spec, numbers=wire.action)


def encode_engine_message(
    *,
    initialization: EngineInitialization | None = None,
    specs: Sequence[BehaviorSpec] = (),
    steps: Sequence[StepBatch] | None = None,
    side_channel: bytes = b"",
    observation_specs: Behaviors | None = None,
    reader: MessageReader = ANY_READER,
) -> bytes:
    """An engine's message. ``specs``: behaviors announced for the first time; ``steps`` None: header only.

    ``observation_specs``: the behavior of every step, by name.
    Uncompressed images are written like package 3.0.0, the version in our :class:`EngineInitialization`.
    """
    message = reader.wire.message()
    message.header.status = STATUS_OK
    if initialization is not None:
        write(message.engine_output.rl_initialization_output, initialization)
    for spec in specs:
        brain = message.engine_output.rl_initialization_output.brain_parameters.add()
        brain.is_training = True
        describe(brain, spec)
    if steps is not None:
        output = message.engine_output.rl_output
        output.SetInParent()
        output.side_channel = side_channel
        for step in steps:
            spec = (observation_specs or {})[step.behavior]
            output.agent_infos[step.behavior] = _encoder(spec, reader).encode(step)
    return bytes(message.SerializeToString())


def decode_trainer_message(data: bytes, specs: Behaviors, wire: Wire = UNITY_WIRE) -> TrainerMessage:
    """Read a trainer's reply on the engine's side. Raises DecodeError. Actions of unknown behaviors are ignored."""
    message = parsed(data, wire)
    result = TrainerMessage(message.header.status)
    result.has_input = message.HasField("trainer_input")
    if not result.has_input:
        return result
    if message.trainer_input.HasField("rl_initialization_input"):
        result.initialization = read(TrainerInitialization, message.trainer_input.rl_initialization_input)
    rl_input = message.trainer_input.rl_input
    # proto3's enums are open: unknown numbers are received unchanged, and mean a step here.
    result.command = Command(rl_input.command) if rl_input.command in (0, 1, 2) else Command.STEP
    result.side_channel = rl_input.side_channel
    for name, payload in rl_input.agent_actions.items():
        if name in specs:
            result.actions[name] = _decoder(specs[name].actions, wire).decode(payload)
    return result
