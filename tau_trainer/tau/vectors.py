"""Text embeddings on disk: one ``<name>.vectors.npz`` next to ``<name>.json``.

The archive holds three arrays and nothing that would need pickle: ``vectors`` float16 ``[n, 384]``, ``texts`` (the keys
of the rows as UTF-8 JSON in uint8) and ``encoder`` (name of the text encoder, UTF-8 in uint8). Half precision moves a
unit vector by about 1e-3 of its length; rows are scaled back to unit length when they are read.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import DataError
from tau_trainer.files import atomic_write_bytes
from tau_trainer.specs import FloatArray, IndexArray
from tau_trainer.tau.profiles import EMBEDDING_SIZE
from tau_trainer.tau.schema import text_key


@dataclass(frozen=True, slots=True)
class VectorTable:
    """Embeddings by text, with lookup by hash."""

    encoder: str
    """Name of the text encoder that made the vectors."""
    texts: tuple[str, ...]
    """Keys (:func:`tau_trainer.tau.schema.text_key`) in row order."""
    vectors: FloatArray
    """float32 ``[n, 384]``, unit length; a zero row counts as missing."""
    _rows: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        norms = np.linalg.norm(self.vectors, axis=1) if len(self.texts) else np.zeros(0)
        rows = {text: row for row, text in enumerate(self.texts) if norms[row] > 0.0}
        object.__setattr__(self, "_rows", rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, text: str) -> bool:
        return text_key(text) in self._rows

    def rows(self, texts: Sequence[str]) -> IndexArray:
        """Row of each text, -1 if it has no embedding. Shape ``[n]``."""
        return np.array([self._rows.get(text_key(text), -1) for text in texts], np.intp)

    def as_dict(self) -> dict[str, FloatArray]:
        """Vectors by key."""
        return {text: self.vectors[row] for text, row in self._rows.items()}


def vectors_path(path: Path) -> Path:
    """Path of the embeddings of data file ``path``: ``set.json`` -> ``set.vectors.npz``."""
    return path.with_name(f"{path.stem}.vectors.npz")


def read_vectors(path: Path) -> VectorTable:
    """Read a vector archive; a file that does not exist is an empty table.

    Raises:
        DataError: the archive is damaged, or its vectors are not finite ``[n, 384]`` floats, one for each text.
    """
    if not path.exists():
        return VectorTable("", (), np.zeros((0, EMBEDDING_SIZE), np.float32))
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            encoder = bytes(archive["encoder"]).decode("utf-8")
            texts = tuple(json.loads(bytes(archive["texts"]).decode("utf-8")))
            vectors = archive["vectors"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"The vector file {path} cannot be read ({error}); {_REMEDY}") from None
    if vectors.dtype.kind != "f" or vectors.shape != (len(texts), EMBEDDING_SIZE):
        raise DataError(
            f"The vector file {path} holds {vectors.dtype} {list(vectors.shape)} for {len(texts)} texts "
            f"but must hold [{len(texts)}, {EMBEDDING_SIZE}] floats; {_REMEDY}"
        )
    if not np.isfinite(vectors).all() or not all(isinstance(text, str) for text in texts):
        raise DataError(f"The vector file {path} holds values that are not finite numbers or texts; {_REMEDY}")
    return VectorTable(encoder, texts, unit_rows(vectors))


_REMEDY = "create it again with `tau-train data embed`."


def write_vectors(path: Path, vectors: Mapping[str, FloatArray], encoder: str) -> None:
    """Write embeddings by key as float16, sorted by key so that the same content gives the same bytes.

    Raises:
        TauError: the file cannot be written.
    """
    texts = sorted(vectors)
    rows = np.array([vectors[text] for text in texts], np.float16).reshape(len(texts), EMBEDDING_SIZE)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, vectors=rows, texts=_utf8(json.dumps(texts)), encoder=_utf8(encoder))
    atomic_write_bytes(path, buffer.getvalue())


def unit_rows(vectors: NDArray[np.floating]) -> FloatArray:
    """Rows scaled to unit L2 length, float32 ``[n, d]``; zero rows stay zero."""
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return (wide / np.where(norms > 0.0, norms, 1.0)).astype(np.float32)


def _utf8(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8"), np.uint8)
