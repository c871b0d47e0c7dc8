"""Runs as their files tell of them, made without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.files import atomic_write_json
from tau_trainer.metrics import BaselineScore, JsonLines, MetricsHub, RunReport, TaskKeys
from tau_trainer.runs.checkpoints import save_checkpoint
from tau_trainer.settings import dump_settings, load_settings

TASK = TaskKeys("Tau/Mean Reward", "Tau/Success Rate", "Tau/Aggregated Reward")
BASELINES = {"zeros": BaselineScore(-0.1, 0.03), "ridge": BaselineScore(0.7, 0.96)}
EVALUATION = {
    "rows": 99,
    "rows_validation": 99,
    "rows_train": 1584,
    "reward": 0.5,
    "accuracy": 0.9,
    "accuracy_by_domain": {"Grammar": 0.75},
    "strongest": "ridge",
    "baselines": {"zeros": {"reward": -0.1, "accuracy": 0.02}, "ridge": {"reward": 0.7, "accuracy": 0.96}},
    "exported": "best",
    "policies": {"best": {"decisions": 4000, "accuracy": 0.9, "reward": 0.5}},
    "pairs": {"0": {"decisions": 2500, "validation_accuracy": 0.88}},
}


def summaries(hub: MetricsHub, behavior: str = "TauAgent", count: int = 5, pairs: int = 2, seed: int = 0) -> None:
    """``count`` summaries, 1000 decisions apart, with every kind of scalar."""
    rng = np.random.default_rng(seed)
    for number in range(1, count + 1):
        for pair in range(pairs):
            hub.add(behavior, "Tau/Mean Reward", rng.normal(0.1 * number, 0.1, 20), pair=pair)
            hub.add(behavior, "Tau/Success Rate", rng.random(20) < 0.1 * number, pair=pair)
            hub.episode(behavior, pair, rng.normal(number, 1.0, 5), rng.integers(10, 20, 5))
        hub.add(behavior, "Losses/Policy Loss", rng.normal())
        hub.add(behavior, "Policy/Entropy", 2.0 / number)
        hub.add(behavior, "Validation/Accuracy", 0.15 * number)
        hub.add_all(behavior, {"Perf/Update Seconds": 0.25, "Perf/Held Seconds": 0.125, "Train/KL": 0.01})
        hub.add(behavior, "Perf/Update Seconds", 0.75)
        hub.keep("Environment/Lesson Number/height", float(number // 3))
        for agent in range(3):
            hub.add(behavior, f"Tau/Pair {agent}/Mean Reward", 0.1 * number + agent)
        hub.flush(behavior, 1000 * number)


def write_run(folder: Path, seed: int = 0, *, result: bool = True, pairs: int = 2, **overrides: Any) -> Path:
    """A whole run of the Tau task; ``overrides``: of its settings, dots of keys written ``__``."""
    folder.mkdir(parents=True, exist_ok=True)
    given = {"env_settings.seed": seed, "checkpoint_settings.run_id": folder.name}
    given |= {key.replace("__", "."): value for key, value in overrides.items()}
    (folder / "configuration.yaml").write_text(dump_settings(load_settings("tau3", given)), "utf-8")
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        hub.task(TASK)
        hub.baselines(BASELINES)
        for pair in range(pairs):
            hub.event("pair", pair=pair, state="Training")
        summaries(hub, pairs=pairs, seed=seed)
        hub.event("lesson", message="height: lesson 2 of 2, Tall")
        if result:
            for pair in range(pairs):
                hub.event("pair", pair=pair, state="Completed")
            hub.result(
                RunReport(folder.name, folder, "parallel", "completed", 5000, 12.5, 400.0, verdict="It beats zeros.")
            )
    if result:
        atomic_write_json(folder / "evaluation.json", EVALUATION)
    machine = {"cpu": "A processor", "cores": 2, "usable_cores": 2, "memory_bytes": 8e9, "gpus": []}
    told = {"started": "2026-11-22T10:36:05+00:00", "command": ["tau-train", "parallel"], "seed": seed}
    atomic_write_json(folder / "run.json", {**told, "versions": {"torch": "2.13.0"}, "hardware": machine})
    for step, accuracy in ((2000, 0.6), (4000, 0.8), (5000, 0.75)):
        learner = {"recent_scores": [{"Validation/Accuracy": accuracy}], "best": {"decisions": min(step, 4000)}}
        weights = {"model.weight": np.zeros(8, np.float32)}
        save_checkpoint(folder / "checkpoints", step, weights, {"learner": learner}, 0, name="TauAgent")
    return folder


def append(folder: Path, *records: Any) -> None:
    """Lines more at the end of a run's log."""
    with (folder / "log.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a whole run."""
    return write_run(tmp_path / "first")
