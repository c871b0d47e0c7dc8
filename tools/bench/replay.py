"""How long a minibatch takes to be drawn from a replay memory, evenly and by priority.

    python tools/bench/replay.py [--rows 1000000] [--batch 256] [--floats 32]

Beside each stands the same number of rows taken from one plain numpy array as wide as everything a transition has: less
cannot be copied. Prioritized replay also learns the errors of what was drawn; what that takes has a row of its own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tau_trainer.columns import Column
from tau_trainer.memory import Priorities, Replay
from tools.bench import tables

REPEATS = 1000
_AT_ONCE = 10_000


def main() -> int:
    """Fills both memories, draws from them in turn, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--floats", type=int, default=32, help="of an observation")
    tables.add_output(parser)
    arguments = parser.parse_args()
    found = measure(arguments.rows, arguments.batch, arguments.floats)
    limit = found["numpy gather"]
    rows = [[name, tables.number(tables.median(ms), 3), tables.ratio(ms, limit)] for name, ms in found.items()]
    text = tables.markdown([f"{arguments.batch} of {arguments.rows:,} rows", "ms, median", "of the gather"], rows)
    print(text)
    tables.write(arguments, "replay", text, {"milliseconds": {name: tables.median(ms) for name, ms in found.items()}})
    return 0


def measure(rows: int, batch: int, floats: int) -> dict[str, list[float]]:
    """Milliseconds of each draw, by what was done."""
    rng = np.random.default_rng(0)
    columns = [Column("input_0", (floats,)), Column("next_0", (floats,)), Column("discrete", (1,), np.int32)]
    columns += [Column("rewards", (1,)), Column("terminated", (), np.bool_)]
    replay, priorities = Replay(columns, rows), Priorities(rows)
    plain = np.empty((rows, 2 * floats + 3), np.float32)
    for begin in range(0, rows, _AT_ONCE):
        count = min(_AT_ONCE, rows - begin)
        values = {"input_0": rng.random((count, floats), np.float32), "next_0": rng.random((count, floats), np.float32)}
        values |= {"discrete": np.zeros((count, 1), np.int32), "rewards": rng.random((count, 1), np.float32)}
        replay.append({**values, "terminated": np.zeros(count, np.bool_)})
        plain[begin : begin + count] = rng.random((count, 2 * floats + 3), np.float32)
        priorities.append(replay.newest)
        priorities.update(replay.newest, rng.random(count))
    drawn = [np.zeros(0, np.intp)]

    def prioritized() -> None:
        places, _ = priorities.draw(rng.random((1, batch)))
        drawn[0] = places[0]
        replay.take(places[0])

    work: dict[str, Callable[[], object]] = {
        "numpy gather": lambda: plain.take(rng.integers(rows, size=batch), axis=0),
        "uniform": lambda: replay.take(rng.integers(rows, size=batch)),
        "prioritized": prioritized,
        "prioritized, errors learned": lambda: priorities.update(drawn[0], rng.random(batch)),
    }
    found: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(REPEATS):
        for name, once in work.items():
            begin_at = time.perf_counter()
            once()
            found[name].append(1000.0 * (time.perf_counter() - begin_at))
    return found


if __name__ == "__main__":
    sys.exit(main())
