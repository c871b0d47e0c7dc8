"""Agent decisions a second, `tau-train learn` beside `mlagents-learn` 1.1.0, or beside an earlier `tau-train`.

The same headless engine, YAML, flags and machine, in turn; medians of several runs. Three layers: engine and wire
alone, plus inference, plus learning. Beside every speed stands the reward at equal decisions.

    python -m tools.bench versus_mlagents
    python -m tools.bench versus_mlagents --engines 1 --agents 12 --step-ms 0 --runs 1 --seconds 20 --layers learning
    python -m tools.bench versus_mlagents --engines 1 --agents 12 --step-ms 0 --reward-decisions 180000
    python -m tools.bench versus_mlagents --config 3DBallSAC --layers learning --engines 1 --agents 12 64 --step-ms 0
    python -m tools.bench versus_mlagents --before ../earlier-checkout --seconds 20

The incumbent is installed once, several GB, into an environment of its own under --cache; it needs Python 3.10.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tools._bootstrap.progress import SetupError
from tools.bench import running, tables, trainers
from tools.bench.trainers import Case, Incumbent, Job, Layer, Ours, Trainer
from tools.peers import CACHE, MLAGENTS, ensure_peer, find_python

REWARD = "Environment/Cumulative Reward"
Curve = list[tuple[int, float]]
"""(decisions, mean reward of the episodes that ended in the summary period before)."""

CYCLES = {"3DBall": 12_000, "3DBallSAC": None, "DungeonEscape": 4_096, "Pyramids": 2_048, "SoccerTwos": None}
"""Decisions of a collect-and-update cycle, by settings; None: it updates at every decision, or only some count."""
SCENES = {"DungeonEscape": "dungeon", "Pyramids": "pyramids", "SoccerTwos": "soccer"}
"""Scene by settings; for others: balance."""
SCALARS = {"DungeonEscape": "Environment/Group Cumulative Reward", "SoccerTwos": "Self-play/ELO"}
"""Scalar that shows learning, by settings; for others: the reward."""

LONGEST = 1800.0
"""Seconds after which a run that must reach a number of decisions is stopped."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    cases: tuple[Case, ...]
    layers: tuple[Layer, ...]
    runs: int
    seconds: float
    warm_up: float
    reward_decisions: int
    config: str
    """The shipped file that both read."""
    work: Path
    """Folder of the runs' files."""
    names: tuple[str, str]
    """Names of the peer and ours in tables."""


@dataclass(slots=True)
class Result:
    """One run of one trainer."""

    trainer: str
    layer: Layer
    case: Case
    run: int
    until: int = 0
    """Decisions to learn until; 0 for a run that measures speed."""
    rate: float = math.nan
    """Decisions a second: over whole cycles if the run had one, otherwise over the window."""
    window_rate: float = math.nan
    cycles: int = 0
    exchange_rate: float = math.nan
    start_seconds: float = math.nan
    """Seconds from the command to the first decisions of every engine."""
    decisions: float = 0.0
    curve: Curve = field(default_factory=list)
    failure: str = ""


def main() -> int:
    """Reads the command line, measures, prints the tables, writes the JSON file."""
    arguments = parser().parse_args()
    pair: tuple[Trainer, Trainer] = (peer(arguments), Ours())
    plan = make_plan(arguments, (pair[0].name, pair[1].name))
    results = measure(plan, pair)
    text = report(plan, results)
    print("\n" + text)
    tables.write(arguments, "versus_mlagents", text, document(plan, results))
    print(f"\nwritten to {arguments.output}; the runs' files are in {plan.work}")
    return 1 if any(result.failure for result in results) else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--engines", type=int, nargs="+", default=[1, 4], help="engines side by side")
    made.add_argument("--agents", type=int, nargs="+", default=[12, 64, 256], help="agents of each engine")
    made.add_argument("--step-ms", type=float, nargs="+", default=[0.0, 5.0], help="what a step costs in the engine")
    made.add_argument("--config", choices=CYCLES, default="3DBall", help="a shipped file that both read, in its scene")
    made.add_argument("--layers", nargs="+", choices=trainers.LAYERS, default=list(trainers.LAYERS))
    made.add_argument("--runs", type=int, default=3, help="runs of each trainer in each cell, in turn")
    made.add_argument("--seconds", type=float, default=40.0, help="length of a run once all engines play")
    made.add_argument("--warm-up", type=float, default=10.0, help="seconds left out at the start of each run")
    made.add_argument("--reward-decisions", type=int, default=0, help="also learn until this many decisions")
    made.add_argument("--python", help="a Python 3.10 for the incumbent (default: found on the PATH)")
    made.add_argument("--mlagents-python", type=Path, help="the interpreter of an environment that has it already")
    made.add_argument("--before", type=Path, help="measure beside the tau-train of this other checkout instead")
    made.add_argument("--cache", type=Path, default=CACHE, help="where the incumbent's environment is kept")
    made.add_argument("--work", type=Path, help="where runs leave their files (default: a temporary folder)")
    tables.add_output(made)
    return made


