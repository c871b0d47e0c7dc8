from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tau_trainer.errors import RunExistsError, SettingsError
from tau_trainer.files import file_name
from tau_trainer.runs.folder import RunFolder, atomic_write_json, atomic_write_text, let_go


def _old_run(results: Path, run_id: str = "one") -> Path:
    folder = RunFolder.create(results, run_id)
    atomic_write_text(folder.configuration, "old: true\n")
    folder.commit()
    folder.release()
    return folder.path


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_new_run_and_its_files(tmp_path: Path) -> None:
    (tmp_path / "b" / "one").mkdir(parents=True)
    assert RunFolder.create(tmp_path / "b", "one").path.is_dir(), "an empty folder is free"
    folder = RunFolder.create(tmp_path / "a" / "results", "one")
    assert folder.path == tmp_path / "a" / "results" / "one"
    assert folder.path.is_dir()
    assert not folder.resumed
    files = (folder.configuration, folder.run_json, folder.evaluation, folder.log, folder.learning_curve)
    assert [path.name for path in files] == [
        "configuration.yaml", "run.json", "evaluation.json", "log.jsonl", "learning_curve.png",
    ]  # fmt: skip
    assert all(path.parent == folder.path for path in (*files, folder.checkpoints, folder.engine_logs))
    assert folder.onnx("A/B").name == f"{file_name('A/B')}.onnx"
    folder.commit()
    assert _names(tmp_path / "a" / "results") == ["one"]


def test_no_behavior_is_called_as_a_file_that_every_run_has(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "one")
    mine = [getattr(folder, name) for name in vars(RunFolder) if not name.startswith("_")]
    files = {path.name for path in mine if isinstance(path, Path) and path.parent == folder.path}
    assert {"checkpoints", "run_logs", "run.json"} < files
    for name in [*files, "A.onnx", "Checkpoints", "report.html", "wandb.json"]:
        assert file_name(name) != name


REFUSED: list[tuple[str, dict[str, bool], str]] = [
    ("old", {}, r"'old' is taken.*--resume.*--force.*--run-id"),
    ("old", {"resume": True, "force": True}, "contradict each other"),
    ("absent", {"resume": True}, "no run to resume"),
    ("empty", {"resume": True}, "no run to resume"),
    ("sources", {"force": True}, "does not delete it"),
    ("file", {}, "is a file"),
    *((name, {}, "not a valid folder name") for name in ("", "a/b", "..", ".", "CON", "a\\b", "x?", ".hidden", "end.")),
]


@pytest.mark.parametrize(("run_id", "flags", "sentence"), REFUSED)
def test_what_is_refused_is_left_as_it_is(tmp_path: Path, run_id: str, flags: dict[str, bool], sentence: str) -> None:
    _old_run(tmp_path, "old")
    for name in ("empty", "sources"):
        (tmp_path / name).mkdir()
    (tmp_path / "sources" / "main.py").write_text("")
    (tmp_path / "file").write_text("")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != ".lock"}
    with pytest.raises(SettingsError, match=sentence):
        RunFolder.create(tmp_path, run_id, **flags)
    with pytest.raises(SettingsError, match="choose another --results-dir"):
        RunFolder.create(tmp_path / "file", "one")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != ".lock"} == before


def test_what_is_known_beforehand_is_told_and_nothing_is_made(tmp_path: Path) -> None:
    assert RunFolder.check(tmp_path / "results", "one", resume=False, force=False) == tmp_path / "results" / "one"
    assert _names(tmp_path) == []
    _old_run(tmp_path)
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / ".lock").touch()  # by a process that had written nothing yet
    RunFolder.check(tmp_path, "killed", resume=False, force=False)
    for flags in ({"resume": True, "force": False}, {"resume": False, "force": True}):
        assert RunFolder.check(tmp_path, "one", **flags) == tmp_path / "one"
    with pytest.raises(RunExistsError, match="'one' is taken"):
        RunFolder.check(tmp_path, "one", resume=False, force=False)
    with pytest.raises(SettingsError, match="no run to resume"):
        RunFolder.check(tmp_path, "killed", resume=True, force=False)


