"""What environments of Gymnasium's kind show and take: spaces as sensors and actions, and back.

A continuous action is a number from -1 to 1 whatever the space. One function makes the space's own values of it
(:func:`to_space`), and one leads back (:func:`from_space`). What they mean for each number of a ``Box``:

| bounds | -1 to 1 becomes |
| --- | --- |
| both | the whole range |
| one | a range of 2 that begins, or ends, at the bound |
| none | itself |

Whole numbers (integers, bools) have equal shares of -1 to 1. A ``Box`` of any rank is flat here.
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
"""What may be assumed of channels, height and width."""
_LEAST_SIDE = 5
"""Pixels: a box of numbers of three dimensions is no image if a side is shorter. No convolution here reads it."""
_NO_BOUND = float(np.finfo(np.float32).max) / 2
"""Floats from here on bound nothing: many write the largest float where they mean infinity."""
_WIDTH = 2
"""Of the range that is used where a bound is missing: as wide as -1 to 1."""
_MOST_RANGES = 256
_RANGES: dict[int, tuple[spaces.Box, tuple[Float64Array, Float64Array]]] = {}
"""Of boxes by identity, which the box beside it keeps: every step asks, and finding out takes longer than scaling."""


def sensors(space: spaces.Space[Any]) -> Iterator[ObservationSpec]:
    """The sensors of a space, one for each part of a Dict or Tuple; images channels first, other boxes flat.

    Of a goal-based environment, what is desired is a goal signal. What is achieved is hidden where there is an
    ``observation`` beside it: by Gymnasium's contract all that acting needs is in that.

    Raises SettingsError.
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
        if isinstance(seen, spaces.Box) and is_image(seen):
            height, width, channels = _image_shape(seen)
            dtype = np.uint8 if seen.dtype == np.uint8 else np.float32
            yield ObservationSpec(name, (channels, height, width), _IMAGE, dtype=dtype)
        elif isinstance(seen, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            yield ObservationSpec(name, (spaces.utils.flatdim(seen),))
        else:
            raise SettingsError(f"the environment observes {seen}, which cannot be learned from; wrap it")


def is_image(box: spaces.Box) -> bool:
    """Whether encoders of images read it: bytes of two or three dimensions, other numbers of three if large enough."""
    if box.dtype == np.uint8:
        return len(box.shape) in (2, 3) and 0 not in box.shape
    return len(box.shape) == 3 and 0 not in box.shape and min(_image_shape(box)[:2]) >= _LEAST_SIDE


def _image_shape(box: spaces.Box) -> tuple[int, int, int]:
    """Height, width and channels."""
    if len(box.shape) == 2:
        return box.shape[0], box.shape[1], 1
    first, middle, last = box.shape
    return (first, middle, last) if channels_last(box) else (middle, last, first)


def channels_last(box: spaces.Box) -> bool:
    """Whether an image's channels are its last axis: the one beside two alike, else the shorter of first and last."""
    if len(box.shape) != 3:
        return False
    first, middle, last = box.shape
    return first == middle or (middle != last and last < first)


def _parts(space: spaces.Space[Any], obs: Any = None, name: str = "") -> Iterator[tuple[str, spaces.Space[Any], Any]]:
    """Name, space and observations (where there are any) of everything in a Dict or Tuple."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in space.items() if isinstance(space, spaces.Dict) else enumerate(space):
            yield from _parts(part, None if obs is None else obs[key], f"{name}.{key}" if name else str(key))
    else:
        yield name or "observation", space, obs


def arrays(space: spaces.Space[Any], obs: Any) -> Iterator[NDArray[Any]]:
    """The arrays [n, *shape] of all sensors from ``n`` observations as a vector environment gives them."""
    for sensor, (_, part, values) in zip(sensors(space), _parts(space, obs), strict=True):
        if isinstance(part, spaces.Discrete):
            yield np.eye(int(part.n), dtype=np.float32)[np.asarray(values) - int(part.start)]
        elif isinstance(part, spaces.MultiDiscrete):
            yield np.array([spaces.utils.flatten(part, row) for row in values], np.float32)
        elif isinstance(part, spaces.Box) and is_image(part) and channels_last(part):
            yield np.ascontiguousarray(np.moveaxis(np.asarray(values, sensor.dtype), -1, 1))
        else:
            yield np.asarray(values, sensor.dtype).reshape(len(values), *sensor.shape)


def action_spec(space: spaces.Space[Any]) -> ActionSpec:
    """What an agent decides. Raises SettingsError for a space that has no such form."""
    if isinstance(space, spaces.Box):
        return ActionSpec(continuous_size=spaces.utils.flatdim(space))
    if isinstance(space, spaces.Discrete):
        return ActionSpec(discrete_branches=(int(space.n),))
    if isinstance(space, spaces.MultiDiscrete):
        return ActionSpec(discrete_branches=tuple(int(size) for size in space.nvec.ravel()))
    if isinstance(space, spaces.MultiBinary):
        return ActionSpec(discrete_branches=(2,) * spaces.utils.flatdim(space))
    raise SettingsError(f"the environment acts in {space}, which cannot be learned; wrap it")


def open_ended(space: spaces.Space[Any]) -> str | None:
    """What a person should know of actions that the space leaves without bounds; None: it has them all."""
    if not isinstance(space, spaces.Box):
        return None
    below, above = _bounded(space)
    free = int((~(below & above)).sum())
    if not free:
        return None
    return (
        f"the environment acts in {space}, which leaves {free} of {below.size} actions without a bound; policies reach "
        f"-1 to 1 where there is no bound, and {_WIDTH} from the bound where there is one; give the space the bounds "
        "that the game needs"
    )


def to_space(space: spaces.Space[Any], actions: Actions) -> NDArray[Any]:
    """Actions of ``n`` agents as the space wants them, [n, *shape]: all are in it, whatever was decided.

    Only where a bound is missing, continuous actions beyond -1 and 1 lead further.
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
        # The upper end is kept as whole numbers too: no float is the last of 2^64.
        place = np.clip(np.floor(share * (steps + 1.0)), 0.0, np.nextafter(2.0**64, 0.0)).astype(np.uint64)
        values = (least + np.minimum(place, steps)).astype(space.dtype)
    return values.reshape(len(actions), *space.shape)


def from_space(space: spaces.Space[Any], acted: Any) -> Actions:
    """What :func:`to_space` makes ``acted`` [n, *shape] of; of a whole number, the middle of its share.

    What lies further from a bound than policies reach is beyond -1 or 1.
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
        wide = last > first  # what cannot be chosen is 0
        actions.continuous[:] = np.where(wide, (values - first) / np.where(wide, last - first, 1.0) * 2.0 - 1.0, 0.0)
    else:
        least, steps = _whole_range(space)
        begin = least.astype(space.dtype).astype(np.float64)
        actions.continuous[:] = (values - begin + 0.5) / (steps + 1.0) * 2.0 - 1.0
    return actions


def _bounded(box: spaces.Box) -> tuple[BoolArray, BoolArray]:
    """Which numbers have a bound below, and which one above: bool [size] each."""
    below, above = box.bounded_below.ravel(), box.bounded_above.ravel()
    if box.dtype.kind != "f":
        return below, above
    low, high = (bound.ravel().astype(np.float64) for bound in (box.low, box.high))
    return below & (low > -_NO_BOUND), above & (high < _NO_BOUND)


def _range(box: spaces.Box) -> tuple[Float64Array, Float64Array]:
    """What -1 and 1 become in a box of floats: [size] each."""
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
    """The first whole number that is chosen among, and how many follow it: [size] each.

    As uint64, which wraps around: so every type's range has a place, negative numbers too.
    """
    below, above = _bounded(box)
    low, high = (bound.ravel().astype(np.uint64) for bound in (box.low, box.high))
    steps = high - low
    steps = np.where(below & above, steps, np.minimum(steps, np.uint64(_WIDTH)))
    minus_one = np.array([-1]).astype(np.uint64)
    return np.where(below, low, np.where(above, high - steps, minus_one)), steps
