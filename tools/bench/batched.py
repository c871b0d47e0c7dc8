"""Batched environments: steps a second alone, with acting, with learning, over copies and agents, and beside others.

    python -m tools.bench batched [--layers env acting learning] [--games cartpole] [--peers stable-baselines3]
        [--copies 1 100] [--agents 5] [--seconds 4] [--runs 3] [--device cuda] [--busy]

An *environment step* is one step of one copy, an *agent step* one action of one agent: both are printed. Without a
policy, random actions are drawn on the device. Comparisons in the same run: the numpy twin (one copy, a loop over
agents), Gymnasium's own vectorised CartPole, gymnax' (JAX), VMAS' tag game (torch, another game), and
Stable-Baselines3's A2C on CartPole with our copies, rollout, network and numbers. A peer is measured right after ours
on the same copies, and a ratio is the median over these pairs. With `--busy` both have one thread, and seconds are
their own processor time, so other programs do not count.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from tau_trainer.algorithms.base import Setup, TensorCopies, make_algorithm
from tau_trainer.algorithms.batched import TensorActor
from tau_trainer.algorithms.batched.acting import spec_of
from tau_trainer.algorithms.batched.actors import actor_of
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.collection.batched import BatchedCollector
from tau_trainer.envs.batched import BatchedEnv, registry
from tau_trainer.memory import Work
from tau_trainer.settings.hyperparameters import A2CHyperparameters
from tau_trainer.settings.trainers import A2CTrainerSettings, TrainerSettings
from tools.bench import tables, timed_envs
from tools.peers import CACHE, GYMNAX, STABLE_BASELINES3, VMAS, ensure_peer

HERE = Path(__file__).resolve().parent
LAYERS = ("env", "acting", "learning")
MOST_ROWS = 1_000_000
"""Maximum agents of all copies together; more would only test memory."""
HORIZON = 32
HIDDEN = {"cartpole": 64, "tag_continuous": 256, "tag_gridworld": 256}
"""Units of a hidden layer."""
LAYERS_OF_NETWORK = 2
PEERS = ("gymnasium", "gymnax", "twins", "vmas", "stable-baselines3")
LEARNING = ", with learning"
"""Suffix of a peer's name if it learns too and is compared with our learning."""


@dataclass(frozen=True, slots=True)
class Cell:
    """An environment and its size."""

    name: str
    copies: int
    taggers: int = 0
    runners: int = 0

    @property
    def arguments(self) -> dict[str, Any]:
        """Of the environment, as systems ship it."""
        if self.name == "tag_continuous":
            return {
                "num_taggers": self.taggers,
                "num_runners": self.runners,
                "grid_length": 20.0,
                "episode_length": 500,
                "use_full_observation": False,
                "num_other_agents_observed": min(10, self.taggers + self.runners - 1),
                "tagging_distance": 0.02,
            }
        return {"num_taggers": self.taggers, "grid_length": 100} if self.name == "tag_gridworld" else {}

    @property
    def agents(self) -> int:
        """Of each copy."""
        return self.taggers + self.runners or 1


@dataclass(frozen=True, slots=True)
class Rate:
    """One run."""

    cell: Cell
    what: str
    """A layer, or the name of a peer."""
    steps: float
    """Environment steps per second."""


@dataclass(frozen=True, slots=True)
class Play:
    """How a policy plays."""

    settings: Callable[[Cell], TrainerSettings] = lambda cell: a2c(cell)
    change: Callable[[BatchedEnv, TensorActor], None] = lambda env, actor: None
    """A change to both after the environment has started."""


