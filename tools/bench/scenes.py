"""The headless engine's twins of ML-Agents' scenes to their marks.

    python -m tools.bench scenes [--scenes gridworld hallway pyramids ...] [--seeds 1 2 3]

`tau-train learn` with the shipped settings of each scene, but so many decisions as the table below says. Reward is the
mean return of the episodes of a summary, so of a policy that still explores: the mark is reached where one is at or
above it, and what stands for the end is the mean of the last three.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from tools._bootstrap.environment import child_environment
from tools._bootstrap.progress import tail
from tools.bench import tables, trainers

_LAST = 3
"""Number of last summaries whose mean is the return at the end."""
_REWARD = "Environment/Cumulative Reward"


@dataclass(frozen=True, slots=True)
class Task:
    """A scene with a mark."""

    config: str
    behavior: str
    """Behavior whose decisions and rewards are counted."""
    mark: float
    decisions: int
    changes: tuple[str, ...] = ()
    """Changes of its hyperparameters, as for `--set`."""


TASKS = {
    "gridworld": Task("GridWorld", "GridWorld", 0.8, 200_000),
    "hallway": Task("Hallway", "Hallway", 0.7, 300_000),
    "walljump": Task("WallJump", "BigWallJump", 0.8, 2_000_000),
    "pyramids": Task("Pyramids", "Pyramids", 1.5, 400_000),
    "sorter": Task("Sorter", "Sorter", 3.0, 3_000_000),
    "foodcollector": Task(
        "FoodCollector",
        "GridFoodCollector",
        10.0,
        2_000_000,
        ("batch_size=256", "buffer_size=5120", "learning_rate=1e-3"),
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run."""

    scene: str
    seed: int
    decisions: float = math.nan
    """Decisions until the mark."""
    seconds: float = math.nan
    """Seconds until the mark, from the first decisions."""
    end: float = math.nan
    """Mean return at the end."""
    whole: float = math.nan
    """Seconds of the whole run."""
    failure: str = ""


def main() -> int:
    """Runs every scene with every seed and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    tables.add_output(parser)
    arguments = parser.parse_args()
    outcomes = []
    for scene in arguments.scenes:
        for seed in arguments.seeds:
            outcomes.append(run(scene, seed))
            print(line(outcomes[-1]), flush=True)
    text = table(outcomes)
    print("\n" + text)
    tables.write(arguments, "scenes", text, {"outcomes": [asdict(outcome) for outcome in outcomes]})
    return 0 if all(math.isfinite(outcome.decisions) for outcome in outcomes) else 1


def run(scene: str, seed: int) -> Outcome:
    """One run to its end.

    Raises:
        SetupError: the package is not installed beside the interpreter.
    """
    task = TASKS[scene]
    behavior = f"behaviors.{task.behavior}"
    changes = [f"{behavior}.hyperparameters.{change}" for change in task.changes]
    changes.append(f"{behavior}.max_steps={task.decisions}")
    with tempfile.TemporaryDirectory(prefix="tau-scenes-") as name:
        folder, log = Path(name), Path(name) / "program.log"
        command = [trainers.Ours().tau_train(), "learn", task.config, "--env", f"headless:{scene}", "--quiet"]
        command += ["--seed", str(seed), "--run-id", "run", "--results-dir", name]
        command += [word for change in changes for word in ("--set", change)]
        with log.open("wb") as stream:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=child_environment(),
                check=False,
            ).returncode
        if code != 0:
            return Outcome(scene, seed, failure=f"exit code {code}:\n{tail(log)}")
        return outcome_of(scene, seed, folder / "run" / "log.jsonl")


def outcome_of(scene: str, seed: int, log: Path) -> Outcome:
    """The result of a run, from its log."""
    task = TASKS[scene]
    events = [json.loads(text) for text in log.read_text(encoding="utf-8").splitlines()]
    points = [
        (event["step"], event["elapsed"], event["values"][_REWARD])
        for event in events
        if event["type"] == "summary" and event["behavior"] == task.behavior and _REWARD in event["values"]
    ]
    if not points:
        return Outcome(scene, seed, failure="no episode ended")
    reached = next((point for point in points if point[2] >= task.mark), (math.nan, math.nan))
    end = statistics.mean(point[2] for point in points[-_LAST:])
    return Outcome(scene, seed, reached[0], reached[1], end, points[-1][1])


def line(outcome: Outcome) -> str:
    """One line for each run during the benchmark."""
    name = f"{outcome.scene} seed {outcome.seed}"
    if outcome.failure:
        return f"{name}: {outcome.failure}"
    mark = "never"
    if math.isfinite(outcome.decisions):
        mark = f"mark after {outcome.decisions:,.0f} decisions, {outcome.seconds:.0f} s"
    return f"{name}: {mark}; {outcome.end:.2f} at the end, {outcome.whole:.0f} s"


def table(outcomes: list[Outcome]) -> str:
    """Markdown, medians over seeds; runs that did not reach the mark have no value."""
    rows = []
    for scene in dict.fromkeys(outcome.scene for outcome in outcomes):
        runs = [outcome for outcome in outcomes if outcome.scene == scene]
        rows.append(
            [
                f"`{scene}`",
                f"{TASKS[scene].mark:g}",
                f"{sum(math.isfinite(outcome.decisions) for outcome in runs)} of {len(runs)}",
                tables.spread([outcome.decisions for outcome in runs]),
                tables.spread([outcome.seconds for outcome in runs]),
                f"{tables.spread([outcome.end for outcome in runs], 2)} at {TASKS[scene].decisions:,}",
            ]
        )
    header = ["scene", "mark", "reached", "decisions to the mark", "seconds to it", "return at the end"]
    return tables.markdown(header, rows)
