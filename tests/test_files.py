from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer import files
from tau_trainer.errors import NonFiniteError, TauError
from tau_trainer.files import (
    atomic_write_bytes,
    atomic_write_json,
    atomic_write_text,
    file_name,
    parse_json,
    plain,
    rename,
    safe_name,
    same_file,
    write_synced,
)


def test_text_is_utf8_with_unix_line_ends(tmp_path: Path) -> None:
    assert atomic_write_text(tmp_path / "a.yaml", "τ: 1\nb: 2\n").read_bytes() == "τ: 1\nb: 2\n".encode()
    atomic_write_text(tmp_path / "a.yaml", "new")
    assert (tmp_path / "a.yaml").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]
    with pytest.raises(FileExistsError):
        write_synced(tmp_path / "a.yaml", b"never in place")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failure_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = atomic_write_text(tmp_path / "a.json", "old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(TauError, match=r"Cannot write '.*a\.json' \(No space left on device\)"):
        atomic_write_bytes(path, b"new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    for folder in (tmp_path / "absent", path):
        with pytest.raises(TauError, match="Cannot write"):
            atomic_write_text(folder / "a.txt", "x")


def test_json_takes_numpy_paths_and_tuples(tmp_path: Path) -> None:
    value = {"a": np.float32(0.5), "b": np.arange(3), "c": (1, None), "d": Path("x"), "e": np.bool_(True), "f": 2**90}
    path = atomic_write_json(tmp_path / "v.json", value)
    assert json.loads(path.read_text()) == {
        "a": 0.5, "b": [0, 1, 2], "c": [1, None], "d": "x", "e": True, "f": 2**90,
    }  # fmt: skip


@pytest.mark.parametrize("number", [float("nan"), float("inf"), np.float32("-inf"), np.array([1.0, np.nan])])
def test_numbers_that_json_lacks_are_named(tmp_path: Path, number: object) -> None:
    with pytest.raises(NonFiniteError, match=r"'v\.json\.pairs\[1\]\.reward"):
        atomic_write_json(tmp_path / "v.json", {"pairs": [0, {"reward": number}]})
    assert list(tmp_path.iterdir()) == []


def test_values_without_a_form_are_named() -> None:
    with pytest.raises(TauError, match=r"'value\.a' is a set"):
        plain({"a": {1}})
    with pytest.raises(TauError, match=r"'value\.a' is a bytes"):
        plain({"a": b"x"})
    with pytest.raises(TauError, match="the key 3, which is not text"):
        plain({3: "x"})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_what_json_holds_comes_back_equal(value: object) -> None:
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == value


@given(st.text(max_size=40))
def test_safe_names_are_safe_and_stay(name: str) -> None:
    safe = safe_name(name)
    assert safe
    assert safe_name(safe) == safe
    assert not set(safe) & set('<>:"/\\|?*\x00')
    assert Path(safe).name == safe
    assert safe not in (".", "..")


@pytest.mark.parametrize(
    ("name", "safe"),
    [("Tau", "Tau"), ("A b-1.2", "A b-1.2"), ("a/b", "a_b"), ("CON", "_CON"), ("nul.txt", "_nul.txt"), ("", "_"),
     ("..", "_"), (".hidden", "_.hidden"), ("end. ", "end"), ("Größe", "Größe")],
)  # fmt: skip
def test_safe_names(name: str, safe: str) -> None:
    assert safe_name(name) == safe


NAMES = st.text(max_size=40) | st.text(st.sampled_from("Aa_/.~ \n"), max_size=4) | st.sampled_from(["CON", "run.json"])


@given(NAMES, NAMES)
def test_a_file_name_is_safe_and_no_other_names(name: str, other: str) -> None:
    file = file_name(name)
    assert Path(file).name == file == safe_name(file)
    assert len(f".{file}-1234567.onnx.{32 * 'f'}.partial".encode()) <= 255
    assert file_name(file) == file if file == name else file_name(file) != file, "not even the name that it looks like"
    assert (file == file_name(other)) == (name == other)


@pytest.mark.parametrize("name", ["Tau", "A b-1.2", "A_B", "Größe", "A~1", "x" * 191, "TauAgent-pair0"])
def test_a_name_that_is_safe_is_the_file_name(name: str) -> None:
    assert file_name(name) == name


@pytest.mark.parametrize(
    ("name", "begins"),
    [("A/B", "A_B~"), ("..", "_~"), ("", "_~"), (" ", "_~"), ("CON", "_CON~"), ("COM¹", "_COM¹~"), ("a\nb", "a_b~"),
     ("checkpoints", "checkpoints~"), ("Run.json", "Run.json~"), ("A.onnx", "A.onnx~"), ("x" * 192, "xx"),
     ("\ud800", "~"), ("é" * 100, "é"), ("A_B~0123456789abcdef", "A_B~0123456789abcdef~")],
)  # fmt: skip
def test_a_name_that_no_file_may_have_is_marked(name: str, begins: str) -> None:
    file = file_name(name)
    assert file != name
    assert file.startswith(begins)
    assert len(file.encode()) <= 191


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["agent", "Agent"], ("agent", "Agent")),
        (["A", "B", "b", "A"], ("B", "b")),
        (["\u00e9", "e\u0301"], ("\u00e9", "e\u0301")),
        (["A/B", "A_B", "..", ".", " ", "a", "a "], None),
        (["A", "A"], None),
        (["A", "a-1"], ("A", "a-1")),
        (["A-1", "B", "A"], ("A-1", "A")),
    ],
)
def test_names_whose_files_are_the_same_somewhere(names: list[str], found: tuple[str, str] | None) -> None:
    assert same_file(names, lambda name: [f"{name}-1"]) == found


def test_rename_outlasts_a_file_that_is_held_on_windows_and_reports_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, real = [], os.replace

    def held(source: Path, target: Path) -> None:
        attempts.append(source)
        if len(attempts) < 3:
            raise PermissionError(13, "in use")
        real(source, target)

    source, target = tmp_path / "a", tmp_path / "b"
    source.mkdir()
    monkeypatch.setattr(files, "on_windows", lambda: True)
    monkeypatch.setattr(os, "replace", held)
    rename(source, target)
    assert len(attempts) == 3
    assert target.is_dir()

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refused)
    monkeypatch.setattr("time.sleep", lambda _: None)
    for windows in (False, True):
        monkeypatch.setattr(files, "on_windows", lambda w=windows: w)
        with pytest.raises(PermissionError):
            rename(target, source)


def test_json_that_is_nested_too_deeply_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 200_000)
    assert parse_json(b'{"a": [1]}') == {"a": [1]}
