"""Types that all folders share: a behavior's observations and actions, and one step as arrays.

Conventions: ``n`` is the number of agents in a batch, arrays are C-contiguous numpy arrays, floats are float32,
``True`` in an action mask means *forbidden* (as on ML-Agents' wire and in its Python API).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
Float64Array = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Observations = tuple[NDArray[Any], ...]
"""One array [n, *shape] for each sensor, in wire order and in the sensor's dtype."""
Rows = BoolArray | IndexArray | slice
"""Which agents of a batch: a mask [n], indices [k], or a slice."""
Json = Mapping[str, Any]
"""Values that JSON can hold, by name."""


class ObservationType(enum.IntEnum):
    """The purpose of a sensor's values (ML-Agents ``ObservationTypeProto``)."""

    DEFAULT = 0
    GOAL_SIGNAL = 1


class Aggregation(enum.IntEnum):
    """How several values of a statistic are combined into one number (ML-Agents ``StatAggregationMethod``)."""

    AVERAGE = 0
    MOST_RECENT = 1
    SUM = 2
    HISTOGRAM = 3
    """The mean, and also the distribution."""


class DimensionProperty(enum.IntFlag):
    """Properties of one dimension of an observation (ML-Agents ``dimension_properties``)."""

    UNSPECIFIED = 0
    NONE = 1
    TRANSLATIONAL_EQUIVARIANCE = 2
    VARIABLE_SIZE = 4


@dataclass(frozen=True, slots=True)
class ObservationSpec:
    """One sensor: its name, the shape of one agent's observation, and the properties of its dimensions."""

    name: str
    shape: tuple[int, ...]
    dimension_property: tuple[DimensionProperty, ...] = ()
    observation_type: ObservationType = ObservationType.DEFAULT
    dtype: DTypeLike = np.float32
    """Type of the values; uint8 for images."""
    hidden: bool = False
    """If True, the observation is stored for learning, but the policy does not see it."""

    @property
    def size(self) -> int:
        """Number of floats of one agent's observation."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class NamedAction:
    """An action of a Godot game."""

    name: str
    size: int
    """Number of continuous values, or of choices if it is discrete."""
    discrete: bool


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """How many continuous actions an agent has and the size of each discrete branch."""

    continuous_size: int = 0
    discrete_branches: tuple[int, ...] = ()
    named: tuple[NamedAction, ...] = field(default=(), compare=False, repr=False)
    """A Godot game's actions in its order, which its model files need; empty for other environments."""

    @property
    def discrete_size(self) -> int:
        """Number of discrete branches."""
        return len(self.discrete_branches)

    @property
    def mask_size(self) -> int:
        """Length of a flat action mask: the sum of all branch sizes."""
        return sum(self.discrete_branches)

    @property
    def components(self) -> int:
        """Number of independent parts of one action: continuous dimensions plus discrete branches."""
        return self.continuous_size + self.discrete_size

    @property
    def width(self) -> int:
        """Numbers that describe one action: continuous ones, and one for each value of each branch."""
        return self.continuous_size + self.mask_size


@dataclass(frozen=True, slots=True)
class BehaviorSpec:
    """A behavior's full name (``Name?team=0``), its sensors in wire order, and its actions."""

    name: str
    observations: tuple[ObservationSpec, ...]
    actions: ActionSpec

    @property
    def short_name(self) -> str:
        """The behavior's name without the ``?team=`` part: the key under ``behaviors`` in the YAML."""
        return self.name.split("?", 1)[0]

    @property
    def team(self) -> int:
        """The number after ``?team=``; 0 if the name has none."""
        team = self.name.partition("?team=")[2]
        return int(team) if team.isdecimal() else 0

    @property
    def has_goals(self) -> bool:
        """Whether any sensor is a goal signal."""
        return any(sensor.observation_type is ObservationType.GOAL_SIGNAL for sensor in self.observations)


Behaviors = Mapping[str, BehaviorSpec]
"""Behaviors by full name."""


@dataclass(slots=True)
class Actions:
    """Actions for ``n`` agents. ``continuous``: float32 [n, continuous_size]; ``discrete``: int32 [n, branches]."""

    continuous: FloatArray
    discrete: IntArray

    @staticmethod
    def zeros(spec: ActionSpec, n: int) -> Actions:
        """The empty action of ML-Agents: all continuous values 0.0, all branches 0."""
        return Actions(np.zeros((n, spec.continuous_size), np.float32), np.zeros((n, spec.discrete_size), np.int32))

    def __len__(self) -> int:
        return len(self.continuous)


@dataclass(slots=True)
class Terminals:
    """Agents whose episode ended since the last exchange, with their last observation and last reward.

    ``truncated[i]`` is True if a limit cut the episode (bootstrap from ``obs``), and False at a real end.
    """

    agent_ids: IntArray
    """int32 [n]."""
    obs: Observations
    """The last observations of the episode."""
    reward: FloatArray
    """float32 [n]: reward since the agent's previous message."""
    truncated: BoolArray
    """bool [n]."""
    group_id: IntArray
    """int32 [n]; 0 = no group."""
    group_reward: FloatArray
    """float32 [n]."""

    def __len__(self) -> int:
        return len(self.agent_ids)


@dataclass(slots=True)
class StepBatch:
    """One exchange of one behavior: the agents that need a decision, and those whose episode ended.

    An agent ID can be in both: its episode ended, and it needs a decision in the next one. Handle ``terminals`` first.
    """

    behavior: str
    """Full behavior name, with ``?team=``."""
    agent_ids: IntArray
    """int32 [n]; an agent keeps its ID over episodes."""
    obs: Observations
    reward: FloatArray
    """float32 [n]: reward since the agent's previous message (for the action before this observation)."""
    group_id: IntArray
    """int32 [n]; 0 = no group."""
    group_reward: FloatArray
    """float32 [n]."""
    terminals: Terminals
    action_mask: BoolArray | None = field(default=None)
    """bool [n, sum of branches], True = forbidden; None: all actions are allowed."""

    def __len__(self) -> int:
        return len(self.agent_ids)

    def some(self, rows: Rows, terminals: Terminals) -> StepBatch:
        """The agents ``rows`` of this step, with these ``terminals``."""
        mask = None if self.action_mask is None else self.action_mask[rows]
        return StepBatch(self.behavior, *self._columns(rows), terminals, mask)

    def ended(self, rows: Rows, truncated: BoolArray) -> Terminals:
        """The agents ``rows`` of this step as agents whose episode ended with it; ``truncated`` is bool [n]."""
        ids, obs, reward, group, group_reward = self._columns(rows)
        return Terminals(ids, obs, reward, truncated[rows], group, group_reward)

    def _columns(self, rows: Rows) -> tuple[IntArray, Observations, FloatArray, IntArray, FloatArray]:
        obs = tuple(sensor[rows] for sensor in self.obs)
        return self.agent_ids[rows], obs, self.reward[rows], self.group_id[rows], self.group_reward[rows]


def empty_terminals(observations: tuple[ObservationSpec, ...], n: int = 0) -> Terminals:
    """Zero-filled :class:`Terminals` for ``n`` agents with these sensors."""
    return Terminals(
        agent_ids=np.zeros(n, np.int32),
        obs=tuple(np.zeros((n, *spec.shape), spec.dtype) for spec in observations),
        reward=np.zeros(n, np.float32),
        truncated=np.zeros(n, np.bool_),
        group_id=np.zeros(n, np.int32),
        group_reward=np.zeros(n, np.float32),
    )
