"""``ListAgentInfoProto`` to arrays: what engines say of their agents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.bridge.agent_layout import DONE, GROUP, GROUP_REWARD, ID, MAX_STEP, REWARD, AgentLayout
from tau_trainer.bridge.image_order import DECLARED, ImageOrder
from tau_trainer.bridge.image_records import ImageSplitter
from tau_trainer.bridge.images import ImageDecoder, ImageError
from tau_trainer.bridge.records import Bytes, LayoutCache
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
        """Write ``part`` to the places ``index``."""
        for name in ("ids", "done", "truncated", "reward", "group_id", "group_reward"):
            getattr(self, name)[index] = getattr(part, name)
        for whole, piece in zip(self.obs, part.obs, strict=True):
            whole[index] = piece
        if self.mask is not None and part.mask is not None:
            self.mask[index] = part.mask

    def pick(self, which: BoolArray) -> Records:
        """The records where ``which`` (bool [k]) is true."""
        return Records(
            self.ids[which],
            self.done[which],
            self.truncated[which],
            self.reward[which],
            self.group_id[which],
            self.group_reward[which],
            tuple(sensor[which] for sensor in self.obs),
            None if self.mask is None else self.mask[which],
        )


def _empty(spec: BehaviorSpec, n: int, *, masked: bool) -> Records:
    """Records to be filled in with :meth:`Records.put`."""
    ids, done, truncated, group_id = np.zeros((4, n), np.int32)
    reward, group_reward = np.zeros((2, n), np.float32)
    obs = tuple(np.zeros((n, *sensor.shape), sensor.dtype) for sensor in spec.observations)
    mask = np.zeros((n, spec.actions.mask_size), np.bool_) if masked else None
    return Records(ids, done, truncated, reward, group_id, group_reward, obs, mask)


class AgentDecoder:
    """Turns one behavior's ``ListAgentInfoProto`` into a :class:`StepBatch`; remembers the layouts it has met."""

    def __init__(self, behavior: str, images: ImageOrder = DECLARED) -> None:
        """``images``: how they lie; in the order of their shape unless it is given."""
        self._behavior = behavior
        self.unsettled: tuple[str, ...] = ()
        """Sensors in :meth:`specs` whose images may lie otherwise than they are read."""
        self._layouts: LayoutCache[AgentLayout] = LayoutCache(partial(AgentLayout, images=images))
        self._splitter = ImageSplitter()
        self._spec: BehaviorSpec | None = None
        """What was decoded last."""
        self._compressed = False
        """Whether a sensor of it sends PNG files."""
        self._nobody: Terminals | None = None
        self._checked = b""
        """Ids of a message in which nobody was listed twice."""

    def specs(self, payload: bytes) -> tuple[ObservationSpec, ...]:
        """The sensors as the first agent of ``payload``, a list that is not empty, shows them. Raises DecodeError."""
        records, _ = self._splitter.split(payload)
        first = min(self._layouts.groups(records), key=lambda group: int(group.index[0])).layout
        self.unsettled = tuple(observation.spec.name for observation in first.observations if observation.unsettled)
        return tuple(observation.spec for observation in first.observations)

    def decode(self, payload: bytes, spec: BehaviorSpec) -> StepBatch:
        """All agents of one exchange, in message order.

        Raises DecodeError for bytes that are not the protocol, for observations of another shape than ``spec``, for
        NaN or infinity (naming behavior, sensor and agent), and for an agent that asks twice or ends twice. To end and
        to ask again at once is legal (ML-Agents' protocol, section 6).
        """
        records = self.records(payload, spec)
        if not np.count_nonzero(records.done):
            self._check_once(records.ids)
            return self._batch(records, self._none_ended(spec))
        ended = records.done != 0
        last, records = records.pick(ended), records.pick(~ended)
        for ids in (last.ids, records.ids):
            self._check_once(ids)
        terminals = Terminals(last.ids, last.obs, last.reward, last.truncated != 0, last.group_id, last.group_reward)
        return self._batch(records, terminals)

    def records(self, payload: bytes, spec: BehaviorSpec) -> Records:
        """The same in message order, ended or not, whoever they are. Raises DecodeError as :meth:`decode`."""
        if spec is not self._spec:
            self._spec, self._compressed = spec, any(sensor.dtype == np.uint8 for sensor in spec.observations)
        images: list[list[bytes]] = []
        if self._compressed:
            payload, images = self._splitter.split(payload)
        one = self._layouts.one(payload)
        records = self._gather(payload, images, spec) if one is None else self._read(*one, images, spec)
        self._check_finite(spec, records)
        return records

    def _batch(self, records: Records, terminals: Terminals) -> StepBatch:
        return StepBatch(
            self._behavior,
            records.ids,
            records.obs,
            records.reward,
            records.group_id,
            records.group_reward,
            terminals,
            records.mask,
        )

    def _none_ended(self, spec: BehaviorSpec) -> Terminals:
        """Terminals of nobody; the arrays are shared, there is nothing in them to write to."""
        if self._nobody is None:
            self._nobody = empty_terminals(spec.observations)
        nobody = self._nobody
        return Terminals(
            nobody.agent_ids, nobody.obs, nobody.reward, nobody.truncated, nobody.group_id, nobody.group_reward
        )

    def _gather(self, payload: bytes, images: list[list[bytes]], spec: BehaviorSpec) -> Records:
        """Records of any layouts, brought back into the order of the message."""
        groups = self._layouts.groups(payload)
        masked = spec.actions.mask_size > 0 and any(group.layout.mask for group in groups)
        records = _empty(spec, sum(len(group.index) for group in groups), masked=masked)
        for group in groups:
            own = [images[place] for place in group.index] if images else images
            records.put(group.index, self._read(group.layout, group.rows, own, spec))
        return records

    def _read(self, layout: AgentLayout, rows: Bytes, images: list[list[bytes]], spec: BehaviorSpec) -> Records:
        """Records of one layout, and their PNG files."""
        self._check_sensors(layout, spec)
        size = spec.actions.mask_size
        ids = layout.integers(ID, rows)
        return Records(
            ids,
            layout.integers(DONE, rows),
            layout.integers(MAX_STEP, rows),
            layout.floats(REWARD, rows),
            layout.integers(GROUP, rows),
            layout.floats(GROUP_REWARD, rows),
            self._read_sensors(layout, rows, images, ids),
            layout.masks(rows, size) if size and layout.mask else None,
        )

    def _read_sensors(self, layout: AgentLayout, rows: Bytes, images: list[list[bytes]], ids: IntArray) -> Observations:
        """One array for each sensor."""
        if layout.compressed or images:
            self._check_images(layout, images, ids)
        sensors: list[NDArray[Any]] = []
        files = zip(*images, strict=True)
        for observation in layout.observations:
            if observation.spec.dtype == np.float32:
                sensors.append(observation.read(rows))
                continue
            try:
                decoder = observation.decoder or ImageDecoder(observation.spec.shape, observation.mapping)
                observation.decoder = decoder
                sensors.append(decoder.decode(next(files)))
            except ImageError as error:
                raise DecodeError(
                    f"behavior '{self._behavior}': sensor '{observation.spec.name}' of agent {int(ids[error.row])} "
                    f"sent {error}"
                ) from error
        return tuple(sensors)

    def _check_images(self, layout: AgentLayout, images: list[list[bytes]], ids: IntArray) -> None:
        """Whether there are files for every sensor that is said to send some, and for no other."""
        for agent, own in zip(ids.tolist(), images or [[]] * len(ids), strict=True):
            if len(own) != layout.compressed:
                raise DecodeError(
                    f"behavior '{self._behavior}' sent PNG files for {len(own)} sensors of agent {agent} where "
                    f"{layout.compressed} need some"
                )

    def _check_sensors(self, layout: AgentLayout, spec: BehaviorSpec) -> None:
        if layout.fits is spec:
            return
        expected = tuple(observation.shape for observation in spec.observations)
        if layout.shapes != expected:
            raise DecodeError(
                f"behavior '{self._behavior}' sent observations of shapes {list(layout.shapes)} after "
                f"{list(expected)}; all agents of a behavior need the same sensors"
            )
        for own, other in zip(layout.observations, spec.observations, strict=True):
            if own.spec.dtype != other.dtype:
                raise DecodeError(
                    f"behavior '{self._behavior}' sent sensor '{other.name}' as PNG images of some agents and as "
                    "floats of others; give all of them the same Compression Type in Unity"
                )
        layout.fits = spec

    def _check_once(self, ids: IntArray) -> None:
        key = ids.tobytes()
        if key == self._checked:
            return  # most messages bring the same agents
        listed = ids.tolist()
        if len(set(listed)) < len(listed):
            twice, _ = Counter(listed).most_common(1)[0]
            raise DecodeError(
                f"behavior '{self._behavior}' lists agent {twice} twice in one message; every agent needs its own id"
            )
        if len(key) >= len(self._checked):  # rather those who ask than the few whose episode ended
            self._checked = key

    def _check_finite(self, spec: BehaviorSpec, records: Records) -> None:
        """Raise DecodeError for NaN or infinity."""
        floats = [sensor for sensor in records.obs if sensor.dtype == np.float32]
        if all(map(_all_finite, (records.reward, records.group_reward, *floats))):
            return
        named = [("reward", records.reward), ("group reward", records.group_reward)]
        named += [(f"sensor '{s.name}'", o) for s, o in zip(spec.observations, records.obs, strict=True)]
        name, values = next((name, values) for name, values in named if not _all_finite(values))
        agent = int(records.ids[np.argwhere(~np.isfinite(values))[0, 0]])
        raise DecodeError(
            f"behavior '{self._behavior}' sent NaN or infinity in {name} of agent {agent}; "
            "look for a division by zero or an exploding body in the game"
        )


def _all_finite(values: NDArray[Any]) -> bool:
    return bool(np.count_nonzero(np.isfinite(values)) == values.size)  # half the time of `all`, for arrays this small
