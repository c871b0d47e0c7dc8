"""Reads ML-Agents' ``.demo`` files (recorded play) into arrays, and writes them.

A file is: the length and bytes of a ``DemonstrationMetaProto`` in a reserved area of 33 bytes, then those of a
``BrainParametersProto``, then those of an ``AgentInfoActionPairProto`` for each record. Bytes after the last record are
ignored: Unity's recorder leaves a second copy of the metadata there.

**Which action answers an observation.** Unity's recorder (``Agent.SendInfoToBrain``) stores each observation with the
action that was active at that time. So the answer to an observation is in the *next* record, an episode's first record
holds zeros, and its last one holds the last answer. The loader of mlagents still uses the action of the same record,
which is one decision late. Files that we write are for that loader: the answer is in the same record, and a field that
other readers ignore says so. A file without that field was written by Unity, unless an episode in it starts with an
action.

**The order of an uncompressed image's data** depends on the version of the package that recorded it, which the file
does not contain: the caller must specify it. In files that we write it is the order of the sensor's shape.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError as ProtobufDecodeError

from tau_trainer.bridge.agent_records import AgentDecoder
from tau_trainer.bridge.codec import ActionEncoder, describe, read_action_spec
from tau_trainer.bridge.engine_codec import ActionDecoder, AgentEncoder
from tau_trainer.bridge.package import DECLARED, RECORDED, ImageOrder
from tau_trainer.bridge.protocol import DemonstrationMeta, DemonstrationPair, UnityMessage
from tau_trainer.bridge.records import VARINT, delimited, fields, read_varint, varint
from tau_trainer.errors import DataError, DecodeError
from tau_trainer.files import atomic_write_bytes, reason
from tau_trainer.specs import Actions, BehaviorSpec, BoolArray, FloatArray, Observations, StepBatch, empty_terminals

SUFFIX = ".demo"
API_VERSION = 1
"""Format version of written files; 0 is the same."""
RESERVED = 33
"""Bytes before the behavior's description."""
OWN_ACTIONS = 1000
"""Field of the behavior's description that only we write: a record's action answers the same record's observation."""
_LONGEST_NAME = 16
_COLUMNS = "reward", "begins", "ended", "truncated"
"""Columns of a :class:`Demonstration`."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Demonstration:
    """``k`` records of agents of one behavior: one episode after the other, each in order of time."""

    spec: BehaviorSpec
    obs: Observations
    """One array [k, *shape] for each sensor."""
    reward: FloatArray
    """float32 [k]: reward since the previous record."""
    begins: BoolArray
    """bool [k]: the record does not continue the previous one."""
    ended: BoolArray
    """bool [k]: the episode ended with this observation, which has no action."""
    truncated: BoolArray
    """bool [k]: a limit ended it."""
    actions: Actions
    """[k], in the environment's form: the answer to each observation, or zeros if there is none."""
    mask: BoolArray | None = None
    """bool [k, sum of branches], True = forbidden; None: all actions were allowed."""

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def returns(self) -> FloatArray:
        """float32 [e]: the sum of rewards of each finished episode."""
        episode = np.cumsum(self.begins) - 1
        sums = np.bincount(episode, np.where(self.begins, 0.0, self.reward))
        returns: FloatArray = sums[episode[self.ended]].astype(np.float32)
        return returns

    def __getitem__(self, kept: BoolArray) -> Demonstration:
        """The episodes selected by ``kept``, bool [e]."""
        rows = kept[np.cumsum(self.begins) - 1]
        obs = tuple(sensor[rows] for sensor in self.obs)
        mask = None if self.mask is None else self.mask[rows]
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        actions = Actions(self.actions.continuous[rows], self.actions.discrete[rows])
        return Demonstration(self.spec, obs, **columns, actions=actions, mask=mask)

    def fitting(self, spec: BehaviorSpec, where: str) -> Demonstration:
        """The same for the agents of ``spec``. Raises DataError if sensors or actions differ.

        A vector fits a sensor of more dimensions with the same number of values, and the reverse: Gymnasium's boxes are
        flat.
        """
        recorded = self.spec
        if recorded.actions != spec.actions:
            said = [
                f"{actions.continuous_size} continuous and branches of {list(actions.discrete_branches)}"
                for actions in (recorded.actions, spec.actions)
            ]
            raise DataError(f"{where}: its actions are {said[0]}, those of behavior '{spec.short_name}' are {said[1]}")
        if len(recorded.observations) != len(spec.observations):
            had, has = (", ".join(sensor.name for sensor in agents.observations) for agents in (recorded, spec))
            raise DataError(
                f"{where}: it has {len(recorded.observations)} sensors ({had}), behavior '{spec.short_name}' has "
                f"{len(spec.observations)} ({has}); record it again with the current agent"
            )
        for mine, live in zip(recorded.observations, spec.observations, strict=True):
            flat = mine.size == live.size and 1 in (len(mine.shape), len(live.shape))
            if not (mine.shape == live.shape or flat) or np.dtype(mine.dtype) != np.dtype(live.dtype):
                raise DataError(
                    f"{where}: its sensor '{mine.name}' is {np.dtype(mine.dtype)} {list(mine.shape)}, sensor "
                    f"'{live.name}' of behavior '{spec.short_name}' is {np.dtype(live.dtype)} {list(live.shape)}; "
                    "record it again with the current agent"
                )
        obs = zip(self.obs, spec.observations, strict=True)
        return replace(self, spec=spec, obs=tuple(seen.reshape(len(self), *live.shape) for seen, live in obs))


