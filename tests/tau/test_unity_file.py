"""The data set as one file for Unity, read back by hand as .NET's BinaryReader reads it (C# does so in tests/unity)."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tau_trainer.errors import DataError
from tau_trainer.specs import FloatArray
from tau_trainer.tau.dataset import TauDataset, TauSplit, load_dataset
from tau_trainer.tau.profiles import PROFILES
from tau_trainer.tau.targets import targets
from tau_trainer.tau.unity_file import encode, export_unity
from tau_trainer.tau.vectors import unit_rows
from tests.tau.conftest import MakeFile

PROJECTS_OWN = Path(__file__).parents[2] / "unity_project" / "Assets" / "StreamingAssets" / "Tau" / "tau.tau"


@dataclass
class Reader:
    """What .NET's BinaryReader does, and no more."""

    stream: io.BytesIO

    def int32(self) -> int:
        return int.from_bytes(self.stream.read(4), "little", signed=True)

    def text(self) -> str:
        length = shift = 0
        while True:
            (part,) = self.stream.read(1)
            length |= (part & 0x7F) << shift
            shift += 7
            if part < 0x80:
                return self.stream.read(length).decode()

    def texts(self, count: int) -> tuple[str, ...]:
        return tuple(self.text() for _ in range(count))

    def floats(self, kind: str, rows: int, columns: int) -> FloatArray:
        data = self.stream.read(rows * columns * np.dtype(kind).itemsize)
        return np.frombuffer(data, kind).reshape(rows, columns).astype(np.float32)


def assert_holds(content: bytes, data: TauDataset, tolerance: float = 0.0) -> None:
    """That the bytes say all that Unity needs of the data set, and nothing else."""
    reader = Reader(io.BytesIO(content))
    assert reader.stream.read(8) == b"TAU-DATA"
    assert reader.int32() == 1
    assert reader.text() == data.encoder
    assert reader.texts(reader.int32()) == tuple(map(str, data.skipped))
    size = reader.int32()
    assert reader.int32() == data.training_answers
    assert reader.texts(size) == data.answers
    np.testing.assert_array_equal(unit_rows(reader.floats("<f2", size, 384)), data.answer_vectors)
    tokens = targets(data, PROFILES["tau3"])
    np.testing.assert_allclose(reader.floats("<f4", size, 3), tokens, rtol=0.0, atol=tolerance)
    for split in (data.train, data.evaluation):
        rows = reader.int32()
        assert reader.texts(rows) == split.prompt_text
        assert [reader.int32() for _ in range(rows)] == split.answer_index.tolist()
        np.testing.assert_array_equal(unit_rows(reader.floats("<f2", rows, 384)), split.prompts)
    assert reader.stream.read() == b""


def test_the_format_is_what_the_module_says() -> None:
    """One row, byte by byte."""
    vector = np.zeros((1, 384), np.float32)
    vector[0, 2] = 1.0
    first = np.zeros(1, np.int32)
    one = TauSplit("train", vector, first, ("é" * 100,), ("yes",), ("d",), first)
    none = TauSplit("evaluation", vector[:0], first[:0], (), (), (), first[:0])
    data = TauDataset("x", "e", ("yes",), vector, 1, one, none, none, none, ())
    half = bytes(4) + b"\x00\x3c" + bytes(2 * 381)
    head = b"TAU-DATA" + struct.pack("<i", 1) + b"\x01e" + struct.pack("<i", 0)
    answers = struct.pack("<ii", 1, 1) + b"\x03yes" + half + targets(data, PROFILES["tau3"]).tobytes()
    train = struct.pack("<i", 1) + b"\xc8\x01" + "é".encode() * 100 + struct.pack("<i", 0) + half
    assert encode(data) == head + answers + train + struct.pack("<i", 0)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 2**14 - 1, 2**14, 2**21])
def test_texts_of_any_length_are_told_by_their_length(length: int, make_file: MakeFile) -> None:
    """Seven bits of it a byte."""
    data = load_dataset(make_file([("One?", "1")]))
    assert_holds(encode(replace(data, answers=("x" * length,))), replace(data, answers=("x" * length,)))


def test_a_text_that_utf8_cannot_hold_is_written_with_a_question_mark(make_file: MakeFile) -> None:
    data = load_dataset(make_file([("One?", "1")]))
    assert_holds(encode(replace(data, answers=("a\ud800",))), replace(data, answers=("a?",)))


def test_export_of_a_users_own_data(make_file: MakeFile, tmp_path: Path) -> None:
    path = make_file([("Two and two?", "four"), ("two AND two?", "4"), ("One?", "1")], [("Three?", "four")])
    output = path.with_suffix(".tau")
    report = export_unity(path, output)
    data = load_dataset(path)
    assert [str(problem) for problem in data.skipped] == [
        "training_data row 2: 'two AND two?' repeats an earlier prompt"
    ]
    assert_holds(output.read_bytes(), data)
    assert report.sentence() == (
        f"{output} holds 2 training and 1 evaluation rows with 2 answers for Unity, 1 left out (0.0 MB)."
    )
    assert report.to_dict()["size"] == output.stat().st_size
    assert report.to_dict()["path"] == str(output)
    assert sorted(tmp_path.iterdir()) == [path, output, path.with_name("set.vectors.npz")]


def test_what_cannot_be_used_leaves_no_file(make_file: MakeFile, tmp_path: Path) -> None:
    path = make_file([("Two and two?", "four")], embedded=False)
    with pytest.raises(DataError, match="have no embedding"):
        export_unity(path, tmp_path / "set.tau")
    assert list(tmp_path.iterdir()) == [path]


def test_the_projects_own_file_is_what_the_command_writes_today() -> None:
    """Mend it with `tau-train data export-unity --force -o` and its path; it is small enough to be in a repository."""
    # A linear algebra library may differ in the last bit of a principal component from machine to machine.
    assert_holds(PROJECTS_OWN.read_bytes(), load_dataset(), tolerance=2e-7)
    assert PROJECTS_OWN.stat().st_size < 1_500_000
