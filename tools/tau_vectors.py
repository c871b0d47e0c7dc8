"""Write ``tests/unity/vectors.json``: test cases that both the Python side and the C# core must pass.

Run in the checkout's root::

    python -m tools.tau_vectors            # write the file
    python -m tools.tau_vectors --check    # only check whether it is up to date

The expected results were computed by hand, or by plain Python without libraries that shares no code with the tested
code: every machine writes the same bytes.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parents[1] / "tests" / "unity" / "vectors.json"

Case = dict[str, Any]

FORMULAS = ("binary", "difference", "incremental", "binary_strict", "binary01")
"""Names; the position is the value of the environment parameter `reward_type`."""
AGGREGATES = ("mean", "sum", "any", "all", "majority")
_WORD = 2**64
_GAMMA = 0x9E3779B97F4A7C15
_THIRD = 0.3333333333333333

HAND_MADE: list[Case] = [
    {
        "name": "output is target",
        "output": [0.5, -0.25, 0.75],
        "target": [0.5, -0.25, 0.75],
        "rewards": {"binary": 1.0, "binary_strict": 1.0, "difference": 0.0, "incremental": 1.0, "binary01": 1.0},
    },
    {
        "name": "all errors 0.05",
        "output": [0.05, -0.05, 0.05],
        "target": [0.0, 0.0, 0.0],
        "rewards": {"binary": 1.0, "binary_strict": 1.0, "difference": -0.05, "incremental": 0.9, "binary01": 1.0},
    },
    {
        "name": "all errors 2",
        "output": [1.0, -1.0, 1.0],
        "target": [-1.0, 1.0, -1.0],
        "rewards": {"binary": -1.0, "binary_strict": -1.0, "difference": -2.0, "incremental": -3.0, "binary01": 0.0},
    },
    {
        "name": "errors 0.05, 0.05, 0.5",
        "output": [0.05, -0.05, 0.5],
        "target": [0.0, 0.0, 0.0],
        "rewards": {"binary": _THIRD, "binary_strict": -1.0, "difference": -0.2, "incremental": 0.6, "binary01": 0.0},
    },
]
"""Computed by hand from the definitions. 0.05 is not a binary fraction: compare these within 1e-6."""


def mix(state: int) -> int:
    """Output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 16), in Python's own integers."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % _WORD
    return state ^ (state >> 31)


class Stream:
    """An agent's random draws; also the source of the other cases' numbers."""

    def __init__(self, seed: int, agent: int = 0) -> None:
        self._state = mix((mix(seed % _WORD) + (agent + 1) * _GAMMA) % _WORD)

    def below(self, count: int) -> int:
        """A number in 0 .. count-1."""
        self._state = (self._state + _GAMMA) % _WORD
        return int((mix(self._state) >> 11) / 2**53 * count)

    def dyadic(self, low: int, high: int, denominator: int) -> float:
        """A fraction with this power of two as denominator: exact in single precision."""
        return (low + self.below(high - low + 1)) / denominator


def build() -> dict[str, Any]:
    """All sections by name."""
    return {
        "reward_types": list(FORMULAS),
        "rewards": reward_cases(),
        "windows": window_cases(),
        "episodes": episode_cases(),
        "random": random_cases(),
        "nearest": nearest_cases(),
    }


def reward_cases() -> list[Case]:
    """The hand-made cases, then random ones whose errors are exact in double precision."""
    cases = [{**case, "threshold": 0.1, "columns": 3, "tolerance": 1e-6} for case in HAND_MADE]
    stream = Stream(71)
    for number in range(80):
        width = 384 if number == 40 else (1, 2, 3, 3, 5, 8, 16)[stream.below(7)]
        output = [stream.dyadic(-64, 64, 64) for _ in range(width)]
        # Half of the targets are close to the output: otherwise almost no error would be within a threshold.
        near = stream.below(2) == 0
        target = [value + stream.dyadic(-12, 12, 64) if near else stream.dyadic(-64, 64, 64) for value in output]
        threshold, columns = (0.1, 0.25, 0.5, 0.03125)[stream.below(4)], 1 + stream.below(width)
        errors = [abs(right - left) for left, right in zip(output, target, strict=True)][:columns]
        rewards = {name: _reward(name, errors, threshold) for name in FORMULAS}
        case: Case = {"name": f"random {number}", "output": output, "target": target, "threshold": threshold}
        cases.append({**case, "columns": columns, "rewards": rewards, "tolerance": 1e-12})
    return cases


def _reward(name: str, errors: list[float], threshold: float) -> float:
    within = sum(1 for error in errors if error < threshold)
    mean = math.fsum(errors) / len(errors)
    match name:
        case "binary":
            return (within - (len(errors) - within)) / len(errors)
        case "difference":
            return 0.0 if mean == 0.0 else -mean
        case "incremental":
            return 1.0 - 2.0 * mean
        case "binary_strict":
            return 1.0 if within == len(errors) else -1.0
        case _:
            return 1.0 if within == len(errors) else 0.0


