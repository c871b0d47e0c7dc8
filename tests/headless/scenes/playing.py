"""Play a scene of one behavior batch by batch, without a wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tau_trainer.headless.parameters import EnvironmentParameters

if TYPE_CHECKING:
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
