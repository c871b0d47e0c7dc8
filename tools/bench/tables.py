"""Medians, Markdown tables, and a description of the machine."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tools.peers import ROOT


def median(values: Iterable[float]) -> float:
    """The median of the finite values; NaN if there are none."""
    finite = [value for value in values if math.isfinite(value)]
    return statistics.median(finite) if finite else math.nan


def number(value: float, digits: int = 0) -> str:
    """A figure for a table; a dash if it is not finite."""
    return f"{value:,.{digits}f}" if math.isfinite(value) else "-"


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median with the lowest and highest of several runs."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2:
        return number(median(finite), digits)
    return f"{number(median(finite), digits)} ({number(min(finite), digits)}-{number(max(finite), digits)})"


def ratio(ours: Iterable[float], theirs: Iterable[float]) -> str:
    """The ratio of two medians, e.g. `12.3x`."""
    below = median(theirs)
    value = median(ours) / below if below else math.nan
    return f"{value:.{1 if value >= 2 else 2}f}x" if math.isfinite(value) else "-"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def add_output(parser: argparse.ArgumentParser) -> None:
    """The flags `--output` and `--document` that every benchmark has."""
    parser.add_argument("--output", type=Path, default=ROOT / "benchmark-results", help="folder for the results' JSON")
    parser.add_argument("--document", type=Path, help="also put the tables into this file, e.g. docs/benchmarks.md")


def write(arguments: argparse.Namespace, name: str, text: str, results: Mapping[str, Any]) -> None:
    """Write `<output>/<name>.json` with the machine and all runs, and the tables to the document, if one is named."""
    where = machine()
    arguments.output.mkdir(parents=True, exist_ok=True)
    document = json.dumps({"machine": where, **results}, indent=1)
    (arguments.output / f"{name}.json").write_text(document + "\n", encoding="utf-8")
    if arguments.document is not None:
        measured = (
            f"Measured {where['date'][:10]} on {where['cores']} cores ({where['processor']}), "
            f"Python {where['python']}, torch {where['versions']['torch']}, commit {where['commit']}."
        )
        insert(arguments.document, name, f"{measured}\n\n{text}")


def insert(document: Path, name: str, text: str) -> None:
    """Replace the text between `<!-- begin <name> -->` and its `end`; append both if they are missing."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    old = document.read_text(encoding="utf-8") if document.exists() else ""
    block = f"{begin}\n\n{text}\n\n{end}"
    if begin in old and end in old:
        new = old[: old.index(begin)] + block + old[old.index(end) + len(end) :]
    else:
        new = f"{old}\n{block}\n"
    document.write_text(new, encoding="utf-8")


def machine() -> dict[str, Any]:
    """The machine and the versions of a benchmark."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_at_start": load,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("torch", "numpy", "grpcio", "protobuf")},
        "commit": _commit(),
    }


def _processor() -> str:
    """The processor's name, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
