"""Conversion of Gymnasium spaces to sensors and actions, and back.

A continuous action is a number from -1 to 1 for every space. :func:`to_space` converts it to the space's values, and
:func:`from_space` converts back. For each number of a ``Box``:

| bounds | -1 to 1 becomes |
| --- | --- |
| both | the whole range |
| one | a range of 2 that starts or ends at the bound |
| none | itself |

Each whole number (integers, bools) gets an equal share of -1 to 1. A ``Box`` of any rank is flattened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.envs.goals import ACHIEVED, DESIRED
from tau_trainer.errors import SettingsError
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BoolArray,
    DimensionProperty,
    Float64Array,
    ObservationSpec,
    ObservationType,
)

_EVEN = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
_IMAGE = (DimensionProperty.NONE, _EVEN, _EVEN)
"""Properties of the dimensions channels, height and width."""
_LEAST_SIDE = 5
"""Pixels: a three-dimensional box with a shorter side is not an image. No convolution here can read it."""
_NO_BOUND = float(np.finfo(np.float32).max) / 2
"""Bounds from this value on count as none: many environments write the largest float for infinity."""
_WIDTH = 2
"""Width of the range that is used if a bound is missing: as wide as -1 to 1."""
_MOST_RANGES = 256
_RANGES: dict[int, tuple[spaces.Box, tuple[Float64Array, Float64Array]]] = {}
"""Cached ranges by the box's id; storing the box keeps the id valid. Each step needs them, and computing is slow."""


def sensors(space: spaces.Space[Any]) -> Iterator[ObservationSpec]:
    """The sensors of a space, one for each part of a Dict or Tuple; images channels first, other boxes flat.

    In a goal-based environment, the desired goal is a goal signal. The achieved goal is hidden if there is also an
    ``observation``: by Gymnasium's contract, that contains everything the policy needs. Raises SettingsError.
    """
    keys = space.spaces.keys() if isinstance(space, spaces.Dict) else set[str]()
    goals = {ACHIEVED, DESIRED} <= keys
    for sensor in _sensors(space):
        whole = sensor.name.partition(".")[0]
        if goals and whole == DESIRED:
            yield replace(sensor, observation_type=ObservationType.GOAL_SIGNAL)
        else:
            yield replace(sensor, hidden=goals and whole == ACHIEVED and "observation" in keys)


