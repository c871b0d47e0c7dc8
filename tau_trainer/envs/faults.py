"""What an author's environment hands back wrongly, as a sentence: which method, what it returned, and what is due.

Nothing is said of numbers beyond a space's bounds: many environments go there, and nothing here depends on it.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import EngineError, EnvironmentFaultError
from tau_trainer.specs import BehaviorSpec, StepBatch

_LIBRARIES = ("gymnasium", "pettingzoo", "numpy", "torch", "tau_trainer", "concurrent", "asyncio", "threading")
"""Whose code is not the author's."""
_LONGEST = 60
"""Characters of a value that are shown."""
STEP = ("observation", "reward", "terminated", "truncated", "info")
"""What a step of one environment, or one turn, returns."""


def parts_of(found: Any, method: str, names: tuple[str, ...]) -> tuple[Any, ...]:
    """What a method returned, which must be a tuple of so many. Raises EnvironmentFaultError."""
    if not isinstance(found, tuple | list) or len(found) != len(names):
        raise EnvironmentFaultError(
            f"{method} returned {brief(found)}; it must return {len(names)} values: {', '.join(names)}"
        )
    return tuple(found)


def keyed(found: Any, method: str) -> Mapping[str, Any]:
    """One of the parts that hold something for each agent. Raises EnvironmentFaultError for what is no dictionary."""
    if not isinstance(found, Mapping):
        raise EnvironmentFaultError(f"{method} returned {brief(found)}; each value must be a dictionary by agent")
    return found


def require(found: Any, method: str, kind: str, names: tuple[str, ...]) -> Any:
    """What a method returned. Raises EnvironmentFaultError where that lacks what its kind has."""
    for name in names:
        if not hasattr(found, name):
            raise EnvironmentFaultError(f"{method} returned {brief(found)}; it must return a {kind}, with `{name}`")
    return found


def check_number(value: Any, method: str, what: str, due: str = "True or False") -> None:
    """Raises EnvironmentFaultError where ``value`` is no number, which a truth value is too."""
    if isinstance(value, float | bool):
        return
    array = array_of(value)
    if array.dtype.kind not in "biuf" or array.ndim:
        raise EnvironmentFaultError(f"{method} returned {brief(value)} as {what}; it must be {due}")


def check_reward(value: Any, method: str, what: str = "reward") -> None:
    """Raises EnvironmentFaultError where ``value`` is no number."""
    check_number(value, method, what, "a number")


def array_of(value: Any) -> NDArray[Any]:
    """``value`` as an array; of what is none, an array that nothing takes."""
    try:
        return np.asarray(value)
    except Exception:  # whatever an author's object raises
        return np.array(None)


def check_info(info: Any, method: str) -> None:
    """Raises EnvironmentFaultError where ``info`` is no dictionary."""
    if not isinstance(info, Mapping):
        raise EnvironmentFaultError(
            f"{method} returned {brief(info)} as info; it must be a dictionary, {{}} if there is nothing to say"
        )


def brief(value: Any) -> str:
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
