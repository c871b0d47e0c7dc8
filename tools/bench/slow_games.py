"""Decisions and seconds to a mark, for games that cost time: `sac_ln` beside SAC, PPO and their incumbents.

    python -m tools.bench slow_games --learners sac_ln sac sac-equal ppo --seeds 1 2 3 --jobs 2
    python -m tools.bench slow_games --tasks balance gridworld hallway --step-ms 5 20 --jobs 1
    python -m tools.bench slow_games --tasks balance --learners sac_ln sac --seeds 1 2 3 4 5 --until 300000
    python -m tools.bench slow_games --tasks balance --agents 1 --set sac_ln:reward_signals.extrinsic.strength=100
    python -m tools.bench slow_games --read first/slow_games.json second/slow_games.json --output both

Every game tells of its episodes itself, so decisions are counted alike for all. A mark is reached when the mean return
of the newest episodes (12, 20 or 100, by their length) is at it and is again one whole window later; a run ends there,
or goes on to `--until`. *Window off*: decisions when the first episode of that window began; ratios are of these.
Ratios count a run that did not reach its mark as one that needs more than all that it was given.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from tools._bootstrap.progress import SetupError
from tools.bench import running, tables, timed_envs, trainers
from tools.bench.episodes import Reader, curve, falls, mark, means
from tools.bench.slow_report import Run, document, draw_all, line, read, report
from tools.bench.slow_tasks import INCUMBENT, LEARNERS, OURS, TASKS, settings
from tools.bench.timeline import Timeline
from tools.bench.trainers import Case, Job
from tools.peers import CACHE, MLAGENTS, ROOT, SBX, ensure_peer, find_peer, find_python

LONGEST = 6 * 3600.0
_PORTS_APART = 20
_PATIENCE = 0.5
"""Seconds for a run to end; its policy is not needed."""
_LOOK_S = 0.1
"""Seconds between two checks for the end."""
_ROOM = 20_000
"""Decisions after the last counted one, for open episodes: the run is ended here, and need not export."""
_PLACES = ("read", "cache", "work", "output", "document")
"""Arguments that only name places of files."""
_NEEDS = {"LunarLander": "Box2D", "BipedalWalker": "Box2D", "Hopper": "mujoco", "HalfCheetah": "mujoco"}
"""Packages that play an environment, by the start of its name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of the runs."""

    work: Path
    peers: Mapping[str, Path]
    """The interpreters of other programs, by learner."""
    steps_per_update: float | str
    changes: tuple[str, ...]
    turns: bool
    device: str
    until: int
    """Decisions to continue to; 0: a run ends as soon as its mark is confirmed."""


def main() -> int:
    """Run the requested measurements, report them, and draw them."""
    arguments = parser().parse_args()
    if arguments.read:
        runs = [run for path in arguments.read for run in read(path)]
    else:
        os.environ["OMP_NUM_THREADS"] = "1"
        plan, asked = plan_of(arguments)
        runs = play_all(plan, asked, arguments)
    text = report(runs)
    print("\n" + text)
    write(arguments, runs, text)
    return 1 if any(run.failure for run in runs) or not runs else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK", help=", ".join(TASKS))
    made.add_argument(
        "--learners",
        nargs="+",
        choices=LEARNERS,
        metavar="NAME",
        help=f"{', '.join(LEARNERS)} (default: ours, and others that are installed; a named one is installed)",
    )
    made.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    made.add_argument("--step-ms", type=float, nargs="+", default=[0.0], help="what a step of the game costs")
    made.add_argument("--agents", type=int, nargs="+", help="of scenes (default: 12; basic 1, foodcollector 5)")
    made.add_argument(
        "--set", type=_assignment, nargs="+", default=[], metavar="KEY=VALUE", help="of ours; or LEARNER:KEY=VALUE"
    )
    rate = "decisions for a gradient step of sac_ln, sac-equal and sac-tuned, or auto (default: %(default)s)"
    made.add_argument("--steps-per-update", type=_rate, default=2.0, metavar="X", help=rate)
    made.add_argument("--turns", action="store_true", help="ours with --deterministic-collection")
    made.add_argument("--torch-device", default="cpu", help="where ours learns")
    made.add_argument("--most", type=int, help="decisions that a run is given (default: by task)")
    made.add_argument("--until", type=int, default=0, help="play on to so many decisions after the mark, count falls")
    made.add_argument("--jobs", type=int, default=1, help="runs side by side, each with one thread of mathematics")
    made.add_argument("--read", type=Path, nargs="+", help="play nothing: tables and pictures of these results")
    made.add_argument("--cache", type=Path, default=CACHE, help="where other programs are kept")
    made.add_argument("--work", type=Path, help="where runs leave their files (default: a temporary folder)")
    tables.add_output(made)
    return made


def _assignment(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"'{text}' is no KEY=VALUE")
    return text


def _rate(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is neither a number nor auto") from None


def plan_of(arguments: argparse.Namespace) -> tuple[Plan, list[Run]]:
    """Settings and runs; runs that cannot be played here are left out with a line.

    Raises:
        SetupError: a learner that was named cannot be installed.
    """
    peers = dict(_peers(arguments))
    learners = arguments.learners or [*OURS, *peers]
    plan = Plan(
        work=_work(arguments.work),
        peers=peers,
        steps_per_update=arguments.steps_per_update,
        changes=tuple(arguments.set),
        turns=arguments.turns,
        device=arguments.torch_device,
        until=arguments.until,
    )
    tasks = [task for task in arguments.tasks if _playable(task)]
    asked = []
    for task, step_ms, seed, learner in itertools.product(tasks, arguments.step_ms, arguments.seeds, learners):
        if not _plays(learner, task):
            continue
        most = arguments.until or arguments.most or TASKS[task].most
        several = (arguments.agents or [TASKS[task].agents]) if TASKS[task].scene else [1]
        asked += [Run(task, learner, seed, step_ms, agents, most) for agents in several]
    return plan, asked


def _work(asked: Path | None) -> Path:
    if asked is None:
        return Path(tempfile.mkdtemp(prefix="tau-slow-"))
    asked.mkdir(parents=True, exist_ok=True)
    return asked.resolve()


def _plays(learner: str, task: str) -> bool:
    """The incumbent plays only scenes, and CrossQ only continuous actions of Gymnasium."""
    if TASKS[task].scene:
        return learner != "sbx"
    return learner not in INCUMBENT and (learner != "sbx" or task != "LunarLander-v3")


def _playable(task: str) -> bool:
    module = next((needed for name, needed in _NEEDS.items() if task.startswith(name)), None)
    if module is None or importlib.util.find_spec(module) is not None:
        return True
    print(f"{task} is left out: {module} is not installed", flush=True)
    return False


def _peers(arguments: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """The named learners, which are installed if they are missing; otherwise those that are installed."""
    named, cache = arguments.learners, arguments.cache
    for learner in [name for name in named or LEARNERS if name not in OURS]:
        peer = MLAGENTS if learner in INCUMBENT else SBX
        python = find_python("3.10") if learner in INCUMBENT else sys.executable
        if python is not None:
            found = ensure_peer(peer, python, cache) if named else find_peer(peer, python, cache)
            if found is not None:
                yield learner, found
        elif named:
            raise SetupError("mlagents 1.1.0 needs Python 3.10 and none was found: install one.")


def play_all(plan: Plan, asked: Sequence[Run], arguments: argparse.Namespace) -> list[Run]:
    """Results of all runs, several at the same time; after Ctrl-C, of those that are done."""
    runs: list[Run] = []
    stop = threading.Event()
    with _signals() as ended, ThreadPoolExecutor(arguments.jobs) as pool:
        waiting = {pool.submit(play, plan, run, number, stop) for number, run in enumerate(asked)}
        try:
            while waiting and not ended:
                done, waiting = wait(waiting, _LOOK_S, FIRST_COMPLETED)
                for future in done:
                    runs.append(future.result())
                    print(f"[{len(runs)}/{len(asked)}] {line(runs[-1])}", flush=True)
                    write(arguments, runs)
            if ended:
                print("stopped", flush=True)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    return runs


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals that ask this process to end, as they come: its runs are in sessions of their own, and end with it.

    A signal that raises in the middle of a lock would break that lock, and one that comes just before a thread waits
    would not wake it: so signals are noted, and looked at.
    """
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, _: came.append(number)) for number in numbers]
    try:
        yield came
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def play(plan: Plan, run: Run, number: int, stop: threading.Event) -> Run:
    """One run, until its mark is confirmed or to its end; a failure is a result too."""
    folder = Path(tempfile.mkdtemp(prefix=f"{run.label}-", dir=plan.work))
    task = TASKS[run.task]
    reader = Reader(folder, task.behavior)

    def enough(_timeline: Timeline) -> bool:
        episodes = reader.read()
        if stop.is_set() or episodes.decisions >= run.most:
            return True
        return not plan.until and task.mark is not None and mark(episodes, task.mark, task.window) is not None

    try:
        command, variables = command_of(plan, run, folder, number)
        engines = int(bool(task.scene))
        played = running.play([command], folder, engines, LONGEST, enough, True, variables, _PATIENCE)
    except (running.RunFailedError, SetupError) as error:
        return replace(run, failure=str(error))
    shutil.rmtree(folder / "results", ignore_errors=True)  # replay memories are large
    return count(run, reader, played.started, played.ended, plan.until)


