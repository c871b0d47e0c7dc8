"""Learning by the clock: `balance` to 90, `basic` to 0.90, and the main job on Tau, over several seeds.

    python tools/bench/learning.py [--tasks balance basic tau --seeds 1 2 3] [--mlagents-python PATH | --before PATH]

Balance and basic are played with ML-Agents' own settings (configs/3DBall.yaml, configs/Basic.yaml) until the mean
return of the last 100 episodes, counted by the engine, reaches the goal. With --mlagents-python (an environment that
versus_mlagents.py has made) the incumbent runs the same, but for balance-256, which takes it longer than anybody waits,
with --before another checkout's tau-train. Tau is
`tau-train parallel --pairs 4` from start to end.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools._bootstrap.environment import child_environment
from tools._bootstrap.progress import SetupError, tail
from tools.bench import builds, running, tables, trainers
from tools.bench.timeline import Timeline
from tools.bench.trainers import Case, Incumbent, Job, Ours, Trainer

EPISODES = 100
REPORT_SECONDS = 0.05
"""The engine reports so often: a goal is seen within some hundred decisions of being reached."""
LONGEST = 900.0


@dataclass(frozen=True, slots=True)
class Task:
    """A scene with a goal."""

    scene: str
    config: str
    agents: int
    goal: float
    """Mean return of the last 100 episodes."""
    for_all: bool = True
    """Whether the incumbent takes part: it has not come there within 600,000 decisions with 256 agents."""


TASKS = {
    "balance": Task("balance", "3DBall", 12, 90.0),
    "balance-64": Task("balance", "3DBall", 64, 90.0),
    "balance-256": Task("balance", "3DBall", 256, 90.0, for_all=False),
    "basic": Task("basic", "Basic", 12, 0.90),
}
SHARE_OF_STRONGEST = 0.9
"""Test accuracy that the main job has to reach, of the strongest baseline's."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One seed of one task."""

    task: str
    trainer: str
    seed: int
    reached: bool
    seconds: float = math.nan
    """From the command to the goal (tau: to the end of the command)."""
    playing_seconds: float = math.nan
    """From the first decisions to the goal."""
    decisions: float = math.nan
    score: float = math.nan
    """Mean return of the last 100 episodes; for tau: test accuracy."""
    ceiling: float = math.nan
    """For tau: the strongest baseline's test accuracy."""
    failure: str = ""


def main() -> int:
    """Runs every task with every seed and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=[*TASKS, "tau"], default=[*TASKS, "tau"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--mlagents-python", type=Path, help="also run the incumbent, from this environment")
    parser.add_argument("--before", type=Path, help="also run the tau-train of this other checkout")
    tables.add_output(parser)
    arguments = parser.parse_args()
    pair: list[Trainer] = [Ours()]
    try:
        if arguments.mlagents_python is not None:
            pair.append(Incumbent(arguments.mlagents_python))
        if arguments.before is not None:
            pair.append(Ours.before(arguments.before))
        outcomes = measure(arguments.tasks, arguments.seeds, pair)
    except SetupError as error:
        print(f"learning: {error}", file=sys.stderr)
        return 2
    text = table(outcomes)
    print("\n" + text)
    tables.write(arguments, "learning", text, {"outcomes": [asdict(outcome) for outcome in outcomes]})
    return 0 if all(outcome.reached for outcome in outcomes) else 1


def measure(names: list[str], seeds: list[int], pair: list[Trainer]) -> list[Outcome]:
    """Every task with every seed; the incumbent takes no part in Tau.

    Raises:
        SetupError: this environment cannot measure at all.
    """
    outcomes = []
    for name in names:
        for seed in seeds:
            for trainer in pair:
                if name in TASKS and (TASKS[name].for_all or isinstance(trainer, Ours)):
                    outcomes.append(learn(trainer, name, seed))
                elif name not in TASKS and isinstance(trainer, Ours):
                    outcomes.append(learn_tau(trainer, seed))
                else:
                    continue
                print(line(outcomes[-1]), flush=True)
    return outcomes


def learn(trainer: Trainer, name: str, seed: int) -> Outcome:
    """Plays one task until its goal."""
    task = TASKS[name]
    with tempfile.TemporaryDirectory(prefix="tau-learning-") as folder_name:
        folder = Path(folder_name)
        build = builds.reporting_build(
            folder, task.scene, ["--agents", str(task.agents), "--report-seconds", str(REPORT_SECONDS)]
        )
        config = trainers.write_config(folder / "config.yaml", task.config, {})
        case = Case(1, task.agents, 0.0)
        job = Job(case, "learning", build, config, folder, builds.free_ports(1), seed)
        try:
            played = running.play(trainer.commands(job), folder, 1, LONGEST, lambda seen: done(task, seen), True)
        except running.RunFailedError as error:
            return Outcome(name, trainer.name, seed, False, failure=str(error))
    goal_time = played.timeline.reached_at(task.goal, EPISODES)
    end = played.ended if goal_time is None else goal_time
    return Outcome(
        task=name,
        trainer=trainer.name,
        seed=seed,
        reached=goal_time is not None,
        seconds=end - played.started,
        playing_seconds=end - min(float(engine.time[0]) for engine in played.timeline.engines),
        decisions=played.timeline.total(end),
        score=played.timeline.recent_return(EPISODES, end)[0],
    )


def done(task: Task, timeline: Timeline) -> bool:
    """Whether the goal has been reached; resolution: the engine's report, `REPORT_SECONDS`."""
    return timeline.reached_at(task.goal, EPISODES) is not None


