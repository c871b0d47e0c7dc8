"""Writes a Tau data set as one small file for Unity, with all values precomputed, so that C# does not need to.

Little-endian, version 1. A text is UTF-8 behind its length in bytes, seven bits a byte, lowest first, as .NET's
``BinaryReader.ReadString`` reads it; ``count`` is an int32; a vector is 384 float16, to be scaled to unit length.

============ ==========================================================================================
magic        8 bytes, ``TAU-DATA``
version      int32
encoder      text: name of the text encoder that made the vectors
skipped      count S, then S texts: each row that was left out, and why
answers      counts K and T (the first T answers occur in training), K texts, K vectors (targets of ``tau384``),
             K times 3 float32 (targets of ``tau3``)
train        count n, n texts (prompts), n int32 (position of each right answer), n vectors
evaluation   the same for the held-out rows
============ ==========================================================================================

Nothing follows. Half precision is what embeddings are kept in anyway (:mod:`tau_trainer.tau.vectors`), so that Unity
sees the vectors that Python sees.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from tau_trainer.files import atomic_write_bytes
from tau_trainer.tau.data import DataReport
from tau_trainer.tau.dataset import TauDataset, TauSplit, load_dataset
from tau_trainer.tau.profiles import PROFILES
from tau_trainer.tau.targets import targets

MAGIC = b"TAU-DATA"
VERSION = 1


@dataclass(frozen=True, slots=True)
class UnityReport(DataReport):
    """Report of :func:`export_unity`."""

    training: int
    """Training rows."""
    evaluation: int
    answers: int
    skipped: int
    """Number of reasons for which rows were left out."""
    size: int
    """Bytes."""

    @override
    def sentence(self) -> str:
        left = f", {self.skipped} left out" if self.skipped else ""
        return (
            f"{self.path} holds {self.training} training and {self.evaluation} evaluation rows with {self.answers} "
            f"answers for Unity{left} ({self.size / 1e6:.1f} MB)."
        )


def export_unity(path: Path | None, output: Path) -> UnityReport:
    """Write the data set at ``path`` (``None``: the packaged one) for Unity, completely or not at all.

    Raises:
        TauError: the data set cannot be used, or ``output`` cannot be written.
    """
    data = load_dataset(path)
    content = encode(data)
    atomic_write_bytes(output, content)
    rows = len(data.train.prompts), len(data.evaluation.prompts)
    return UnityReport(output, *rows, len(data.answers), len(data.skipped), len(content))


def encode(data: TauDataset) -> bytes:
    """The file's bytes. A character that UTF-8 cannot hold (half a surrogate pair) becomes ``?``."""
    parts = [
        MAGIC,
        _int32(VERSION),
        _text(data.encoder),
        _texts([str(problem) for problem in data.skipped]),
        _int32(len(data.answers)),
        _int32(data.training_answers),
        *map(_text, data.answers),
        data.answer_vectors.astype("<f2").tobytes(),
        targets(data, PROFILES["tau3"]).astype("<f4").tobytes(),
        _split(data.train),
        _split(data.evaluation),
    ]
    return b"".join(parts)


def _split(split: TauSplit) -> bytes:
    rows = split.answer_index.astype("<i4").tobytes()
    vectors = split.prompts.astype("<f2").tobytes()
    return _texts(split.prompt_text) + rows + vectors


def _texts(texts: Sequence[str]) -> bytes:
    return _int32(len(texts)) + b"".join(map(_text, texts))


def _int32(value: int) -> bytes:
    return struct.pack("<i", value)


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    length, head = len(data), bytearray()
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*head, length]) + data