def main() -> int:
    """Reads the command line, measures, prints the tables, writes the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=LAYERS)
    parser.add_argument("--games", nargs="+", choices=HIDDEN, default=list(HIDDEN))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="programs to compare with")
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 10, 100, 1000, 10_000])
    parser.add_argument("--agents", type=int, nargs="+", default=[5, 100, 1000], help="of tag_continuous, a tenth tag")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--busy", action="store_true", help="one thread, and processor time; not with every peer")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of other programs' environments")
    tables.add_output(parser)
    arguments = parser.parse_args()
    if arguments.busy:
        if set(arguments.peers) - {"stable-baselines3"}:
            parser.error("--busy goes with `--peers stable-baselines3` or none: the others count by the clock")
        torch.set_num_threads(1)
    clock = time.process_time if arguments.busy else time.perf_counter
    cells = [cell for cell in _cells(arguments.copies, arguments.agents) if cell.name in arguments.games]
    others = [one for name in arguments.peers for one in _others(name, arguments)]
    rates = []
    for _ in range(arguments.runs):
        for cell in cells:
            for layer in arguments.layers:
                rates.append(Rate(cell, layer, measured(cell, layer, arguments.seconds, arguments.device, clock)))
                say(rates[-1])
            for what, measure in [(what, measure) for played, what, measure in others if played == cell]:
                rates.append(Rate(cell, what, measure()))
                say(rates[-1])
    text = "\n\n".join([table(rates), *([beside(rates)] if others else [])])
    print("\n" + text)
    tables.write(arguments, "batched", text, {"rates": [asdict(rate) for rate in rates]})
    return 0


def _cells(copies: list[int], agents: list[int]) -> Iterator[Cell]:
    for count in copies:
        yield Cell("cartpole", count)
    for count in copies:
        yield Cell("tag_gridworld", count, 4, 1)
    for size in agents:
        for count in copies:
            if size * count <= MOST_ROWS:
                yield Cell("tag_continuous", count, max(1, size // 10), size - max(1, size // 10))


def measured(
    cell: Cell,
    layer: str,
    seconds: float,
    device: str,
    clock: Callable[[], float] = time.perf_counter,
    play: Play = Play(),
) -> float:
    """Environment steps a second."""
    env = registry.make(cell.name, cell.copies, device=device, **cell.arguments)
    step = _random(env) if layer == "env" else _played(env, cell, play, learns=layer == "learning")
    step()
    wait: Callable[[], object] = torch.cuda.synchronize if env.device.type == "cuda" else lambda: None
    wait()
    steps, begun = 0, clock()
    while (spent := clock() - begun) < seconds:
        steps += step()
        wait()
    return steps * cell.copies / spent


def _random(env: BatchedEnv) -> Callable[[], int]:
    """Plays the steps of one rollout with random actions."""
    env.reset()
    space, shape = env.action_space, (env.num_envs, env.num_agents)

    def step() -> int:
        for _ in range(HORIZON):
            if isinstance(space, spaces.MultiDiscrete):
                columns = [torch.randint(0, int(n), shape, device=env.device) for n in space.nvec]
                env.step(torch.stack(columns, dim=2))
            else:
                assert isinstance(space, spaces.Discrete)
                env.step(torch.randint(0, int(space.n), shape, device=env.device))
        return HORIZON

    return step


def _played(env: BatchedEnv, cell: Cell, play: Play, *, learns: bool) -> Callable[[], int]:
    """The same with a policy for all agents."""
    learner, collector = seated(env, cell, play)

    def step() -> int:
        rollouts = collector.collect(learner.horizon)
        if learns:
            learner.update(Work({}, tensors=rollouts["all"]), 0.0, None)
        return learner.horizon

    return step


def seated(env: BatchedEnv, cell: Cell, play: Play = Play()) -> tuple[GradientAlgorithm, BatchedCollector]:
    """A policy for all agents, and a collector that plays with it."""
    spec, copies = spec_of("all", env.observation_space, env.action_space), TensorCopies(cell.copies, cell.agents)
    learner = make_algorithm(Setup(spec, play.settings(cell), 0, device=str(env.device), copies=copies))
    assert isinstance(learner, GradientAlgorithm)
    actor = actor_of(learner, env.action_space)
    collector = BatchedCollector(env, {"all": (actor, range(cell.agents))})
    play.change(env, actor)
    return learner, collector


def a2c(cell: Cell) -> A2CTrainerSettings:
    """One gradient step for each rollout."""
    rows = HORIZON * cell.copies * cell.agents
    return A2CTrainerSettings.model_validate(
        {
            "trainer_type": "a2c",
            "hyperparameters": {"buffer_size": rows, "batch_size": rows},
            "network_settings": {"hidden_units": HIDDEN[cell.name], "num_layers": LAYERS_OF_NETWORK},
        }
    )


def as_baselines3(cell: Cell, seconds: float, busy: bool) -> str:
    """The same for `drive_sb3.py`."""
    settings = a2c(cell)
    hyper = settings.hyperparameters
    assert isinstance(hyper, A2CHyperparameters)
    asked = {
        "copies": cell.copies,
        "hidden": [settings.network_settings.hidden_units] * settings.network_settings.num_layers,
        "n_steps": HORIZON,
        "learning_rate": hyper.learning_rate,
        "ent_coef": hyper.entropy_coeff,
        "vf_coef": hyper.vf_loss_coeff,
        "gae_lambda": hyper.lambd,
        "gamma": settings.reward_signals["extrinsic"].gamma,
        "seconds": seconds,
        "busy": busy,
    }
    return json.dumps(asked)


def _others(name: str, arguments: argparse.Namespace) -> Iterator[tuple[Cell, str, Callable[[], float]]]:
    """The comparisons: our environment, the peer's name, and its measurement. Raises SetupError."""
    cache, seconds = arguments.cache, arguments.seconds
    cartpoles = [Cell("cartpole", copies) for copies in (1, 10, 100, 1000, 10_000)]
    if name == "gymnasium":
        yield from ((cell, "Gymnasium, vectorised", partial(_gymnasium, cell, seconds)) for cell in cartpoles)
    elif name == "gymnax":
        python = str(ensure_peer(GYMNAX, cache=cache))
        for cell in cartpoles:
            words = [python, str(HERE / "drive_gymnax.py"), str(cell.copies), str(seconds)]
            yield cell, "gymnax (JAX, compiled)", partial(_told, words)
    elif name == "twins":
        alone = [Cell("cartpole", 1), Cell("tag_gridworld", 1, 4, 1)]
        for cell in [*alone, *(Cell("tag_continuous", 1, n, 9 * n) for n in (10, 100))]:
            yield cell, "numpy twin, a loop over agents", partial(_twin, cell, seconds)
    elif name == "vmas":
        python = str(ensure_peer(VMAS, cache=cache))
        for copies in (1, 100, 1000):
            words = [python, str(HERE / "drive_vmas.py"), "1", "4", str(copies), str(seconds)]
            yield Cell("tag_continuous", copies, 1, 4), "VMAS' simple_tag: another game", partial(_told, words)
    else:
        python = str(ensure_peer(STABLE_BASELINES3, cache=cache))
        for cell in cartpoles[:4]:
            words = [python, str(HERE / "drive_sb3.py"), "speed", as_baselines3(cell, seconds, arguments.busy)]
            yield cell, f"Stable-Baselines3's A2C{LEARNING}", partial(_told, words)


