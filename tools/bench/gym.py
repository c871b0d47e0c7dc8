"""Gymnasium environments up to a target: `tau-train learn` and Stable-Baselines3 with the settings of its zoo.

    python -m tools.bench gym [--tasks CartPole-v1 Pendulum-v1 LunarLander-v3] [--seeds 1 2 3] [--ours-only] [--rllib]

Both play the same environments, which record every ended episode (`timed_envs.py`). The target ("mark") is a mean
return over the last 20 episodes of training, so of a policy that still explores. Seconds count from the first
environment to the target; a run that finishes without reaching it is reported as such. Stable-Baselines3 is installed
once into its own environment under --cache.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from tools._bootstrap.environment import child_environment
from tools._bootstrap.progress import tail
from tools.bench import tables, timed_envs, trainers
from tools.peers import CACHE, RLLIB, ROOT, STABLE_BASELINES3, ensure_peer

EPISODES = 20
_POLL_SECONDS = 0.2
_STOP_SECONDS = 30.0
LONGEST = 1800.0


@dataclass(frozen=True, slots=True)
class Task:
    """An environment with a target."""

    mark: float
    steps: int
    """Steps in the zoo's settings and in ours."""
    config: str
    """Our settings file."""
    ours: str
    """Our learning settings."""
    theirs: str
    """Their learning settings."""


_OFF_POLICY = "1 copy, a gradient step of {} for each step, {} units"
_NOISY = "1 copy, after each episode a gradient step of 256 for each of its steps, 400 and 300 units"
TASKS = {
    "CartPole-v1": Task(
        475.0,
        100_000,
        "CartPole",
        "PPO, 16 copies, 10 epochs of 16 minibatches of 64, 2 x 64 units",
        "PPO, 8 copies, 20 epochs of one minibatch of 256, 2 x 64 units",
    ),
    "CartPole-v1/dqn": Task(
        475.0,
        50_000,
        "CartPoleDQN",
        "double DQN, 8 copies, rewards of 3 steps, a gradient step of 128 for 2 steps, 2 x 256 units",
        "DQN, 1 copy, rewards of 1 step, 128 gradient steps of 64 after every 256 steps, 2 x 256 units",
    ),
    "Pendulum-v1": Task(
        -200.0,
        20_000,
        "Pendulum",
        f"SAC, {_OFF_POLICY.format(256, '2 x 64')}",
        f"SAC, {_OFF_POLICY.format(256, '2 x 256')}",
    ),
    "Pendulum-v1/ddpg": Task(
        -200.0, 20_000, "PendulumDDPG", f"DDPG, {_OFF_POLICY.format(256, '2 x 64')}", f"DDPG, {_NOISY}"
    ),
    "Pendulum-v1/td3": Task(
        -200.0, 20_000, "PendulumTD3", f"TD3, {_OFF_POLICY.format(256, '2 x 64')}", f"TD3, {_NOISY}"
    ),
    "LunarLander-v3": Task(
        200.0,
        1_000_000,
        "LunarLander",
        "PPO, 16 copies, 6 epochs of minibatches of 256 of 8,192 steps, 2 x 64 units",
        "PPO, 16 copies, 4 epochs of minibatches of 64 of 16,384 steps, 2 x 64 units",
    ),
}
"""By name: the environment, and after a slash the algorithm if it is not the usual one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run."""

    task: str
    trainer: str
    seed: int
    seconds: float = math.nan
    """From the first environment to the mark."""
    from_command: float = math.nan
    """Seconds from the command to the mark."""
    steps: float = math.nan
    """Steps until the mark."""
    score: float = math.nan
    """Mean return of the last episodes, when the run ended or was stopped."""
    samples_per_second: float = math.nan
    """See :func:`speed`."""
    megabytes: float = math.nan
    """Peak memory of all its processes, with shared memory in proportion; only on Linux."""
    figures: str = ""
    """Tau-train's figures about its learner, if actors were in separate processes."""
    failure: str = ""


