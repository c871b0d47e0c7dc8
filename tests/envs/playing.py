"""Playing an environment with the empty action."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tau_trainer.envs import Environment
from tau_trainer.metrics import RunReport
from tau_trainer.settings import load_settings
from tau_trainer.specs import Actions, StepBatch
from tests.training.fakes import Memory, train


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


def small_run(folder: Path, memory: Memory, path: str | None, config: str | None = None, **changes: Any) -> RunReport:
    """A run of PPO with small batches and a small network, or of ``config``. Keys with ``__`` in place of dots."""
    given: dict[str, Any] = {"env_settings__seed": 1} | ({"env_settings__env_path": path} if path else {})
    given |= {"checkpoint_settings__results_dir": str(folder), "checkpoint_settings__run_id": "run"}
    if config is None:
        given |= {"default_settings__trainer_type": "ppo", "default_settings__network_settings__hidden_units": 8}
        given |= {"default_settings__hyperparameters": {"buffer_size": 64, "batch_size": 32}}
    overrides = {key.replace("__", "."): value for key, value in (given | changes).items()}
    return train(load_settings(config, overrides), memory, "learn")