def joined(parts: Sequence[Demonstration]) -> Demonstration:
    """Demonstrations of one behavior, one after the other."""
    first, *others = parts
    if not others:
        return first
    mask = None
    if any(part.mask is not None for part in parts):
        size = first.spec.actions.mask_size
        masks = [np.zeros((len(part), size), np.bool_) if part.mask is None else part.mask for part in parts]
        mask = np.concatenate(masks)
    obs = tuple(np.concatenate(sensor) for sensor in zip(*(part.obs for part in parts), strict=True))
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    continuous = np.concatenate([part.actions.continuous for part in parts])
    discrete = np.concatenate([part.actions.discrete for part in parts])
    return Demonstration(first.spec, obs, **columns, actions=Actions(continuous, discrete), mask=mask)


def demonstration_files(paths: Iterable[str | Path]) -> list[Path]:
    """The files of these paths; each path is a file, or a folder of files. Raises DataError."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(path.glob(f"*{SUFFIX}"))
            if not inside:
                raise DataError(f"the folder '{path}' holds no {SUFFIX} file; record one, or name another folder")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise DataError(f"there is no demonstration '{path}'; check the path (relative to {Path.cwd()})")
    return found


def read_demonstrations(
    paths: Iterable[str | Path], spec: BehaviorSpec | None = None, images: ImageOrder = RECORDED
) -> Demonstration:
    """All files, or folders of files, as one.

    Args:
        paths: paths of the files and folders.
        spec: the behavior that they must fit; None: the first file's.
        images: order of image data in Unity's recordings.

    Raises:
        DataError: a file is missing, damaged, not a demonstration, or has other sensors or actions.
    """
    parts = []
    for path in demonstration_files(paths):
        part = read_demonstration(path, images)
        spec = spec or part.spec
        parts.append(part.fitting(spec, f"demonstration '{path}'"))
    if not parts:
        raise DataError("no demonstration is named; give demo_path a file or a folder")
    return joined(parts)


def read_demonstration(path: Path, images: ImageOrder = RECORDED) -> Demonstration:
    """Read one file; ``images``: order of image data if Unity recorded it. Raises DataError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"demonstration '{path}' cannot be read ({reason(error)}); check its permissions") from error
    try:
        demonstration, unsettled, notes = _parse(data, images)
    except (DecodeError, ProtobufDecodeError, UnicodeDecodeError) as error:
        said = str(error) if isinstance(error, DecodeError) else "it is not in ML-Agents' format"
        raise DataError(f"demonstration '{path}' is damaged or invalid ({said}); record it again") from error
    for sensor in unsettled[:1]:
        held = f"holds uncompressed images of sensor '{sensor}' without their order"
        _warn(f"demonstration '{path}' {held}: {images.guess}")
    for note in notes:
        _warn(f"demonstration '{path}': {note}")
    return demonstration


