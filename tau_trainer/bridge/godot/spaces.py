"""Observation and action spaces of Godot games: what the plugin's introduction says, and the arrays that follow it.

``box``: numbers, as a list. ``discrete``: one of ``size`` values, which becomes a vector with a single 1. A box with
``2d`` in its name is a picture: uint8 values as hexadecimal text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import DecodeError
from tau_trainer.specs import ActionSpec, DimensionProperty, FloatArray, Json, NamedAction, ObservationSpec

SHARED: Final = "shared_policy"
"""The policy of all agents if the game names none (older plugins)."""
_MOST_AGENTS: Final = 2**16
_MOST_VALUES: Final = 2**22
"""Maximum number of values of one observation, and of actions."""
_LONGEST_NAME: Final = 256
_PICTURE: Final = (DimensionProperty.NONE, *[DimensionProperty.TRANSLATIONAL_EQUIVARIANCE] * 2)


@dataclass(frozen=True, slots=True)
class GodotAgent:
    """What a game's introduction says about one agent; spaces are still unchecked."""

    policy: str
    observations: Json
    actions: Json


def read_agents(introduction: Json) -> list[GodotAgent]:
    """All agents of a game, in order. Raises DecodeError."""
    count = _whole(introduction.get("n_agents"), _MOST_AGENTS, "its n_agents")
    names = introduction.get("agent_policy_names") or [SHARED] * count
    if not isinstance(names, list) or len(names) != count:
        raise DecodeError(f"its agent_policy_names is not a list of {count} names")
    for name in names:
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
            raise DecodeError(f"a policy_name of its agents is not a text of 1 to {_LONGEST_NAME} characters")
    spaces = [_spaces(introduction, key, count) for key in ("observation_space", "action_space")]
    return [GodotAgent(*agent) for agent in zip(names, *spaces, strict=True)]


def _spaces(introduction: Json, key: str, count: int) -> list[Any]:
    """One space for each agent; older plugins send one for all."""
    found = introduction.get(key)
    spaces = found if isinstance(found, list) else [found] * count
    if len(spaces) != count or not all(isinstance(space, dict) for space in spaces):
        raise DecodeError(f"its {key} is not a dictionary, or a list with one for each of its {count} agents")
    return spaces


def _whole(value: object, most: int, what: str) -> int:
    """A whole number; Godot may write it as 3.0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or not 1 <= value <= most:
        raise DecodeError(f"{what} is not a whole number from 1 to {most:,}")
    return int(value)


def _entries(space: Json, what: str, policy: str) -> list[tuple[str, Json, str]]:
    """Names, descriptions, and a part of a sentence about each."""
    where = f"of policy '{policy}'"
    if not space:
        raise DecodeError(f"an agent {where} has no {what}s")
    for name, entry in space.items():
        if len(name) > _LONGEST_NAME or not isinstance(entry, dict):
            raise DecodeError(f"{what} '{name[:_LONGEST_NAME]}' {where} has no description, or too long a name")
    return [(name, entry, f"{what} '{name}' {where}") for name, entry in space.items()]


def read_actions(space: Json, policy: str) -> ActionSpec:
    """Continuous values and branches in the game's order. Raises DecodeError."""
    named = []
    for name, entry, what in _entries(space, "action", policy):
        kind = entry.get("action_type")
        if kind not in ("continuous", "discrete"):
            raise DecodeError(f"{what} has the action_type {_shown(kind)}; use 'continuous' or 'discrete'")
        named.append(NamedAction(name, _whole(entry.get("size"), _MOST_VALUES, f"the size of {what}"), kind[0] == "d"))
    sizes = [action.size for action in named if not action.discrete]
    if sum(action.size for action in named) > _MOST_VALUES:
        raise DecodeError(f"the actions of policy '{policy}' are more than {_MOST_VALUES:,} values")
    return ActionSpec(sum(sizes), tuple(action.size for action in named if action.discrete), tuple(named))


def _shown(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) and len(value) <= _LONGEST_NAME else "(none)"


@dataclass(frozen=True, slots=True)
class GodotSensor:
    """One observation of a behavior's agents."""

    key: str
    """Its name in the game's dictionaries."""
    spec: ObservationSpec
    kind: Literal["box", "discrete", "picture", "flat picture"]

    def read(self, values: Sequence[Any]) -> NDArray[Any]:
        """[n, *shape] of the sensor's type, from the JSON values of ``n`` agents. Raises DecodeError."""
        count = len(values)
        try:
            if "picture" in self.kind:
                return self._pictures(values)
            with np.errstate(over="ignore", invalid="ignore"):  # infinity, which is refused later
                numbers = np.array(values, np.float32)
                if self.kind == "discrete":
                    return self._choices(numbers.reshape(count))
                return numbers.reshape(count, self.spec.size)
        except (TypeError, ValueError, OverflowError):
            pass
        wanted = f"{self.spec.size:,} " + {"box": "numbers", "discrete": "choices"}.get(self.kind, "bytes as text")
        raise DecodeError(f"an agent's observation '{self.key}' does not fit what the game announced: {wanted}")

    def _choices(self, numbers: FloatArray) -> FloatArray:
        index = numbers.astype(np.intp)
        if not ((index == numbers) & (index >= 0) & (index < self.spec.size)).all():
            raise ValueError
        chosen = np.zeros((len(index), self.spec.size), np.float32)
        chosen[np.arange(len(index)), index] = 1.0
        return chosen

    def _pictures(self, values: Sequence[Any]) -> NDArray[np.uint8]:
        seen = np.frombuffer(b"".join(map(bytes.fromhex, values)), np.uint8)
        channels, height, width = self.spec.shape
        if self.kind == "flat picture":
            return seen.reshape(len(values), channels, height, width)
        return np.ascontiguousarray(seen.reshape(len(values), height, width, channels).transpose(0, 3, 1, 2))


def read_sensors(space: Json, policy: str, *, flat: bool) -> tuple[GodotSensor, ...]:
    """All observations of a behavior's agents, in the game's order. ``flat``: see :class:`GodotCodec`.

    Boxes of several dimensions become vectors, as the plugin's models see them. Raises DecodeError.
    """
    return tuple(_sensor(*entry, flat=flat) for entry in _entries(space, "observation", policy))


def _vector(name: str, size: int) -> ObservationSpec:
    return ObservationSpec(name, (size,), (DimensionProperty.NONE,))


def _sensor(name: str, entry: Json, what: str, *, flat: bool) -> GodotSensor:
    kind, size = entry.get("space"), entry.get("size")
    if kind == "discrete":
        return GodotSensor(name, _vector(name, _whole(size, _MOST_VALUES, f"the size of {what}")), "discrete")
    if kind != "box":
        raise DecodeError(f"{what} has the space {_shown(kind)}; use 'box' or 'discrete'")
    if not isinstance(size, list) or not size:
        raise DecodeError(f"the size of {what} is not a list of whole numbers")
    shape = tuple(_whole(value, _MOST_VALUES, f"a number in the size of {what}") for value in size)
    if np.prod(shape, dtype=float) > _MOST_VALUES:
        raise DecodeError(f"{what} has more than {_MOST_VALUES:,} values")
    if "2d" not in name:
        return GodotSensor(name, _vector(name, int(np.prod(shape))), "box")
    if len(shape) != 3:
        raise DecodeError(f"{what} is a picture, because its name has '2d' in it, so its size must have three numbers")
    return GodotSensor(
        name, ObservationSpec(name, shape, _PICTURE, dtype=np.uint8), "flat picture" if flat else "picture"
    )
