"""Arrays to ``ListAgentInfoProto``: the engine's side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tau_trainer.bridge.agent_layout import (
    COMPRESSED,
    COMPRESSION,
    DONE,
    FLOATS,
    GROUP,
    GROUP_REWARD,
    ID,
    MAPPING,
    MASK,
    MAX_STEP,
    NAME,
    OBSERVATION,
    PROPERTIES,
    REWARD,
    SHAPE,
    TYPE,
)
from tau_trainer.bridge.images import CHANNELS, write_pngs
from tau_trainer.bridge.records import (
    BYTES,
    FIXED32,
    Bytes,
    Template,
    delimited,
    fill_floats,
    fill_varints,
    varint,
    varint_width,
)
from tau_trainer.specs import BehaviorSpec, ObservationSpec, StepBatch, Terminals

if TYPE_CHECKING:
    from tau_trainer.bridge.codec import Capabilities


def _floats_head(spec: ObservationSpec) -> bytes:
    """What stands before the floats of one ``ObservationProto``."""
    size = 4 * spec.size
    floats = varint(1 << 3 | BYTES) + varint(size)
    return _shape(spec) + varint(FLOATS << 3 | BYTES) + varint(len(floats) + size) + floats


def _images_head(spec: ObservationSpec) -> bytes:
    """What stands before the PNG files of one ``ObservationProto``."""
    return _shape(spec) + varint(COMPRESSION << 3) + varint(1)


def _shape(spec: ObservationSpec) -> bytes:
    return delimited(SHAPE, b"".join(map(varint, spec.shape)))


def _tail(spec: ObservationSpec) -> bytes:
    """What stands after the values of one ``ObservationProto``."""
    after = b""
    if spec.dimension_property:
        after += delimited(PROPERTIES, b"".join(varint(int(p)) for p in spec.dimension_property))
    if spec.observation_type:
        after += varint(TYPE << 3) + varint(int(spec.observation_type))
    return after + delimited(NAME, spec.name.encode())


def _mapping(channels: int) -> list[int]:
    """Where the channels of PNG files belong, as Unity says it: nothing where all are the sensor's, or few enough."""
    spare = -channels % CHANNELS
    return [*range(channels), *[-1] * spare] if channels > CHANNELS and spare else []


def _as_images(spec: ObservationSpec, capabilities: Capabilities | None) -> bool:
    """Whether a sensor travels as PNG files: bytes do, unless the trainer cannot put several files together."""
    if spec.dtype != np.uint8 or len(spec.shape) != 3:
        return False
    if capabilities is None or spec.shape[0] <= CHANNELS:
        return True
    return capabilities.concatenated_png and (capabilities.compressed_channel_mapping or not _mapping(spec.shape[0]))


