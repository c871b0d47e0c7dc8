"""Play a scene of one behavior batch by batch, without a wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tau_trainer.headless.parameters import EnvironmentParameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tau_trainer.headless.scene import Scene
    from tau_trainer.specs import Actions, StepBatch


def begin(scene: Scene, parameters: EnvironmentParameters | None = None) -> StepBatch:
    """The batch after a reset."""
    (batch,) = scene.reset(parameters or EnvironmentParameters())
    return batch


def step(scene: Scene, actions: Actions) -> StepBatch:
    """The batch after these actions."""
    (batch,) = scene.step({scene.specs[0].name: actions})
    return batch


def assert_own(few: Sequence[StepBatch], many: Sequence[StepBatch], agents: int = 3) -> None:
    """What so many agents met does not depend on how many others there are."""
    for one, other in zip(few, many, strict=True):
        kept = other.agent_ids < agents
        np.testing.assert_array_equal(one.agent_ids, other.agent_ids[kept])
        for left, right in zip((one.reward, *one.obs), (other.reward, *other.obs), strict=True):
            np.testing.assert_array_equal(left, right[kept])