def test_whether_it_is_being_trained_can_be_asked_without_touching_it(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "a")
    told = (folder.path / ".lock").read_text("utf-8")
    assert RunFolder(folder.path, resumed=True).being_trained
    folder.release()
    assert not folder.being_trained
    assert not (folder.path / ".lock").exists(), "asking leaves nothing"
    (folder.path / ".lock").write_text(told, "utf-8")
    assert not folder.being_trained, "the lock of a process that died"
    assert (folder.path / ".lock").read_text("utf-8") == told


def test_resume_opens_the_run_and_clears_half_files_and_what_fails_then_leaves_no_trace(tmp_path: Path) -> None:
    path = _old_run(tmp_path)
    (path / ".run.json.abc.partial").write_text("half")
    folder = RunFolder.create(tmp_path, "one", resume=True)
    assert folder.resumed
    assert _names(path) == ["configuration.yaml"]
    atomic_write_text(folder.configuration, "new: true\n")
    folder.discard()
    assert (path / "configuration.yaml").read_text() == "old: true\n"
    assert sorted(one.name for one in path.iterdir()) == ["configuration.yaml"]


def test_force_replaces_once_the_run_has_started(tmp_path: Path) -> None:
    path = _old_run(tmp_path)
    folder = RunFolder.create(tmp_path, "one", force=True)
    assert _names(path) == []
    assert folder.replaced is not None
    assert _names(folder.replaced) == ["configuration.yaml"]
    atomic_write_json(folder.run_json, {"seed": 1})
    folder.commit()
    assert _names(tmp_path) == ["one"]
    assert _names(path) == ["run.json"]


def test_force_gives_the_old_run_back_when_the_new_one_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _old_run(tmp_path)
    folder = RunFolder.create(tmp_path, "one", force=True)
    atomic_write_json(folder.run_json, {"seed": 1})
    folder.discard()
    assert _names(tmp_path) == ["one"]
    assert _names(path) == ["configuration.yaml"]
    folder = RunFolder.create(tmp_path, "one", force=True)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    folder.discard()
    assert folder.replaced is not None
    assert _names(folder.replaced) == ["configuration.yaml"], "also where the new one cannot be deleted"


@pytest.mark.parametrize("run_id", ["a[b]c", "x.y", "run 1"])
def test_a_force_that_was_killed_is_cleared_by_the_next(tmp_path: Path, run_id: str) -> None:
    """Also where the name means more in a pattern, and the first finds no run to replace."""
    for replaces in (False, True):
        killed = RunFolder.create(tmp_path, run_id, force=True)
        assert (killed.replaced is not None) == replaces
        atomic_write_text(killed.configuration, "")
        killed.release()  # as the system does for a process that dies
    RunFolder.create(tmp_path, run_id, force=True).commit()
    assert _names(tmp_path) == [run_id]


def test_discard_leaves_no_trace(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "a" / "b", "one")
    atomic_write_text(folder.configuration, "x")
    folder.discard()
    assert _names(tmp_path) == []
    (tmp_path / "b").mkdir()
    folder = RunFolder.create(tmp_path / "b", "one")
    folder.discard()
    assert _names(tmp_path) == ["b"]
    folder = RunFolder.create(tmp_path / "b", "one")
    RunFolder.create(tmp_path / "b", "two")
    folder.discard()
    assert _names(tmp_path / "b") == ["two"], "other runs stay"


def test_a_disk_that_refuses_the_rename_keeps_the_old_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = _old_run(tmp_path)
    monkeypatch.setattr(os, "replace", refused)
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(SettingsError, match="Permission denied"):
        RunFolder.create(tmp_path, "one", force=True)
    assert _names(path) == ["configuration.yaml"]