class AgentEncoder:
    """Writes a :class:`StepBatch` as ``ListAgentInfoProto``: the engine's side. One template, filled by columns.

    Sensors of bytes [C, H, W] travel as PNG files, which are put into the finished records.
    """

    def __init__(
        self, spec: BehaviorSpec, capabilities: Capabilities | None = None, *, channels_last: bool = False
    ) -> None:
        """``capabilities``: what the trainer can read; None: everything.

        ``channels_last``: the numbers of uncompressed images are written as [H, W, C] under the shape [C, H, W].
        """
        self._spec = spec
        self._channels_last = channels_last
        self._images = [i for i, sensor in enumerate(spec.observations) if _as_images(sensor, capabilities)]
        self._templates: dict[tuple[int, int, bool], tuple[Template, dict[object, int]]] = {}

    def encode(self, batch: StepBatch) -> bytes:
        """Terminal records first, then those that ask for a decision."""
        ended = batch.terminals
        k, n = len(ended), len(batch)
        if k + n == 0:
            return b""
        mask = batch.action_mask if self._spec.actions.mask_size else None
        width, group_width = self._widths(batch)
        template, at = self._template(width, group_width, mask is not None)
        rows = template.table(k + n)
        if k:
            rows[:k, at[DONE]] = 1
            rows[:k, at[MAX_STEP]] = ended.truncated
            self._fill(rows[:k], at, ended, width, group_width)
        live = rows[k:] if k else rows
        self._fill(live, at, batch, width, group_width)
        if mask is not None:
            live[:, at[MASK] : at[MASK] + self._spec.actions.mask_size] = mask
        return self._with_images(rows, at, batch) if self._images else rows.tobytes()

    def _with_images(self, rows: Bytes, at: dict[object, int], batch: StepBatch) -> bytes:
        """The records of ``rows`` with the PNG files of all agents in their places."""
        heads: dict[int, tuple[bytes, bytes]] = {}
        files: dict[int, list[bytes]] = {}
        for i in self._images:
            sensor = self._spec.observations[i]
            mapping = b"".join(varint(channel % 2**64) for channel in _mapping(sensor.shape[0]))
            heads[i] = _images_head(sensor), (delimited(MAPPING, mapping) if mapping else b"") + _tail(sensor)
            files[i] = write_pngs(batch.terminals.obs[i]) + write_pngs(batch.obs[i])
        records = []
        for number, row in enumerate(rows):
            record, parts, done = row.tobytes(), [], at["body"]
            for i, (before, after) in heads.items():
                own = before + delimited(COMPRESSED, files[i][number]) + after
                parts += [record[done : at["obs", i]], delimited(OBSERVATION, own)]
                done = at["obs", i]
            records.append(delimited(1, b"".join([*parts, record[done:]])))
        return b"".join(records)

    @staticmethod
    def _widths(batch: StepBatch) -> tuple[int, int]:
        """Bytes of the widest agent id and of the widest group id; 0 for the latter where nobody is in a group."""
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
        """Write what records that ended and records that go on have in common."""
        fill_floats(rows, at[REWARD], part.reward[:, None])
        fill_varints(rows, at[ID], width, part.agent_ids)
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
            fill_varints(rows, at[GROUP], group_width, part.group_id)
            fill_floats(rows, at[GROUP_REWARD], part.group_reward[:, None])

    def _template(self, width: int, group_width: int, masked: bool) -> tuple[Template, dict[object, int]]:
        """One record with its list header and the offset of each value; zero rewards are sent explicitly."""
        key = (width, group_width, masked)
        if key not in self._templates:
            self._templates[key] = self._build(width, group_width, masked)
        return self._templates[key]

    def _build(self, width: int, group_width: int, masked: bool) -> tuple[Template, dict[object, int]]:
        body = bytearray()
        at: dict[object, int] = {}

        def value(key: object, head: bytes, size: int) -> None:
            body.extend(head)
            at[key] = len(body)
            body.extend(bytes(size))

        value(REWARD, varint(REWARD << 3 | FIXED32), 4)
        value(DONE, varint(DONE << 3), 1)
        value(MAX_STEP, varint(MAX_STEP << 3), 1)
        value(ID, varint(ID << 3), width)
        if masked:
            size = self._spec.actions.mask_size
            value(MASK, varint(MASK << 3 | BYTES) + varint(size), size)
        for i, spec in enumerate(self._spec.observations):
            if i in self._images:
                at["obs", i] = len(body)
                continue
            before, after = _floats_head(spec), _tail(spec)
            length = len(before) + 4 * spec.size + len(after)
            value(("obs", i), varint(OBSERVATION << 3 | BYTES) + varint(length) + before, 4 * spec.size)
            body.extend(after)
        if group_width:
            value(GROUP, varint(GROUP << 3), group_width)
            value(GROUP_REWARD, varint(GROUP_REWARD << 3 | FIXED32), 4)
        head = b"\x0a" + varint(len(body))
        at["body"] = 0
        return Template(head + bytes(body)), {k: v + len(head) for k, v in at.items()}