def peer(arguments: argparse.Namespace) -> Trainer:
    """What ours is measured beside.

    Raises:
        SetupError: it is not there and cannot be installed.
    """
    if arguments.before is not None:
        return Ours.before(arguments.before)
    return Incumbent(arguments.mlagents_python or install(arguments.python, arguments.cache))


def make_plan(arguments: argparse.Namespace, names: tuple[str, str]) -> Plan:
    """The plan that the command line asks for."""
    cells = itertools.product(arguments.step_ms, arguments.engines, arguments.agents)
    return Plan(
        cases=tuple(Case(engines, agents, step_ms) for step_ms, engines, agents in cells),
        layers=tuple(arguments.layers),
        runs=arguments.runs,
        seconds=arguments.seconds,
        warm_up=min(arguments.warm_up, arguments.seconds / 2),
        reward_decisions=arguments.reward_decisions,
        config=arguments.config,
        work=arguments.work or Path(tempfile.mkdtemp(prefix="tau-bench-")),
        names=names,
    )


def install(python: str | None, cache: Path) -> Path:
    """The incumbent's interpreter, in an environment that is made unless it is there.

    Raises:
        SetupError: there is no Python 3.10, or something could not be installed.
    """
    python = python or find_python("3.10")
    if python is None:
        raise SetupError("mlagents 1.1.0 needs Python 3.10 and none was found: install one or name it with --python.")
    return ensure_peer(MLAGENTS, python, cache)


def measure(plan: Plan, pair: tuple[Trainer, Trainer]) -> list[Result]:
    """Every cell, layer and run; the two trainers in turn, so that a busy spell of the machine hits both."""
    results = []
    total = len(plan.layers) * len(plan.cases) * plan.runs * 2
    for layer, case, run in itertools.product(plan.layers, plan.cases, range(plan.runs)):
        for trainer in pair if run % 2 == 0 else reversed(pair):
            result = measure_one(plan, trainer, layer, case, run)
            results.append(result)
            say(f"{len(results)}/{total}", result)
    for run, trainer in itertools.product(range(plan.runs if plan.reward_decisions else 0), pair):
        case = plan.cases[0]
        results.append(measure_one(plan, trainer, "learning", case, run, until=plan.reward_decisions))
        say("reward", results[-1])
    return results


def measure_one(plan: Plan, trainer: Trainer, layer: Layer, case: Case, run: int, until: int = 0) -> Result:
    """One run; a failure is a result too, so that one broken cell does not cost the others."""
    result = Result(trainer.name, layer, case, run, until)
    folder = plan.work / f"{layer}-{case.label}-{'to' + str(until) if until else 'run'}{run}-{trainer.name}"
    folder.mkdir(parents=True, exist_ok=True)
    build = running.reporting_build(folder, SCENES.get(plan.config, "balance"), engine_arguments(case))
    config = trainers.write_config(folder / f"{plan.config}.yaml", plan.config, trainers.config_changes(layer))
    job = Job(case, layer, build, config, folder, running.free_ports(case.engines), seed=100 + run)
    stop = (lambda timeline: timeline.total(time.time()) >= until) if until else None
    try:
        played = running.play(trainer.commands(job), folder, case.engines, LONGEST if until else plan.seconds, stop)
    except running.RunFailedError as error:
        result.failure = str(error)
        return result
    count(result, played, plan.warm_up, CYCLES[plan.config])
    if layer == "learning":
        result.curve = reward_curve(folder / "results", SCALARS.get(plan.config, REWARD))
    return result


def engine_arguments(case: Case) -> list[str]:
    """Arguments of the engine."""
    return ["--agents", str(case.agents), *(["--step-ms", f"{case.step_ms:g}"] if case.step_ms else [])]


def count(result: Result, played: running.Played, warm_up: float, cycle: int | None) -> None:
    """Fill in the rates of the part after the warm-up."""
    timeline, start = played.timeline, played.ready + warm_up
    end = min(timeline.end(), played.ended)
    result.window_rate = result.rate = timeline.rate(start, end)
    result.exchange_rate = timeline.rate(start, end, "exchanges")
    result.start_seconds = min(float(engine.time[0]) for engine in timeline.engines) - played.started
    result.decisions = timeline.total(end)
    whole = timeline.cycle_rate(cycle, start, end) if result.layer == "learning" and cycle else None
    if whole is not None:
        result.rate, result.cycles = whole


def say(where: str, result: Result) -> None:
    """One line for each run during the benchmark."""
    said = result.failure.splitlines()[0] if result.failure else f"{tables.number(result.rate)} decisions/s"
    print(f"[{where}] {result.layer} {result.case.label} {result.trainer}: {said}", flush=True)


