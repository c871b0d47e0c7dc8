"""The cost of an update with groups: PPO by hand and by torch's differentiation, MAPPO and MA-POCA.

    python -m tools.bench groups [--rounds 5 --members 1 4 16 --units 128 256]

Processor time of one thread for a decision of an update of three epochs: 4,096 decisions in minibatches of 1,024,
32 floats seen, a branch of 5, two hidden layers. The least of several rounds, the four in turn.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from tau_trainer.algorithms import Setup
from tau_trainer.algorithms.poca import MAPPO, POCA
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.memory import StepFacts, Work
from tau_trainer.settings import trainer_type
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tools.bench import tables
from tools.bench.by_torch import PPOByTorch

DECISIONS, GROUPS, SEEN = 4096, 4, 32


def main() -> int:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--members", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--units", type=int, nargs="*", default=[128, 256])
    tables.add_output(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = ["| units, members | ppo by hand | ppo by torch | mappo | poca |", "| --- | ---: | ---: | ---: | ---: |"]
    results: dict[str, list[float]] = {}
    for units in arguments.units:
        for members in arguments.members:
            found = microseconds(units, members, arguments.rounds)
            results[f"{units}, {members}"] = found
            lines.append(f"| {units}, {members} | {' | '.join(f'{one:.1f}' for one in found)} |")
            print(lines[-1], flush=True)
    text = "\n".join(lines)
    print(text)
    tables.write(arguments, "groups", text, results)
    return 0


def microseconds(units: int, members: int, rounds: int) -> list[float]:
    """Of a decision, by PPO by hand and by torch, by MAPPO and by POCA."""
    learners = [made(PPO, units), made(PPOByTorch, units), made(MAPPO, units), made(POCA, units)]
    works = [collected(learner, members) for learner in learners]
    least = [float("inf")] * len(learners)
    for _ in range(rounds + 1):  # the first warms up
        for i, (learner, work) in enumerate(zip(learners, works, strict=True)):
            begin = time.process_time()
            learner.update(work, 0.0, None)
            least[i] = min(least[i], (time.process_time() - begin) / DECISIONS * 1e6)
    return least


def made(kind: type[PPO], units: int) -> PPO:
    """A new learner."""
    numbers = {"batch_size": 1024, "buffer_size": DECISIONS, "num_epoch": 3}
    more_numbers = {"updates_per_buffer": 1} if kind.name == PPO.name else {}
    settings = trainer_type(kind.name).settings.model_validate(
        {"hyperparameters": numbers | more_numbers, "network_settings": {"hidden_units": units}}
    )
    spec = BehaviorSpec("Walker?team=0", (ObservationSpec("vector", (SEEN,)),), ActionSpec(0, (5,)))
    return kind(Setup(spec, settings, 1))


def collected(learner: PPO, members: int) -> Work:
    """Random decisions of groups that no agent leaves."""
    rng, policy, moment = np.random.default_rng(0), learner.snapshot(), 0
    rows = np.arange(GROUPS * members)
    while learner.memory.completed < DECISIONS:
        moment += 1
        obs = rng.normal(size=(len(rows), SEEN)).astype(np.float32)
        decision = policy.act((obs,), None, rng)
        rewards = {"extrinsic": rng.normal(size=(len(rows), 1)).astype(np.float32)}
        known = StepFacts(rewards, np.ones(len(rows), np.float32), (rows // members + 1).astype(np.int32), None, moment)
        values = {"obs_0": obs, "continuous": decision.continuous, "discrete": decision.discrete, "mask": None}
        learner.memory.append(rows, known, {**values, **decision.extras}, policy.version)
    return learner.memory.take()