def _sensors(space: spaces.Space[Any]) -> Iterator[ObservationSpec]:
    for name, seen, _ in _parts(space):
        image = image_shape(seen.shape, pixels=seen.dtype == np.uint8) if isinstance(seen, spaces.Box) else None
        if image is not None:
            yield ObservationSpec(name, image, _IMAGE, dtype=np.uint8 if seen.dtype == np.uint8 else np.float32)
        elif isinstance(seen, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            yield ObservationSpec(name, (spaces.utils.flatdim(seen),))
        else:
            raise SettingsError(f"the environment observes {seen}, which no network here can read; wrap it")


def is_image(box: spaces.Box) -> bool:
    """Whether image encoders can read it: see :func:`image_shape`."""
    return image_shape(box.shape, pixels=box.dtype == np.uint8) is not None


def image_shape(shape: tuple[int, ...], *, pixels: bool) -> tuple[int, int, int] | None:
    """Channels, height and width of a box of this shape; None: image encoders cannot read it.

    They read uint8 (``pixels``) of two or three dimensions, and other types of three if the sides are large enough.
    """
    if len(shape) not in ((2, 3) if pixels else (3,)) or 0 in shape:
        return None
    if len(shape) == 2:
        return 1, shape[0], shape[1]
    height, width, channels = shape if channels_last(shape) else (shape[1], shape[2], shape[0])
    return (channels, height, width) if pixels or min(height, width) >= _LEAST_SIDE else None


def channels_last(shape: tuple[int, ...]) -> bool:
    """Whether channels are the last axis: if the two other sides are equal, else if it is shorter than the first."""
    if len(shape) != 3:
        return False
    first, middle, last = shape
    return first == middle or (middle != last and last < first)


def _parts(space: spaces.Space[Any], obs: Any = None, name: str = "") -> Iterator[tuple[str, spaces.Space[Any], Any]]:
    """Name, space and observations (if given) of each part of a Dict or Tuple."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in space.items() if isinstance(space, spaces.Dict) else enumerate(space):
            yield from _parts(part, None if obs is None else obs[key], f"{name}.{key}" if name else str(key))
    else:
        yield name or "observation", space, obs


def arrays(space: spaces.Space[Any], obs: Any) -> Iterator[NDArray[Any]]:
    """The arrays [n, *shape] of all sensors, from ``n`` observations in a vector environment's form."""
    for sensor, (_, part, values) in zip(sensors(space), _parts(space, obs), strict=True):
        if isinstance(part, spaces.Discrete):
            yield np.eye(int(part.n), dtype=np.float32)[np.asarray(values) - int(part.start)]
        elif isinstance(part, spaces.MultiDiscrete):
            yield np.array([spaces.utils.flatten(part, row) for row in values], np.float32)
        elif isinstance(part, spaces.Box) and is_image(part) and channels_last(part.shape):
            yield np.ascontiguousarray(np.moveaxis(np.asarray(values, sensor.dtype), -1, 1))
        else:
            yield np.asarray(values, sensor.dtype).reshape(len(values), *sensor.shape)


def action_spec(space: spaces.Space[Any]) -> ActionSpec:
    """The actions of a space. Raises SettingsError if the space cannot be expressed as actions."""
    if isinstance(space, spaces.Box):
        return ActionSpec(continuous_size=spaces.utils.flatdim(space))
    if isinstance(space, spaces.Discrete):
        return ActionSpec(discrete_branches=(int(space.n),))
    if isinstance(space, spaces.MultiDiscrete):
        return ActionSpec(discrete_branches=tuple(int(size) for size in space.nvec.ravel()))
    if isinstance(space, spaces.MultiBinary):
        return ActionSpec(discrete_branches=(2,) * spaces.utils.flatdim(space))
    raise SettingsError(f"the environment has the action space {space}, which is not supported; wrap it")


def open_ended(space: spaces.Space[Any]) -> str | None:
    """A warning about actions for which the space has no bounds; None if all have bounds."""
    if not isinstance(space, spaces.Box):
        return None
    below, above = _bounded(space)
    free = int((~(below & above)).sum())
    if not free:
        return None
    return (
        f"the environment's action space {space} leaves {free} of {below.size} actions without a bound; policies reach "
        f"-1 to 1 if there is no bound, and {_WIDTH} from the bound if there is one; give the space the bounds that "
        "the game needs"
    )


def to_space(space: spaces.Space[Any], actions: Actions) -> NDArray[Any]:
    """Converts actions of ``n`` agents to values of the space, [n, *shape]; any action gives a valid value.

    Only if a bound is missing, continuous actions beyond -1 and 1 reach beyond the range.
    """
    if not isinstance(space, spaces.Box):
        start: Any = np.ravel(getattr(space, "start", 0))
        chosen: NDArray[Any] = actions.discrete.astype(space.dtype) + start
        return chosen.reshape(len(actions), *(space.shape or ()))
    share = (actions.continuous.astype(np.float64) + 1.0) / 2.0  # [n, size], 0 to 1
    if space.dtype.kind == "f":
        first, last = _range(space)
        scaled = first * (1.0 - share) + last * share
        values = np.clip(scaled, space.low.ravel(), space.high.ravel()).astype(space.dtype)
    else:
        least, steps = _whole_range(space)
        # Clip before converting: no float equals the largest uint64.
        place = np.clip(np.floor(share * (steps + 1.0)), 0.0, np.nextafter(2.0**64, 0.0)).astype(np.uint64)
        values = (least + np.minimum(place, steps)).astype(space.dtype)
    return values.reshape(len(actions), *space.shape)


def from_space(space: spaces.Space[Any], acted: Any) -> Actions:
    """The actions from which :func:`to_space` makes ``acted`` [n, *shape]; for a whole number, its share's middle.

    A value further from a bound than policies reach becomes an action beyond -1 or 1.
    """
    spec, values = action_spec(space), np.asarray(acted)
    actions = Actions.zeros(spec, len(values))
    values = values.reshape(len(values), -1) if values.size else np.zeros((len(values), spec.components))
    if not isinstance(space, spaces.Box):
        actions.discrete[:] = values - np.ravel(getattr(space, "start", 0))
        return actions
    values = values.astype(np.float64)
    if space.dtype.kind == "f":
        first, last = _range(space)
        wide = last > first  # without a choice the action is 0
        actions.continuous[:] = np.where(wide, (values - first) / np.where(wide, last - first, 1.0) * 2.0 - 1.0, 0.0)
    else:
        least, steps = _whole_range(space)
        begin = least.astype(space.dtype).astype(np.float64)
        actions.continuous[:] = (values - begin + 0.5) / (steps + 1.0) * 2.0 - 1.0
    return actions


def _bounded(box: spaces.Box) -> tuple[BoolArray, BoolArray]:
    """Which numbers have a lower bound, and which have an upper bound: bool [size] each."""
    below, above = box.bounded_below.ravel(), box.bounded_above.ravel()
    if box.dtype.kind != "f":
        return below, above
    low, high = (bound.ravel().astype(np.float64) for bound in (box.low, box.high))
    return below & (low > -_NO_BOUND), above & (high < _NO_BOUND)


def _range(box: spaces.Box) -> tuple[Float64Array, Float64Array]:
    """The values of -1 and 1 in a box of floats: float64 [size] each."""
    known = _RANGES.get(id(box))
    if known is None:
        if len(_RANGES) >= _MOST_RANGES:
            _RANGES.clear()
        known = _RANGES[id(box)] = box, _range_of(box)
    return known[1]


def _range_of(box: spaces.Box) -> tuple[Float64Array, Float64Array]:
    below, above = _bounded(box)
    low, high = (bound.ravel().astype(np.float64) for bound in (box.low, box.high))
    first = np.where(below, low, np.where(above, high - _WIDTH, -1.0))
    return first, np.where(above, high, np.where(below, low + _WIDTH, 1.0))


def _whole_range(box: spaces.Box) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The first whole number of the range, and the number of values after it: [size] each.

    Both are uint64, which wraps around, so the range of every type fits, with negative numbers.
    """
    below, above = _bounded(box)
    low, high = (bound.ravel().astype(np.uint64) for bound in (box.low, box.high))
    steps = high - low
    steps = np.where(below & above, steps, np.minimum(steps, np.uint64(_WIDTH)))
    minus_one = np.array([-1]).astype(np.uint64)
    return np.where(below, low, np.where(above, high - steps, minus_one)), steps
