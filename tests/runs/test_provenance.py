from __future__ import annotations

import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tau_trainer.runs import provenance as module
from tau_trainer.runs.provenance import git_state, hardware, provenance, versions
from tests.waiting import HANG_S


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with one commit."""
    assert shutil.which("git"), "this test needs git"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    author = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "a.txt"], [*author, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True, timeout=HANG_S)
    return folder


def test_the_content_of_run_json(repository: Path) -> None:
    found = provenance(7, ["tau-train", "parallel", "--pairs", "4"], source=repository)
    assert list(found) == ["started", "command", "working_directory", "seed", "versions", "git", "hardware"]
    assert found["seed"] == 7
    assert found["command"] == ["tau-train", "parallel", "--pairs", "4"]
    started = datetime.datetime.fromisoformat(str(found["started"]))
    assert abs(datetime.datetime.now(datetime.UTC) - started) < datetime.timedelta(minutes=1)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_versions_are_those_installed() -> None:
    found = versions()
    assert found["python"] == platform.python_version()
    for name in ("torch", "numpy", "grpcio", "protobuf"):
        assert found[name] == metadata.version(name)


def test_a_clean_and_a_changed_repository_and_no_answer(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = git_state(repository)
    assert state is not None
    assert (state["dirty"], state["diff_bytes"], state["branch"]) == (False, 0, "main")
    assert len(str(state["commit"])) == 40
    (repository / "a.txt").write_text("one\ntwo\n")
    state = git_state(repository)
    assert state is not None
    assert state["dirty"] is True
    assert isinstance(state["diff_bytes"], int)
    assert state["diff_bytes"] > 50

    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("git", 10)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", hang)
        assert git_state(repository) is None
    monkeypatch.setenv("PATH", "")
    assert git_state(repository) is None, "without git"


def test_outside_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) is None
    assert git_state(tmp_path / "absent") is None


def test_the_machine() -> None:
    found = hardware()
    assert isinstance(found["cores"], int)
    assert isinstance(found["usable_cores"], int)
    assert 1 <= found["usable_cores"] <= found["cores"]
    assert isinstance(found["memory_bytes"], int)
    assert found["memory_bytes"] > 2**28
    assert found["cpu"]


def test_nothing_raises_when_nothing_can_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no")

    for name in ("_cpu_model", "usable_cores", "memory_bytes", "_gpus"):
        monkeypatch.setattr(module, name, fail)
    monkeypatch.setattr(platform, "platform", fail)
    monkeypatch.setattr(metadata, "version", fail)
    monkeypatch.setattr(Path, "cwd", fail)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: (_ for _ in ()).throw(OSError("no")))
    found = provenance(1)
    monkeypatch.undo()
    assert found["command"] == sys.argv, "this process's by default"
    assert found["git"] is None
    assert found["working_directory"] is None
    assert json.dumps(found)
