"""``run.json``: the facts that are needed to repeat a run. Nothing here raises; unknown facts are None."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from tau_trainer.files import memory_bytes
from tau_trainer.metrics.usage import usable_cores

T = TypeVar("T")

PACKAGES = (
    "tau-trainer",
    "torch",
    "numpy",
    "grpcio",
    "protobuf",
    "pydantic",
    "safetensors",
    "onnx",
    "onnxruntime",
    "tensorboard",
)
"""Distributions whose versions affect the results or files of a run."""

_TIMEOUT_S = 10.0


def provenance(seed: int, command: Sequence[str] | None = None, source: Path | None = None) -> dict[str, object]:
    """Seed, versions, source state, hardware, command line and start time, ready for JSON.

    Args:
        seed: the run's seed.
        command: the command line; None: this process's.
        source: a folder inside the source tree; None: this package's.
    """
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": list(sys.argv if command is None else command),
        "working_directory": _try(lambda: str(Path.cwd())),
        "seed": seed,
        "versions": versions(),
        "git": git_state(Path(__file__).parent if source is None else source),
        "hardware": hardware(),
    }


def versions() -> dict[str, str | None]:
    """Versions of Python and of every package in :data:`PACKAGES`; None if a package is not installed."""
    return {"python": platform.python_version(), **{name: _try(partial(metadata.version, name)) for name in PACKAGES}}


def git_state(folder: Path) -> dict[str, object] | None:
    """Commit, uncommitted changes and their size in bytes; None outside a repository or without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    status = _git(folder, "status", "--porcelain")
    diff = _git(folder, "diff", "HEAD", "--no-ext-diff", "--binary")
    return {
        "commit": commit.strip(),
        "branch": (_git(folder, "rev-parse", "--abbrev-ref", "HEAD") or "").strip() or None,
        "dirty": None if status is None else bool(status.strip()),
        "diff_bytes": None if diff is None else len(diff.encode("utf-8", "surrogateescape")),
    }


def hardware() -> dict[str, object]:
    """Processor, cores, memory, operating system, and GPUs if torch is loaded and finds any."""
    return {
        "cpu": _try(_cpu_model) or platform.processor() or platform.machine() or None,
        "architecture": platform.machine() or None,
        "cores": os.cpu_count(),
        "usable_cores": _try(usable_cores),
        "memory_bytes": _try(memory_bytes),
        "system": _try(platform.platform),
        "gpus": _try(_gpus) or [],
    }


def _try(find: Callable[[], T]) -> T | None:
    """The result, or None on any error: a missing fact must not stop a run."""
    with contextlib.suppress(Exception):
        return find()
    return None


def _run(*command: str) -> str | None:
    """The output of a program; None if it is missing, fails or hangs."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT_S, env=environment, stdin=subprocess.DEVNULL, check=True
        )
        return result.stdout.decode("utf-8", "surrogateescape")
    return None


def _git(folder: Path, *arguments: str) -> str | None:
    return _run("git", "-C", str(folder), *arguments)


def _cpu_model() -> str | None:
    if sys.platform == "darwin":
        return (_run("sysctl", "-n", "machdep.cpu.brand_string") or "").strip() or None
    fields = dict(line.split(":", 1) for line in (_run("lscpu") or "").splitlines() if ":" in line)
    return fields.get("Model name", "").strip() or None


def _gpus() -> list[str]:
    """Names of CUDA devices. This does not import torch, because a run without torch uses no GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [str(torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]
