"""Turns a second of the polyhedra game: tensors of B games beside a loop over lists of points, in one run.

    python tools/bench/polyhedra.py [--copies 1 256 4096 65536 --seconds 2 --rounds 5 --device cpu]

Random host against random agent, 20 points in 3 dimensions, entries 0 to 20, reduced and rescaled after every turn; a
game that is over begins anew. Both kinds take turns in each round, so that what else the machine does meets both alike.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from tau_trainer.envs.polyhedra import HOSTS, Polyhedra, twin
from tools.bench import tables

POINTS, DIMENSION, GREATEST = 20, 3, 20
PAIRS = [[0, 1], [0, 2], [1, 2], [0, 1, 2]]


def main() -> int:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 256, 4096, 65536])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    tables.add_output(parser)
    arguments = parser.parse_args()
    kinds = {"lists of points": (lists(), 200)} | {
        f"{copies:,} as tensors": (tensors(copies, arguments.device), copies) for copies in arguments.copies
    }
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(arguments.rounds):
        for name, (turns, count) in kinds.items():
            rates[name].append(count * timed(turns, arguments.seconds, arguments.device))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    base = medians["lists of points"]
    lines = ["| games | turns/s, median | by lists of points |", "| --- | --- | --- |"]
    lines += [f"| {name} | {rate:,.0f} | {rate / base:.1f}x |" for name, rate in medians.items()]
    text = "\n".join(lines)
    print(text)
    tables.write(arguments, "polyhedra", text, {"rates": rates})
    return 0


def timed(turns: Callable[[], None], seconds: float, device: str) -> float:
    """Calls a second, the device's work included."""
    turns()
    _wait(device)
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        turns()
        calls += 1
    _wait(device)
    return calls / (time.perf_counter() - begun)


def tensors(copies: int, device: str) -> Callable[[], None]:
    """One turn of so many games."""
    env = Polyhedra(copies, device=device)
    env.reset()

    def turn() -> None:
        env.step(HOSTS["random"](env.view())[:, None])

    return turn


def lists() -> Callable[[], None]:
    """200 turns of one game."""
    generator = random.Random(0)
    points: twin.Points = []

    def turns() -> None:
        nonlocal points
        for _ in range(200):
            if len(points) <= 1:
                drawn = [[float(generator.randint(0, GREATEST)) for _ in range(DIMENSION)] for _ in range(POINTS)]
                points = twin.rescaled(twin.reduced(drawn))
            coords = generator.choice(PAIRS)
            points = twin.rescaled(twin.reduced(twin.moved(points, coords, generator.choice(coords))))

    return turns


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
