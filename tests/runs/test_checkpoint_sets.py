"""What several policies save together is there as a whole, or counts for nothing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import CheckpointError
from tau_trainer.files import file_name, safe_name
from tau_trainer.runs import checkpoint_index, checkpoint_sets, checkpoints
from tau_trainer.runs.checkpoint_sets import CheckpointSet, ResumePoint, last_number, latest_set
from tau_trainer.runs.checkpoints import retire, save_checkpoint

WEIGHTS = {"w": np.ones(2, np.float32)}


def save(folder: Path, number: int, names: Sequence[str], step: int, *, dies_before: str = "") -> None:
    """Policies of these names, or letters; a process that ``dies_before`` one of them is written."""
    moment = CheckpointSet(folder, number, [*names])
    for name in names:
        if name == dies_before:
            return
        moment.write(name, step, WEIGHTS, {})


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def found(whole: ResumePoint) -> list[str]:
    return sorted(one.path.name for one in whole.checkpoints.values())


def test_the_newest_of_which_nothing_is_missing(tmp_path: Path) -> None:
    assert latest_set(tmp_path) == ResumePoint({}, frozenset(), ())
    assert last_number(tmp_path) == 0
    save(tmp_path / "begun", 1, "AB", 10, dies_before="B")
    assert latest_set(tmp_path / "begun") == ResumePoint({}, frozenset({1}), ())
    save(tmp_path, 1, "AB", 10)
    save(tmp_path, 2, "CAB", 20, dies_before="B")
    assert found(latest_set(tmp_path)) == ["A-10", "B-10"], "C begins anew"
    save(tmp_path, 2, "ABC", 20)
    assert found(latest_set(tmp_path)) == ["A-20", "B-20", "C-20"]
    save(tmp_path, 3, "ABC", 30, dies_before="C")
    assert found(latest_set(tmp_path)) == ["A-20", "B-20", "C-20"]
    assert latest_set(tmp_path).passed == {3}
    assert last_number(tmp_path) == 3
    save(tmp_path, 4, "B", 40)
    assert found(latest_set(tmp_path, ["B"])) == ["B-40"], "others than those asked for do not matter"


def test_a_run_of_an_earlier_version_goes_on_whatever_its_policies_are_called(tmp_path: Path) -> None:
    """Its folders and manifests have `A_B` for `A/B`."""
    names = ["A/B", "C"]
    with pytest.MonkeyPatch.context() as patch:
        for module in (checkpoint_sets, checkpoints, checkpoint_index):
            patch.setattr(module, "file_name", safe_name)
        save(tmp_path, 1, names, 10)
    assert left(tmp_path) == ["A_B-10", "C-10"]
    assert found(latest_set(tmp_path)) == ["A_B-10", "C-10"]
    save(tmp_path, 2, names, 20, dies_before="A/B")
    save(tmp_path, 3, names, 30, dies_before="C")
    assert found(latest_set(tmp_path)) == ["A_B-10", "C-10"], "no moment since is whole"
    save(tmp_path, 4, names, 40)
    file = file_name("A/B")
    assert found(latest_set(tmp_path)) == [f"{file}-40", "C-40"]
    retire(tmp_path, "A/B", tmp_path / f"{file}-40", 1)
    assert [path.name for path in tmp_path.glob("A_B*")] == [f"{file}-40"], "what is older goes"


def test_damage_takes_the_whole_moment_back(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        save(tmp_path, number, "AB", 10 * number)
    (tmp_path / "B-30" / "tensors.safetensors").write_bytes(b"")
    shutil.rmtree(tmp_path / "A-20")
    whole = latest_set(tmp_path)
    assert found(whole) == ["A-10", "B-10"]
    [warning] = whole.warnings
    assert "B-30' is damaged" in warning


def test_policies_that_save_by_themselves_go_on_from_their_newest(tmp_path: Path) -> None:
    save(tmp_path, 1, "AB", 10)
    for number, name in ((2, "A"), (3, "A"), (4, "C")):
        save(tmp_path, number, name, 10 * number)
    retire(tmp_path, "A", tmp_path / "A-30", 1)
    assert found(latest_set(tmp_path)) == ["A-30", "B-10", "C-40"]


@pytest.mark.parametrize("names", [["A", "B"], ["C", "A/B"]])
def test_what_was_never_finished_makes_room_for_the_next(tmp_path: Path, names: list[str]) -> None:
    save(tmp_path, 1, names, 10)
    for number in (2, 3):
        save(tmp_path, number, names, 10 * number, dies_before=names[1])
    first, second = map(file_name, names)
    assert left(tmp_path) == sorted([f"{first}-10", f"{first}-30", f"{second}-10"])


def test_what_is_damaged_and_what_was_retired_is_not_what_was_never_finished(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        save(tmp_path, number, "AB", 10 * number)
    retire(tmp_path, "A", tmp_path / "A-30", 1)
    (tmp_path / "B-30" / "manifest.json").write_text("{")
    save(tmp_path, 4, "AB", 40)
    assert left(tmp_path) == ["A-30", "A-40", "B-10", "B-20", "B-30", "B-40"]


def test_a_policy_that_cannot_be_written_takes_the_others_with_it(tmp_path: Path) -> None:
    save(tmp_path, 1, "AB", 10)
    moment = CheckpointSet(tmp_path, 2, ["A", "B"])
    moment.write("A", 20, WEIGHTS, {})
    with pytest.raises(CheckpointError):
        moment.write("B", -1, WEIGHTS, {})
    moment.give_up()
    assert left(tmp_path) == ["A-10", "B-10"]


@pytest.mark.parametrize("counted", ["generation", "steps"])
def test_moments_of_earlier_versions_are_told_by_what_they_counted(tmp_path: Path, counted: str) -> None:
    def old(name: str, step: int, number: int) -> None:
        content: dict[str, Any] = {counted: number}
        save_checkpoint(tmp_path, step, WEIGHTS, content, 0, name=name)

    for name, number in (("A", 1), ("B", 1), ("A", 2)):
        old(name, 10 * number, number)
    assert found(latest_set(tmp_path)) == ["A-10", "B-10"]
    assert last_number(tmp_path) == 0
    save(tmp_path, 1, "AB", 15, dies_before="B")
    assert found(latest_set(tmp_path)) == ["A-10", "B-10"]
    save(tmp_path, 2, "AB", 15)
    assert found(latest_set(tmp_path)) == ["A-15", "B-15"]


def test_of_an_earlier_version_several_moments_are_better_than_none(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 10, WEIGHTS, {"generation": 1}, 0, name="B")
    save_checkpoint(tmp_path, 20, WEIGHTS, {"generation": 2}, 0, name="A")
    assert found(latest_set(tmp_path)) == ["A-20", "B-10"]


def test_a_model_goes_with_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "A").mkdir()
    for number in (1, 2, 3):
        step = 10 * number
        path = CheckpointSet(tmp_path / "checkpoints", number, ["A"]).write("A", step, WEIGHTS, {})
        retire(tmp_path / "checkpoints", "A", path, 2)
        checkpoint_sets.write_model(tmp_path, "A", step, Path.touch)
    assert left(tmp_path / "A") == ["A-20.onnx", "A-30.onnx"]
