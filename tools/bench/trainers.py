"""The programs that are measured, as command lines: both trainers with the same flags, and the bare loops."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from tools._bootstrap.environment import WINDOWS
from tools._bootstrap.progress import SetupError
from tools.peers import ROOT

Layer = Literal["wire", "inference", "learning"]
LAYERS: tuple[Layer, ...] = ("wire", "inference", "learning")
"""Engine and wire alone; plus inference and bookkeeping, but no update; plus learning."""
NO_UPDATE_BUFFER = 4_000_000
"""A buffer size that no run of a few minutes reaches, so that learning never starts."""
FOREVER = 50_000_000
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the benchmark's table."""

    engines: int
    agents: int
    step_ms: float

    @property
    def label(self) -> str:
        """Name for tables and files."""
        return f"{self.engines}x{self.agents}-{self.step_ms:g}ms"


@dataclass(frozen=True, slots=True)
class Job:
    """Settings of one run of a trainer."""

    case: Case
    layer: Layer
    build: Path
    config: Path
    folder: Path
    port: int
    seed: int


@dataclass(frozen=True, slots=True)
class Ours:
    """`tau-train learn`, and a bare loop over our bridge, of this checkout or of an earlier one."""

    name: str = "tau-train"
    python: Path = Path(sys.executable)
    bench: Path = HERE

    @classmethod
    def before(cls, checkout: Path) -> Ours:
        """The trainer of another checkout that was set up with `python3 tools/bootstrap.py setup`.

        Raises:
            SetupError: it was not set up.
        """
        python = checkout.absolute() / ".venv" / ("Scripts/python.exe" if WINDOWS else "bin/python")
        made = cls("before", python, checkout.absolute() / "tools" / "bench")
        made.tau_train()
        return made

    def commands(self, job: Job) -> list[list[str]]:
        """The processes of one run."""
        if job.layer == "wire":
            arguments = [str(job.build), str(job.case.engines), str(job.port), str(job.seed)]
            return [[str(self.python), str(self.bench / "drive_ours.py"), *arguments]]
        return [[self.tau_train(), "learn", *learn_flags(job)]]

    def tau_train(self) -> str:
        """The program.

        Raises:
            SetupError: the package is not installed beside the interpreter.
        """
        program = self.python.with_name("tau-train.exe" if WINDOWS else "tau-train")
        if not program.exists():
            raise SetupError(f"{program} is missing: run `python3 tools/bootstrap.py setup` and use .venv's Python.")
        return str(program)


@dataclass(frozen=True, slots=True)
class Incumbent:
    """`mlagents-learn`, and bare loops over `UnityEnvironment`, with a process for each engine, as in that trainer."""

    python: Path
    """The interpreter of its environment."""

    @property
    def name(self) -> str:
        """Name in tables."""
        return "mlagents-learn"

    def commands(self, job: Job) -> list[list[str]]:
        """The processes of one run."""
        if job.layer == "wire":
            script = str(HERE / "drive_mlagents.py")
            return [
                [str(self.python), script, str(job.build), str(worker), str(job.port), str(job.seed)]
                for worker in range(job.case.engines)
            ]
        return [[str(self.python.with_name("mlagents-learn")), *learn_flags(job)]]


Trainer = Ours | Incumbent


def learn_flags(job: Job) -> list[str]:
    """The flags for both trainers."""
    return [
        str(job.config),
        *("--env", str(job.build), "--num-envs", str(job.case.engines)),
        *("--run-id", "run", "--results-dir", str(job.folder / "results")),
        *("--seed", str(job.seed), "--base-port", str(job.port), "--timeout-wait", "60"),
        *("--no-graphics", "--force"),
    ]


def write_config(target: Path, name: str, changes: Mapping[str, Any]) -> Path:
    """Write a shipped YAML with some values of its only behavior changed (dotted names); return `target`."""
    document = yaml.safe_load((ROOT / "configs" / f"{name}.yaml").read_text(encoding="utf-8"))
    (behavior,) = document["behaviors"].values()
    for dotted, value in changes.items():
        *path, last = dotted.split(".")
        section = behavior
        for key in path:
            section = section.setdefault(key, {})
        section[last] = value
    target.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return target


def config_changes(layer: Layer) -> dict[str, Any]:
    """ML-Agents' own settings, without an end; for the inference layer also without an update."""
    changes: dict[str, Any] = {"max_steps": FOREVER, "checkpoint_interval": FOREVER}
    return {**changes, "hyperparameters.buffer_size": NO_UPDATE_BUFFER} if layer == "inference" else changes
