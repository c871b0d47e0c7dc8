"""Answers near the target and far from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.tau.batched import TauBatched


def answers(env: TauBatched, generator: np.random.Generator) -> NDArray[np.float32]:
    """Near the target, far from it, and beyond what can be answered."""
    right = env.target(env.state)[:, 0].numpy()
    noise = generator.normal(0.0, 1.0, right.shape) * generator.choice([0.0, 0.1, 1.5], (len(right), 1))
    return np.asarray(right + noise, np.float32)