_TRAIN = """
import sys
from pathlib import Path
from tau_trainer.runs.folder import RunFolder, let_go
folder = RunFolder.create(Path(sys.argv[1]), "one")
folder.configuration.write_text("theirs: true")
print("training", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def trained_elsewhere(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that trains the run."""
    with subprocess.Popen(
        [sys.executable, "-c", _TRAIN, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "training\n"
        yield process
        process.kill()


def test_a_run_that_is_being_trained_is_left_alone_until_its_process_has_died(
    tmp_path: Path, trained_elsewhere: subprocess.Popen[str]
) -> None:
    named = rf"one' is being trained by process {trained_elsewhere.pid} on .*; wait for it, stop it"
    lock = tmp_path / "one" / ".lock"
    for how in ("resume", "force"):
        with pytest.raises(RunExistsError, match=named):
            RunFolder.create(tmp_path, "one", **{how: True})
    assert (tmp_path / "one" / "configuration.yaml").read_text() == "theirs: true"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    trained_elsewhere.kill()
    trained_elsewhere.wait()
    left = lock.read_text()
    for how in ("resume", "force"):
        lock.write_text(left)
        folder = RunFolder.create(tmp_path, "one", **{how: True})
        atomic_write_text(folder.configuration, "ours: true")
        with pytest.raises(RunExistsError, match=f"process {os.getpid()} on"):
            RunFolder.create(tmp_path, "one", **{how: True})
        folder.release()
        assert not lock.exists()


def test_a_run_that_was_killed_before_it_wrote_anything_is_no_run(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "one")
    with pytest.raises(RunExistsError, match="is being trained"):
        RunFolder.create(tmp_path, "one")
    assert folder.lock is not None
    folder.lock.release()
    assert (tmp_path / "one" / ".lock").exists()
    RunFolder.create(tmp_path, "one").release()


def test_the_engines_logs_of_a_failed_start_are_kept(tmp_path: Path) -> None:
    """Beside the folder, so that the name is free again; until a run of that name gets further."""
    for text in ("", "first", "second"):
        folder = RunFolder.create(tmp_path, "one")
        folder.engine_logs.mkdir()
        (folder.engine_logs / "Player-0.log").write_text(text)
        kept = folder.discard(keep_logs=True)
        assert kept == (tmp_path / "one.failed-start" if text else None), "an empty log says nothing"
        assert _names(tmp_path) == (["one.failed-start"] if text else [])
    assert (tmp_path / "one.failed-start" / "Player-0.log").read_text() == "second"
    folder = RunFolder.create(tmp_path, "one")
    folder.commit()
    atomic_write_text(folder.configuration, "")
    folder.release()
    assert _names(tmp_path) == ["one"]
    for text in ("", "what went wrong"):
        folder = RunFolder.create(tmp_path, "one", resume=True)
        if text:
            folder.engine_logs.mkdir()
            (folder.engine_logs / "Player-0.log").write_text(text)
        assert folder.discard(keep_logs=True) == (folder.engine_logs if text else None), "a resumed run keeps its own"
    assert (tmp_path / "one" / "run_logs" / "Player-0.log").read_text() == "what went wrong"


def test_a_process_that_ends_lets_go_of_all_its_runs(tmp_path: Path) -> None:
    """What was saved stays, and what had not begun leaves nothing."""
    fresh, saved, kept = (RunFolder.create(tmp_path / "results", name) for name in ("fresh", "saved", "kept"))
    (saved.checkpoints / "A-10").mkdir(parents=True)
    kept.commit()
    (kept.path / "configuration.yaml").write_text("kept: true")
    resumed = RunFolder.create(_old_run(tmp_path / "old").parent, "one", resume=True)
    let_go()
    assert not fresh.path.exists()
    assert [path.name for path in saved.path.iterdir()] == ["checkpoints"]
    assert [path.name for path in kept.path.iterdir()] == ["configuration.yaml"]
    assert [path.name for path in resumed.path.iterdir()] == ["configuration.yaml"]
    let_go()
    RunFolder.create(tmp_path / "results", "kept", resume=True).release()
