"""Settings of many copies."""

from __future__ import annotations

from typing import Any

from tau_trainer.settings.run import RunSettings

PPO = {"trainer_type": "ppo", "hyperparameters": {"batch_size": 16, "buffer_size": 64}}


def settings(num_envs: int = 4, policy: dict[str, Any] | None = None, **arguments: Any) -> RunSettings:
    return RunSettings.model_validate(
        {
            "environment": {"name": "tests.search.sized:Fragile", "num_envs": num_envs, "arguments": arguments},
            "behaviors": {"all": policy or PPO},
            "env_settings": {"seed": 1},
        }
    )
