"""Vectors of reward formulas, their components, predicates, windows, episodes and the nearest target."""

from __future__ import annotations

import math
from fractions import Fraction

from tools._vectors.streams import Case, Stream

FORMULAS = ("binary", "difference", "incremental", "binary_strict", "binary01")
"""By position: the value of the environment parameter ``reward_type``."""
AGGREGATES = ("mean", "sum", "any", "all", "majority")

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
"""Worked out on paper from the definitions. 0.05 is no binary fraction: compare these within 1e-6."""


def reward_cases() -> list[Case]:
    """The hand-made cases, then random ones whose errors are exact in double precision."""
    cases = [{**case, "threshold": 0.1, "columns": 3, "tolerance": 1e-6} for case in HAND_MADE]
    stream = Stream(71)
    for number in range(80):
        width = 384 if number == 40 else (1, 2, 3, 3, 5, 8, 16)[stream.below(7)]
        case = _random_case(stream, width)
        errors = _errors(case)[: case["columns"]]
        case["rewards"] = {name: _reward(name, errors, case["threshold"]) for name in FORMULAS}
        cases.append({"name": f"random {number}", **case, "tolerance": 1e-12})
    return cases


def component_cases() -> list[Case]:
    """What each component earns; components beyond the columns earn nothing."""
    stream = Stream(72)
    exact = {"output": [0.25, 0.25], "target": [0.5, 0.375], "threshold": 0.25, "columns": 2}
    cases: list[Case] = [
        {"formula": "binary", **exact, "components": [-1.0, 1.0]},
        {"formula": "incremental", **exact, "components": [0.5, 0.75]},
    ]
    for number in range(30):
        case = _random_case(stream, 1 + stream.below(6))
        name = ("binary", "difference", "incremental")[number % 3]
        earned = [_component(name, error, case["threshold"]) for error in _errors(case)]
        columns = case["columns"]
        case["components"] = [value if index < columns else 0.0 for index, value in enumerate(earned)]
        cases.append({"formula": name, **case})
    return cases


def _random_case(stream: Stream, width: int) -> Case:
    output = [stream.dyadic(-64, 64, 64) for _ in range(width)]
    # Half of the targets lie close to the output: otherwise hardly anything would be within a threshold.
    near = stream.below(2) == 0
    target = [value + stream.dyadic(-12, 12, 64) if near else stream.dyadic(-64, 64, 64) for value in output]
    threshold = (0.1, 0.25, 0.5, 0.03125)[stream.below(4)]
    return {"output": output, "target": target, "threshold": threshold, "columns": 1 + stream.below(width)}


def _errors(case: Case) -> list[float]:
    return [abs(right - left) for left, right in zip(case["output"], case["target"], strict=True)]


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


def _component(name: str, error: float, threshold: float) -> float:
    if name == "binary":
        return 1.0 if error < threshold else -1.0
    return 0.0 - error if name == "difference" else 1.0 - 2.0 * error


def predicate_cases() -> list[Case]:
    """Every predicate below, at and above its limit; an outcome before and at the end of an episode."""
    cases: list[Case] = [
        {"predicate": "positive", "reward": reward, "success": reward > 0.0}
        for reward in (-1.0, -0.5, 0.0, 1e-9, 0.25, 1.0)
    ]
    for limit in (-0.5, 0.0, 0.75):
        for step in (-0.25, 0.0, 0.25):
            value = limit + step
            cases += [
                {"predicate": "threshold", "reward": value, "limit": limit, "success": step >= 0.0},
                {"predicate": "outcome", "done": True, "return": value, "limit": limit, "success": step > 0.0},
                {"predicate": "outcome", "done": False, "return": value, "limit": limit, "success": False},
            ]
    for limit in (0.1, 0.5):
        for error in (0.0, limit / 2, limit, limit * 2):
            cases.append({"predicate": "distance", "error": error, "limit": limit, "success": error <= limit})
    return cases


def window_cases() -> list[Case]:
    """Every aggregate of both kinds of values over windows of several lengths, judged step by step."""
    stream = Stream(73)
    cases = []
    for aggregate in AGGREGATES:
        for values in ("01", "pm1"):
            for window in (1, 2, 3, 4, 7, 50):
                steps = [stream.below(2) for _ in range(16)]
                held = [steps[max(0, end - window) : end] for end in range(len(steps) + 1)]
                expected = [_aggregate(aggregate, values, part) for part in held]
                case: Case = {"aggregate": aggregate, "values": values, "window": window, "empty": expected[0]}
                case["steps"] = "".join(str(step) for step in steps)
                case["expected"] = expected[1:]
                cases.append(case)
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
    cases.append({"rules": defaults, "rewards": [-3.0] * 40, "ends": _ends([-3.0] * 40, 2500)})
    return cases


def _ends(rewards: list[float], most: int, least: float = -100.0, faithful: bool = False) -> list[str]:
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
