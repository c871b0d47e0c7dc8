"""Launchers that replace a Unity build.

``UnityEnvironment(file_name=...)`` and ``mlagents-learn --env`` start a program with a build's flags. The launcher is a
short script that starts this Python interpreter to play a scene, in an environment that does not depend on the caller,
because mlagents-learn runs on another Python.
"""

from __future__ import annotations

import shlex
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import tau_trainer
from tau_trainer.errors import SettingsError
from tau_trainer.headless.scenes import SCENES

_FOREIGN: Final = ("PYTHONHOME", "PYTHONSTARTUP", "PYTHONOPTIMIZE", "PYTHONUSERBASE", "__PYVENV_LAUNCHER__")
"""Variables of the calling Python that would mislead ours."""


def write_build(folder: Path, scene: str, extra_args: Sequence[str] = (), *, platform: str = sys.platform) -> Path:
    """Write a launcher that plays ``scene`` with ``extra_args``; returns the value for ``--env`` or ``file_name``.

    The flags that the trainer adds come after ``extra_args`` and override them. Linux: ``<folder>/<scene>.x86_64``.
    macOS: ``<folder>/<scene>.app``. Windows: ``<folder>/<scene>.bat``, which this package's launcher accepts;
    ML-Agents' own looks for an ``.exe`` there, and a script cannot be one. An earlier launcher is replaced.

    Raises SettingsError for an unknown scene or a folder that cannot be written.
    """
    if scene not in SCENES:
        raise SettingsError(f"there is no scene `{scene}`; the scenes are {', '.join(SCENES)}.")
    command = [sys.executable, "-P", "-m", "tau_trainer.headless", "--scene", scene, *extra_args]
    try:
        folder = folder.resolve()
        if platform == "win32":
            return _write(folder / f"{scene}.bat", _batch(command), "\r\n")
        if platform == "darwin":
            _write(folder / f"{scene}.app" / "Contents" / "MacOS" / scene, _shell(command), "\n")
            return folder / f"{scene}.app"
        return _write(folder / f"{scene}.x86_64", _shell(command), "\n")
    except OSError as error:
        raise SettingsError(f"cannot write a build into {folder}: {error.strerror}; choose another folder.") from error


def _package_parent() -> str:
    return str(Path(tau_trainer.__file__).resolve().parent.parent)


def _shell(command: Sequence[str]) -> str:
    """A POSIX shell script. ``exec``: signals, kills and the exit code reach the engine itself."""
    return "\n".join(
        [
            "#!/bin/sh",
            f"unset {' '.join(_FOREIGN)}",
            f"PYTHONPATH={shlex.quote(_package_parent())}",
            "PYTHONNOUSERSITE=1",
            "export PYTHONPATH PYTHONNOUSERSITE",
            f'exec {shlex.join(command)} "$@"',
            "",
        ]
    )


def _batch(command: Sequence[str]) -> str:
    """A Windows batch file; ``%`` is doubled, as batch files require."""
    lines = ["@echo off", "setlocal"]
    lines += [f'set "{variable}="' for variable in _FOREIGN]
    lines += [
        f'set "PYTHONPATH={_package_parent()}"'.replace("%", "%%"),
        'set "PYTHONNOUSERSITE=1"',
        subprocess.list2cmdline(command).replace("%", "%%") + " %*",
        "exit /b %errorlevel%",
        "",
    ]
    return "\n".join(lines)


def _write(path: Path, text: str, newline: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline=newline)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path