@cache  # once for each file, however often it is read
def _warn(text: str) -> None:
    _log.warning("%s", text)


def _parse(data: bytes, images: ImageOrder) -> tuple[Demonstration, tuple[str, ...], list[str]]:
    """The demonstration, the sensors whose image order is a guess, and notes. Raises DecodeError."""
    steps = _parse_meta(data)
    start, stop = _next(data, RESERVED, "the behavior's description")
    brain = UnityMessage().engine_output.rl_initialization_output.brain_parameters.add()
    brain.ParseFromString(data[start:stop])
    ours = any(number == OWN_ACTIONS for number, *_ in fields(data, start, stop))
    infos, answers = _pairs(data, stop, steps)
    actions = read_action_spec(brain)
    decoder = AgentDecoder(brain.brain_name, DECLARED if ours else images)
    spec = BehaviorSpec(brain.brain_name, decoder.specs(infos), actions)
    records = decoder.records(infos, spec)
    acted = ActionDecoder(actions, legacy=True).decode(answers)
    _check_actions(acted, spec)
    ended = records.done != 0
    begins = np.concatenate(([True], ended[:-1]))
    if not ours and _late(acted, begins):
        acted = Actions(np.roll(acted.continuous, -1, axis=0), np.roll(acted.discrete, -1, axis=0))
    acted.continuous[ended], acted.discrete[ended] = 0, 0
    truncated = ended & (records.truncated != 0)
    reward = records.reward + records.group_reward
    found = Demonstration(spec, records.obs, reward, begins, ended, truncated, acted, records.mask)
    return found, decoder.unsettled, decoder.notes


def _parse_meta(data: bytes) -> int:
    """The number of records. Raises DecodeError."""
    start, stop = _next(data[:RESERVED], 0, "its metadata")
    meta = DemonstrationMeta.FromString(data[start:stop])
    version = meta.api_version
    if version > API_VERSION:
        raise DecodeError(f"it has format version {version}, but only versions up to {API_VERSION} are supported")
    if meta.number_steps <= 0:
        raise DecodeError("it holds no records; end the recording properly")
    return int(meta.number_steps)


def _next(data: bytes, position: int, what: str) -> tuple[int, int]:
    """Start and end of the message whose length is at ``position``. Raises DecodeError."""
    try:
        length, start = read_varint(data, position)
    except DecodeError:
        length, start = len(data), position
    if start + length > len(data):
        raise DecodeError(f"it ends within {what}")
    return start, start + length


def _pairs(data: bytes, position: int, steps: int) -> tuple[bytes, bytes]:
    """All agents as a ``ListAgentInfoProto``, and their actions as a ``ListAgentActionProto``. Raises DecodeError."""
    infos: list[bytes] = []
    answers: list[bytes] = []
    for index in range(steps):
        start, position = _next(data, position, f"record {index + 1} of {steps:,}")
        pair = DemonstrationPair.FromString(data[start:position])
        infos.append(delimited(1, pair.agent_info))
        answers.append(delimited(1, pair.action))
    return b"".join(infos), b"".join(answers)


def _check_actions(actions: Actions, spec: BehaviorSpec) -> None:
    branches = np.array(spec.actions.discrete_branches, np.int32)
    wrong = ~np.isfinite(actions.continuous).all(axis=1)
    wrong |= ((actions.discrete < 0) | (actions.discrete >= branches)).any(axis=1)
    if wrong.any():
        raise DecodeError(f"the action of record {int(np.argmax(wrong)) + 1} is not one of behavior '{spec.name}'")


