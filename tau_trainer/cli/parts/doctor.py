"""``tau-train doctor``: whether training can work on this machine, and what to do where it cannot."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tau_trainer.cli.messages import set_up_logging, show_json
from tau_trainer.cli.options import Debug, Json, ResultsDir
from tau_trainer.shown import shown


@dataclass(frozen=True)
class Check:
    """One part of the machine."""

    name: str
    found: str
    """What is there, in a few words."""
    remedy: str | None = None
    """What to do; None: there is no problem."""


def doctor(*, results_dir: ResultsDir = "results", json: Json = False, debug: Debug = False) -> int:
    """Check that training can work here: Python, torch, packages, ports, results folder.

    Prints what it found, with a remedy for each problem. Put the output into a bug report. Exit code: 0 if there is no
    problem, 1 otherwise.
    """
    set_up_logging(debug=debug)
    if json:
        from tau_trainer.metrics.jsonl import SCHEMA
        from tau_trainer.runs.provenance import hardware, versions

        found = list(checks(Path(results_dir)))
        well = all(check.remedy is None for check in found)
        facts = {"versions": versions(), "machine": hardware()}
        show_json({"schema": SCHEMA, "ok": well, "checks": [asdict(check) for check in found], **facts})
        return 0 if well else 1
    return _show(checks(Path(results_dir)))


def checks(results: Path) -> Iterator[Check]:
    """Everything that a run needs; ``results``: the folder of its runs."""
    from tau_trainer.bridge.godot.dialect import EDITOR_PORT as GODOT_PORT
    from tau_trainer.bridge.protocol import BASE_PORT, EDITOR_PORT

    yield Check("python", f"{sys.version.split()[0]}, {sys.executable}")
    yield from _packages()
    yield _torch()
    yield _port(EDITOR_PORT, "where the Unity editor connects", "end it: it may be another trainer that waits")
    yield _port(GODOT_PORT, "where the Godot editor connects", None)
    yield _port(BASE_PORT, "the first for builds; the next free port is used instead", None)
    yield _folder(results)


def _packages() -> Iterator[Check]:
    from tau_trainer.runs.provenance import versions

    for name, version in versions().items():
        if name not in ("python", "torch"):
            missing = f"install it: {_pip()} install {name}" if version is None else None
            yield Check(name, version or "is not installed", missing)


def _torch() -> Check:
    """Version and devices, by loading it, which takes seconds."""
    try:
        import torch

        devices = [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
        devices += ["mps"] if torch.backends.mps.is_available() else []
    except (ImportError, OSError, RuntimeError) as error:
        said = f"cannot be loaded ({' '.join(str(error).split()) or type(error).__name__})"
        return Check("torch", said, f"install it again: {_pip()} install --force-reinstall torch")
    return Check("torch", f"{torch.__version__}, {', '.join(['cpu', *devices])}")


def _pip() -> str:
    return f'"{sys.executable}" -m pip'


def _port(port: int, role: str, remedy: str | None) -> Check:
    """Whether a port is free. ``remedy``: what to do if it is not; None if not everyone needs this port."""
    from tau_trainer.bridge.ports import holder, is_free

    name = f"port {port}"
    if is_free(port):
        return Check(name, f"free ({role})")
    return Check(name, f"taken by {holder(port) or 'a program that the system does not name'} ({role})", remedy)


def _folder(results: Path) -> Check:
    from tau_trainer.files import reason

    place = next((folder for folder in (results, *results.absolute().parents) if folder.exists()), results)
    try:
        with tempfile.TemporaryFile(dir=place):
            return Check("results", f"{results.absolute()} can be written")
    except OSError as error:
        said = f"{results.absolute()} cannot be written ({reason(error)})"
        return Check("results", said, "name another folder with --results-dir")


def _show(found: Iterator[Check]) -> int:
    from rich.text import Text

    from tau_trainer.console import Console

    console, problems = Console(soft_wrap=True), 0
    for check in found:
        mark, colour = ("ok", "green") if check.remedy is None else ("problem", "red")
        console.print(Text.assemble((f"{mark:<9}", colour), shown(f"{check.name}: {check.found}")))
        if check.remedy is not None:
            problems += 1
            console.print(Text(shown(f"{'':<9}{check.remedy}")))
    console.print(Text(f"{problems} problem{'s' * (problems != 1)} found" if problems else "no problem found", "bold"))
    return 1 if problems else 0