def report(plan: Plan, results: list[Result]) -> str:
    """The tables: one for each layer, and the failed runs."""
    parts, figures = [], "median (lowest-highest)" if plan.runs > 1 else "single runs"
    for layer in plan.layers:
        peer = layer == "learning" and plan.names[0] == "mlagents-learn"
        names = [plan.names[0], f"{plan.names[1]}, learning beside play"] if peer else plan.names
        header = ["engines x agents", "engine ms", *names, "ratio", "of what the wire gives"]
        header += [f"reward at equal decisions ({', '.join(plan.names)})"] if layer == "learning" else []
        rows = [row(plan, results, layer, case) for case in plan.cases]
        parts.append(f"### {layer}: agent decisions a second, {figures}\n\n{tables.markdown(header, rows)}")
    if plan.reward_decisions:
        parts.append(reward_table(plan, results))
    failures = [f"- {r.layer} {r.case.label} {r.trainer} run {r.run}: {r.failure}" for r in results if r.failure]
    return "\n\n".join(parts + (["### Failed\n\n" + "\n".join(failures)] if failures else []))


def chosen(results: list[Result], trainer: str, layer: Layer, case: Case, until: int = 0) -> list[Result]:
    """The good runs of one cell."""
    wanted = (trainer, layer, case, until)
    return [r for r in results if (r.trainer, r.layer, r.case, r.until) == wanted and not r.failure]


def row(plan: Plan, results: list[Result], layer: Layer, case: Case) -> list[str]:
    """One cell of the benchmark as a line of its table."""
    theirs = [r.rate for r in chosen(results, plan.names[0], layer, case)]
    ours = [r.rate for r in chosen(results, plan.names[1], layer, case)]
    wire = tables.median(r.rate for r in chosen(results, plan.names[1], "wire", case))
    share = tables.median(ours) / wire if wire else math.nan
    line = [f"{case.engines} x {case.agents}", f"{case.step_ms:g}", tables.spread(theirs), tables.spread(ours)]
    line += [tables.ratio(ours, theirs), f"{share:.0%}" if math.isfinite(share) else "-"]
    return [*line, equal_decisions(plan, results, case)] if layer == "learning" else line


def equal_decisions(plan: Plan, results: list[Result], case: Case) -> str:
    """Both trainers' mean episode reward at the largest number of decisions that all their runs reached."""
    pairs = [[r.curve for r in chosen(results, name, "learning", case)] for name in plan.names]
    decisions = min((common_decisions(curves) for curves in pairs), default=0)
    if not decisions:
        return "-"
    at = [tables.median(reward_at(curve, decisions) for curve in curves) for curves in pairs]
    return f"{tables.number(at[0], 1)}, {tables.number(at[1], 1)} at {decisions:,}"


def reward_table(plan: Plan, results: list[Result]) -> str:
    """Reward by decisions of the long runs, at every tenth of their length."""
    case = plan.cases[0]
    steps = [plan.reward_decisions * tenth // 10 for tenth in range(1, 11)]
    rows = []
    for name in plan.names:
        long = chosen(results, name, "learning", case, plan.reward_decisions)
        rows.append([name, *(tables.number(tables.median(reward_at(r.curve, s) for r in long), 1) for s in steps)])
    figures = "median of runs" if plan.runs > 1 else "single runs"
    title = f"### Mean episode reward by decisions, {case.engines} x {case.agents}, {figures}"
    return f"{title}\n\n{tables.markdown(['trainer', *(f'{step:,}' for step in steps)], rows)}"


def document(plan: Plan, results: list[Result]) -> dict[str, Any]:
    """The plan and every run, for the JSON file."""
    return {"plan": {**asdict(plan), "work": str(plan.work)}, "results": [asdict(result) for result in results]}


def reward_curve(results: Path, scalar: str = REWARD) -> Curve:
    """The mean episode reward by decision, from every event file under a results folder; empty without any."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    points: dict[int, float] = {}
    for folder in sorted({path.parent for path in results.rglob("events.out.tfevents.*")}):
        accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        accumulator.Reload()
        if scalar in accumulator.Tags()["scalars"]:
            points.update({event.step: event.value for event in accumulator.Scalars(scalar)})
    return sorted(points.items())


def reward_at(curve: Curve, decisions: float) -> float:
    """The reward at a number of decisions, interpolated between two summaries; NaN outside the curve."""
    if not curve or not curve[0][0] <= decisions <= curve[-1][0]:
        return float("nan")
    steps, rewards = zip(*curve, strict=True)
    return float(np.interp(decisions, steps, rewards))


def common_decisions(curves: Sequence[Curve]) -> int:
    """The largest number of decisions that every curve has reached; 0 if one is empty."""
    return min((curve[-1][0] if curve else 0 for curve in curves), default=0)