def _gymnasium(cell: Cell, seconds: float) -> float:
    env = gymnasium.make_vec("CartPole-v1", cell.copies, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    env.action_space.seed(0)
    steps, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        env.step(env.action_space.sample())
        steps += 1
    env.close()
    return steps * cell.copies / spent


def _twin(cell: Cell, seconds: float) -> float:
    """One copy in plain numpy."""
    env, twin = registry.make(cell.name, 1, **cell.arguments), registry.twin(cell.name, **cell.arguments)
    env.reset()
    start = {name: values[0].numpy() for name, values in env.state.items()}
    rng = np.random.default_rng(0)
    space = env.action_space
    shape = (cell.agents, len(space.nvec)) if isinstance(space, spaces.MultiDiscrete) else (cell.agents,)
    most = space.nvec if isinstance(space, spaces.MultiDiscrete) else space.n  # type: ignore[union-attr]
    state, steps, begun = dict(start), 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        state["step"] = state["step"] + 1
        game, _, terminated, truncated = twin.advance(state, rng.integers(0, most, shape))
        present = state["present"] & ~terminated & ~truncated
        state = {**state, **game, "present": present} if present.any() else dict(start)
        twin.observe(state)
        steps += 1
    return steps / spent


def _told(words: list[str]) -> float:
    """The last line that a program prints; NaN if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, timed_envs.FOLDER: folder}
        done = subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False, env=variables)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return math.nan
    return float(done.stdout.split()[-1])


def say(rate: Rate) -> None:
    """Print one line for each run during the benchmark."""
    cell = rate.cell
    print(f"{cell.name}, {cell.copies:,} copies of {cell.agents:,}, {rate.what}: {rate.steps:,.0f} steps/s", flush=True)


def table(rates: list[Rate]) -> str:
    """Environment steps and agent steps a second of each layer."""
    rows = []
    for cell in dict.fromkeys(rate.cell for rate in rates):
        row = [f"`{cell.name}`", f"{cell.agents:,}", f"{cell.copies:,}"]
        alone = [rate.steps for rate in rates if (rate.cell, rate.what) == (cell, "env")]
        for layer in LAYERS:
            steps = [rate.steps for rate in rates if (rate.cell, rate.what) == (cell, layer)]
            row.append(f"{tables.number(tables.median(steps))} / {tables.number(tables.median(steps) * cell.agents)}")
        learning = [rate.steps for rate in rates if (rate.cell, rate.what) == (cell, "learning")]
        rows.append([*row, tables.ratio(learning, alone)])
    header = ["environment", "agents", "copies", "alone: environment / agent steps/s", "with acting", "with learning"]
    return tables.markdown([*header, "with learning of alone"], rows)


def beside(rates: list[Rate]) -> str:
    """Table of peers, with ours on the same work."""
    rows = []
    for cell, what in dict.fromkeys((rate.cell, rate.what) for rate in rates if rate.what not in LAYERS):
        theirs = [rate.steps for rate in rates if (rate.cell, rate.what) == (cell, what)]
        layer = "learning" if what.endswith(LEARNING) else "env"
        ours = [rate.steps for rate in rates if (rate.cell, rate.what) == (cell, layer)]
        ratios = [one / other for one, other in zip(ours, theirs, strict=False)]
        row = [what, f"`{cell.name}`, {cell.agents:,}", f"{cell.copies:,}", tables.spread(theirs), tables.spread(ours)]
        rows.append([*row, tables.spread(ratios, 2)])
    header = ["who", "ours plays, agents", "copies of both", "environment steps/s", "ours", "ratio"]
    return tables.markdown(header, rows)
