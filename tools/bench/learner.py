"""The cost of learning: a minibatch by each path of PPO, and a run with the learner in a thread or a process.

    python -m tools.bench learner [--rounds 3 --seconds 15]

**A minibatch**: milliseconds on one thread, the paths in turn. `textbook` is PPO written only with torch: two
`nn.Sequential`, `torch.distributions.Normal`, `torch.optim.Adam`.

**A run**: `tau-train learn` on an engine without cost, with `collection.learner` set to `thread` and `process`,
where torch compiles the hand-written minibatch (`compiled`) and where it cannot (`PYTORCH_JIT=0`, as from Python 3.14
on). Memory is the resident size of the trainer and all its processes, except the engines.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tau_trainer.algorithms.accelerators.fused import FusedEpochs
from tau_trainer.algorithms.autograd import AutogradEpochs
from tau_trainer.algorithms.minibatches import Coefficients, Samples, new_statistics
from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.models import ActorCritic
from tau_trainer.settings import NetworkSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tools.bench import running, tables, trainers
from tools.bench.timeline import Timeline

MINIBATCHES = 20
"""Number of minibatches in one timed call."""
WARM_UP_SECONDS = 3.0
PLACES = ("thread", "process")
COMPILING = {"compiled": "1", "PYTORCH_JIT=0": "0"}
"""Values of `PYTORCH_JIT`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A behavior and its minibatch."""

    observations: int
    hidden: int
    layers: int
    actions: int
    batch: int

    @property
    def label(self) -> str:
        """Label for tables."""
        return f"{self.observations} -> {self.layers} x {self.hidden} -> {self.actions}, minibatches of {self.batch}"


SHAPES = (Shape(8, 128, 2, 2, 64), Shape(172, 512, 3, 20, 2048))
"""3DBall's and Crawler's, by ML-Agents' own settings."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A run that is measured."""

    agents: int
    where: str
    torch: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of one run."""

    decisions_per_second: float
    megabytes: float


def main() -> int:
    """Measures and prints both tables; exit code 2 if nothing can be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="per run, after the warm-up")
    parser.add_argument("--agents", type=int, nargs="*", default=[12, 64])
    tables.add_output(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    minibatches = {shape.label: time_minibatches(shape, 5 * arguments.rounds) for shape in SHAPES}
    cells = [
        Cell(agents, where, compiling) for agents in arguments.agents for compiling in COMPILING for where in PLACES
    ]
    runs: dict[Cell, list[Measured]] = {cell: [] for cell in cells}
    for _ in range(arguments.rounds):
        for cell, measured in runs.items():
            measured.append(measure(cell, arguments.seconds))
    text = f"{minibatch_table(minibatches)}\n\n{run_table(runs)}"
    print(text)
    results = {
        "minibatches": minibatches,
        "runs": [[asdict(cell), [asdict(one) for one in runs[cell]]] for cell in runs],
    }
    tables.write(arguments, "learner", text, results)
    return 0


def time_minibatches(shape: Shape, rounds: int, device: str = "cpu") -> dict[str, list[float]]:
    """Milliseconds a minibatch of every path, by its name; one figure a round, the paths in turn."""
    return time_paths({"textbook": textbook(shape, device), **ours(shape, device)}, rounds, device)


def time_paths(paths: Mapping[str, Callable[[], None]], rounds: int, device: str = "cpu") -> dict[str, list[float]]:
    """Milliseconds per minibatch of each path, with :data:`MINIBATCHES` per call; waits for the device."""
    wait: Callable[[], object] = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    for run in paths.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in paths}
    for _ in range(rounds):
        for name, run in paths.items():
            wait()
            begin = time.perf_counter()
            run()
            wait()
            times[name].append((time.perf_counter() - begin) * 1e3 / MINIBATCHES)
    return times


def ours(shape: Shape, device: str = "cpu") -> dict[str, Callable[[], None]]:
    """The two paths of PPO, each on its own network."""
    spec = BehaviorSpec("B?team=0", (ObservationSpec("o", (shape.observations,)),), ActionSpec(shape.actions))
    settings = NetworkSettings(hidden_units=shape.hidden, num_layers=shape.layers)
    samples = random_samples(shape, device)
    kinds = {"by torch's differentiation": AutogradEpochs, "by hand": FusedEpochs}
    return {name: learning(spec, settings, samples, kind, shape.batch) for name, kind in kinds.items()}


def learning(
    spec: BehaviorSpec,
    settings: NetworkSettings,
    samples: Samples,
    kind: type[AutogradEpochs | FusedEpochs],
    batch: int,
) -> Callable[[], None]:
    """A function that learns all samples once, with a new network on their device."""
    network = ActorCritic(spec, settings, {"extrinsic": 1}, generator=torch.Generator())
    epochs = kind(network, FlatParameters(network, samples.returns.device))
    hyper = Coefficients(spec.actions.continuous_size, [], 0.2, 5e-3, 3e-4, 0.0)
    statistics = new_statistics(samples, len(samples.returns), MINIBATCHES)

    def run() -> None:
        with torch.no_grad():
            epochs.run(hyper, samples, statistics, batch)

    return run


