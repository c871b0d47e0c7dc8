"""Decodes ``ListAgentInfoProto``, the engines' agent data, to arrays."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.bridge.images import ImageDecoder, ImageError, ImageSplitter
from tau_trainer.bridge.package import DECLARED, ImageOrder
from tau_trainer.bridge.protocol import UNITY_WIRE, Wire
from tau_trainer.bridge.records import (
    BYTES,
    FIXED32,
    VARINT,
    Bytes,
    LayoutCache,
    RecordLayout,
    Span,
    fields,
    join_floats,
    join_varints,
    varint_spans,
)
from tau_trainer.bridge.sensors import Sensor, read_sensor
from tau_trainer.errors import DecodeError
from tau_trainer.specs import (
    BehaviorSpec,
    BoolArray,
    FloatArray,
    IndexArray,
    IntArray,
    Observations,
    ObservationSpec,
    StepBatch,
    Terminals,
    empty_terminals,
)


@dataclass(slots=True)
class Records:
    """Values of ``k`` records, ended or not, in message order: the first axis of every array."""

    ids: IntArray
    done: IntArray
    truncated: IntArray
    reward: FloatArray
    group_id: IntArray
    group_reward: FloatArray
    obs: Observations
    mask: BoolArray | None

    def put(self, index: IndexArray, part: Records) -> None:
        """Write ``part`` at the positions ``index``."""
        for name in _COLUMNS:
            getattr(self, name)[index] = getattr(part, name)
        for whole, piece in zip(self.obs, part.obs, strict=True):
            whole[index] = piece
        if self.mask is not None and part.mask is not None:
            self.mask[index] = part.mask


_COLUMNS = "ids", "done", "truncated", "reward", "group_id", "group_reward"


def _empty(spec: BehaviorSpec, n: int, *, masked: bool) -> Records:
    """Empty records; fill them with :meth:`Records.put`."""
    ids, done, truncated, group_id = np.zeros((4, n), np.int32)
    reward, group_reward = np.zeros((2, n), np.float32)
    obs = tuple(np.zeros((n, *sensor.shape), sensor.dtype) for sensor in spec.observations)
    mask = np.zeros((n, spec.actions.mask_size), np.bool_) if masked else None
    return Records(ids, done, truncated, reward, group_id, group_reward, obs, mask)


class AgentLayout(RecordLayout):
    """The layout of an ``AgentInfoProto``: the positions of ID, reward, flags, mask and observations."""

    def __init__(self, record: bytes, images: ImageOrder = DECLARED, wire: Wire = UNITY_WIRE) -> None:
        info = wire.agent
        of_floats = (info.reward, info.group_reward)
        of_integers = (info.done, info.max_step, info.id, info.group)
        self.fits: BehaviorSpec | None = None
        """The last behavior whose sensors matched this layout."""
        self.spans: dict[int, Span] = {}
        self.mask: list[Span] = []
        self.sensors: list[Sensor] = []
        for number, kind, start, stop in fields(record, 0, len(record)):
            if number == info.observation and kind == BYTES:
                self.sensors.append(read_sensor(record, start, stop, images, wire.observation))
            elif number == info.mask and kind in (BYTES, VARINT):
                self.mask += varint_spans(record, start, stop)
            elif (number in of_floats and kind == FIXED32) or (number in of_integers and kind == VARINT):
                self.spans[number] = Span(start, stop)  # the last one counts if a field occurs twice
        self.shapes = tuple(sensor.spec.shape for sensor in self.sensors)
        self.compressed = sum(sensor.spec.dtype == np.uint8 for sensor in self.sensors)
        """Sensors that send PNG files."""
        floats = [self.spans[number] for number in of_floats if number in self.spans]
        floats += [span for sensor in self.sensors for span in sensor.floats]
        super().__init__(
            record, floats, [self.spans[number] for number in of_integers if number in self.spans] + self.mask
        )

    def floats(self, number: int, rows: Bytes) -> FloatArray:
        """float32 [k]; zeros where the field is absent (proto3 leaves defaults out)."""
        span = self.spans.get(number)
        return np.zeros(len(rows), np.float32) if span is None else span.floats(rows)[:, 0]

    def integers(self, number: int, rows: Bytes) -> IntArray:
        """int32 [k]; zeros where the field is absent."""
        span = self.spans.get(number)
        if span is None:
            return np.zeros(len(rows), np.int32)
        if span.stop - span.start == 1:
            return rows[:, span.start].astype(np.int32)
        return span.varints(rows).astype(np.int32)

    def masks(self, rows: Bytes, size: int) -> BoolArray:
        """Flat masks bool [k, size]; all False if the mask is absent or has another length."""
        if len(self.mask) != size:
            return np.zeros((len(rows), size), np.bool_)
        forbidden: BoolArray = join_varints(self.mask, rows) != 0
        return forbidden


class AgentDecoder:
    """Turns one behavior's ``ListAgentInfoProto`` into a :class:`StepBatch`; remembers the layouts that it has seen."""

    def __init__(
        self,
        behavior: str,
        images: ImageOrder = DECLARED,
        notes: list[str] | None = None,
        wire: Wire = UNITY_WIRE,
    ) -> None:
        """``images``: order of image data. Default: the order of the shape. ``notes``: collects notes for the user."""
        self._behavior = behavior
        self._fields = wire.agent
        self.notes = [] if notes is None else notes
        """Notes for the user about the data."""
        self._filled: set[str] = set()
        """Sensors for which missing files were reported."""
        self.unsettled: tuple[str, ...] = ()
        """Sensors in :meth:`specs` whose image order is a guess."""
        self._layouts: LayoutCache[AgentLayout] = LayoutCache(partial(AgentLayout, images=images, wire=wire))
        self._splitter = ImageSplitter()
        self._spec: BehaviorSpec | None = None
        """The behavior that was decoded last."""
        self._compressed = False
        """Whether one of its sensors sends PNG files."""
        self._nobody: Terminals | None = None
        self._checked = b""
        """IDs of a message in which each agent was listed once."""

    def specs(self, payload: bytes) -> tuple[ObservationSpec, ...]:
        """The sensors of the first agent in ``payload``, a nonempty list. Raises DecodeError."""
        records, _ = self._splitter.split(payload)
        first = min(self._layouts.groups(records), key=lambda group: int(group.index[0])).layout
        self.unsettled = tuple(sensor.spec.name for sensor in first.sensors if sensor.unsettled)
        return tuple(sensor.spec for sensor in first.sensors)

    def decode(self, payload: bytes, spec: BehaviorSpec) -> StepBatch:
        """All agents of one exchange, in message order.

        Raises DecodeError for bytes that are not the protocol, for observations of another shape than ``spec``, for
        NaN or infinity (with behavior, sensor and agent), and for an agent that asks twice or ends twice. An agent that
        ends and asks in the same message is valid (ML-Agents' protocol, section 6).
        """
        now = self.records(payload, spec)
        group = now.group_id, now.group_reward
        batch = StepBatch(self._behavior, now.ids, now.obs, now.reward, *group, self._none_ended(spec), now.mask)
        if np.count_nonzero(now.done):
            ended = now.done != 0
            batch = batch.some(~ended, batch.ended(ended, now.truncated != 0))
            self._check_once(batch.terminals.agent_ids)
        self._check_once(batch.agent_ids)
        return batch

    def records(self, payload: bytes, spec: BehaviorSpec) -> Records:
        """The same for all agents, in message order, ended or not. Raises DecodeError like :meth:`decode`."""
        if spec is not self._spec:
            self._spec = spec
            self._compressed = any(sensor.dtype == np.uint8 for sensor in spec.observations)
        images: list[list[bytes]] = []
        if self._compressed:
            payload, images = self._splitter.split(payload)
        alike = self._layouts.alike(payload)
        records = self._gather(payload, images, spec) if alike is None else self._read(*alike, images, spec)
        check_finite(spec, records.ids, records.obs, records.reward, records.group_reward)
        return records

    def _none_ended(self, spec: BehaviorSpec) -> Terminals:
        """Terminals without agents; the arrays are shared, because they are empty."""
        if self._nobody is None:
            self._nobody = empty_terminals(spec.observations)
        nobody = self._nobody
        return Terminals(
            nobody.agent_ids, nobody.obs, nobody.reward, nobody.truncated, nobody.group_id, nobody.group_reward
        )

    def _gather(self, payload: bytes, images: list[list[bytes]], spec: BehaviorSpec) -> Records:
        """Records of all layouts, in message order."""
        groups = self._layouts.groups(payload)
        masked = spec.actions.mask_size > 0 and any(group.layout.mask for group in groups)
        records = _empty(spec, sum(len(group.index) for group in groups), masked=masked)
        for group in groups:
            files = [images[place] for place in group.index] if images else images
            records.put(group.index, self._read(group.layout, group.rows, files, spec))
        return records

    def _read(self, layout: AgentLayout, rows: Bytes, images: list[list[bytes]], spec: BehaviorSpec) -> Records:
        """Records of one layout, and their PNG files."""
        self._check_sensors(layout, spec)
        size, info = spec.actions.mask_size, self._fields
        ids = layout.integers(info.id, rows)
        return Records(
            ids,
            layout.integers(info.done, rows),
            layout.integers(info.max_step, rows),
            layout.floats(info.reward, rows),
            layout.integers(info.group, rows),
            layout.floats(info.group_reward, rows),
            self._read_sensors(layout, rows, images, ids),
            layout.masks(rows, size) if size and layout.mask else None,
        )

    def _read_sensors(self, layout: AgentLayout, rows: Bytes, images: list[list[bytes]], ids: IntArray) -> Observations:
        """One array for each sensor."""
        if layout.compressed or images:
            self._check_images(layout, images, ids)
        seen: list[NDArray[Any]] = []
        files = zip(*images, strict=True)
        for sensor in layout.sensors:
            if sensor.spec.dtype == np.float32:
                seen.append(_floats_of(sensor, rows))
                continue
            try:
                sensor.decoder = sensor.decoder or ImageDecoder(sensor.spec.shape, sensor.mapping)
                seen.append(sensor.decoder.decode(next(files)))
                if sensor.decoder.filled and sensor.spec.name not in self._filled:
                    self._say_filled(sensor.spec.name)
            except ImageError as error:
                raise DecodeError(
                    f"behavior '{self._behavior}': sensor '{sensor.spec.name}' of agent {int(ids[error.row])} "
                    f"sent {error}"
                ) from error
        return tuple(seen)

    def _say_filled(self, sensor: str) -> None:
        self._filled.add(sensor)
        self.notes.append(
            f"sensor '{sensor}' of behavior '{self._behavior}' stacks images of more than 3 channels, and the files of "
            "its empty, oldest frames are missing (bug 5790 of com.unity.ml-agents before 4.1); they are read as zeros"
        )

    def _check_images(self, layout: AgentLayout, images: list[list[bytes]], ids: IntArray) -> None:
        """Raise DecodeError unless exactly the compressed sensors sent files."""
        for agent, files in zip(ids.tolist(), images or [[]] * len(ids), strict=True):
            if len(files) != layout.compressed:
                raise DecodeError(
                    f"behavior '{self._behavior}' sent PNG files for {len(files)} sensors of agent {agent}, but "
                    f"{layout.compressed} need them"
                )

    def _check_sensors(self, layout: AgentLayout, spec: BehaviorSpec) -> None:
        if layout.fits is spec:
            return
        expected = tuple(sensor.shape for sensor in spec.observations)
        if layout.shapes != expected:
            raise DecodeError(
                f"behavior '{self._behavior}' sent observations of shapes {list(layout.shapes)} after "
                f"{list(expected)}; all agents of a behavior need the same sensors"
            )
        for sensor, other in zip(layout.sensors, spec.observations, strict=True):
            if sensor.spec.dtype != other.dtype:
                raise DecodeError(
                    f"behavior '{self._behavior}' sent sensor '{other.name}' as PNG images of some agents and as "
                    "floats of others; give all of them the same Compression Type in Unity"
                )
        layout.fits = spec

    def _check_once(self, ids: IntArray) -> None:
        key = ids.tobytes()
        if key == self._checked:
            return  # most messages have the same agents
        listed = ids.tolist()
        if len(set(listed)) < len(listed):
            twice, _ = Counter(listed).most_common(1)[0]
            raise DecodeError(
                f"behavior '{self._behavior}' lists agent {twice} twice in one message; every agent needs its own id"
            )
        if len(key) >= len(self._checked):  # keep the agents that ask, not the few whose episode ended
            self._checked = key


