"""``ListAgentActionProto`` to and from arrays: what the trainer answers.

The order of actions is the order of the agents that asked, so no ids travel.
"""

from __future__ import annotations

import numpy as np

from tau_trainer.bridge.records import (
    BYTES,
    FIXED32,
    VARINT,
    Bytes,
    LayoutCache,
    RecordLayout,
    Span,
    Template,
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
from tau_trainer.specs import Actions, ActionSpec

_LEGACY, _VALUE, _CONTINUOUS, _DISCRETE = 1, 4, 6, 7


class ActionEncoder:
    """Writes :class:`Actions` as ``ListAgentActionProto``. One template for all agents, filled by columns."""

    def __init__(self, spec: ActionSpec, *, legacy: bool = False) -> None:
        """``legacy`` adds the deprecated copy that packages before API 1.3 read."""
        self._spec = spec
        self._legacy = legacy
        self._width = varint_width(max((size - 1 for size in spec.discrete_branches), default=0))
        c, b = spec.continuous_size, spec.discrete_size
        body = bytearray()
        if legacy:
            body += varint(_LEGACY << 3 | BYTES) + varint(4 * (c + b))
            self._legacy_at = len(body)
            body += bytes(4 * (c + b))
        if c:
            body += varint(_CONTINUOUS << 3 | BYTES) + varint(4 * c)
            self._continuous_at = len(body)
            body += bytes(4 * c)
        if b:
            body += varint(_DISCRETE << 3 | BYTES) + varint(self._width * b)
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


class ActionLayout(RecordLayout):
    """The layout of an ``AgentActionProto``: where its floats and branch indices lie."""

    def __init__(self, record: bytes) -> None:
        self.continuous: list[Span] = []
        self.discrete: list[Span] = []
        self.legacy: list[Span] = []
        ignored: list[Span] = []
        for number, wire, start, stop in fields(record, 0, len(record)):
            if number == _CONTINUOUS and wire in (BYTES, FIXED32):
                self.continuous.append(float_span(start, stop))
            elif number == _DISCRETE and wire in (BYTES, VARINT):
                self.discrete += varint_spans(record, start, stop)
            elif number == _LEGACY and wire in (BYTES, FIXED32):
                self.legacy.append(float_span(start, stop))
            elif number == _VALUE and wire in (BYTES, FIXED32):
                ignored.append(Span(start, stop))
        super().__init__(record, self.continuous + self.legacy + ignored, self.discrete)


class ActionDecoder:
    """Reads ``ListAgentActionProto`` into :class:`Actions`: the engine's side."""

    def __init__(self, spec: ActionSpec, *, legacy: bool = False) -> None:
        """``legacy``: an action that is nothing but the deprecated copy counts, as in old recordings."""
        self._spec = spec
        self._legacy = legacy
        self._layouts: LayoutCache[ActionLayout] = LayoutCache(ActionLayout)

    def decode(self, payload: bytes) -> Actions:
        """Actions of all agents, in message order. Raises DecodeError where a record does not fit the spec."""
        one = self._layouts.one(payload)
        if one is not None:
            return self._read(*one)
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
        """An action may leave out all of a kind, which means zeros, but not some."""
        spec = self._spec
        if floats not in (0, spec.continuous_size) or branches not in (0, spec.discrete_size):
            raise DecodeError(
                f"an action has {floats} continuous values and {branches} branches; this behavior takes "
                f"{spec.continuous_size} and {spec.discrete_size}"
            )