def main() -> int:
    """Runs every task with every seed and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["CartPole-v1", "Pendulum-v1"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--ours-only", action="store_true", help="without Stable-Baselines3")
    parser.add_argument("--rllib", action="store_true", help="RLlib's PPO on CartPole too, with our numbers")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of its environment")
    tables.add_output(parser)
    arguments = parser.parse_args()
    program = trainers.Ours().tau_train()
    peer = None if arguments.ours_only else ensure_peer(STABLE_BASELINES3, cache=arguments.cache)
    rllib = ensure_peer(RLLIB, cache=arguments.cache) if arguments.rllib else None
    outcomes = []
    for task in arguments.tasks:
        for seed in arguments.seeds:
            outcomes.append(run(task, "tau-train", seed, [program, "learn", "config.yaml", *_flags(task, seed)]))
            print(line(outcomes[-1]), flush=True)
            if peer is not None:
                words = [str(peer), str(ROOT / "tools" / "bench" / "drive_sb3.py"), task, str(seed)]
                outcomes.append(run(task, "Stable-Baselines3", seed, [*words, str(TASKS[task].steps)]))
                print(line(outcomes[-1]), flush=True)
            if rllib is not None and task == "CartPole-v1":
                words = [str(rllib), str(ROOT / "tools" / "bench" / "drive_rllib.py"), task, str(seed), "2"]
                outcomes.append(run(task, "RLlib", seed, [*words, str(TASKS[task].steps)]))
                print(line(outcomes[-1]), flush=True)
    text = table(outcomes)
    print("\n" + text)
    tables.write(arguments, "gym", text, {"outcomes": [asdict(outcome) for outcome in outcomes]})
    return 0 if all(math.isfinite(one.steps) for one in outcomes if one.trainer == "tau-train") else 1


def _flags(task: str, seed: int) -> list[str]:
    env = f"gym:tools.bench.timed_envs:Timed{task.split('/')[0]}"
    return ["--env", env, "--seed", str(seed), "--run-id", "run", "--quiet"]


def run(task: str, trainer: str, seed: int, command: list[str], longest: float = LONGEST) -> Outcome:
    """One run until the mark, or to its end, or for ``longest`` seconds."""
    with tempfile.TemporaryDirectory(prefix="tau-gym-") as name:
        folder = Path(name)
        episodes, log = folder / "episodes", folder / "program.log"
        episodes.mkdir()
        config, environment = trainers.write_config(folder / "config.yaml", TASKS[task].config, {}), task.split("/")[0]
        text = config.read_text(encoding="utf-8").replace(f"{environment}:", f"Timed{environment}:")
        config.write_text(text, encoding="utf-8")
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        variables = {**child_environment(), timed_envs.FOLDER: str(episodes), "PYTHONPATH": paths}
        began, megabytes = time.time(), math.nan
        with log.open("wb") as stream:
            program = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, cwd=folder, env=variables
            )
        try:
            while program.poll() is None and time.time() < began + longest and not _reached(task, episodes):
                time.sleep(_POLL_SECONDS)
                megabytes = max(resident(str(episodes)), megabytes)
            code = program.poll()
        finally:
            _stop(program)
        if code not in (None, 0):
            return Outcome(task, trainer, seed, failure=f"exit code {code}:\n{tail(log)}")
        figures = _figures(folder / "results" / "run" / "log.jsonl")
        found = outcome(task, trainer, seed, began, episodes)
        return replace(found, samples_per_second=speed(episodes), figures=figures, megabytes=megabytes)


def _figures(log: Path) -> str:
    events = [json.loads(text) for text in log.read_text(encoding="utf-8").splitlines()] if log.is_file() else []
    told = [event["fields"]["message"] for event in events if event.get("kind") == "actors"]
    return told[0] if told else ""


def resident(mark: str) -> float:
    """Megabytes of all processes with ``mark`` in their environment, shared memory in proportion; 0: unknown."""
    kilobytes = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                shown = (folder / "smaps_rollup").read_text("utf-8").splitlines()
                kilobytes += sum(int(line.split()[1]) for line in shown if line.startswith("Pss:"))
        except OSError:
            continue
    return kilobytes / 1000


def speed(folder: Path) -> float:
    """Steps per second of all environments, each over its whole episodes since the last environment was made."""
    files = [path.read_text().splitlines() for path in folder.iterdir()]
    tables_of = [np.array([text.split() for text in lines if text.count(" ") == 4], float) for lines in files]
    together = max((rows[0, 0] for rows in tables_of if len(rows)), default=0.0)
    since = [rows[rows[:, 0] > together] for rows in tables_of if len(rows)]
    rates = [rows[1:, 1].sum() / (rows[-1, 0] - rows[0, 0]) for rows in since if len(rows) > 1]
    return sum(rates) if len(rates) == len(tables_of) and rates else math.nan


def _reached(task: str, folder: Path) -> bool:
    return math.isfinite(outcome(task, "", 0, 0.0, folder).steps)


def _stop(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    try:
        program.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def outcome(task: str, trainer: str, seed: int, began: float, folder: Path) -> Outcome:
    """The outcome in the environments' files."""
    rows = [text.split() for path in folder.iterdir() for text in path.read_text().splitlines() if text.count(" ") == 4]
    whole = np.array([row for row in rows if len(row) == 5], float).reshape(-1, 5)
    whole = whole[np.argsort(whole[:, 0], kind="stable")]
    ended = whole[whole[:, 1] > 0]
    if len(ended) < EPISODES:
        return Outcome(task, trainer, seed)
    means = np.convolve(ended[:, 2], np.full(EPISODES, 1.0 / EPISODES), "valid")
    steps = np.cumsum(ended[:, 1])[EPISODES - 1 :]
    good = np.flatnonzero((means >= TASKS[task].mark) & (steps <= TASKS[task].steps))
    if not len(good):
        return Outcome(task, trainer, seed, score=float(means[-1]))
    at = int(good[0])
    moment = float(ended[at + EPISODES - 1, 0])
    return Outcome(task, trainer, seed, moment - whole[0, 0], moment - began, float(steps[at]), float(means[at]))


