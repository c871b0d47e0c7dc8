"""Checks of the values that Gymnasium environments return, with the messages of :mod:`.faults`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.envs.faults import STEP, array_of, brief, check_info, check_number, parts_of
from tau_trainer.errors import EnvironmentFaultError


class CheckedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Wrapper that checks the values that a Gymnasium environment returns."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Same as the environment's method. Raises EnvironmentFaultError for an invalid result."""
        found = self.env.reset(seed=seed, options=options)
        obs, info = parts_of(found, f"{self._who}.reset()", ("observation", "info"))
        self._check(obs, info, "reset()")
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Same as the environment's method. Raises EnvironmentFaultError for an invalid result."""
        obs, reward, terminated, truncated, info = parts_of(self.env.step(action), f"{self._who}.step()", STEP)
        check_number(reward, f"{self._who}.step()", "reward", "a number")
        check_number(terminated, f"{self._who}.step()", "terminated")
        check_number(truncated, f"{self._who}.step()", "truncated")
        self._check(obs, info, "step()")
        return obs, reward, terminated, truncated, info

    @property
    def _who(self) -> str:
        return type(self.unwrapped).__name__

    def _check(self, obs: Any, info: Any, method: str) -> None:
        check_info(info, f"{self._who}.{method}")
        check_observation(self.observation_space, obs, f"{self._who}.{method}")


def checked(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """``env`` with checks of its results directly around it, and of the results of each of the author's wrappers."""
    if not isinstance(env, gymnasium.Wrapper):
        return CheckedEnv(env)
    authored, inner = not _is_gymnasiums(env), env
    while isinstance(inner.env, gymnasium.Wrapper):
        inner = inner.env
        authored |= not _is_gymnasiums(inner)
    inner.env = CheckedEnv(inner.env)
    return CheckedEnv(env) if authored else env


def _is_gymnasiums(wrapper: object) -> bool:
    return type(wrapper).__module__.partition(".")[0] == "gymnasium"


def check_observation(space: spaces.Space[Any], obs: Any, method: str) -> None:
    """Raises EnvironmentFaultError if ``obs`` does not have the form of ``space``."""
    fault = _misfit(space, obs, "")
    if fault is not None:
        raise EnvironmentFaultError(f"{method} returned {fault}")


def check_keys(space: spaces.Dict, obs: Any, method: str) -> None:
    """Raises EnvironmentFaultError if ``obs`` lacks a key of ``space``. The values are not checked."""
    if (fault := _keys_missing(space, obs, "")) is not None:
        raise EnvironmentFaultError(f"{method} returned {fault}")


def _keys_missing(space: spaces.Dict, obs: Any, place: str) -> str | None:
    if not isinstance(obs, Mapping):
        return f"{brief(obs)} as observation{place}; it must be a dictionary with the keys {list(space)}"
    missing = [key for key in space if key not in obs]
    return f"an observation{place} without '{missing[0]}'; it must have the keys {list(space)}" if missing else None


def _misfit(space: spaces.Space[Any], obs: Any, place: str) -> str | None:
    """The wrong observation and the expected one, as the middle of a sentence; None if the observation fits."""
    if isinstance(space, spaces.Dict) and (fault := _keys_missing(space, obs, place)) is not None:
        return fault
    if isinstance(space, spaces.Tuple) and (not isinstance(obs, tuple | list) or len(obs) != len(space)):
        return f"{brief(obs)} as observation{place}; it must be a tuple of the {len(space)} parts"
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.items() if isinstance(space, spaces.Dict) else enumerate(space)
        faults = (_misfit(part, obs[key], f"{place}[{key!r}]") for key, part in parts)
        return next((fault for fault in faults if fault is not None), None)
    values = array_of(obs)
    due = f"observation{place}; it must be of shape {space.shape} and dtype {space.dtype}, as its space {space} says"
    if values.shape != space.shape or not np.can_cast(values.dtype, space.dtype or np.float32, "same_kind"):
        return f"{brief(obs)} as {due}"
    if not isinstance(space, spaces.Box) and not _within(space, values):
        return f"{brief(obs)} as observation{place}; it must be a value of {space}"
    return None


def _within(space: spaces.Space[Any], values: NDArray[Any]) -> bool:
    """Whether discrete values are within the space: others cannot be encoded as one-hot observations."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        size = space.n if isinstance(space, spaces.Discrete) else space.nvec
        place = values - space.start
        return bool(np.all((place >= 0) & (place < size)))
    return True
