"""``ListAgentInfoProto`` to and from arrays: what engines say of their agents.

Field numbers are those of ``AgentInfoProto`` and ``ObservationProto`` in ML-Agents 1.x to 4.x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tau_trainer.bridge.records import (
    BYTES,
    FIXED32,
    VARINT,
    Bytes,
    Group,
    LayoutCache,
    Shape,
    Span,
    delimited,
    fields,
    fill_floats,
    fill_varints,
    float_span,
    join_floats,
    join_varints,
    read_varint,
    tile,
    varint,
    varint_spans,
    varint_width,
)
from tau_trainer.errors import DecodeError
from tau_trainer.specs import (
    BehaviorSpec,
    DimensionProperty,
    FloatArray,
    ObservationSpec,
    ObservationType,
    StepBatch,
    Terminals,
)

_REWARD, _DONE, _MAX_STEP, _ID, _MASK, _OBSERVATION, _GROUP, _GROUP_REWARD = 7, 8, 9, 10, 11, 13, 14, 15
_SHAPE, _COMPRESSION, _COMPRESSED, _FLOATS, _MAPPING, _PROPERTIES, _TYPE, _NAME = range(1, 9)

_T = TypeVar("_T", bound=np.generic)


_MOST_DIMENSIONS = 16
_MOST_FLOATS = 2**31


def _integers(data: bytes, start: int, stop: int) -> list[int]:
    """A repeated int32 field, packed or not."""
    values = [read_varint(data, span.start)[0] & 0xFFFFFFFF for span in varint_spans(data, start, stop)]
    return [value - 2**32 if value >= 2**31 else value for value in values]


@dataclass(slots=True)
class _Observation:
    spec: ObservationSpec
    floats: list[Span]


def _observation(data: bytes, start: int, stop: int) -> _Observation:
    """Parse one ``ObservationProto``: its spec and where its floats lie."""
    shape: list[int] = []
    properties: list[int] = []
    floats: list[Span] = []
    kind, compression, name = 0, 0, ""
    for number, wire, first, last in fields(data, start, stop):
        if number == _SHAPE and wire in (VARINT, BYTES):
            shape += _integers(data, first, last)
        elif number == _PROPERTIES and wire in (VARINT, BYTES):
            properties += _integers(data, first, last)
        elif number == _COMPRESSION and wire == VARINT:
            compression, _ = read_varint(data, first)
        elif number == _TYPE and wire == VARINT:
            kind, _ = read_varint(data, first)
        elif number == _NAME and wire == BYTES:
            name = data[first:last].decode("utf-8", "replace")
        elif number == _FLOATS and wire == BYTES:
            floats += _float_data(data, first, last)
    if compression != 0:
        raise DecodeError(
            f"sensor '{name}' sends PNG images, which this version cannot read; "
            "set the sensor's Compression Type to None in Unity"
        )
    count = sum(span.stop - span.start for span in floats) // 4
    if not _holds(shape, count):
        raise DecodeError(f"sensor '{name}' declares shape {tuple(shape)} but sends {count} floats")
    spec = ObservationSpec(name, tuple(shape), tuple(map(DimensionProperty, properties)), ObservationType(kind & 1))
    return _Observation(spec, floats)


def _float_data(data: bytes, start: int, stop: int) -> list[Span]:
    """Where the floats of a ``FloatData`` lie: one span if they are packed, as engines do it."""
    return [
        float_span(first, last)
        for number, wire, first, last in fields(data, start, stop)
        if number == 1 and wire in (BYTES, FIXED32)
    ]


def _holds(shape: list[int], count: int) -> bool:
    """Whether an array of ``shape`` holds ``count`` floats, and can be made at all."""
    return (
        len(shape) <= _MOST_DIMENSIONS
        and all(size >= 0 for size in shape)
        and math.prod(shape) == count
        and math.prod(max(size, 1) for size in shape) < _MOST_FLOATS
    )


class AgentLayout(Shape):
    """The layout of an ``AgentInfoProto``: where id, reward, flags, mask and observations lie."""

    def __init__(self, record: bytes) -> None:
        self.spans: dict[int, Span] = {}
        self.mask: list[Span] = []
        self.observations: list[_Observation] = []
        for number, wire, start, stop in fields(record, 0, len(record)):
            if number == _OBSERVATION and wire == BYTES:
                self.observations.append(_observation(record, start, stop))
            elif number == _MASK and wire in (BYTES, VARINT):
                self.mask += varint_spans(record, start, stop)
            elif (number in (_REWARD, _GROUP_REWARD) and wire == FIXED32) or (
                number in (_DONE, _MAX_STEP, _ID, _GROUP) and wire == VARINT
            ):
                self.spans[number] = Span(start, stop)
        super().__init__(
            record,
            [self.spans[n] for n in (_REWARD, _GROUP_REWARD) if n in self.spans]
            + [span for observation in self.observations for span in observation.floats],
            [self.spans[n] for n in (_DONE, _MAX_STEP, _ID, _GROUP) if n in self.spans] + self.mask,
        )

    def floats(self, number: int, rows: Bytes) -> FloatArray:
        """float32 [k]; zeros where the field is absent (proto3 leaves defaults out)."""
        span = self.spans.get(number)
        return np.zeros(len(rows), np.float32) if span is None else span.floats(rows)[:, 0]

    def integers(self, number: int, rows: Bytes) -> NDArray[np.int32]:
        """int32 [k]; zeros where the field is absent."""
        span = self.spans.get(number)
        return np.zeros(len(rows), np.int32) if span is None else span.varints(rows).astype(np.int32)


class AgentDecoder:
    """Turns one behavior's ``ListAgentInfoProto`` into a :class:`StepBatch`; remembers the layouts it has met."""

    def __init__(self, behavior: str) -> None:
        self._behavior = behavior
        self._layouts: LayoutCache[AgentLayout] = LayoutCache(AgentLayout)

    def specs(self, payload: bytes) -> tuple[ObservationSpec, ...]:
        """The sensors as the first agent of ``payload``, a list that is not empty, shows them. Raises DecodeError."""
        first = min(self._layouts.groups(payload), key=lambda group: int(group.index[0]))
        return tuple(observation.spec for observation in first.layout.observations)

    def decode(self, payload: bytes, spec: BehaviorSpec) -> StepBatch:
        """All agents of one exchange, in message order.

        Raises DecodeError for bytes that are not the protocol, for observations of another shape than ``spec``,
        and for NaN or infinity (naming behavior, sensor and agent).
        """
        groups = self._layouts.groups(payload)
        for group in groups:
            self._check_shapes(group.layout, spec)
        gather = _Gather(groups)
        ids = gather(_integers_of(_ID), np.int32)
        done = gather(_integers_of(_DONE), np.int32) != 0
        reward = gather(_floats_of(_REWARD), np.float32)
        group_id = gather(_integers_of(_GROUP), np.int32)
        group_reward = gather(_floats_of(_GROUP_REWARD), np.float32)
        obs = tuple(
            gather(_observation_of(i), np.float32).reshape(len(ids), *s.shape) for i, s in enumerate(spec.observations)
        )
        self._check_finite(spec, ids, reward, group_reward, obs)
        mask = self._mask(groups, gather, spec)
        if not done.any():
            terminals = Terminals(
                ids[:0], tuple(o[:0] for o in obs), reward[:0], done[:0], group_id[:0], group_reward[:0]
            )
            return StepBatch(self._behavior, ids, obs, reward, group_id, group_reward, terminals, mask)
        truncated = gather(_integers_of(_MAX_STEP), np.int32) != 0
        live = ~done
        terminals = Terminals(
            ids[done],
            tuple(o[done] for o in obs),
            reward[done],
            truncated[done],
            group_id[done],
            group_reward[done],
        )
        return StepBatch(
            self._behavior,
            ids[live],
            tuple(o[live] for o in obs),
            reward[live],
            group_id[live],
            group_reward[live],
            terminals,
            None if mask is None else mask[live],
        )

    def _check_shapes(self, layout: AgentLayout, spec: BehaviorSpec) -> None:
        shapes = [observation.spec.shape for observation in layout.observations]
        expected = [observation.shape for observation in spec.observations]
        if shapes != expected:
            raise DecodeError(
                f"behavior '{self._behavior}' sent observations of shapes {shapes} after {expected}; "
                "all agents of a behavior need the same sensors"
            )

    @staticmethod
    def _mask(groups: list[Group[AgentLayout]], gather: _Gather, spec: BehaviorSpec) -> NDArray[np.bool_] | None:
        """Flat masks bool [n, sum of branches]; absent or of another length means that nothing is masked."""
        size = spec.actions.mask_size

        def rows_of(layout: AgentLayout, rows: Bytes) -> NDArray[np.bool_]:
            if len(layout.mask) != size:
                return np.zeros((len(rows), size), np.bool_)
            forbidden: NDArray[np.bool_] = join_varints(layout.mask, rows) != 0
            return forbidden

        if size == 0 or not any(group.layout.mask for group in groups):
            return None
        return gather(rows_of, np.bool_)

    def _check_finite(
        self,
        spec: BehaviorSpec,
        ids: NDArray[np.int32],
        reward: FloatArray,
        group_reward: FloatArray,
        obs: tuple[FloatArray, ...],
    ) -> None:
        named = [("reward", reward), ("group reward", group_reward)]
        named += [(f"sensor '{s.name}'", o) for s, o in zip(spec.observations, obs, strict=True)]
        for name, values in named:
            with np.errstate(invalid="ignore"):  # infinity minus infinity is what we look for
                total = values.sum(dtype=np.float64)  # float64 cannot overflow here: finite unless a value is not
            if not np.isfinite(total):
                bad = ~np.isfinite(values.reshape(len(ids), -1)).all(axis=1)
                raise DecodeError(
                    f"behavior '{self._behavior}' sent NaN or infinity in {name} of agent {int(ids[bad][0])}; "
                    "look for a division by zero or an exploding body in the game"
                )


