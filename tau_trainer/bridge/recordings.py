"""Writes ML-Agents' ``.demo`` files (recorded play); :mod:`~tau_trainer.bridge.demonstrations` has the format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tau_trainer.bridge.codec import ActionEncoder, describe
from tau_trainer.bridge.demonstrations import API_VERSION, OWN_ACTIONS, RESERVED, Demonstration
from tau_trainer.bridge.engine_codec import AgentEncoder
from tau_trainer.bridge.protocol import DemonstrationMeta, UnityMessage
from tau_trainer.bridge.records import FIXED32, VARINT, delimited, fields, varint
from tau_trainer.errors import DataError
from tau_trainer.files import atomic_write_bytes
from tau_trainer.specs import StepBatch, Terminals, empty_terminals

_LONGEST_NAME = 16


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
    mean = np.float32(returns.mean() if len(returns) else 0.0).tobytes()
    field, version = DemonstrationMeta, varint(DemonstrationMeta.VERSION << 3) + varint(API_VERSION)
    numbers = varint(field.STEPS << 3) + varint(len(demonstration)) + varint(field.EPISODES << 3) + varint(len(returns))
    rest = numbers + varint(field.MEAN_REWARD << 3 | FIXED32) + mean
    kept = "".join(letter for letter in name if letter.isascii() and (letter.isalnum() or letter in " -"))
    room = RESERVED - len(rest) - len(version) - 3
    meta = version + delimited(field.NAME, kept[: min(_LONGEST_NAME, room)].encode()) + rest
    return (varint(len(meta)) + meta).ljust(RESERVED, b"\0")


def _infos(demonstration: Demonstration) -> Iterator[bytes]:
    """An ``AgentInfoProto`` for each record."""
    encoder, spec = AgentEncoder(demonstration.spec), demonstration.spec
    parts: dict[bool, Iterator[bytes]] = {}
    for ended in (False, True):
        rows = demonstration.ended == ended
        count = int(rows.sum())
        obs, reward = tuple(sensor[rows] for sensor in demonstration.obs), demonstration.reward[rows]
        nobody, nothing = np.zeros(count, np.int32), np.zeros(count, np.float32)
        over = mask = None
        if ended:
            over = Terminals(nobody, obs, reward, demonstration.truncated[rows], nobody, nothing)
            nobody, nothing = nobody[:0], nothing[:0]
            obs, reward = tuple(sensor[:0] for sensor in obs), reward[:0]
        elif demonstration.mask is not None:
            mask = demonstration.mask[rows]
        over = over or empty_terminals(spec.observations)
        parts[ended] = _values(encoder.encode(StepBatch(spec.name, nobody, obs, reward, nobody, nothing, over, mask)))
    for ended in demonstration.ended.tolist():
        yield next(parts[ended])


def _answers(demonstration: Demonstration) -> Iterator[bytes]:
    """An ``AgentActionProto`` for each record."""
    return _values(ActionEncoder(demonstration.spec.actions, legacy=True).encode(demonstration.actions))


def _values(payload: bytes) -> Iterator[bytes]:
    return (payload[start:stop] for _, _, start, stop in fields(payload, 0, len(payload)))