def command_of(plan: Plan, run: Run, folder: Path, number: int) -> tuple[list[str], dict[str, str]]:
    """The program of a run and its environment variables; writes its input files."""
    task = TASKS[run.task]
    variables = {timed_envs.FOLDER: str(folder), timed_envs.STEP_SECONDS: f"{run.step_ms / 1000:g}"}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    if run.learner == "sbx":
        script = ROOT / "tools" / "bench" / "drive_sbx.py"
        return [str(plan.peers["sbx"]), str(script), task.behavior, str(run.seed), str(run.most)], variables
    config = folder / "config.yaml"
    read_by_it = settings(run.task, run.learner, plan.steps_per_update, run.most + _ROOM, plan.changes)
    config.write_text(yaml.safe_dump(read_by_it, sort_keys=False), encoding="utf-8")
    build = Path(f"gym:tools.bench.timed_envs:Timed{task.behavior}")
    if task.scene:
        words = ["--agents", str(run.agents), "--report-episodes"]
        words += ["--step-ms", f"{run.step_ms:g}"] if run.step_ms else []
        build = running.reporting_build(folder, task.scene, words)
    port = running.free_ports(1, 6100 + _PORTS_APART * number)
    job = Job(Case(1, run.agents, run.step_ms), "learning", build, config, folder, port, run.seed)
    if run.learner in INCUMBENT:
        return trainers.Incumbent(plan.peers[run.learner]).commands(job)[0], {}
    ours = trainers.learn_flags(job)
    ours += [] if plan.device == "cpu" else ["--torch-device", plan.device]
    ours += ["--deterministic-collection"] if plan.turns else []
    return [sys.executable, "-P", "-m", "tau_trainer", "learn", *ours], variables