def _integers_of(number: int) -> Callable[[AgentLayout, Bytes], NDArray[np.int32]]:
    return lambda layout, rows: layout.integers(number, rows)


def _floats_of(number: int) -> Callable[[AgentLayout, Bytes], FloatArray]:
    return lambda layout, rows: layout.floats(number, rows)


def _observation_of(index: int) -> Callable[[AgentLayout, Bytes], FloatArray]:
    return lambda layout, rows: join_floats(layout.observations[index].floats, rows)


class _Gather:
    """Collects a value from every group of records, back in message order."""

    def __init__(self, groups: list[Group[AgentLayout]]) -> None:
        self._groups = groups
        self._order = np.argsort(np.concatenate([g.index for g in groups])) if len(groups) > 1 else None

    def __call__(self, read: Callable[[AgentLayout, Bytes], NDArray[_T]], empty: type[_T]) -> NDArray[_T]:
        """``read`` of every group; an array of dtype ``empty`` and length 0 where there is none."""
        if not self._groups:
            return np.zeros(0, empty)
        if self._order is None:
            return read(self._groups[0].layout, self._groups[0].rows)
        return np.concatenate([read(group.layout, group.rows) for group in self._groups])[self._order]


def _encode_observation_head(spec: ObservationSpec) -> tuple[bytes, bytes]:
    """What stands before and after the floats of one ``ObservationProto``."""
    size = 4 * spec.size
    floats = varint(1 << 3 | BYTES) + varint(size)
    before = delimited(_SHAPE, b"".join(map(varint, spec.shape)))
    before += varint(_FLOATS << 3 | BYTES) + varint(len(floats) + size) + floats
    after = b""
    if spec.dimension_property:
        after += delimited(_PROPERTIES, b"".join(varint(int(p)) for p in spec.dimension_property))
    if spec.observation_type:
        after += varint(_TYPE << 3) + varint(int(spec.observation_type))
    return before, after + delimited(_NAME, spec.name.encode())


