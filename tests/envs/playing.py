"""Playing an environment with the empty action."""

from __future__ import annotations

from tau_trainer.envs import Environment
from tau_trainer.specs import Actions, StepBatch


def zeros(environment: Environment, batches: list[StepBatch]) -> dict[str, Actions]:
    return {one.behavior: Actions.zeros(environment.specs[one.behavior].actions, len(one)) for one in batches}


async def play(environment: Environment, batches: list[StepBatch], steps: int) -> list[StepBatch]:
    """The last of so many steps."""
    for _ in range(steps):
        environment.answer(zeros(environment, batches))
        batches = await environment.next()
    return batches
