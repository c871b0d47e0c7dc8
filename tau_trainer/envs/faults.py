"""What an author's environment hands back wrongly, as a sentence: which method, what it returned, and what is due.

Nothing is said of numbers beyond a space's bounds: many environments go there, and nothing here depends on it.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.errors import EngineError, EnvironmentFaultError
from tau_trainer.specs import BehaviorSpec, StepBatch

_LIBRARIES = ("gymnasium", "pettingzoo", "numpy", "torch", "tau_trainer", "concurrent", "asyncio", "threading")
"""Whose code is not the author's."""
_LONGEST = 60
"""Characters of a value that are shown."""
STEP = ("observation", "reward", "terminated", "truncated", "info")
"""What a step of one environment, or one turn, returns."""


class Checked(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment of Gymnasium whose answers are checked."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's own. Raises EnvironmentFaultError."""
        found = self.env.reset(seed=seed, options=options)
        obs, info = parts_of(found, f"{self._who}.reset()", ("observation", "info"))
        self._check(obs, info, "reset()")
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment's own. Raises EnvironmentFaultError."""
        obs, reward, terminated, truncated, info = parts_of(self.env.step(action), f"{self._who}.step()", STEP)
        check_reward(reward, f"{self._who}.step()")
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
    """``env`` with its own answers checked, beneath all wrappers, and an author's wrappers' above them."""
    if not isinstance(env, gymnasium.Wrapper):
        return Checked(env)
    authored, inner = not _is_gymnasiums(env), env
    while isinstance(inner.env, gymnasium.Wrapper):
        inner = inner.env
        authored |= not _is_gymnasiums(inner)
    inner.env = Checked(inner.env)
    return Checked(env) if authored else env


def _is_gymnasiums(wrapper: object) -> bool:
    return type(wrapper).__module__.partition(".")[0] == "gymnasium"


def parts_of(found: Any, method: str, names: tuple[str, ...]) -> tuple[Any, ...]:
    """What a method returned, which must be a tuple of so many. Raises EnvironmentFaultError."""
    if not isinstance(found, tuple | list) or len(found) != len(names):
        raise EnvironmentFaultError(
            f"{method} returned {shown(found)}; it must return {len(names)} values: {', '.join(names)}"
        )
    return tuple(found)


def keyed(found: Any, method: str) -> Mapping[str, Any]:
    """One of the parts that hold something for each agent. Raises EnvironmentFaultError for what is no dictionary."""
    if not isinstance(found, Mapping):
        raise EnvironmentFaultError(f"{method} returned {shown(found)}; each value must be a dictionary by agent")
    return found


def require(found: Any, method: str, kind: str, names: tuple[str, ...]) -> Any:
    """What a method returned. Raises EnvironmentFaultError where that lacks what its kind has."""
    for name in names:
        if not hasattr(found, name):
            raise EnvironmentFaultError(f"{method} returned {shown(found)}; it must return a {kind}, with `{name}`")
    return found


def check_number(value: Any, method: str, what: str, due: str = "True or False") -> None:
    """Raises EnvironmentFaultError where ``value`` is no number, which a truth value is too."""
    if isinstance(value, float | bool):
        return
    array = _array(value)
    if array.dtype.kind not in "biuf" or array.ndim:
        raise EnvironmentFaultError(f"{method} returned {shown(value)} as {what}; it must be {due}")


def check_reward(value: Any, method: str, what: str = "reward") -> None:
    """Raises EnvironmentFaultError where ``value`` is no number."""
    check_number(value, method, what, "a number")


def _array(value: Any) -> NDArray[Any]:
    """``value`` as an array; of what is none, an array that nothing takes."""
    try:
        return np.asarray(value)
    except Exception:  # whatever an author's object raises
        return np.array(None)


def check_info(info: Any, method: str) -> None:
    """Raises EnvironmentFaultError where ``info`` is no dictionary."""
    if not isinstance(info, Mapping):
        raise EnvironmentFaultError(
            f"{method} returned {shown(info)} as info; it must be a dictionary, {{}} if there is nothing to say"
        )


def check_observation(space: spaces.Space[Any], obs: Any, method: str) -> None:
    """Raises EnvironmentFaultError where ``obs`` has another form than ``space``."""
    fault = _misfit(space, obs, "")
    if fault is not None:
        raise EnvironmentFaultError(f"{method} returned {fault}")


def check_keys(space: spaces.Dict, obs: Any, method: str) -> None:
    """Raises EnvironmentFaultError where ``obs`` has not the keys of ``space``, whatever stands there."""
    if (fault := _keys_missing(space, obs, "")) is not None:
        raise EnvironmentFaultError(f"{method} returned {fault}")


def _keys_missing(space: spaces.Dict, obs: Any, place: str) -> str | None:
    if not isinstance(obs, Mapping):
        return f"{shown(obs)} as observation{place}; it must be a dictionary with the keys {list(space)}"
    missing = [key for key in space if key not in obs]
    return f"an observation{place} without '{missing[0]}'; it must have the keys {list(space)}" if missing else None


def _misfit(space: spaces.Space[Any], obs: Any, place: str) -> str | None:
    """What was observed and what is due, as the middle of a sentence; None: it fits."""
    if isinstance(space, spaces.Dict):
        if (fault := _keys_missing(space, obs, place)) is not None:
            return fault
        faults = (_misfit(part, obs[key], f"{place}[{key!r}]") for key, part in space.items())
        return next((fault for fault in faults if fault is not None), None)
    if isinstance(space, spaces.Tuple):
        if not isinstance(obs, tuple | list) or len(obs) != len(space):
            return f"{shown(obs)} as observation{place}; it must be a tuple of the {len(space)} parts"
        faults = (_misfit(part, obs[i], f"{place}[{i}]") for i, part in enumerate(space))
        return next((fault for fault in faults if fault is not None), None)
    values = _array(obs)
    due = f"observation{place}; it must be of shape {space.shape} and dtype {space.dtype}, as its space {space} says"
    if values.shape != space.shape or not np.can_cast(values.dtype, space.dtype or np.float32, "same_kind"):
        return f"{shown(obs)} as {due}"
    if not isinstance(space, spaces.Box) and not _within(space, values):
        return f"{shown(obs)} as observation{place}; it must be a value of {space}"
    return None


def _within(space: spaces.Space[Any], values: NDArray[Any]) -> bool:
    """Whether choices are some that there are: those of others have no place in what is seen."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        size = space.n if isinstance(space, spaces.Discrete) else space.nvec
        place = values - space.start
        return bool(np.all((place >= 0) & (place < size)))
    return True


def shown(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} values"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def check_batch(batch: StepBatch, spec: BehaviorSpec) -> None:
    """Raises EnvironmentFaultError for arrays of another shape than the agents have, EngineError for NaN and infinity.

    The latter may be a moment's mistake, so another start may help.
    """
    ended = batch.terminals
    for n, obs, reward in ((len(batch), batch.obs, batch.reward), (len(ended), ended.obs, ended.reward)):
        shapes = [values.shape for values in obs]
        due = [(n, *sensor.shape) for sensor in spec.observations]
        if shapes != due or reward.shape != (n,):
            raise EnvironmentFaultError(
                f"behavior '{spec.name}' has observations of shapes {list(map(list, shapes))} and rewards of shape "
                f"{list(reward.shape)} for {n} agents; by its spec they must be {list(map(list, due))} and {[n]}"
            )
        for place, values in enumerate((reward, *obs) if n else ()):
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                what = f"sensor '{spec.observations[place - 1].name}'" if place else "reward"
                raise EngineError(
                    f"behavior '{spec.name}' sent NaN or infinity in {what}; look for a division by zero in the "
                    "environment"
                )


def place_of(error: BaseException) -> str:
    """Where in the author's own code it was raised, as the end of a sentence; an empty text: not there."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _LIBRARIES:
            return f" (in {frame.f_code.co_name}, {Path(frame.f_code.co_filename).name} line {line})"
    return ""
