"""The headless engine's twins of ML-Agents' scenes to their marks, and without the part that each is there for.

    python tools/bench/scenes.py [--scenes gridworld hallway walljump sorter foodcollector] [--seeds 1 2 3]

`tau-train learn` with the shipped settings of each scene, but so many decisions as the table below says. Reward is the
mean return of the episodes of a summary, so of a policy that still explores: the mark is reached where one is at or
above it, and what stands for the end is the mean of the last three. The ablations get the same decisions: no memory, no
goal, no lessons, no list (`ablated.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools._bootstrap.environment import child_environment
from tools._bootstrap.progress import SetupError, tail
from tools.bench import tables, trainers
from tools.peers import ROOT

_LAST = 3
"""Summaries that make the end."""


@dataclass(frozen=True, slots=True)
class Task:
    """A scene with a mark."""

    config: str
    behavior: str
    """Whose decisions and rewards are counted."""
    mark: float
    decisions: int
    changes: tuple[str, ...] = ()
    """What `--set` says."""
    ablation: tuple[str, tuple[str, ...]] | None = None
    """What is taken away, and how `--set` says so; without words it is the engine that takes it away."""


TASKS = {
    "gridworld": Task("GridWorld", "GridWorld", 0.8, 200_000, (), ("goal", ())),
    "hallway": Task(
        "Hallway", "Hallway", 0.7, 300_000, (), ("memory", ("behaviors.Hallway.network_settings.memory=null",))
    ),
    "walljump": Task(
        "WallJump",
        "BigWallJump",
        0.8,
        2_000_000,
        (),
        ("lessons", ("environment_parameters.big_wall_height=8.0", "environment_parameters.small_wall_height=4.0")),
    ),
    "sorter": Task("Sorter", "Sorter", 3.0, 3_000_000, (), ("list", ())),
    "foodcollector": Task(
        "FoodCollector",
        "GridFoodCollector",
        10.0,
        2_000_000,
        tuple(
            f"behaviors.GridFoodCollector.hyperparameters.{change}"
            for change in ("batch_size=256", "buffer_size=5120", "learning_rate=1e-3")
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run."""

    scene: str
    without: str
    """What was taken away; empty: nothing."""
    seed: int
    decisions: float = math.nan
    """Until the mark."""
    seconds: float = math.nan
    """The same, from the first decisions."""
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
    parser.add_argument("--only", choices=["whole", "ablated"], help="leave out the others")
    tables.add_output(parser)
    arguments = parser.parse_args()
    outcomes = []
    try:
        for scene in arguments.scenes:
            variants = [False] * (arguments.only != "ablated") + [True] * (arguments.only != "whole")
            for ablated in variants[: 1 if TASKS[scene].ablation is None else 2]:
                for seed in arguments.seeds:
                    outcomes.append(run(scene, seed, ablated=ablated and TASKS[scene].ablation is not None))
                    print(line(outcomes[-1]), flush=True)
    except SetupError as error:
        print(f"scenes: {error}", file=sys.stderr)
        return 2
    text = table(outcomes)
    print("\n" + text)
    tables.write(arguments, "scenes", text, {"outcomes": [asdict(outcome) for outcome in outcomes]})
    return 0 if all(math.isfinite(one.decisions) for one in outcomes if not one.without) else 1


def run(scene: str, seed: int, *, ablated: bool) -> Outcome:
    """One run to its end.

    Raises:
        SetupError: the package is not installed beside the interpreter.
    """
    task = TASKS[scene]
    without, changes = task.ablation if ablated and task.ablation is not None else ("", ())
    with tempfile.TemporaryDirectory(prefix="tau-scenes-") as name:
        folder, log = Path(name), Path(name) / "program.log"
        env = f"headless:{scene}" if changes or not without else str(_ablated_build(folder, scene))
        command = [trainers.Ours().tau_train(), "learn", task.config, "--env", env, "--seed", str(seed), "--quiet"]
        command += ["--run-id", "run", "--results-dir", name]
        command += [word for change in (*task.changes, *changes) for word in ("--set", change)]
        command += ["--set", f"behaviors.{task.behavior}.max_steps={task.decisions}"]
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
            return Outcome(scene, without, seed, failure=f"exit code {code}:\n{tail(log)}")
        return outcome(scene, without, seed, folder / "run" / "log.jsonl")


def _ablated_build(folder: Path, scene: str) -> Path:
    """What `--env` takes: a launcher of `ablated.py`, which starts in an empty folder as every build does."""
    if os.name == "nt":
        raise SetupError("The ablations need a POSIX shell (Linux or macOS): run them there.")
    launcher = folder / f"{scene}.x86_64"
    words = [sys.executable, str(ROOT / "tools" / "bench" / "ablated.py"), "--scene", scene]
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    return launcher


def outcome(scene: str, without: str, seed: int, log: Path) -> Outcome:
    """What a run's log says."""
    task = TASKS[scene]
    events = [json.loads(text) for text in log.read_text(encoding="utf-8").splitlines()]
    points = [
        (event["step"], event["elapsed"], event["values"]["Environment/Cumulative Reward"])
        for event in events
        if event["type"] == "summary"
        and event["behavior"] == task.behavior
        and "Environment/Cumulative Reward" in event["values"]
    ]
    if not points:
        return Outcome(scene, without, seed, failure="no episode ended")
    reached = next((point for point in points if point[2] >= task.mark), (math.nan, math.nan))
    end = statistics.mean(point[2] for point in points[-_LAST:])
    return Outcome(scene, without, seed, reached[0], reached[1], end, points[-1][1])


def line(one: Outcome) -> str:
    """One line for each run while the benchmark goes on."""
    name = f"{one.scene}{f' without {one.without}' if one.without else ''} seed {one.seed}"
    if one.failure:
        return f"{name}: {one.failure}"
    mark = (
        f"mark after {one.decisions:,.0f} decisions, {one.seconds:.0f} s" if math.isfinite(one.decisions) else "never"
    )
    return f"{name}: {mark}; {one.end:.2f} at the end, {one.whole:.0f} s"


def table(outcomes: list[Outcome]) -> str:
    """Markdown, medians over seeds; a run that did not come there counts as none."""
    rows = []
    for scene, without in dict.fromkeys((one.scene, one.without) for one in outcomes):
        runs = [one for one in outcomes if (one.scene, one.without) == (scene, without)]
        rows.append(
            [
                f"`{scene}`{f', no {without}' if without else ''}",
                f"{TASKS[scene].mark:g}",
                f"{sum(math.isfinite(one.decisions) for one in runs)} of {len(runs)}",
                tables.spread([one.decisions for one in runs]),
                tables.spread([one.seconds for one in runs]),
                f"{tables.spread([one.end for one in runs], 2)} at {TASKS[scene].decisions:,}",
            ]
        )
    header = ["scene", "mark", "reached", "decisions to the mark", "seconds to it", "return at the end"]
    return tables.markdown(header, rows)


if __name__ == "__main__":
    sys.exit(main())
