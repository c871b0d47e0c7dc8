"""Memory of the trainer's process by number of pairs: what one more pair costs beside its engine.

    python tools/bench/memory.py [--pairs 1 2 4 8 --seconds 15]

Runs `tau-train parallel` on the headless engine with each number of pairs, one policy for all, and reads the resident
size of the trainer's own process after some seconds of training. The engines are processes of their own.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from tools._bootstrap.progress import SetupError
from tools.bench import builds, running, tables, trainers
from tools.bench.timeline import Timeline

MEGABYTE = 1024.0


@dataclass(frozen=True, slots=True)
class Size:
    """One run."""

    pairs: int
    trainer_mb: float
    """Resident size of the trainer's process, MB."""
    engine_mb: float
    """Mean resident size of an engine, MB."""


def main() -> int:
    """Measures and prints the table; exit code 2 where nothing can be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, default=15.0)
    tables.add_output(parser)
    arguments = parser.parse_args()
    try:
        sizes = [measure(pairs, arguments.seconds) for pairs in arguments.pairs]
    except (SetupError, running.RunFailedError) as error:
        print(f"memory: {error}", file=sys.stderr)
        return 2
    text = table(sizes)
    print(text)
    tables.write(arguments, "memory", text, {"sizes": [asdict(size) for size in sizes]})
    return 0


def measure(pairs: int, seconds: float) -> Size:
    """One run, looked at again and again until it ends; the last look counts."""
    looks: list[Size] = []

    def look(timeline: Timeline) -> bool:
        pids = [engine.pid for engine in timeline.engines]
        parent = process_number(pids[0], "ppid")
        sizes = [process_number(pid, "rss") / MEGABYTE for pid in pids]
        if not math.isnan(parent):
            looks.append(Size(pairs, process_number(int(parent), "rss") / MEGABYTE, float(np.nanmean(sizes))))
        return False

    with tempfile.TemporaryDirectory(prefix="tau-memory-") as name:
        folder = Path(name)
        build = builds.reporting_build(folder, "tau", [])
        command = [trainers.Ours().tau_train(), "parallel", "--pairs", str(pairs), "--max-concurrent", str(pairs)]
        command += ["--env", str(build), "--max-steps", str(trainers.FOREVER), "--base-port"]
        command += [
            str(builds.free_ports(pairs)),
            "--run-id",
            "run",
            "--results-dir",
            str(folder / "results"),
            "--quiet",
        ]
        running.play([command], folder, pairs, seconds, look)
    return looks[-1]


def process_number(pid: int, what: str) -> float:
    """A number that `ps` knows of a process: `rss` in KB, `ppid`; NaN if it is gone."""
    done = subprocess.run(["ps", "-o", f"{what}=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return float(done.stdout) if done.stdout.strip() else math.nan


def table(sizes: list[Size]) -> str:
    """Markdown, and the slope over all runs."""
    rows = [[str(size.pairs), tables.number(size.trainer_mb, 1), tables.number(size.engine_mb, 1)] for size in sizes]
    text = tables.markdown(["pairs", "trainer, MB", "an engine, MB"], rows)
    if len({size.pairs for size in sizes}) < 2:
        return text
    slope = np.polyfit([size.pairs for size in sizes], [size.trainer_mb for size in sizes], 1)[0]
    return f"{text}\n\nOne more pair costs {slope:.1f} MB in the trainer's process."


if __name__ == "__main__":
    sys.exit(main())