def window_cases() -> list[Case]:
    """Every aggregate of both kinds of values over windows of several lengths, step by step."""
    stream = Stream(73)
    cases = []
    for aggregate in AGGREGATES:
        for values in ("01", "pm1"):
            for window in (1, 2, 3, 4, 7, 50):
                steps = [stream.below(2) for _ in range(16)]
                held = [steps[max(0, end - window) : end] for end in range(len(steps) + 1)]
                expected = [_aggregate(aggregate, values, part) for part in held]
                case: Case = {"aggregate": aggregate, "values": values, "window": window, "empty": expected[0]}
                cases.append({**case, "steps": "".join(map(str, steps)), "expected": expected[1:]})
    return cases


def _aggregate(name: str, values: str, steps: list[int]) -> float:
    low = 0 if values == "01" else -1
    worth = [1 if step else low for step in steps]
    if name == "sum":
        return float(sum(worth))
    if name == "mean":
        return sum(worth) / len(worth) if worth else float(low)
    won = {"any": any(steps), "all": bool(steps) and all(steps), "majority": 2 * sum(steps) > len(steps)}[name]
    return 1.0 if won else float(low)


def episode_cases() -> list[Case]:
    """Ends of episodes by the rules of the Tau environment, reward by reward; names are environment parameters."""
    stream = Stream(74)
    cases = []
    for most in (0, 1, 2, 5):
        for faithful in (0, 1):
            for least in (-100.0, -2.0, 0.0):
                rewards = [stream.dyadic(-16, 8, 8) for _ in range(14)]
                rules = {"max_decisions": most, "reward_threshold": least, "faithful_terminal": faithful}
                cases.append({"rules": rules, "rewards": rewards, "ends": _ends(rewards, most, least, faithful == 1)})
    defaults = {"max_decisions": 2500, "reward_threshold": -100.0, "faithful_terminal": 0}
    cases.append({"rules": defaults, "rewards": [-3.0] * 40, "ends": _ends([-3.0] * 40, 2500, -100.0, False)})
    return cases


def _ends(rewards: list[float], most: int, least: float, faithful: bool) -> list[str]:
    ends: list[str] = []
    earned: list[float] = []
    for reward in rewards:
        earned.append(reward)
        full = most > 0 and len(earned) == most
        if math.fsum(earned) <= least or (full and faithful):
            ends.append("terminal")
        else:
            ends.append("interrupted" if full else "none")
        if ends[-1] != "none":
            earned = []
    return ends


def random_cases() -> list[Case]:
    """First draws of seeds and agents; seeds are texts, because JSON's integers are exact only up to 2^53."""
    cases = []
    for seed in (0, 1, -1, 12345, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)):
        for agent in (0, 1, 5, 63):
            stream, count = Stream(seed, agent), 2**31 - 1 if agent == 63 else 33
            draws = [stream.below(count) for _ in range(8)]
            cases.append({"seed": str(seed), "agent": agent, "count": count, "next": draws})
    return cases


def nearest_cases() -> list[Case]:
    """Targets on a coarse grid, so that ties are common; distances are exact fractions."""
    stream = Stream(75)
    cases: list[Case] = [
        {"output": [0.0, 0.0], "targets": [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], "index": 0},
        {"output": [0.5], "targets": [[1.0], [0.0], [0.5], [0.5]], "index": 2},
    ]
    for _ in range(40):
        width = 1 + stream.below(4)
        targets = [[stream.dyadic(-2, 2, 2) for _ in range(width)] for _ in range(1 + stream.below(9))]
        output = [stream.dyadic(-4, 4, 4) for _ in range(width)]
        distances = [_square(output, target) for target in targets]
        cases.append({"output": output, "targets": targets, "index": distances.index(min(distances))})
    return cases


def _square(left: list[float], right: list[float]) -> Fraction:
    return sum(((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(left, right, strict=True)), Fraction())


def render() -> str:
    """JSON with one case per line, ASCII only."""
    sections = []
    for name, cases in build().items():
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        sections.append(f"{json.dumps(name)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def main(arguments: Sequence[str] | None = None, path: Path = VECTORS) -> int:
    """Write or check the file; returns 0 if it is up to date, 2 if a check found it outdated or missing."""
    parser = argparse.ArgumentParser(prog="tau_vectors", description="Cases for the Python side and the C# core")
    parser.add_argument("--check", action="store_true", help="write nothing; check whether the file is up to date")
    options = parser.parse_args(arguments)
    text = render()
    if not options.check:
        path.write_text(text, encoding="ascii", newline="\n")
        print(f"{path}: {len(text) // 1000} kB")
        return 0
    if path.is_file() and path.read_bytes() == text.encode("ascii"):
        print(f"{path} is up to date.")
        return 0
    print(f"{path} is missing or outdated; run `python -m tools.tau_vectors`.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