def check_finite(
    spec: BehaviorSpec, ids: IntArray, obs: Observations, reward: FloatArray, group_reward: FloatArray
) -> None:
    """Raise DecodeError for NaN or infinity in what agents [n] sent."""
    floats = [sensor for sensor in obs if sensor.dtype == np.float32]
    if all(map(_all_finite, (reward, group_reward, *floats))):
        return
    named = [("reward", reward), ("group reward", group_reward)]
    named += [(f"sensor '{s.name}'", o) for s, o in zip(spec.observations, obs, strict=True)]
    name, values = next((name, values) for name, values in named if not _all_finite(values))
    agent = int(ids[np.argwhere(~np.isfinite(values))[0, 0]])
    raise DecodeError(
        f"behavior '{spec.name}' sent NaN or infinity in {name} of agent {agent}; "
        "look for a division by zero or an exploding body in the game"
    )


def _all_finite(values: NDArray[Any]) -> bool:
    return bool(np.count_nonzero(np.isfinite(values)) == values.size)  # half the time of `all`, for arrays this small


def _floats_of(sensor: Sensor, rows: Bytes) -> FloatArray:
    """The values of a float sensor in records of one layout: float32 [k, *shape]."""
    if not sensor.turned:
        return join_floats(sensor.floats, rows).reshape(len(rows), *sensor.spec.shape)
    channels, height, width = sensor.spec.shape
    values = sensor.floats[0].view(rows) if len(sensor.floats) == 1 else join_floats(sensor.floats, rows)
    images = values.reshape(len(rows), height, width, channels).transpose(0, 3, 1, 2)
    return images.astype(np.float32, order="C")  # read and transposed in one copy
