"""The cost of an update by several processes that learn together (`learn --devices`), each on one thread.

    python -m tools.bench devices [--processes 1 2 --rounds 5]

PPO with 2,048 decisions an update, three epochs of minibatches of 256, of vectors and of images.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tau_trainer.algorithms import Algorithm, Counters, Setup, make_algorithm
from tau_trainer.collection.decisions import Actor
from tau_trainer.memory import StepFacts, Work
from tau_trainer.settings import PPOTrainerSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.training.learning.group import LearnerGroup, Ranked
from tau_trainer.training.learning.process import RemoteLearner
from tools.bench import tables

NUMBERS = {"batch_size": 256, "buffer_size": 2048, "num_epoch": 3, "updates_per_buffer": 1}
SENSORS = {"172 numbers, 3 x 512": ((172,), 3), "images of 3 x 84 x 84, 1 x 512": ((3, 84, 84), 1)}
"""Observation shape, and number of layers."""


def main() -> int:
    """Measures and prints the table; exit code 2 if nothing can be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    tables.add_output(parser)
    arguments = parser.parse_args()
    times = time_updates(arguments.processes, arguments.rounds)
    text = table(times)
    print(text)
    tables.write(arguments, "devices", text, times)
    return 0


def setup_of(shape: tuple[int, ...], layers: int) -> Setup:
    """A behavior with this observation and four actions."""
    spec = BehaviorSpec("B?team=0", (ObservationSpec("o", shape),), ActionSpec(4))
    network = {"hidden_units": 512, "num_layers": layers}
    given = {"hyperparameters": NUMBERS, "network_settings": network, "time_horizon": 64}
    return Setup(spec, PPOTrainerSettings.model_validate(given), seed=1)


def rollout(algorithm: Algorithm, setup: Setup, agents: int = 32) -> Work:
    """The work of an update, from random observations and rewards."""
    rng, memory = np.random.default_rng(1), algorithm.memory
    rows, actor = np.arange(agents), Actor(algorithm.snapshot(), np.random.default_rng(2))
    while (work := algorithm.ready(Counters(0, 0))) is None:
        obs = rng.normal(size=(agents, *setup.spec.observations[0].shape)).astype(np.float32)
        decision = actor.decide(rows, (obs,), None)
        values: dict[str, Any] = {"obs_0": obs, "continuous": decision.continuous, "discrete": decision.discrete}
        rewards = {"extrinsic": rng.normal(size=(agents, 1)).astype(np.float32)}
        memory.append(rows, StepFacts(rewards), values | {"mask": None} | dict(decision.extras), decision.version)
    return work


def time_updates(processes: list[int], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds per update, by observation and number of processes; one figure per round, in turn."""
    times: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="tau-devices-") as name:
        groups = {count: LearnerGroup(Ranked(count, "cpu", Path(name) / str(count)), print) for count in processes}
        for label, (shape, layers) in SENSORS.items():
            setup = setup_of(shape, layers)
            metadata, arrays = rollout(make_algorithm(setup), setup).sent()
            learners = {
                count: RemoteLearner(group, label, setup, make_algorithm(setup)) for count, group in groups.items()
            }
            times[label] = {str(count): [] for count in processes}
            for turn in range(rounds + 1):
                for count, learner in learners.items():
                    begin = time.perf_counter()
                    learner.submit(Work.received(metadata, arrays), 0.0, None)
                    if turn:  # the first makes everything
                        times[label][str(count)].append(time.perf_counter() - begin)
        for group in groups.values():
            group.close()
    return times


def table(times: dict[str, dict[str, list[float]]]) -> str:
    """Markdown."""
    counts = list(next(iter(times.values())))
    rows = [
        [
            label,
            *[f"{tables.spread(found[count], 2)}, {tables.ratio(found[counts[0]], found[count])}" for count in counts],
        ]
        for label, found in times.items()
    ]
    return tables.markdown(["s an update, and times as fast", *[f"processes: {count}" for count in counts]], rows)
