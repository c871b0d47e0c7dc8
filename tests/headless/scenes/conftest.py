"""Play scenes without a wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pytest

from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import LockstepScene
from tau_trainer.specs import Actions, StepBatch

Act = Callable[[StepBatch], Actions]


@dataclass(slots=True)
class Played:
    """What came of playing: the returns and lengths of the episodes that ended, and every batch."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)
    batches: list[StepBatch] = field(default_factory=list)


class Play(Protocol):
    """See :func:`play`."""

    def __call__(
        self, scene: LockstepScene, act: Act, steps: int, parameters: EnvironmentParameters | None = None
    ) -> Played: ...


@pytest.fixture
def play() -> Play:
    """Plays ``steps`` decisions of every agent."""

    def run(scene: LockstepScene, act: Act, steps: int, parameters: EnvironmentParameters | None = None) -> Played:
        played = Played()
        returns, lengths = np.zeros(scene.agents), np.zeros(scene.agents, np.int64)
        batches = scene.reset(parameters or EnvironmentParameters())
        played.batches += batches
        for _ in range(steps):
            batches = scene.step({batch.behavior: act(batch) for batch in batches})
            lengths += 1
            for ended in (batch.terminals for batch in batches):
                returns[ended.agent_ids] += ended.reward
                played.returns.extend(returns[ended.agent_ids].tolist())
                played.lengths.extend(lengths[ended.agent_ids].tolist())
                played.truncated.extend(ended.truncated.tolist())
                returns[ended.agent_ids], lengths[ended.agent_ids] = 0.0, 0
            for batch in batches:
                returns[batch.agent_ids] += batch.reward
            played.batches += batches
        return played

    return run
