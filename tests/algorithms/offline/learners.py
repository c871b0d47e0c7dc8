"""Learners from recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.offline.base import Offline
from tau_trainer.bridge.demonstrations import Demonstration
from tau_trainer.memory import NO_TRANSITIONS, Work
from tau_trainer.settings import trainer_type
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.demonstrations import demo_file
from tests.bridge.demos import made_up

HYBRID = BehaviorSpec(
    "Hybrid?team=1", (ObservationSpec("a", (3,)), ObservationSpec("b", (2,))), ActionSpec(2, (3, 200))
)


def learner(
    kind: str,
    folder: Path,
    demonstration: Demonstration,
    numbers: dict[str, Any] | None = None,
    network: dict[str, Any] | None = None,
    *,
    seed: int = 1,
    **more: Any,
) -> Any:
    settings = {
        "trainer_type": kind,
        "demo_path": demo_file(folder, demonstration),
        "hyperparameters": {"batch_size": 32, "learning_rate": 1e-3, **(numbers or {})},
        "network_settings": {"hidden_units": 16, **(network or {})},
        **more,
    }
    made = trainer_type(kind).settings.model_validate(settings)
    return make_algorithm(Setup(demonstration.spec, made, seed))


def hybrid(seed: int = 0) -> Demonstration:
    return made_up(HYBRID, lengths=(20, 30, 15, 25, 40, 10), seed=seed)


def everything(one: Any, held: Any = None) -> Any:
    """All that it learns from, or that it holds out, as one minibatch."""
    rows = one.replay if held is None else held
    return one._transitions(rows.take(np.arange(len(rows))))


KINDS = ["bc", "iql", "awac"]


def train(algorithm: Offline, steps: int, progress: float = 0.0) -> dict[str, float]:
    """Take gradient steps in one update."""
    return algorithm.update(Work(NO_TRANSITIONS, gradient_steps=steps), progress, None)