def learn_tau(trainer: Ours, seed: int) -> Outcome:
    """The main job, timed from outside."""
    with tempfile.TemporaryDirectory(prefix="tau-learning-") as folder_name:
        folder, log = Path(folder_name), Path(folder_name) / "program.log"
        command = [trainer.tau_train(), "parallel", "--pairs", "4", "--seed", str(seed), "--run-id", "run", "--quiet"]
        began = time.monotonic()
        with log.open("wb") as stream:
            code = subprocess.run(
                [*command, "--results-dir", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=child_environment(),
                check=False,
            ).returncode
        seconds = time.monotonic() - began
        if code != 0:
            return Outcome("tau", trainer.name, seed, False, failure=f"exit code {code}:\n{tail(log)}")
        found: dict[str, Any] = json.loads((folder / "run" / "evaluation.json").read_text(encoding="utf-8"))
    strongest = max(one["accuracy"] for one in found["baselines"].values())
    good = found["accuracy"] >= SHARE_OF_STRONGEST * strongest
    name, playing = trainer.name, found["wall_seconds"]
    return Outcome("tau", name, seed, good, seconds, playing, found["decisions"], found["accuracy"], strongest)


def line(outcome: Outcome) -> str:
    """One line for each run while the benchmark goes on."""
    if outcome.failure:
        return f"{outcome.task} {outcome.trainer} seed {outcome.seed}: {outcome.failure}"
    how = "reached" if outcome.reached else "NOT reached"
    return (
        f"{outcome.task} {outcome.trainer} seed {outcome.seed}: {how} after {outcome.seconds:.1f} s, "
        f"{outcome.decisions:,.0f} decisions, score {outcome.score:.3f}"
    )


def table(outcomes: list[Outcome]) -> str:
    """Markdown, medians over seeds."""
    rows = []
    for task, trainer in dict.fromkeys((outcome.task, outcome.trainer) for outcome in outcomes):
        runs = [outcome for outcome in outcomes if (outcome.task, outcome.trainer) == (task, trainer)]
        rows.append(
            [
                task,
                trainer,
                f"{sum(run.reached for run in runs)} of {len(runs)}",
                tables.spread([run.seconds for run in runs], 1),
                tables.spread([run.playing_seconds for run in runs], 1),
                tables.spread([run.decisions for run in runs]),
                tables.spread([run.score for run in runs], 3),
                tables.number(tables.median(run.ceiling for run in runs), 3),
            ]
        )
    trainer = "trainer; same file, tau-train learns beside play"
    header = ["task", trainer, "reached", "seconds from the command", "seconds of playing", "decisions", "score"]
    return tables.markdown([*header, "strongest baseline"], rows)


if __name__ == "__main__":
    sys.exit(main())