def count(run: Run, reader: Reader, started: float, ended: float, until: int) -> Run:
    """The result of a run, from its episodes."""
    task, episodes = TASKS[run.task], reader.read()
    if not len(episodes):
        return replace(run, failure="no episode ended")
    first, span = float(episodes.ended[0]), float(episodes.time[-1] - episodes.time[0])
    newest = means(episodes, min(task.window, len(episodes)))
    run = replace(
        run,
        played=episodes.decisions,
        whole=ended - started,
        end=float(newest[-1]),
        rate=(episodes.decisions - first) / span if span > 0 else math.nan,
        curve=curve(episodes, task.window, started),
    )
    if until and task.lost_below is not None:
        run = replace(run, falls=falls(episodes, task.lost_below))
    found = None if task.mark is None else mark(episodes, task.mark, task.window)
    if found is None:
        return run
    return replace(run, decisions=found.decisions, begun=found.begun, seconds=found.time - started)


def write(arguments: argparse.Namespace, runs: Sequence[Run], text: str = "") -> None:
    """Write the results as JSON, and tables and pictures if there are any."""
    asked = {key: value for key, value in vars(arguments).items() if key not in _PLACES}
    if not text:
        arguments = argparse.Namespace(output=arguments.output, document=None)
    tables.write(arguments, "slow_games", text, {"asked": asked, "runs": document(runs)})
    if text:
        (arguments.output / "slow_games.md").write_text(text + "\n", encoding="utf-8")
        for path in draw_all(runs, arguments.output):
            print(f"drawn: {path}")
