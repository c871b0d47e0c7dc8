"""Engines that sleep 20 ms a step, here and on a private Ray cluster: decisions a second, and what a decision costs.

    python -m tools.bench scale [--engines 1 2 4 8 16 32 64] [--nodes 3] [--seconds 12]

An engine is `balance` with 12 agents, so it alone makes at most 600 decisions a second, and each has an actor. What
every kind of process computes for a decision shows what is used up where more engines make no more decisions. From the
last point that is linear to 95 % a model on paper says how many engines the machine has room for, which the points
after it check, and what would be used up first with 1,000 engines on 100 machines.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import torch

from tau_trainer.algorithms import Algorithm, Setup, make_algorithm
from tau_trainer.memory import Work
from tau_trainer.settings import PPOHyperparameters, PPOTrainerSettings, load_settings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tools.bench import devices, running, tables, trainers
from tools.bench.timeline import Timeline

AGENTS, STEP_MS = 12, 20.0
ALONE = AGENTS * 1000.0 / STEP_MS
"""Decisions a second of an engine that never waits."""
LINEAR = 0.95
KINDS = ("engine", "actor", "learner", "ray", "trainer")
_MARK = "TAU_BENCH_RUN"
_FAR, _MACHINES, _WIRE = 1000, 100, 1.25e9
"""Engines, machines, and bytes a second of 10 Gbit/s."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run."""

    nodes: int
    """Number of the cluster's nodes; 0: no cluster."""
    engines: int
    rate: float
    """Decisions a second."""
    costs: dict[str, float]
    """Processor seconds for each decision, by kind of process."""
    load: float
    """Load of the machine at the start, including other programs."""


def main() -> int:
    """Runs every number of engines, without and with a cluster, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--nodes", type=int, default=3, help="of the private cluster")
    parser.add_argument("--seconds", type=float, default=12.0, help="of each run")
    tables.add_output(parser)
    arguments = parser.parse_args()
    points = list[Point]()
    with contextlib.suppress(KeyboardInterrupt):  # machines that exist are named
        for nodes, engines in itertools.product((0, arguments.nodes), arguments.engines):
            try:
                points.append(measure(nodes, engines, arguments.seconds))
            except running.RunFailedError as error:  # more than the machine can start, for example
                print(f"{nodes} nodes, {engines} engines: {error}", flush=True)
            else:
                print(f"{nodes} nodes, {engines} engines: {points[-1].rate:,.0f} decisions/s", flush=True)
    if not points:
        return 1
    of_model = [point for point in points if point.nodes == points[-1].nodes]
    text = f"{table(points)}\n\n{model(of_model, learning_seconds())}"
    print("\n" + text)
    tables.write(arguments, "scale", text, {"points": [asdict(point) for point in points]})
    return 0


def measure(nodes: int, engines: int, seconds: float) -> Point:
    """One run; its first quarter does not count. Raises RunFailedError."""
    load = os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp(prefix="tau-scale-"))
    os.environ[_MARK] = mark = uuid.uuid4().hex
    build = running.reporting_build(folder, "balance", ["--agents", str(AGENTS), "--step-ms", str(STEP_MS)])
    changes = {"max_steps": trainers.FOREVER, "checkpoint_interval": trainers.FOREVER, "summary_freq": 6000}
    config = trainers.write_config(folder / "3DBall.yaml", "3DBall", changes)
    words = [trainers.Ours().tau_train(), "learn", str(config), "--env", str(build), "--results-dir", str(folder)]
    words += ["--run-id", "run", "--seed", "1", "--no-graphics", "--quiet", "--actors", str(engines)]
    words += ["--set", "async_trainer.eval_interval=0", "--timeout-wait", "120"]
    words += ["--cluster", f"local:{nodes}", "--set", "cluster.resources={cpu: 0.01}"] if nodes else []
    words += [] if nodes else ["--execution", "async"]
    seen: list[tuple[float, dict[int, tuple[str, float]]]] = []

    def look(timeline: Timeline) -> bool:
        seen.append((timeline.end(), dict(computing(mark))))
        return False

    try:
        played = running.play([words], folder, engines, seconds, look)
    finally:
        del os.environ[_MARK]
        shutil.rmtree(folder, ignore_errors=True)
    (start, before), (end, after) = seen[len(seen) // 4], seen[-1]
    spent = dict.fromkeys(KINDS, 0.0)
    for pid, (kind, computed) in after.items():
        spent[kind] += computed - before.get(pid, (kind, 0.0))[1]
    decisions = played.timeline.total(end) - played.timeline.total(start)
    costs = {kind: value / max(decisions, 1.0) for kind, value in spent.items()}
    return Point(nodes, engines, played.timeline.rate(start, end), costs, load)


def computing(mark: str) -> Iterator[tuple[int, tuple[str, float]]]:
    """Number, kind and used processor seconds of every process of a run; only on Linux."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() not in (folder / "environ").read_bytes():
                continue
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            name, _, fields = (folder / "stat").read_text().rpartition(")")
        except OSError:
            continue
        ticks = sum(map(int, fields.split()[11:13]))  # utime and stime, see proc(5)
        yield int(folder.name), (_kind(line, name.partition("(")[2]), ticks / os.sysconf("SC_CLK_TCK"))


