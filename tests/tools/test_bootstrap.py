"""tools/bootstrap.py as a user meets it: on a Python that is too old, and its command line."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import bootstrap

SCRIPT = Path(bootstrap.__file__)
posix = pytest.mark.skipif(os.name == "nt", reason="the stand-in interpreters are shell scripts")


def fake_python(folder: Path, name: str, body: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_parses_on_a_python_that_is_too_old() -> None:
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 5))


@posix
def test_too_old_and_nothing_newer_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_python(tmp_path, "python3", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bootstrap.usable_here()
    monkeypatch.setattr(bootstrap, "OLDEST", (9, 9))
    assert not bootstrap.usable_here()
    assert bootstrap.hand_over() == 2
    said = capsys.readouterr().err
    assert said.startswith("bootstrap: Tau Trainer needs Python 9.9 or newer, but ")
    assert said.count("\n") == 1
    assert "install" in said


def test_missing_ensurepip_names_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert bootstrap.complain() == 2
    said = capsys.readouterr().err
    assert "ensurepip is missing" in said
    assert f"apt install python{sys.version_info[0]}.{sys.version_info[1]}-venv" in said


@posix
def test_a_dead_shim_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_python(tmp_path, "python3.13", "echo 'command not found' >&2; exit 127")
    fake_python(tmp_path, "python3.12", f'exec "{sys.executable}" "$@"')
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bootstrap.newer_python() == ["python3.12"]


@posix
def test_hands_over_once_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_python(tmp_path, "python3.12", f'exec "{sys.executable}" "$@"')
    monkeypatch.setenv("PATH", str(tmp_path))
    calls: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execvpe", lambda *call: calls.append(call))
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "train", "--seed", "3"])
    monkeypatch.setattr(subprocess, "call", lambda *_args, **_named: 0)
    bootstrap.hand_over()
    program, arguments, environment = calls[0]
    assert program == "python3.12" or program == "python3.13"
    assert arguments[1:] == [str(SCRIPT.resolve()), "train", "--seed", "3"]
    assert environment[bootstrap.HANDED_OVER] == "1"
    monkeypatch.setenv(bootstrap.HANDED_OVER, "1")
    assert bootstrap.hand_over() == 2
    assert len(calls) == 1


def test_help_and_mistakes() -> None:
    good = run("--help")
    assert good.returncode == 0
    assert "train [ARGUMENTS]" in good.stdout
    said = run("shell-help")
    assert said.returncode == 0
    assert "ctivate" in said.stdout
    for arguments, why in (((), "a command is missing"), (("trian",), "`trian` is not a command")):
        bad = run(*arguments)
        assert bad.returncode == 2
        assert why in bad.stderr
        assert "usage:" in bad.stderr
