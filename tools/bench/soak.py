"""A run on a private cluster of three raylets of which one is killed every 20 seconds, and another takes its place.

    python -m tools.bench soak [--minutes 10] [--every 20]

SAC learns `balance` from engines under three actors, each on a raylet of its own. Of the two beside the head's the
older is killed each time, so its actor has to begin again on the one that has just come. What must hold: all that was
pushed was learned from and counted, the trainer's memory does not grow once its replay memory is full, nothing of it
runs in the end, and the run's exit code is 0.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tau_trainer.cluster import connection as connecting
from tau_trainer.cluster.address import environment_of
from tau_trainer.metrics import Event, Recorder
from tau_trainer.runs.checkpoints import latest_checkpoint
from tau_trainer.settings import ClusterSettings, load_settings
from tau_trainer.training.manager import ParallelTrainerManager
from tools.bench import tables

_FILE = """
behaviors:
  3DBall:
    trainer_type: sac
    hyperparameters: {batch_size: 64, buffer_size: 20000, steps_per_update: 100, save_replay_buffer: true}
    network_settings: {hidden_units: 64}
    max_steps: 1000000000
    checkpoint_interval: 100000
    summary_freq: 50000
env_settings:
  {env_path: "headless:balance", env_args: ["--step-ms", "20"], restarts_rate_limit_n: 1000, max_lifetime_restarts: -1}
async_trainer: {actors: 3, eval_interval: 0}
"""
_NODES = 3
_RESOURCES = {"cpu": 0.9}
"""Processors of each actor: a raylet has room for one."""
_REST_S = 2.0
_GROWTH = 1.05
"""Maximum ratio of the median memory of the last third to that of the middle third."""


@dataclass
class Heard(Recorder):
    """Keeps the warnings."""

    warnings: list[str] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        """Add a raylet."""
        if event.kind == "warning" and event.message is not None:
            self.warnings.append(event.message)


def main() -> int:
    """Run it and print the results; exit code 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two deaths")
    tables.add_output(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tau-soak-") as name:
        seen = soak(Path(name), 60.0 * arguments.minutes, arguments.every)
    rows = [[name, str(value)] for name, value in seen.items() if not isinstance(value, list)]
    text = tables.markdown(["", "seen"], rows)
    print(text)
    tables.write(arguments, "soak", text, seen)
    return 0 if all(value is True for name, value in seen.items() if name.endswith("?")) else 1


def soak(folder: Path, seconds: float, every: float) -> dict[str, Any]:
    """Results by name; those with a question mark must be true."""
    file = folder / "soak.yaml"
    file.write_text(_FILE, "utf-8")
    cluster = {"cluster.address": f"local:{_NODES}", "cluster.resources": _RESOURCES}
    given = {"checkpoint_settings.results_dir": str(folder), "checkpoint_settings.run_id": "soak"}
    settings, heard = load_settings(file, cluster | given), Heard()
    made = connecting.Cluster(ClusterSettings(address=f"local:{_NODES}", resources=_RESOURCES))
    connecting.Cluster = lambda _: made  # type: ignore[assignment,misc]  # the run's own, to do damage
    home = made.home
    assert home is not None
    try:
        session = ParallelTrainerManager().start(settings, "learn", recorders=lambda _: [heard])
        memory, decisions, killed, nodes = list[int](), list[int](), 0, list[Any]()
        begun, due = time.monotonic(), time.monotonic() + 3.0 * every
        with connecting.variables(environment_of(made.settings)):
            while time.monotonic() < begun + seconds and session.running:
                time.sleep(_REST_S)
                memory.append(resident(os.getpid()))
                decisions.append(session.status().decisions)
                if time.monotonic() >= due:
                    due += every
                    killed += 1
                    lost = f"local-{1 + killed}"  # the oldest; the first has the head and stays
                    for raylet in running("raylet", f"--node-name={lost}", home):
                        os.kill(raylet, signal.SIGKILL)
                    nodes.append(connecting.start_node(f"local-{_NODES + killed}", made.head, home, 1))
                    print(f"{time.monotonic() - begun:.0f} s: {lost} killed, {decisions[-1]:,} decisions", flush=True)
        went_on = session.running
        session.cancel()
        report = session.wait()
        connecting.end_nodes(nodes)
    finally:
        made.close()
    checkpoint = latest_checkpoint(folder / "soak" / "checkpoints", "3DBall").checkpoint
    assert checkpoint is not None
    learner, pairs = checkpoint.manifest["learner"], checkpoint.manifest["pairs"]
    third = len(memory) // 3
    middle, last = (statistics.median(part) for part in (memory[third : 2 * third], memory[2 * third :]))
    until = time.monotonic() + 150.0  # helpers of Ray stay for up to two minutes
    while (left := list(running("tau", home))) and time.monotonic() < until:
        time.sleep(_REST_S)
    return {
        "seconds": round(seconds),
        "raylets killed": killed,
        "decisions": report.decisions,
        "restarts": sum(pair.restarts for pair in report.pairs),
        "MB, middle third and last": f"{middle / 1e6:.0f}, {last / 1e6:.0f}",
        "longest time without a decision, s": _REST_S * longest_rest(decisions),
        "the run went on to its end?": went_on,
        "exit code 0?": report.exit_code == 0,
        "all that was pushed was learned from?": learner["algorithm"]["seen"] == learner["samples"],
        "all decisions counted?": sum(pairs.values()) == learner["decisions"] == report.decisions,
        "memory flat?": last <= _GROWTH * middle,
        "nothing left?": not left,
        "memory": memory,
        "every warning": heard.warnings,
    }


def longest_rest(counts: list[int]) -> int:
    """Longest series of samples in which a started count did not grow."""
    longest = rest = 0
    for before, after in itertools.pairwise(counts):
        rest = rest + 1 if after == before > 0 else 0
        longest = max(longest, rest)
    return longest


def resident(pid: int) -> int:
    """Bytes of a process's own resident memory; only on Linux."""
    shown = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return sum(1024 * int(line.split()[1]) for line in shown if line.startswith("RssAnon:"))


def running(*words: str) -> Iterator[int]:
    """Processes whose command lines contain all of these."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if all(word in line for word in words):
            yield int(folder.name)


if __name__ == "__main__":
    raise SystemExit(main())
