"""Vector files: what is written is what is read, and what is damaged is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import DataError, TauError
from tau_trainer.specs import FloatArray
from tau_trainer.tau.schema import text_key
from tau_trainer.tau.vectors import VectorTable, read_vectors, unit_rows, vectors_path, write_vectors


def _unit(rows: int, seed: int = 0) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).normal(size=(rows, 384)))


def test_round_trip_in_half_precision(tmp_path: Path) -> None:
    vectors = _unit(3)
    path = tmp_path / "set.vectors.npz"
    write_vectors(path, dict(zip(("0.75", "they're", "é, 日本"), vectors, strict=True)), "some encoder")
    table = read_vectors(path)
    assert table.encoder == "some encoder"
    assert len(table) == 3
    found = table.vectors[table.rows(["0.75", "They're", " É,  日本 "])]
    np.testing.assert_allclose(found, vectors, atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)


def test_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    vectors = _unit(2)
    write_vectors(tmp_path / "a.npz", {"x": vectors[0], "y": vectors[1]}, "e")
    write_vectors(tmp_path / "b.npz", {"y": vectors[1], "x": vectors[0]}, "e")
    assert read_vectors(tmp_path / "a.npz").texts == read_vectors(tmp_path / "b.npz").texts == ("x", "y")
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.npz").vectors, read_vectors(tmp_path / "b.npz").vectors)


def test_empty_table_and_missing_file(tmp_path: Path) -> None:
    write_vectors(tmp_path / "a.npz", {}, "e")
    assert len(read_vectors(tmp_path / "a.npz")) == 0
    missing = read_vectors(tmp_path / "b.npz")
    assert len(missing) == 0
    assert missing.rows(["x"]).tolist() == [-1]


def test_a_zero_vector_counts_as_missing() -> None:
    vectors = np.concatenate([_unit(1), np.zeros((1, 384), np.float32)])
    table = VectorTable("e", ("there", "not there"), vectors)
    assert "there" in table
    assert "not there" not in table
    assert table.rows(["not there", "there"]).tolist() == [-1, 0]


@given(st.lists(st.text(max_size=6).map(text_key), unique=True, max_size=20))
def test_lookup_agrees_with_a_scan(texts: list[str]) -> None:
    table = VectorTable("e", tuple(texts), _unit(len(texts)))
    asked = [*texts, "\0 never a key"]
    expected = [texts.index(text) if text in texts else -1 for text in asked]
    assert table.rows(asked).tolist() == expected


@pytest.mark.parametrize(
    "arrays",
    [
        {"vectors": np.zeros((1, 3), np.float16)},
        {"vectors": np.zeros((2, 384), np.float16)},
        {"vectors": np.zeros((1, 384), np.int16)},
        {"vectors": np.full((1, 384), np.nan, np.float16)},
        {"texts": np.frombuffer(b"[1]", np.uint8)},
        {"texts": np.frombuffer(b"{not json", np.uint8)},
        {"vectors": np.array([{"an": "object"}], dtype=object)},
    ],
    ids=["width 3", "too many", "integers", "nan", "number as text", "no json", "pickle"],
)
def test_damaged_archives_are_named_with_the_remedy(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    good = {
        "vectors": np.ones((1, 384), np.float16),
        "texts": np.frombuffer(b'["x"]', np.uint8),
        "encoder": np.frombuffer(b"e", np.uint8),
    }
    path = tmp_path / "set.vectors.npz"
    np.savez(path, **{**good, **arrays})  # type: ignore[arg-type]
    with pytest.raises(DataError, match="tau-train data embed") as caught:
        read_vectors(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"\x93NUMPY"])
def test_files_that_are_no_archives(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "set.vectors.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        read_vectors(path)


def test_writing_leaves_nothing_behind_when_it_fails(tmp_path: Path) -> None:
    with pytest.raises(TauError, match="Cannot write"):
        write_vectors(tmp_path / "missing" / "x.vectors.npz", {}, "none")
    (tmp_path / "folder").mkdir()
    with pytest.raises(TauError, match="Cannot write"):
        write_vectors(tmp_path / "folder", {}, "none")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_vectors_lie_beside_the_data_with_its_exact_name(tmp_path: Path) -> None:
    assert vectors_path(tmp_path / "Data_A0.json") == tmp_path / "Data_A0.vectors.npz"
