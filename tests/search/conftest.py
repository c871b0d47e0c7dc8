"""Settings of runs that take a second."""

from __future__ import annotations

from typing import Any

from tau_trainer.settings import RunSettings, load_settings


def quick(config: str = "CartPole", **changes: Any) -> RunSettings:
    """``changes``: of hyperparameters, or with ``__`` for the dots of a key."""
    numbers: dict[str, Any] = {"batch_size": 32, "buffer_size": 128, "num_epoch": 2} if config == "CartPole" else {}
    given = {name: value for name, value in (numbers | changes).items() if "__" not in name}
    overrides = {f"behaviors.*.hyperparameters.{name}": value for name, value in given.items()}
    overrides |= {name.replace("__", "."): value for name, value in changes.items() if "__" in name}
    return load_settings(config, {"env_settings.seed": 4, "env_settings.num_areas": 2} | overrides)
