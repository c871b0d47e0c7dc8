"""Benchmarks on a GPU: tables and JSON within ten minutes, without a network.

    python -m tools.bench accelerator [--sections tag profile] [--device cuda] [--minutes 10] [--seconds 3]

Batched PPO, A2C and DQN uncompiled, compiled and as CUDA graphs; both games of tag; a population; image encoders; the
learner of engines' runs; `--devices` with NCCL; a profile of rollouts, in which nothing may wait for the device;
memory. Without a GPU it runs on the CPU with small sizes, and its rows list the omitted parts.

Each section runs in its own process (`accelerator_sections.py`): if one fails, crashes or hangs, a row reports it, and
the others continue. A section can use its share of the remaining time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # started by its path: files next to it have the names of other modules
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.bench import tables
from tools.peers import ROOT

SECTIONS = {
    "algorithms": "PPO, A2C and DQN on CartPole's copies, learning",
    "tag": "both games of tag",
    "populations": "many policies that learn side by side",
    "images": "encoders of images: learning from 3 x 84 x 84 pixels",
    "learner": "the learner of engines' runs",
    "devices": "`tau-train batch --devices N`",
    "profile": "what waits for the host within a rollout",
    "memory": "training CartPole: memory at its peak",
}
_WEIGHTS = {"algorithms": 3.0, "tag": 2.0}
"""Weights of sections' shares of the time, if not 1: compiling takes long."""
_GRACE_S = 10.0
"""Seconds for a section to end by itself once its time is up."""
_PATIENCE_S = 5.0
"""Seconds for an interrupted section to end its own processes."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, or why there is none."""

    section: str
    what: str
    values: tuple[float, ...] = ()
    """One value for each unit; empty: nothing was measured."""
    units: tuple[str, ...] = ()
    note: str = ""
    """What was omitted, what it is compared with, or how it failed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Options of every section."""

    device: str
    seconds: float
    """Seconds to measure each figure."""
    limit_s: float = math.inf
    """Seconds after which a section starts no further figure."""
    begun: float = field(default_factory=time.monotonic)

    @property
    def small(self) -> bool:
        """Whether sizes are for a CPU."""
        return self.device == "cpu"

    @property
    def over(self) -> bool:
        """Whether its time is up."""
        return time.monotonic() - self.begun > self.limit_s


def main() -> int:
    """Measures, prints the tables, writes the JSON file; exit code 1 if a section failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--device", help="cpu, cuda or cuda:N; default: the first GPU, else the CPU")
    parser.add_argument("--minutes", type=float, default=10.0, help="total time")
    parser.add_argument("--seconds", type=float, help="per figure; default: 3, or 0.5 on a CPU")
    tables.add_output(parser)
    arguments = parser.parse_args()
    device, where = found(arguments.device)
    plan = Plan(device, arguments.seconds or (0.5 if device == "cpu" else 3.0), 60.0 * arguments.minutes)
    print(where, flush=True)
    rows = []
    for row in measured(arguments.sections, plan):
        rows.append(row)
        print(line(row), flush=True)
    text = f"{where}\n\n{table(rows)}"
    print("\n" + text)
    tables.write(arguments, "accelerator", text, {"device": where, "rows": [asdict(row) for row in rows]})
    return int(any(row.note.startswith("failed") for row in rows))


def found(asked: str | None) -> tuple[str, str]:
    """The device, and its description."""
    import torch

    device = asked or ("cuda" if torch.cuda.is_available() else "cpu")
    if not device.startswith("cuda"):
        return device, f"Device {device}: no figures of a GPU, and small sizes."
    if not torch.cuda.is_available():
        return device, f"Device {device}: torch {torch.__version__} finds no GPU here."
    gpu = torch.cuda.get_device_properties(device)
    count = torch.cuda.device_count()
    return device, (
        f"Device {device}: {gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, one of {count}; CUDA {torch.version.cuda}."
    )


def measured(sections: Sequence[str], plan: Plan) -> Iterator[Row]:
    """The rows of all sections; unused time goes to the other sections."""
    for index, name in enumerate(sections):
        left = plan.limit_s - (time.monotonic() - plan.begun)
        if left <= 0.0:
            yield Row(name, SECTIONS[name], note="left out: the time was over")
            continue
        weights = [_WEIGHTS.get(each, 1.0) for each in sections[index:]]
        share = max(1.0, left * weights[0] / sum(weights) - _GRACE_S)
        yield from section(name, command(name, replace(plan, limit_s=share)), share + _GRACE_S)


def command(name: str, plan: Plan) -> list[str]:
    """The command line of a section's process."""
    told = {"device": plan.device, "seconds": plan.seconds, "limit_s": plan.limit_s}
    return [sys.executable, "-m", "tools.bench.accelerator_sections", name, json.dumps(told)]


def section(name: str, words: Sequence[str], limit_s: float) -> Iterator[Row]:
    """The rows that such a process prints (JSON, one per line), and a row about a failure, if any."""
    ended = False

    def end() -> None:
        nonlocal ended
        ended = True
        stop(process)

    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said: list[str] = []
        hearing = threading.Thread(target=_hear, args=(process.stderr, said), daemon=True)
        hearing.start()
        timer = threading.Timer(limit_s, end)
        timer.start()
        try:
            for text in process.stdout:
                row = _row(name, text)
                if row is not None:
                    yield row
            process.wait()
        finally:
            timer.cancel()
            stop(process)
        hearing.join(_GRACE_S)
    if ended:
        yield Row(name, SECTIONS[name], note=f"failed: not done after {limit_s:.0f} s, and ended")
    elif process.returncode:
        last = next((words for words in reversed(said) if words.strip()), "without a word").strip()
        yield Row(name, SECTIONS[name], note=f"failed: exit code {process.returncode}: {last[:200]}")


def stop(process: subprocess.Popen[str]) -> None:
    """End the process and its children; first it gets time to end them itself."""
    if process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
            process.send_signal(signal.SIGINT)
            process.wait(_PATIENCE_S)
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _hear(stream: Iterable[str], said: list[str]) -> None:
    for text in stream:
        said.append(text)
        del said[:-50]


def _row(name: str, text: str) -> Row | None:
    """The row in a line; None if a library has printed the line."""
    try:
        told: dict[str, Any] = json.loads(text)
        return Row(name, told["what"], tuple(told["values"]), tuple(told["units"]), told["note"])
    except (ValueError, TypeError, KeyError):
        return None


def line(row: Row) -> str:
    """One line for each figure while the benchmark goes on."""
    return f"{row.section}: {row.what}: {figures(row)}" + (f" ({row.note})" if row.note else "")


def figures(row: Row) -> str:
    """The figures with their units."""
    both = zip(row.values, row.units, strict=True)
    return ", ".join(f"{tables.number(value, 0 if value >= 100 or value == 0 else 2)} {unit}" for value, unit in both)


def table(rows: Iterable[Row]) -> str:
    """Markdown, a table for each section."""
    rows = list(rows)
    parts = []
    for name in dict.fromkeys(row.section for row in rows):
        of_section = [[row.what, figures(row) or "-", row.note] for row in rows if row.section == name]
        parts.append(f"**{name}**: {SECTIONS[name]}\n\n{tables.markdown(['what', 'measured', 'notes'], of_section)}")
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
