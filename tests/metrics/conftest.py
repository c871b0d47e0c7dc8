"""Snapshots, results and a recorder that remembers, for every test of this folder."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tau_trainer.metrics import (
    BaselineScore,
    BehaviorSnapshot,
    PairMetrics,
    PairState,
    RunReport,
    RunSnapshot,
    RunView,
)
from tau_trainer.metrics.snapshot import Usage
from tests.remembering import Memory

BASELINES = {
    "zeros": BaselineScore(-0.1, 0.033),
    "constant": BaselineScore(0.12, 0.167),
    "majority": BaselineScore(0.1, 0.167),
    "ridge": BaselineScore(0.72, 0.96),
}


def make_snapshot(pairs: int = 4, command: str = "parallel") -> RunSnapshot:
    return RunSnapshot(
        run_id="tau-01",
        command=command,
        subject="data tau.json",
        seed=7,
        elapsed_s=12.3,
        decisions=1000 * pairs,
        max_decisions=2000 * pairs,
        decisions_per_second=250.0 * pairs,
        eta_s=8.2,
        policy_version=123,
        policy_age=0.41,
        held_seconds=0.25,
        update_seconds=5.31,
        time_shares={"game": 0.62, "acting": 0.3, "waiting": 0.08, "learning": 0.45},
        usage=Usage(1.42, 2, 412_000_000),
        pairs=tuple(
            PairMetrics(i, PairState.FAILED if i == 2 else PairState.TRAINING, 1000, 0.5 + 0.001 * i, 0.25, 250.0)
            for i in range(pairs)
        ),
        columns=("success",),
        behaviors=(BehaviorSnapshot("TauAgent", 1000 * pairs, 2000 * pairs, 3, 0.7),),
        validation_accuracy=0.913,
        baselines=BASELINES,
        message="waiting for the engine",
    )


def make_result(run_dir: Path = Path("results/tau-01")) -> RunReport:
    return RunReport(
        run_id="tau-01",
        folder=run_dir,
        command="parallel",
        outcome="completed",
        decisions=200_000,
        wall_seconds=61.0,
        decisions_per_second=3278.7,
        verdict="The policy beats every baseline.",
        evaluation={"reward": 0.7, "accuracy": 0.93, "accuracy_train": 0.97},
        baselines=BASELINES,
        behaviors=(BehaviorSnapshot("TauAgent", 200_000, 200_000, 80, 0.7),),
        files={"policy": run_dir / "TauAgent.onnx"},
        errors=("pair 2: the engine exited by itself",),
    )


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def snapshot() -> Callable[..., RunSnapshot]:
    return make_snapshot


@pytest.fixture
def result() -> RunReport:
    return make_result()


@pytest.fixture
def console() -> Callable[..., Console]:
    """Makes consoles that write to memory: ``console(width=80, height=30, terminal=False)``."""

    def make(width: int = 80, height: int = 30, *, terminal: bool = False, ascii_only: bool = False) -> Console:
        raw = io.BytesIO()
        file = io.TextIOWrapper(raw, encoding="ascii" if ascii_only else "utf-8", write_through=True, newline="")
        return Console(
            file=file, width=width, height=height, force_terminal=terminal, color_system=None, legacy_windows=False
        )

    return make


@pytest.fixture
def text_of() -> Callable[[Console], str]:
    """What was written to a console of the ``console`` fixture so far."""

    def read(console: Console) -> str:
        file = console.file
        assert isinstance(file, io.TextIOWrapper)
        buffer = file.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode(file.encoding)

    return read


@pytest.fixture
def show(console: Callable[..., Console], text_of: Callable[[Console], str]) -> Callable[..., str]:
    """The text of a view on a new console: ``show(view, width=80, height=30)``."""

    def printed(view: RunView, *size: int, ascii_only: bool = False) -> str:
        target = console(*size, ascii_only=ascii_only)
        target.print(view)
        return text_of(target)

    return printed