def _kind(line: str, name: str) -> str:
    if "tau_trainer.headless" in line:
        return "engine"
    if name in ("actor", "process"):
        return {"actor": "actor", "process": "learner"}[name]
    return "trainer" if "tau-train" in line else "ray"


def learning_seconds(rounds: int = 5) -> float:
    """Processor seconds of learning for each decision that is new to an update, in one thread."""
    algorithm, setup = rollout()
    metadata, arrays = devices.rollout(algorithm, setup).sent()
    torch.set_num_threads(1)
    spent = []
    for _ in range(rounds + 1):
        begin = time.process_time()
        algorithm.update(Work.received(metadata, arrays), 0.0, None)
        spent.append(time.process_time() - begin)
    return statistics.median(spent[1:]) / algorithm.rollout_size  # the first one compiles


def rollout() -> tuple[Algorithm, Setup]:
    """PPO with the settings of `3DBall`."""
    spec = BehaviorSpec("3DBall?team=0", (ObservationSpec("o", (8,)),), ActionSpec(2))
    settings = load_settings("3DBall").behaviors["3DBall"]
    assert isinstance(settings, PPOTrainerSettings)
    setup = Setup(spec, settings, seed=1)
    return make_algorithm(setup), setup


def sizes() -> tuple[float, int, float]:
    """Bytes that an actor sends for a decision, bytes of the weights, decisions between two of these."""
    algorithm, setup = rollout()
    _, arrays = devices.rollout(algorithm, setup).sent()
    sent = sum(values.nbytes for values in arrays.values())
    weights = sum(values.nbytes for values in algorithm.weights().values())
    shown = 1 + 4 * cast(PPOHyperparameters, setup.settings.hyperparameters).num_epoch  # versions in an update, at most
    return sent / algorithm.rollout_size, weights, algorithm.rollout_size / shown


def table(points: list[Point]) -> str:
    """Markdown."""
    rows = []
    first = {point.nodes: point.rate / point.engines for point in reversed(points)}
    for point in points:
        linear = point.rate / (first[point.nodes] * point.engines)
        cores = sum(point.costs.values()) * point.rate
        microseconds = [tables.number(1e6 * point.costs[kind]) for kind in KINDS]
        where = f"{point.nodes} raylets" if point.nodes else "no cluster"
        words = [where, str(point.engines), tables.number(point.rate), f"{linear:.0%}", f"{cores:.2f}"]
        rows.append([*words, *microseconds, f"{point.load:.1f}"])
    header = ["", "engines", "decisions/s", "of linear", "cores computing"]
    return tables.markdown([*header, *[f"us: {kind}" for kind in KINDS], "load before"], rows)


def model(points: list[Point], update: float) -> str:
    """Markdown: a prediction from the last linear point, for the other points and for many machines."""
    each = points[0].rate / points[0].engines
    last = [point for point in points if point.rate >= LINEAR * each * point.engines][-1]
    cores, total = float(os.cpu_count() or 1), sum(last.costs.values())
    lines = [
        f"From {last.engines} engines: a decision computes {1e6 * total:,.0f} us on all sides, so {cores:g} cores make "
        f"at most {cores / total:,.0f} decisions/s, which is {cores / total / each:.0f} engines.",
        "",
    ]
    rows = [
        [str(point.engines), tables.number(min(each * point.engines, cores / total)), tables.number(point.rate)]
        for point in points
    ]
    lines += [tables.markdown(["engines", "model: decisions/s", "measured"], rows), ""]
    limits = limits_of(last, update)
    wanted = ALONE * _FAR
    rows = [
        [name, f"{limit:,.0f}", f"{limit / ALONE:,.0f}", f"{wanted / limit:.0%}"]
        for name, limit in sorted(limits.items(), key=lambda item: item[1])
    ]
    lines.append(tables.markdown(["used up first", "decisions/s", "engines", f"with {_FAR:,} engines"], rows))
    return "\n".join(lines)


def limits_of(point: Point, update: float) -> Mapping[str, float]:
    """Decisions a second at which each part is used up, from the costs of one point and the seconds of learning."""
    sent, weights, between = sizes()
    taking_in = max(point.costs["trainer"] - update, 1e-9)
    per_machine = sum(point.costs[kind] for kind in ("engine", "actor", "ray"))
    return {
        "learning: one thread": 1.0 / update,
        "taking in: the trainer's other threads, of which one runs at a time": 1.0 / taking_in,
        f"the learner's network, experience ({sent:.0f} B a decision)": _WIRE / sent,
        f"the learner's network, weights ({weights / 1000:.0f} kB to {_MACHINES} stores)": _WIRE
        / (weights * _MACHINES / between),
        f"cores of {_MACHINES} machines, 2 each": 2.0 * _MACHINES / per_machine,
    }


if __name__ == "__main__":
    raise SystemExit(main())
