"""Playing an environment with the empty action."""

from __future__ import annotations

from tau_trainer.envs import Environment
from tau_trainer.specs import Actions, StepBatch


class Sentences(list[str]):
    """What environments say to the person who watches; numbers of restarts beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.restarts: list[int] = []

    def __call__(self, message: str, /, *, restart: int = 0) -> None:
        self.append(message)
        self.restarts += [restart] * (restart > 0)


def zeros(environment: Environment, batches: list[StepBatch]) -> dict[str, Actions]:
    return {one.behavior: Actions.zeros(environment.specs[one.behavior].actions, len(one)) for one in batches}


async def play(environment: Environment, batches: list[StepBatch], steps: int) -> list[StepBatch]:
    """The last of so many steps."""
    for _ in range(steps):
        environment.answer(zeros(environment, batches))
        batches = await environment.next()
    return batches
