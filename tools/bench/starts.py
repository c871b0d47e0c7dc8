"""What it takes until processes of the trainer are there: forked from a server that has torch loaded, or started each.

    python tools/bench/starts.py [--counts 1 4 16 --runs 5]

A process is an actor's, which loads what it needs and ends, because nobody tells it what to play. All are started at
once. The server's own start is in the seconds and in the computing. Both ways take turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.bench import tables

MODULE = "tau_trainer.training.actor_process"
PROGRAM = f"""
import resource, sys, tempfile, time
from tau_trainer.remote import forking
from tau_trainer.remote.launching import launch

forking.POSSIBLE = forking.POSSIBLE and sys.argv[1] == "forked"
begun = time.perf_counter()
with tempfile.TemporaryFile() as errors:
    processes = [launch({MODULE!r}, errors=errors, several=True) for _ in range(int(sys.argv[2]))]
    for one in processes:
        one.sink.close()
    codes = [one.process.wait() for one in processes]
seconds = time.perf_counter() - begun
forking.close()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
assert set(codes) == {{0}}, codes
print(seconds, used.ru_utime + used.ru_stime)
"""
WAYS = ("started", "forked")


def main() -> int:
    """Measures and prints the table; exit code 2 where a process cannot be started."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--runs", type=int, default=5)
    tables.add_output(parser)
    arguments = parser.parse_args()
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    try:
        for run in range(arguments.runs):
            for count in arguments.counts:
                for way in WAYS if run % 2 else reversed(WAYS):
                    found.setdefault((way, count), []).append(measure(way, count))
    except subprocess.CalledProcessError as error:
        print(f"starts: {error.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return 2
    text = tables.markdown(
        ["processes", "started, s", "forked, s", "ratio", "started, s of computing", "forked, s of computing"],
        rows(found, arguments.counts),
    )
    print(text)
    results = {f"{way} {count}": seconds for (way, count), seconds in found.items()}
    tables.write(arguments, "starts", text, results)
    return 0


def measure(way: str, count: int) -> tuple[float, float]:
    """Seconds until all were there, and of computing."""
    with tempfile.TemporaryDirectory(prefix="tau-starts-") as folder:
        command = [sys.executable, "-c", PROGRAM, way, str(count)]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    seconds, computing = done.stdout.split()
    return float(seconds), float(computing)


def rows(found: dict[tuple[str, int], list[tuple[float, float]]], counts: list[int]) -> Iterator[list[str]]:
    """Of the table."""
    for count in counts:
        started, forked = ([run[0] for run in found[way, count]] for way in WAYS)
        computing = [tables.number(tables.median(run[1] for run in found[way, count]), 1) for way in WAYS]
        seconds = [tables.spread(started, 1), tables.spread(forked, 1)]
        yield [str(count), *seconds, tables.ratio(started, forked), *computing]


if __name__ == "__main__":
    sys.exit(main())
