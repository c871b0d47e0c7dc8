"""An environment that sleeps 5 ms a step: actors beside the learner, everything in one process, and SubprocVecEnv.

    python -m tools.bench asynchronous [--task CartPole-v1/dqn] [--actors 1 2 4] [--seeds 1 2 3]
        [--samples-per-opt 2] [--longest SECONDS] [--ours-only]

Runs a task of `gym.py` with its settings up to its target (default: Pendulum-v1 with SAC), with one environment for
each actor, and the same number of samples per gradient step everywhere. The environments record every ended episode.
Samples per second are counted over whole episodes since the last environment was made. Actors do not wait for the
learner: n of them should give n times the samples, until the learner is the slower side.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tools.bench import gym, tables, timed_envs, trainers
from tools.peers import CACHE, ROOT, STABLE_BASELINES3, ensure_peer

TASKS = {
    "Pendulum-v1": ("SAC, minibatches of 256, 2 x 64 units", "SAC, minibatches of 256, 2 x 256 units"),
    "CartPole-v1/dqn": (
        "double DQN, rewards of 3 steps, minibatches of 128",
        "DQN, rewards of 1 step, minibatches of 64",
    ),
}
"""Our settings and those of Stable-Baselines3."""
STEP_SECONDS = 0.005


def main() -> int:
    """Runs every way of collecting with every seed and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="Pendulum-v1")
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--samples-per-opt", type=int, default=2, help="everywhere")
    parser.add_argument("--longest", type=float, default=gym.LONGEST, help="seconds after which a run is stopped")
    parser.add_argument("--ours-only", action="store_true", help="without Stable-Baselines3")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of its environment")
    tables.add_output(parser)
    arguments = parser.parse_args()
    program = trainers.Ours().tau_train()
    peer = None if arguments.ours_only else ensure_peer(STABLE_BASELINES3, cache=arguments.cache)
    os.environ[timed_envs.STEP_SECONDS] = str(STEP_SECONDS)
    outcomes = []
    for seed in arguments.seeds:
        for name, command in _ways(arguments, program, peer, seed):
            outcomes.append(gym.run(arguments.task, name, seed, command, arguments.longest))
            told = f"{gym.line(outcomes[-1])}; {outcomes[-1].samples_per_second:.0f} samples/s; {outcomes[-1].figures}"
            print(told, flush=True)
    text = table(arguments.task, outcomes)
    print("\n" + text)
    name = f"asynchronous-{arguments.task.replace('/', '-')}"
    tables.write(arguments, name, text, {"outcomes": [asdict(outcome) for outcome in outcomes]})
    return 0 if all(math.isfinite(one.steps) for one in outcomes if one.trainer.startswith("tau-train")) else 1


def _ways(arguments: argparse.Namespace, program: str, peer: Path | None, seed: int) -> Iterator[tuple[str, list[str]]]:
    """Name and command of each."""
    task, actors, samples = arguments.task, arguments.actors, arguments.samples_per_opt
    flags = ["--env", f"gym:tools.bench.timed_envs:Timed{task.split('/')[0]}", "--seed", str(seed), "--run-id", "run"]
    flags += ["--set", f"behaviors.*.hyperparameters.steps_per_update={samples}", "--num-areas", "1", "--quiet"]
    yield "tau-train, sync", [program, "learn", "config.yaml", *flags]
    own = ["--execution", "async", "--set", "async_trainer.eval_interval=0", "--set", "async_trainer.n_buffer=20"]
    for count in actors:
        yield f"tau-train, async, {count}", [program, "learn", "config.yaml", *flags, *own, "--actors", str(count)]
    for count in actors if peer is not None else ():
        words = [str(peer), str(ROOT / "tools" / "bench" / "drive_sb3.py"), task, str(seed)]
        words += [str(gym.TASKS[task].steps), str(count), str(samples)]
        yield f"Stable-Baselines3, SubprocVecEnv, {count}", words


def learns_with(task: str, trainer: str) -> str:
    """The settings to show with a figure, because they differ."""
    return TASKS[task][not trainer.startswith("tau-train")]


def table(task: str, outcomes: list[gym.Outcome]) -> str:
    """Markdown, medians over seeds."""
    rows = []
    base = [one.samples_per_second for one in outcomes if one.trainer == "tau-train, async, 1"]
    for name in dict.fromkeys(one.trainer for one in outcomes):
        runs = [one for one in outcomes if one.trainer == name]
        speeds = [one.samples_per_second for one in runs]
        lag = [float(text) for one in runs for text in _lag(one.figures)]
        rows.append(
            [
                f"{name}: {learns_with(task, name)}",
                tables.spread(speeds),
                tables.ratio(speeds, base),
                f"{sum(math.isfinite(one.steps) for one in runs)} of {len(runs)}",
                tables.spread([one.steps for one in runs]),
                tables.spread([one.seconds for one in runs], 1),
                tables.spread([one.from_command for one in runs], 1),
                f"{tables.number(tables.median(lag[::2]))}, {tables.number(max(lag[1::2]))}" if lag else "-",
            ]
        )
    header = ["trainer", "samples/s", "of one actor's", "reached", "steps", "seconds of playing"]
    return tables.markdown([*header, "seconds from the command", "policy lag in opts: mean, most"], rows)


def _lag(figures: str) -> list[str]:
    """Mean and maximum from tau-train's output: "policy lag 41 opts, at most 120"."""
    said = figures.partition("policy lag ")[2].replace(",", "").replace(" at most", "").split(" opts")
    return [text.strip() for text in said[:2]] if figures else []
