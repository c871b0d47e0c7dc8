from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from tau_trainer.errors import CheckpointError, SettingsError, TauError
from tau_trainer.runs.checkpoints import save_checkpoint
from tau_trainer.sharing.contents import contents_of, escapes, is_of_a_run, write_contents
from tests.report.conftest import write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = write_run(tmp_path / "first")
    for name in ("TauAgent.onnx", "TauAgent/TauAgent-5000.onnx", "TauAgent/events.out.tfevents.1.host.2.0"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"content")
    return folder


@pytest.mark.parametrize(
    "path",
    [
        "README.md", "report.html", "configuration.yaml", "TauAgent.onnx", "TauAgent/TauAgent-5.onnx",
        "TauAgent/events.out.tfevents.1.host.2.0", "checkpoints/A-b-5/manifest.json",
        "checkpoints/A-5.2/tensors.safetensors", "run_logs/timers.json",
    ],
)  # fmt: skip
def test_what_a_run_consists_of(path: str) -> None:
    assert is_of_a_run(path)
    assert not escapes(path)


@pytest.mark.parametrize(
    "path",
    [
        "model.pt", "checkpoints/A-5/weights.pkl", "run_logs/Player-0.log", "evil.py", ".lock", "a/b/c.onnx",
        "con.onnx", ".hidden.onnx", "checkpoints/A-5/../B-5/manifest.json", "../A.onnx",
        "checkpoints/.A-5/manifest.json",
        "README.md\n", "configuration.yaml.partial", "checkpoints/A/manifest.json", "/README.md", "a\\b.onnx",
        "checkpoints/A-5/tensors.safetensors/x",
    ],
)  # fmt: skip
def test_what_it_does_not(path: str) -> None:
    assert not is_of_a_run(path)


@pytest.mark.parametrize("path", ["../x", "a/../x", "/x", "a//x", "a\\..\\x", "C:x", "a/./x", "", "a/", "..", "C:/x"])
def test_paths_that_lead_out(path: str) -> None:
    assert escapes(path)


def test_what_is_shared_and_written_by_a_dry_run(run: Path, tmp_path: Path) -> None:
    (run / "run_logs").mkdir()
    (run / "run_logs" / "Player-0.log").write_text("somebody's own")
    (run / "secret.txt").write_text("somebody's own")
    with suppress(OSError):  # where there are links, none is followed
        (run / "Secret.onnx").symlink_to(run / "secret.txt")
    told = json.loads((run / "run.json").read_text("utf-8"))
    (run / "run.json").write_text(json.dumps(told | {"working_directory": "/home/alice/game"}), "utf-8")
    contents = contents_of(run, "me/first")
    assert list(contents.files) == [
        "README.md", "TauAgent.onnx", "TauAgent/TauAgent-5000.onnx", "TauAgent/events.out.tfevents.1.host.2.0",
        "checkpoints/TauAgent-5000/manifest.json", "checkpoints/TauAgent-5000/tensors.safetensors",
        "configuration.yaml", "evaluation.json", "learning_curve.png", "log.jsonl", "report.html", "run.json",
    ]  # fmt: skip
    assert not (run / "learning_curve.png").exists(), "the run is left as it is"
    assert contents.size > 10_000
    dry = tmp_path / "dry"
    write_contents(contents, dry)
    written = {path.relative_to(dry).as_posix(): path.read_bytes() for path in dry.rglob("*") if path.is_file()}
    assert written.keys() == contents.files.keys()
    tensors = "checkpoints/TauAgent-5000/tensors.safetensors"
    assert written[tensors] == (run / tensors).read_bytes()
    assert written["learning_curve.png"].startswith(b"\x89PNG")
    assert written["report.html"].startswith(b"<!doctype html>")
    assert json.loads(written["run.json"]) == told, "nothing of the working directory goes"
    for folder in (dry, run / "log.jsonl"):
        with pytest.raises(SettingsError, match="is not an empty folder"):
            write_contents(contents, folder)


@pytest.mark.skipif("os.name == 'nt'", reason="an absolute path looks otherwise there")
def test_settings_that_name_paths_are_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", env_settings__env_path="/home/alice/Build.x86_64")
    assert contents_of(folder, "me/r").revealing == ("env_settings.env_path",)
    assert contents_of(write_run(tmp_path / "s"), "me/s").revealing == ()


def test_learners_that_were_saved_apart_are_taken_at_the_last_common_checkpoint(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    weights = {"x": np.zeros(2, np.float32)}
    for name, step, generation in (("A", 10, 1), ("B", 10, 1), ("A", 20, 2)):
        save_checkpoint(folder / "checkpoints", step, weights, {"learner": {}, "generation": generation}, 0, name=name)
    for old in list((folder / "checkpoints").glob("TauAgent-*")):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    names = {name.split("/")[1] for name in contents_of(folder, "me/r").files if name.startswith("checkpoints/")}
    assert names == {"A-10", "B-10"}


def test_a_damaged_newest_checkpoint_stays_at_home_and_a_run_that_has_no_whole_one_is_refused(run: Path) -> None:
    (run / "checkpoints" / "TauAgent-5000" / "tensors.safetensors").write_bytes(b"torn")
    assert "checkpoints/TauAgent-4000/manifest.json" in contents_of(run, "me/first").files
    for step in (2000, 4000):
        (run / "checkpoints" / f"TauAgent-{step}" / "tensors.safetensors").write_bytes(b"torn")
    with pytest.raises(CheckpointError, match=r"has no complete checkpoint to share: .*is damaged"):
        contents_of(run, "me/first")
    with FileLock(run / ".lock"), pytest.raises(SettingsError, match="is being trained; wait for its end"):
        contents_of(run, "me/first")
    with pytest.raises(TauError, match="nothing to report"):
        contents_of(run / "checkpoints", "me/first")
