"""A PettingZoo environment with all agents of a game, which act one after the other."""

from __future__ import annotations

from typing import Any

from tau_trainer.envs.mlagents.base_env import BaseEnv
from tau_trainer.envs.mlagents.envs.unity_parallel_env import UnityParallelEnv, parallel_to_aec_wrapper


class UnityAECEnv(parallel_to_aec_wrapper[str, Any, Any]):  # type: ignore[misc]  # has no types
    """UnityParallelEnv in turns: the game continues when the last agent has acted."""

    def __init__(self, env: BaseEnv, seed: int | None = None) -> None:
        """Same arguments as UnityParallelEnv."""
        super().__init__(UnityParallelEnv(env, seed))

    @property
    def side_channel(self) -> dict[str, Any]:
        """The side channels by the names of their classes."""
        parallel: Any = self.env
        return dict(parallel.side_channel)
