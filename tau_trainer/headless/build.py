"""Launchers that replace a Unity build.

``UnityEnvironment(file_name=...)`` and ``mlagents-learn --env`` start a program with a build's flags. The launcher is a
short script that runs the headless engine with this Python interpreter. It sets environment variables of its own,
because the caller may run on another Python: mlagents-learn does.
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
"""Environment variables for the caller's Python. They would break this one, so the launcher unsets them."""


def write_build(folder: Path, scene: str, extra_args: Sequence[str] = (), *, platform: str = sys.platform) -> Path:
    """Write a launcher that plays ``scene`` with ``extra_args``; return the path to pass as ``--env`` or ``file_name``.

    The trainer adds its flags after ``extra_args``, so they take precedence. Linux: ``<folder>/<scene>.x86_64``.
    macOS: ``<folder>/<scene>.app``. Windows: ``<folder>/<scene>.bat``, which this package accepts; ML-Agents requires
    an ``.exe`` there, which a script cannot be. An existing launcher is replaced.

    Raises SettingsError if the scene is unknown or the folder cannot be written.
    """
    if scene not in SCENES:
        raise SettingsError(f"unknown scene `{scene}`; choose one of {', '.join(SCENES)}.")
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
    """A POSIX shell script. It uses ``exec`` so that signals reach the engine, and its exit code the caller."""
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
    """A Windows batch file. ``%`` is doubled, as the batch language requires."""
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
