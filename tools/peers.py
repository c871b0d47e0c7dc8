"""Separate environments for programs that cannot share ours: made once and kept in a cache folder, never in `.venv`.

A peer is described by its name, its interpreter and the exact arguments of each `pip install`; a change in any of these
makes a new folder. Two processes that need the same peer wait for each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools._bootstrap.environment import WINDOWS, child_environment
from tools._bootstrap.locking import exclusive
from tools._bootstrap.progress import Progress, SetupError

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "peers"
"""Default folder of the environments; git ignores it."""
_DONE = "peer.json"


@dataclass(frozen=True, slots=True)
class Peer:
    """A program with its own environment."""

    name: str
    """Prefix of the folder's name, for example `mlagents-envs-1.1.0`."""
    installs: tuple[tuple[str, ...], ...]
    """The arguments of each `pip install`, in order."""

    def fingerprint(self, python_version: str) -> str:
        """Short hash of everything that determines the contents."""
        text = json.dumps([self.name, self.installs, python_version])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


MLAGENTS_ENVS = Peer(
    "mlagents-envs-1.1.0",
    (
        (
            "--no-deps",
            "--ignore-requires-python",
            "mlagents-envs==1.1.0",
            "protobuf==3.20.3",
            "numpy==1.26.4; python_version < '3.13'",
            "numpy==2.4.6; python_version >= '3.13'",
            "grpcio==1.85.1",
            "typing_extensions==4.16.0",
            "cloudpickle==3.1.2",
            "filelock==4.2.11",
            "pettingzoo==1.15.0",
            "gym==0.26.2",
            "gym-notices==0.0.8",
            "Pillow==13.0.0",
            "PyYAML==6.0.3",
            "setuptools==80.10.2; python_version >= '3.12'",  # brings distutils, which the standard library gave up
        ),
    ),
)
"""ML-Agents' low-level API on current Python, with protobuf 3.20.3 (pure Python) and nothing newer."""

MLAGENTS = Peer(
    "mlagents-1.1.0",
    (
        ("setuptools<81", "wheel"),
        (
            "--ignore-requires-python",
            "mlagents==1.1.0",
            "torch==2.2.2",
            "numpy==1.23.5",
            "protobuf==3.20.3",
            "grpcio==1.48.2",
            "cattrs==1.5.0",
            "setuptools<81",
        ),
    ),
)
"""ML-Agents' trainer, several GB with its CUDA libraries; needs Python 3.10."""

STABLE_BASELINES3 = Peer(
    "stable-baselines3-2.9.2",
    (("torch==2.13.0",), ("stable-baselines3==2.9.2", "gymnasium[box2d]==1.4.0")),
)
"""Stable-Baselines3, which many researchers use."""

SBX = Peer(
    "sbx-rl-0.28.0",
    (("torch==2.13.0",), ("sbx-rl==0.28.0", "stable-baselines3==2.9.2", "gymnasium[box2d,mujoco]==1.4.0")),
)
"""CrossQ on JAX."""

RLLIB = Peer("rllib-2.60.0", (("torch==2.13.0",), ("ray[rllib]==2.60.0", "gymnasium==1.2.2")))
"""Ray's trainer; it needs its own Gymnasium version."""

VMAS = Peer("vmas-1.5.2", (("torch==2.13.0",), ("vmas==1.5.2", "gymnasium==1.4.0", "PyYAML==6.0.3")))
"""Vectorised multi-agent games in torch, which TorchRL and BenchMARL train on."""

GYMNAX = Peer("gymnax-1.0.1", (("gymnax==1.0.1", "jax==0.10.2", "jaxlib==0.10.2", "six==1.17.0"),))
"""Gymnasium's classic control in JAX."""


def ensure_peer(
    peer: Peer, python: str = sys.executable, cache: Path = CACHE, progress: Progress | None = None
) -> Path:
    """Makes the peer's environment if it does not exist; returns the path of its interpreter.

    Args:
        peer: what to install.
        python: the interpreter for it.
        cache: the folder of the environments.
        progress: reports progress, if there is something to make.

    Raises:
        SetupError: the interpreter does not run, or something could not be installed.
    """
    folder, interpreter = _place(peer, python, cache)
    if find_peer(peer, python, cache) is not None:
        return interpreter
    cache.mkdir(parents=True, exist_ok=True)
    progress = progress or Progress()
    with exclusive(cache / f"{folder.name}.lock", progress.waiting):
        if find_peer(peer, python, cache) is None:
            _make(peer, python, folder, interpreter, progress)
    return interpreter


def find_peer(peer: Peer, python: str = sys.executable, cache: Path = CACHE) -> Path | None:
    """The peer's interpreter if its environment exists.

    Raises:
        SetupError: the interpreter `python` does not run.
    """
    folder, interpreter = _place(peer, python, cache)
    return interpreter if (folder / _DONE).is_file() and interpreter.exists() else None


def _place(peer: Peer, python: str, cache: Path) -> tuple[Path, Path]:
    """The folder of its environment and the interpreter in it."""
    version = _python_version(python)
    folder = cache.absolute() / f"{peer.name}-py{version}-{peer.fingerprint(version)}"
    return folder, folder / ("Scripts" if WINDOWS else "bin") / ("python.exe" if WINDOWS else "python")


def find_python(version: str) -> str | None:
    """A command that starts exactly this Python version (`3.10`), or None.

    A shim on the PATH can be broken, so each candidate is tried; pyenv's folders are searched too.
    """
    candidates = [f"python{version}"]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += [str(path / "bin" / "python") for path in sorted(pyenv.glob(f"{version}*"), reverse=True)]
    for candidate in candidates:
        try:
            if _python_version(candidate) == version:
                return candidate
        except SetupError:
            continue
    return None


def _python_version(python: str) -> str:
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", script], capture_output=True, text=True, env=child_environment(), check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetupError(f"`{python}` does not start: name a Python interpreter that does ({error}).") from error
    return done.stdout.strip()


def _make(peer: Peer, python: str, folder: Path, interpreter: Path, progress: Progress) -> None:
    """Builds the environment in place; the mark of completion is written last, so incomplete ones are made again."""
    if folder.exists():
        shutil.rmtree(folder)
    log = folder.parent / f"{folder.name}.log"
    log.unlink(missing_ok=True)
    environment = child_environment()
    venv = [python, "-m", "venv", "--without-pip", str(folder)]  # our own pip can install, which saves half of the time
    progress.run(f"making an environment for {peer.name}", venv, log, environment)
    for arguments in peer.installs:
        command = [sys.executable, "-m", "pip", "--python", str(interpreter), "install", "--no-compile", "--no-input"]
        command += ["--disable-pip-version-check", "--progress-bar", "off", *arguments]
        progress.run(f"installing {peer.name}", command, log, environment)
    (folder / _DONE).write_text(json.dumps({"name": peer.name, "installs": peer.installs}, indent=1))
