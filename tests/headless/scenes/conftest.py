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
        batch = scene.reset(parameters or EnvironmentParameters())
        played.batches.append(batch)
        for _ in range(steps):
            batch = scene.step(act(batch))
            lengths += 1
            ended = batch.terminals.agent_ids
            returns[ended] += batch.terminals.reward
            played.returns.extend(returns[ended].tolist())
            played.lengths.extend(lengths[ended].tolist())
            played.truncated.extend(batch.terminals.truncated.tolist())
            returns[ended], lengths[ended] = 0.0, 0
            returns[batch.agent_ids] += batch.reward
            played.batches.append(batch)
        return played

    return run
