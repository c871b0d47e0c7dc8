"""Errors for wrong return values of a user's environment: the method, the value, and the expected value.

Numbers outside a space's bounds are not errors: many environments return them, and nothing here depends on the bounds.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import EngineError, EnvironmentFaultError
from tau_trainer.specs import BehaviorSpec, Json, StepBatch

_LIBRARIES = ("gymnasium", "pettingzoo", "numpy", "torch", "tau_trainer", "concurrent", "asyncio", "threading")
"""Packages whose code does not belong to the environment's author."""
_LONGEST = 60
"""Maximum number of characters of a value in a message."""
STEP = ("observation", "reward", "terminated", "truncated", "info")
"""Names of the values that a step of one environment, or one turn, returns."""


def parts_of(found: Any, method: str, names: tuple[str, ...]) -> tuple[Any, ...]:
    """``found`` if it is a tuple with one value for each of ``names``; else raises EnvironmentFaultError."""
    if not isinstance(found, tuple | list) or len(found) != len(names):
        raise EnvironmentFaultError(
            f"{method} returned {brief(found)}; it must return {len(names)} values: {', '.join(names)}"
        )
    return tuple(found)


def keyed(found: Any, method: str) -> Json:
    """``found`` if it is a dictionary by agent; else raises EnvironmentFaultError."""
    if not isinstance(found, Mapping):
        raise EnvironmentFaultError(f"{method} returned {brief(found)}; each value must be a dictionary by agent")
    return found


def require(found: Any, method: str, kind: str, names: tuple[str, ...]) -> Any:
    """``found`` if it has all attributes ``names`` of its kind; else raises EnvironmentFaultError."""
    for name in names:
        if not hasattr(found, name):
            raise EnvironmentFaultError(f"{method} returned {brief(found)}; it must return a {kind}, with `{name}`")
    return found


def check_number(value: Any, method: str, what: str, due: str = "True or False") -> None:
    """Raises EnvironmentFaultError if ``value`` is not a number. True and False count as numbers."""
    if isinstance(value, float | bool):
        return
    array = array_of(value)
    if array.dtype.kind not in "biuf" or array.ndim:
        raise EnvironmentFaultError(f"{method} returned {brief(value)} as {what}; it must be {due}")


def array_of(value: Any) -> NDArray[Any]:
    """``value`` as an array; if it cannot be one, an array of dtype object, which no check accepts."""
    try:
        return np.asarray(value)
    except Exception:  # an author's object can raise anything
        return np.array(None)


def check_info(info: Any, method: str) -> None:
    """Raises EnvironmentFaultError if ``info`` is not a dictionary."""
    if not isinstance(info, Mapping):
        raise EnvironmentFaultError(
            f"{method} returned {brief(info)} as info; it must be a dictionary, {{}} if there is no info"
        )


def brief(value: Any) -> str:
    """A short description of a value."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} values"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def check_batch(batch: StepBatch, spec: BehaviorSpec) -> None:
    """Raises EnvironmentFaultError if arrays have the wrong shape, EngineError if they contain NaN or infinity.

    NaN and infinity can be temporary, so a restart may help.
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
    """The line of the author's code that raised ``error``, as the end of a sentence; empty if none did."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _LIBRARIES:
            return f" (in {frame.f_code.co_name}, {Path(frame.f_code.co_filename).name} line {line})"
    return ""
