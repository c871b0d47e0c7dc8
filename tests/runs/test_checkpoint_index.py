from __future__ import annotations

from pathlib import Path

import numpy as np

from tau_trainer.files import file_name
from tau_trainer.runs.checkpoint_index import digest_of, free_path, learner_names, scan
from tau_trainer.runs.checkpoints import latest_checkpoint, save_checkpoint


def _save(folder: Path, step: int, name: str = "B") -> Path:
    return save_checkpoint(folder, step, {"w": np.ones(2, np.float32)}, {}, 0, name=name)


def test_names_are_found_and_kept_apart_whatever_else_is_in_the_folder(tmp_path: Path) -> None:
    assert (learner_names(tmp_path / "absent"), scan(tmp_path / "absent", "B")) == ([], [])
    names = ["A", "A-5", "A-5-7", "A.2", "B", "Ball/hard?team=0"]
    for name in names:
        _save(tmp_path, 100, name)
    for other in (".B-8", "B-best", "notes"):
        (tmp_path / other).mkdir()
    (tmp_path / "B-7").write_text("a file")
    assert learner_names(tmp_path) == names
    for name in names:
        assert [entry.path.name for entry in scan(tmp_path, name)] == [f"{file_name(name)}-100"]
    for step in (90, 1000, 20):
        _save(tmp_path, step)
    assert [entry.step for entry in scan(tmp_path, "B")] == [100, 90, 1000, 20], "the order of writing"


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
