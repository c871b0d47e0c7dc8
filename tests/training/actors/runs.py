"""Small runs with actors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from tau_trainer.metrics import PairState, RunReport
from tau_trainer.runs.session import Session
from tau_trainer.settings import RunSettings
from tau_trainer.training.actors.manager import ActorPair
from tests.training.fakes import Memory, begin, newest, pairs_of, settings_from
from tests.waiting import HANG_S

FILE = """
behaviors:
  Count-v0:
    trainer_type: sac
    hyperparameters: {batch_size: 8, buffer_size: 200000, steps_per_update: 4.0, save_replay_buffer: true}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 100000
    summary_freq: 100
env_settings: {env_path: "gym:tests.training.toys:Count-v0", seed: 7, restarts_rate_limit_n: 3}
execution: async
async_trainer: {actors: 2, n_buffer: 20, eval_interval: 0, sync_interval: 10}
"""


def settings_of(results: Path, run_id: str = "run", file: str = FILE, **overrides: Any) -> RunSettings:
    """Keys with __ in place of dots."""
    return settings_from(file, results, run_id, **overrides)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def saved(results: Path, run_id: str = "run") -> dict[str, Any]:
    checkpoint = newest(results / run_id, "Count-v0")
    return {**checkpoint.manifest["learner"], "pairs": checkpoint.manifest["pairs"], "tensors": checkpoint.tensors}


def actors_of(session: Session) -> list[ActorPair]:
    return [cast(ActorPair, pair) for pair in pairs_of(session).parallel.pairs]


def playing(session: Session) -> bool:
    return all(actor.state is PairState.TRAINING and actor.tally.decisions for actor in actors_of(session))


def train_long(settings: RunSettings, memory: Memory | None = None) -> RunReport:
    return begin(settings, memory, "learn").wait(HANG_S)