def _late(actions: Actions, begins: BoolArray) -> bool:
    """Whether answers are in the next records; see above. The first record of the file does not count."""
    first = np.flatnonzero(begins)[1:]
    return not (np.any(actions.continuous[first]) or np.any(actions.discrete[first]))


def write_demonstration(path: Path, demonstration: Demonstration, name: str = "") -> None:
    """Write one file. Every image becomes a PNG.

    Args:
        path: the file's path; an existing file is replaced once this one is complete.
        demonstration: the recorded play.
        name: the name that Unity shows, cut to 16 characters. Default: the file's name.

    Raises:
        DataError: the demonstration is empty.
        TauError: the file cannot be written.
    """
    if not len(demonstration):
        raise DataError(f"there is nothing to write to '{path}': no decision was recorded")
    spec = demonstration.spec
    brain = UnityMessage().engine_output.rl_initialization_output.brain_parameters.add()
    describe(brain, spec)
    # For ML-Agents before 1.3, which supports only one kind of actions.
    continuous = spec.actions.continuous_size > 0
    brain.vector_action_size_deprecated.extend(
        [spec.actions.continuous_size] if continuous else spec.actions.discrete_branches
    )
    brain.vector_action_space_type_deprecated = int(continuous)
    mark = varint(OWN_ACTIONS << 3 | VARINT) + varint(1)
    head = _meta(demonstration, name or path.stem)
    described = bytes(brain.SerializeToString()) + mark
    body = [varint(len(described)), described]
    for info, answer in zip(_infos(demonstration), _answers(demonstration), strict=True):
        pair = delimited(1, info) + delimited(2, answer)
        body += [varint(len(pair)), pair]
    atomic_write_bytes(path, b"".join((head, *body)))


def _meta(demonstration: Demonstration, name: str) -> bytes:
    """The reserved area, with as much of the name as fits."""
    returns = demonstration.returns
    meta = DemonstrationMeta(
        api_version=API_VERSION,
        number_steps=len(demonstration),
        number_episodes=len(returns),
        mean_reward=float(returns.mean()) if len(returns) else 0.0,
    )
    kept = "".join(letter for letter in name if letter.isascii() and (letter.isalnum() or letter in " -"))
    meta.demonstration_name = kept[: min(_LONGEST_NAME, RESERVED - meta.ByteSize() - 3)]
    content = bytes(meta.SerializeToString())
    return (varint(len(content)) + content).ljust(RESERVED, b"\0")


def _infos(demonstration: Demonstration) -> Iterator[bytes]:
    """An ``AgentInfoProto`` for each record."""
    spec = demonstration.spec
    ended = demonstration.ended
    mask = demonstration.mask
    encoder, nobody = AgentEncoder(spec), empty_terminals(spec.observations)
    none, unpaid = np.zeros(len(ended), np.int32), np.zeros(len(ended), np.float32)
    everyone = StepBatch(spec.name, none, demonstration.obs, demonstration.reward, none, unpaid, nobody)
    asking = replace(everyone, action_mask=mask).some(~ended, nobody)
    over = everyone.some(slice(0), everyone.ended(ended, demonstration.truncated))
    parts = _values(encoder.encode(asking)), _values(encoder.encode(over))
    for at_end in ended.tolist():
        yield next(parts[at_end])


def _answers(demonstration: Demonstration) -> Iterator[bytes]:
    """An ``AgentActionProto`` for each record."""
    return _values(ActionEncoder(demonstration.spec.actions, legacy=True).encode(demonstration.actions))


def _values(payload: bytes) -> Iterator[bytes]:
    return (payload[start:stop] for _, _, start, stop in fields(payload, 0, len(payload)))
