"""Demonstrations to test with."""

from __future__ import annotations

import numpy as np

from tau_trainer.bridge.demonstrations import Demonstration
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, ObservationSpec

HYBRID = BehaviorSpec(
    "Hybrid?team=1", (ObservationSpec("a", (3,)), ObservationSpec("b", (2, 2))), ActionSpec(2, (3, 200))
)


def made_up(spec: BehaviorSpec = HYBRID, lengths: tuple[int, ...] = (4, 3, 5), seed: int = 0) -> Demonstration:
    """Random episodes: so many records each, of which the last ends it; every second one by a limit, the last not."""
    rng, count = np.random.default_rng(seed), sum(lengths)
    last = np.cumsum(lengths) - 1
    begins, ended, truncated = np.zeros((3, count), np.bool_)
    begins[last - np.array(lengths) + 1] = True
    ended[last[:-1]] = True
    truncated[last[1:-1:2]] = True
    obs = tuple(
        rng.integers(0, 256, (count, *sensor.shape)).astype(np.uint8)
        if sensor.dtype == np.uint8
        else rng.standard_normal((count, *sensor.shape), np.float32)
        for sensor in spec.observations
    )
    actions = Actions.zeros(spec.actions, count)
    actions.continuous[~ended] = rng.uniform(-1, 1, (count - int(ended.sum()), spec.actions.continuous_size))
    for branch, size in enumerate(spec.actions.discrete_branches):
        actions.discrete[~ended, branch] = rng.integers(0, size, count - int(ended.sum()))
    mask = None
    if spec.actions.mask_size:
        mask = (rng.random((count, spec.actions.mask_size)) < 0.2) & ~ended[:, None]
    reward = rng.standard_normal(count, np.float32)
    return Demonstration(spec, obs, reward, begins, ended, truncated, actions, mask)