def line(one: Outcome) -> str:
    """One line for each run, printed during the benchmark."""
    if one.failure:
        return f"{one.task} {one.trainer} seed {one.seed}: {one.failure}"
    if not math.isfinite(one.steps):
        return f"{one.task} {one.trainer} seed {one.seed}: NOT reached, {one.score:.1f} at the end"
    return f"{one.task} {one.trainer} seed {one.seed}: {one.steps:,.0f} steps, {one.seconds:.1f} s"


def learns_with(task: str, trainer: str) -> str:
    """The settings to show with a figure, because they differ."""
    if trainer == "RLlib":
        return "our PPO's numbers, 16 copies in 2 processes"
    return TASKS[task].ours if trainer.startswith("tau-train") else TASKS[task].theirs


def table(outcomes: list[Outcome]) -> str:
    """Markdown, medians over seeds; runs that did not reach the target do not count."""
    rows = []
    for task, trainer in dict.fromkeys((one.task, one.trainer) for one in outcomes):
        runs = [one for one in outcomes if (one.task, one.trainer) == (task, trainer)]
        ours = [one for one in outcomes if (one.task, one.trainer) == (task, "tau-train")]
        rows.append(
            [
                f"{task}, {TASKS[task].mark:g}",
                f"{trainer}: {learns_with(task, trainer)}",
                f"{sum(math.isfinite(one.steps) for one in runs)} of {len(runs)}",
                tables.spread([one.steps for one in runs]),
                tables.spread([one.seconds for one in runs], 1),
                tables.ratio([one.seconds for one in ours], [one.seconds for one in runs]),
                tables.spread([one.from_command for one in runs], 1),
                tables.spread([one.samples_per_second for one in runs]),
                tables.spread([one.megabytes for one in runs]),
            ]
        )
    header = ["task and mark", "trainer and what it learns with", "reached", "steps", "seconds of playing"]
    header += ["tau-train's share of them"]
    return tables.markdown([*header, "seconds from the command", "steps a second", "MB"], rows)
