"""Registers ``tau/Unity-v0`` with Gymnasium when it is imported.

``gymnasium.make("tau/Unity-v0", file_name=...)`` makes a game with one agent, ``gymnasium.make_vec`` one with several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import gymnasium

from tau_trainer.envs.mlagents.environment import UnityEnvironment
from tau_trainer.envs.mlagents.envs.unity_gym_env import UnityToGymWrapper
from tau_trainer.envs.mlagents.envs.unity_vector_env import UnityVectorEnv

T = TypeVar("T")
_SHOWN: Final = {"uint8_visual", "flatten_branched", "allow_multiple_obs"}
_WRAPPING: Final = {*_SHOWN, "action_space_seed", "render_mode"}


def make_unity(file_name: str | None = None, **keywords: Any) -> UnityToGymWrapper:
    """Start a game on a free port and wrap it; accepts keywords of UnityEnvironment and UnityToGymWrapper."""
    wrapping = {name: keywords.pop(name) for name in _WRAPPING & set(keywords)}
    return _wrapped(UnityToGymWrapper, file_name, keywords, wrapping)


def make_unity_vector(file_name: str | None = None, num_envs: int = 1, **keywords: Any) -> UnityVectorEnv:
    """The same for all agents; ``num_envs``: number of training areas, in games that can replicate theirs."""
    wrapping = {name: keywords.pop(name) for name in _SHOWN & set(keywords)}
    return _wrapped(UnityVectorEnv, file_name, {"num_areas": num_envs, **keywords}, wrapping)


def _wrapped(wrapper: Callable[..., T], file_name: str | None, keywords: dict[str, Any], wrapping: dict[str, Any]) -> T:
    port = {} if file_name is None else {"base_port": 0}
    env = UnityEnvironment(file_name, **port | keywords)
    try:
        return wrapper(env, **wrapping)
    except BaseException:
        env.close()
        raise


if "tau/Unity-v0" not in gymnasium.registry:
    gymnasium.register(
        "tau/Unity-v0",
        entry_point="tau_trainer.envs.unity:make_unity",
        vector_entry_point="tau_trainer.envs.unity:make_unity_vector",
    )