class AgentEncoder:
    """Writes a :class:`StepBatch` as ``ListAgentInfoProto``: the engine's side. One template, filled by columns."""

    def __init__(self, spec: BehaviorSpec) -> None:
        self._spec = spec
        self._templates: dict[tuple[int, int, bool], tuple[bytes, dict[object, int]]] = {}

    def encode(self, batch: StepBatch) -> bytes:
        """Terminal records first, then those that ask for a decision."""
        ended = batch.terminals
        ids = np.concatenate([ended.agent_ids, batch.agent_ids])
        if len(ids) == 0:
            return b""
        groups = np.concatenate([ended.group_id, batch.group_id])
        masked = batch.action_mask is not None and self._spec.actions.mask_size > 0
        width = varint_width(int(ids.max()))
        group_reward = np.concatenate([ended.group_reward, batch.group_reward])
        group_width = varint_width(int(groups.max())) if groups.any() or group_reward.any() else 0
        template, at = self._template(width, group_width, masked)
        rows = tile(template, len(ids))
        k = len(ended)
        fill_floats(rows, at[_REWARD], np.concatenate([ended.reward, batch.reward])[:, None])
        rows[:k, at[_DONE]] = 1
        rows[:k, at[_MAX_STEP]] = ended.truncated
        fill_varints(rows, at[_ID], width, ids)
        for i, spec in enumerate(self._spec.observations):
            fill_floats(rows[:k], at["obs", i], ended.obs[i].reshape(k, spec.size))
            fill_floats(rows[k:], at["obs", i], batch.obs[i].reshape(len(ids) - k, spec.size))
        if masked and batch.action_mask is not None:
            rows[k:, at[_MASK] : at[_MASK] + self._spec.actions.mask_size] = batch.action_mask
        if group_width:
            fill_varints(rows, at[_GROUP], group_width, groups)
            fill_floats(rows, at[_GROUP_REWARD], group_reward[:, None])
        return rows.tobytes()

    def _template(self, width: int, group_width: int, masked: bool) -> tuple[bytes, dict[object, int]]:
        """One record with its list header and the offset of each value; zero rewards are sent explicitly."""
        key = (width, group_width, masked)
        if key not in self._templates:
            self._templates[key] = self._build(width, group_width, masked)
        return self._templates[key]

    def _build(self, width: int, group_width: int, masked: bool) -> tuple[bytes, dict[object, int]]:
        body = bytearray()
        at: dict[object, int] = {}

        def value(key: object, head: bytes, size: int) -> None:
            body.extend(head)
            at[key] = len(body)
            body.extend(bytes(size))

        value(_REWARD, varint(_REWARD << 3 | FIXED32), 4)
        value(_DONE, varint(_DONE << 3), 1)
        value(_MAX_STEP, varint(_MAX_STEP << 3), 1)
        value(_ID, varint(_ID << 3), width)
        if masked:
            size = self._spec.actions.mask_size
            value(_MASK, varint(_MASK << 3 | BYTES) + varint(size), size)
        for i, spec in enumerate(self._spec.observations):
            before, after = _encode_observation_head(spec)
            length = len(before) + 4 * spec.size + len(after)
            value(("obs", i), varint(_OBSERVATION << 3 | BYTES) + varint(length) + before, 4 * spec.size)
            body.extend(after)
        if group_width:
            value(_GROUP, varint(_GROUP << 3), group_width)
            value(_GROUP_REWARD, varint(_GROUP_REWARD << 3 | FIXED32), 4)
        head = b"\x0a" + varint(len(body))
        return head + bytes(body), {k: v + len(head) for k, v in at.items()}
