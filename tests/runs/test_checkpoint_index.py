from __future__ import annotations

from pathlib import Path

import numpy as np

from tau_trainer.files import file_name
from tau_trainer.runs.checkpoint_index import digest_of, free_path, learner_names, scan
from tau_trainer.runs.checkpoints import latest_checkpoint, save_checkpoint


def _save(folder: Path, step: int, name: str = "B") -> Path:
    return save_checkpoint(folder, step, {"w": np.ones(2, np.float32)}, {}, 0, name=name)


def test_names_with_dashes_and_digits_are_kept_apart(tmp_path: Path) -> None:
    for name in ("A", "A-5", "A-5-7", "A.2"):
        _save(tmp_path, 100, name)
    for name in ("A", "A-5", "A-5-7", "A.2"):
        assert [entry.path.name for entry in scan(tmp_path, name)] == [f"{name}-100"]


def test_names_are_found(tmp_path: Path) -> None:
    assert learner_names(tmp_path / "absent") == []
    for step, name in ((1, "Tau"), (2, "Tau"), (1, "A-5"), (1, "Tau-1")):
        _save(tmp_path, step, name)
    _save(tmp_path, 2, "Tau")
    (tmp_path / ".Tau-7").mkdir()
    (tmp_path / "notes").mkdir()
    assert learner_names(tmp_path) == ["A-5", "Tau", "Tau-1"]


def test_order_is_the_order_of_writing(tmp_path: Path) -> None:
    for step in (100, 90, 1000, 20):
        _save(tmp_path, step)
    assert [entry.step for entry in scan(tmp_path, "B")] == [100, 90, 1000, 20]


def test_other_things_in_the_folder_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "B-7").write_text("a file")
    (tmp_path / ".B-8").mkdir()
    (tmp_path / "B-best").mkdir()
    _save(tmp_path, 1)
    assert [entry.path.name for entry in scan(tmp_path, "B")] == ["B-1"]
    assert scan(tmp_path / "absent", "B") == []


def test_names_that_are_no_folder_names(tmp_path: Path) -> None:
    path = _save(tmp_path, 3, "Ball/hard?team=0")
    assert path.name == f"{file_name('Ball/hard?team=0')}-3"
    assert [entry.path for entry in scan(tmp_path, "Ball/hard?team=0")] == [path]
    assert learner_names(tmp_path) == ["Ball/hard?team=0"]


def test_names_with_one_file_name_in_earlier_versions_are_kept_apart(tmp_path: Path) -> None:
    """They wrote `A/B` as `A_B`."""
    for step, name in ((1, "A_B"), (2, "A/B"), (3, "A_B")):
        _save(tmp_path, step, name)
    (old,) = scan(tmp_path, "A/B")
    old.path.rename(tmp_path / "A_B-2")
    assert [entry.step for entry in scan(tmp_path, "A/B")] == [2]
    assert [entry.step for entry in scan(tmp_path, "A_B")] == [1, 3]
    assert learner_names(tmp_path) == ["A/B", "A_B"]
    latest = latest_checkpoint(tmp_path, "A/B").checkpoint
    assert latest is not None
    assert (latest.name, latest.step) == ("A/B", 2)


def test_a_name_whose_manifests_are_damaged_is_its_file_name(tmp_path: Path) -> None:
    for name in ("A", "B/C"):
        (_save(tmp_path, 1, name) / "manifest.json").write_text("{")
    _save(tmp_path, 2, "A")
    assert learner_names(tmp_path) == ["A", file_name("B/C")]
    assert [entry.step for entry in scan(tmp_path, "B/C")] == [1]


def test_free_path_counts_revisions(tmp_path: Path) -> None:
    for expected in ("B-5", "B-5.2", "B-5.3"):
        path = free_path(tmp_path, "B", 5)
        assert path.name == expected
        path.mkdir()


def test_the_digest_ignores_layout_and_itself() -> None:
    assert digest_of({"a": 1, "b": [1.5]}) == digest_of({"digest": "x", "b": [1.5], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})
