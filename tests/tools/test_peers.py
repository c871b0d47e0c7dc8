"""Environments of their own for programs that cannot share ours: made once, made anew when the list changes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tools import peers
from tools._bootstrap.progress import Progress, SetupError
from tools.peers import Peer, ensure_peer, find_peer, find_python


class FakeProgress(Progress):
    """Makes an interpreter file where a real run would make an environment; fails at a chosen step."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[list[str]] = []
        self.fail_at = -1

    def run(self, text: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        """Records the command instead of running it."""
        self.commands.append(list(command))
        if len(self.commands) == self.fail_at:
            raise SetupError(f"{text}: failed")
        if command[1:3] == ["-m", "venv"]:
            folder = Path(command[-1])
            for name in ("bin/python", "Scripts/python.exe"):
                (folder / name).parent.mkdir(parents=True)
                (folder / name).touch()


PEER = Peer("thing-1.0", (("--no-deps", "thing==1.0"), ("other==2",)))


def test_made_once_with_every_install_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = FakeProgress()
    first = ensure_peer(PEER, cache=tmp_path, progress=progress)
    assert first.exists()
    assert [command[-len(tail) :] for command, tail in zip(progress.commands[1:], PEER.installs, strict=True)] == [
        list(tail) for tail in PEER.installs
    ]
    assert all(command[command.index("--python") + 1] == str(first) for command in progress.commands[1:])
    assert ensure_peer(PEER, cache=tmp_path, progress=progress) == first
    assert len(progress.commands) == 3
    monkeypatch.chdir(tmp_path)
    second = ensure_peer(Peer("thing-1.0", (("thing==1.1",),)), cache=Path(), progress=FakeProgress())
    assert second.is_absolute()
    assert second.exists()
    assert first != second, "another list is another folder"


def test_a_half_made_one_starts_over(tmp_path: Path) -> None:
    broken = FakeProgress()
    broken.fail_at = 3
    assert find_peer(PEER, cache=tmp_path) is None
    with pytest.raises(SetupError):
        ensure_peer(PEER, cache=tmp_path, progress=broken)
    assert find_peer(PEER, cache=tmp_path) is None
    whole = FakeProgress()
    made = ensure_peer(PEER, cache=tmp_path, progress=whole)
    assert made.exists()
    assert find_peer(PEER, cache=tmp_path) == made
    assert len(whole.commands) == 3


def test_a_python_that_does_not_start_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="does not start"):
        ensure_peer(PEER, python=str(tmp_path / "nowhere"), cache=tmp_path)


def test_find_python_asks_each_candidate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert peers._python_version(sys.executable) == f"{sys.version_info[0]}.{sys.version_info[1]}"
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    asked: list[str] = []

    def version(python: str) -> str:
        asked.append(python)
        if python == "python3.10":
            raise SetupError("a shim that leads nowhere")
        return "3.10"

    monkeypatch.setattr(peers, "_python_version", version)
    assert find_python("3.10") is None
    inside = tmp_path / "versions" / "3.10.13" / "bin"
    inside.mkdir(parents=True)
    assert find_python("3.10") == str(inside / "python")
    assert asked == ["python3.10", "python3.10", str(inside / "python")]