def random_samples(shape: Shape, device: str = "cpu") -> Samples:
    """Random data."""
    rows = shape.batch * MINIBATCHES
    samples = Samples(
        inputs=[torch.randn(rows, shape.observations)],
        state=torch.zeros(0),
        continuous=torch.randn(rows, shape.actions),
        discrete=torch.zeros(rows, 0, dtype=torch.int64),
        mask=torch.zeros((0, 0), dtype=torch.bool),
        log_prob=torch.full((rows, shape.actions), -1.4),
        advantage=torch.randn(rows, 1),
        returns=torch.randn(rows, 1),
        begins=torch.zeros(0),
    )
    return samples.map(lambda values: values.to(device))


def textbook(shape: Shape, device: str = "cpu") -> Callable[[], None]:
    """PPO written only with torch."""

    def tower(outputs: int) -> nn.Sequential:
        sizes = [shape.observations, *[shape.hidden] * shape.layers]
        hidden = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.SiLU())]
        return nn.Sequential(*hidden, nn.Linear(sizes[-1], outputs)).to(device)

    actor, critic = tower(shape.actions), tower(1)
    log_sigma = nn.Parameter(torch.zeros(shape.actions, device=device))
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters(), log_sigma], 3e-4)
    samples = random_samples(shape, device)

    def run() -> None:
        for begin in range(0, shape.batch * MINIBATCHES, shape.batch):
            part = samples.map(lambda values, rows=slice(begin, begin + shape.batch): values[rows])  # type: ignore[misc]
            normal: Any = torch.distributions.Normal(actor(part.inputs[0]), log_sigma.exp())  # torch gives it no types
            ratio = (normal.log_prob(part.continuous) - part.log_prob).exp()
            better = torch.minimum(ratio * part.advantage, ratio.clamp(0.8, 1.2) * part.advantage)
            error = (critic(part.inputs[0]) - part.returns).square().mean()
            loss = -better.mean() + 0.5 * error - 5e-3 * normal.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


def measure(cell: Cell, seconds: float, *flags: str) -> Measured:
    """One run, with additional flags of `tau-train learn`."""
    looks: list[float] = []

    def look(timeline: Timeline) -> bool:
        looks.append(resident_megabytes([engine.pid for engine in timeline.engines]))
        return False

    with tempfile.TemporaryDirectory(prefix="tau-learner-") as name, torch_compiles(cell.torch):
        folder = Path(name)
        build = running.reporting_build(folder, "balance", ["--agents", str(cell.agents)])
        changes = trainers.config_changes("learning")
        config = trainers.write_config(folder / "config.yaml", "3DBall", changes)
        case = trainers.Case(1, cell.agents, 0.0)
        job = trainers.Job(case, "learning", build, config, folder, running.free_ports(1), 1)
        (command,) = trainers.Ours().commands(job)
        command += ["--set", f"collection.learner={cell.where}", "--quiet", *flags]
        played = running.play([command], folder, 1, WARM_UP_SECONDS + seconds, look)
    rate = played.timeline.rate(played.ready + WARM_UP_SECONDS, played.timeline.end())
    return Measured(rate, tables.median(looks))


@contextmanager
def torch_compiles(compiling: str) -> Iterator[None]:
    """Allow or forbid compiling in programs started during the block."""
    before = os.environ.get("PYTORCH_JIT")
    os.environ["PYTORCH_JIT"] = COMPILING[compiling]
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTORCH_JIT"]
        else:
            os.environ["PYTORCH_JIT"] = before


def resident_megabytes(engines: list[int]) -> float:
    """Resident memory of the engines' parent and its other children; NaN once they have ended."""
    done = subprocess.run(["ps", "-eo", "pid=,ppid=,rss="], capture_output=True, text=True, check=True)
    processes = [tuple(int(number) for number in line.split()) for line in done.stdout.splitlines()]
    parents = {parent for pid, parent, _ in processes if pid in engines}
    sizes = [size for pid, parent, size in processes if pid in parents or (parent in parents and pid not in engines)]
    return sum(sizes) / 1024.0 if parents else math.nan


def minibatch_table(times: dict[str, dict[str, list[float]]]) -> str:
    """Markdown."""
    names = list(next(iter(times.values())))
    rows = []
    for label, paths in times.items():
        cells = [f"{tables.spread(paths[name], 2)}, {tables.ratio(paths['textbook'], paths[name])}" for name in names]
        rows.append([label, *cells])
    return tables.markdown(["ms a minibatch, and times as fast", *names], rows)


def run_table(runs: dict[Cell, list[Measured]]) -> str:
    """Markdown."""
    rows = []
    for cell, measured in runs.items():
        rate = tables.spread([one.decisions_per_second for one in measured])
        size = tables.number(tables.median(one.megabytes for one in measured))
        rows.append([str(cell.agents), cell.torch, cell.where, rate, size])
    return tables.markdown(["agents", "torch", "learner", "decisions/s", "MB"], rows)
