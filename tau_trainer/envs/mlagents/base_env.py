"""mlagents-envs' base environment: specs, steps, actions, and the interface of every environment.

Names, fields and meanings are those of ``mlagents_envs.base_env`` (API 1.5.0). Several agents of one behavior are a
batch: ``n`` is their number, arrays are numpy arrays whose first axis is the agent, floats are float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tau_trainer.envs.mlagents.exception import UnityActionException
from tau_trainer.specs import BoolArray, FloatArray, IntArray
from tau_trainer.specs import DimensionProperty as DimensionProperty
from tau_trainer.specs import ObservationType as ObservationType

AgentId = int
GroupId = int
BehaviorName = str


class DecisionStep(NamedTuple):
    """One agent that asks for a decision. ``obs``: one array [*shape] for each sensor; the rest as in DecisionSteps."""

    obs: list[FloatArray]
    reward: float
    agent_id: AgentId
    action_mask: list[BoolArray] | None
    group_id: GroupId
    group_reward: float


class TerminalStep(NamedTuple):
    """One agent whose episode ended. ``obs``: one array [*shape] for each sensor; the rest as in TerminalSteps."""

    obs: list[FloatArray]
    reward: float
    interrupted: bool
    agent_id: AgentId
    group_id: GroupId
    group_reward: float


StepT = TypeVar("StepT", DecisionStep, TerminalStep)


class _Steps(Mapping[AgentId, StepT], Generic[StepT]):
    """Agents of one exchange, by ID."""

    agent_id: IntArray
    _index: dict[AgentId, int] | None = None

    @property
    def agent_id_to_index(self) -> dict[AgentId, int]:
        """The index of every agent in the arrays."""
        if self._index is None:
            self._index = {agent: place for place, agent in enumerate(self.agent_id.tolist())}
        return self._index

    def __len__(self) -> int:
        return len(self.agent_id)

    def __iter__(self) -> Iterator[AgentId]:
        yield from self.agent_id

    def _place(self, agent_id: AgentId) -> int:
        if agent_id not in self.agent_id_to_index:
            raise KeyError(f"agent_id {agent_id} is not present in the {type(self).__name__}")
        return self.agent_id_to_index[agent_id]


@dataclass(eq=False, repr=False)
class DecisionSteps(_Steps[DecisionStep]):
    """The agents that ask for a decision, in the order in which actions are expected.

    ``steps[agent_id]`` is one of them.
    """

    obs: list[FloatArray]
    """One array [n, *shape] for each sensor."""
    reward: FloatArray
    """float32 [n]: rewards since the agent's last message."""
    agent_id: IntArray
    """int32 [n]."""
    action_mask: list[BoolArray] | None
    """One array [n, size] for each branch, True = forbidden; None without discrete actions, or without agents."""
    group_id: IntArray
    """int32 [n], 0 = no group."""
    group_reward: FloatArray
    """float32 [n]."""

    def __getitem__(self, agent_id: AgentId) -> DecisionStep:
        """Raises KeyError for an agent that does not ask."""
        i = self._place(agent_id)
        masks = None if self.action_mask is None else [mask[i] for mask in self.action_mask]
        seen = [sensor[i] for sensor in self.obs]
        return DecisionStep(seen, self.reward[i], agent_id, masks, self.group_id[i], self.group_reward[i])

    @staticmethod
    def empty(spec: BehaviorSpec) -> DecisionSteps:
        """Decision steps without agents."""
        return DecisionSteps(*_nobody(spec), None, np.zeros(0, np.int32), np.zeros(0, np.float32))


@dataclass(eq=False, repr=False)
class TerminalSteps(_Steps[TerminalStep]):
    """The agents whose episode ended. ``steps[agent_id]`` is one of them. They need no actions."""

    obs: list[FloatArray]
    """As in DecisionSteps, and so is the rest."""
    reward: FloatArray
    interrupted: BoolArray
    """bool [n], True if a limit cut the episode."""
    agent_id: IntArray
    group_id: IntArray
    group_reward: FloatArray

    def __getitem__(self, agent_id: AgentId) -> TerminalStep:
        """Raises KeyError for an agent whose episode did not end."""
        i = self._place(agent_id)
        seen = [sensor[i] for sensor in self.obs]
        return TerminalStep(seen, self.reward[i], self.interrupted[i], agent_id, self.group_id[i], self.group_reward[i])

    @staticmethod
    def empty(spec: BehaviorSpec) -> TerminalSteps:
        """Terminal steps without agents."""
        obs, reward, agents = _nobody(spec)
        return TerminalSteps(obs, reward, np.zeros(0, np.bool_), agents, np.zeros(0, np.int32), np.zeros(0, np.float32))


def _nobody(spec: BehaviorSpec) -> tuple[list[FloatArray], FloatArray, IntArray]:
    """Observations, rewards and ids of no agents."""
    obs = [np.zeros((0, *sensor.shape), np.float32) for sensor in spec.observation_specs]
    return obs, np.zeros(0, np.float32), np.zeros(0, np.int32)


class ActionTuple:
    """Actions of ``n`` agents: ``continuous`` float32 [n, size] and ``discrete`` int32 [n, branches].

    Other types are converted. An omitted kind has no columns.
    """

    def __init__(self, continuous: NDArray[Any] | None = None, discrete: NDArray[Any] | None = None) -> None:
        self._continuous: FloatArray | None = None
        self._discrete: IntArray | None = None
        if continuous is not None:
            self.add_continuous(continuous)
        if discrete is not None:
            self.add_discrete(discrete)

    @property
    def continuous(self) -> FloatArray:
        """float32 [n, continuous size]; None until actions are set."""
        return self._continuous  # type: ignore[return-value]  # as in mlagents-envs, so that users need no check

    @property
    def discrete(self) -> IntArray:
        """int32 [n, branches]; None until actions are set."""
        return self._discrete  # type: ignore[return-value]

    @property
    def discrete_dtype(self) -> type[np.int32]:
        """The type of discrete actions."""
        return np.int32

    def add_continuous(self, continuous: NDArray[Any]) -> None:
        """Set the continuous actions."""
        self._continuous = continuous.astype(np.float32, copy=False)
        if self._discrete is None:
            self._discrete = np.zeros((len(continuous), 0), np.int32)

    def add_discrete(self, discrete: NDArray[Any]) -> None:
        """Set the discrete actions."""
        self._discrete = discrete.astype(np.int32, copy=False)
        if self._continuous is None:
            self._continuous = np.zeros((len(discrete), 0), np.float32)


class ActionSpec(NamedTuple):
    """An agent's actions: the number of continuous actions, and the size of each discrete branch."""

    continuous_size: int
    discrete_branches: tuple[int, ...]

    def __str__(self) -> str:
        return f"Continuous: {self.continuous_size}, Discrete: {self.discrete_branches}"

    def is_discrete(self) -> bool:
        """Whether there are only discrete actions."""
        return self.discrete_size > 0 and self.continuous_size == 0

    def is_continuous(self) -> bool:
        """Whether there are only continuous actions."""
        return self.discrete_size == 0 and self.continuous_size > 0

    @property
    def discrete_size(self) -> int:
        """Number of discrete branches."""
        return len(self.discrete_branches)

    def empty_action(self, n_agents: int) -> ActionTuple:
        """Actions with all values zero."""
        return ActionTuple(
            np.zeros((n_agents, self.continuous_size), np.float32), np.zeros((n_agents, self.discrete_size), np.int32)
        )

    def random_action(self, n_agents: int) -> ActionTuple:
        """Random actions from [-1, 1] and from all choices, with numpy's global generator (``np.random.seed``)."""
        continuous = np.random.uniform(-1.0, 1.0, (n_agents, self.continuous_size))
        # One branch after the other, as mlagents-envs draws them: equal seeds give equal actions.
        drawn = [np.random.randint(0, size, n_agents, np.int32) for size in self.discrete_branches]
        return ActionTuple(continuous, np.stack(drawn, axis=1) if drawn else np.zeros((n_agents, 0), np.int32))

    def _validate_action(self, actions: ActionTuple, n_agents: int, name: str) -> ActionTuple:
        """``actions``, if they fit ``n_agents`` agents; else raises UnityActionException."""
        kinds = [
            ("continuous", actions.continuous, self.continuous_size),
            ("discrete", actions.discrete, self.discrete_size),
        ]
        for kind, given, size in kinds if self.continuous_size else reversed(kinds):
            shape = None if given is None else given.shape
            if shape != (n_agents, size):
                raise UnityActionException(
                    f"behavior '{name}' takes {kind} actions of shape {(n_agents, size)} (agents that asked, actions) "
                    f"but got {shape}; give every agent of its DecisionSteps a row"
                )
        if self.discrete_branches and n_agents:
            wrong = (actions.discrete < 0) | (actions.discrete >= np.array(self.discrete_branches))
            if np.count_nonzero(wrong):
                row, branch = np.argwhere(wrong)[0].tolist()
                raise UnityActionException(
                    f"behavior '{name}' has {self.discrete_branches[branch]} choices in branch {branch}, and row {row} "
                    f"of its discrete actions asks for number {actions.discrete[row, branch]}; they count from 0"
                )
        return actions

    @staticmethod
    def create_continuous(continuous_size: int) -> ActionSpec:
        """Only continuous actions."""
        return ActionSpec(continuous_size, ())

    @staticmethod
    def create_discrete(discrete_branches: tuple[int, ...]) -> ActionSpec:
        """Only discrete actions."""
        return ActionSpec(0, discrete_branches)

    @staticmethod
    def create_hybrid(continuous_size: int, discrete_branches: tuple[int, ...]) -> ActionSpec:
        """Continuous and discrete actions."""
        return ActionSpec(continuous_size, discrete_branches)


class ObservationSpec(NamedTuple):
    """One sensor: the shape of one agent's observation, the properties of each dimension, and its name."""

    shape: tuple[int, ...]
    dimension_property: tuple[DimensionProperty, ...]
    observation_type: ObservationType
    name: str


class BehaviorSpec(NamedTuple):
    """The observations of a behavior's agents, in the order of ``obs``, and their actions."""

    observation_specs: list[ObservationSpec]
    action_spec: ActionSpec


class BehaviorMapping(Mapping[BehaviorName, BehaviorSpec]):
    """The behaviors seen so far. It grows when agents of new ones appear."""

    def __init__(self, specs: dict[BehaviorName, BehaviorSpec]) -> None:
        self._dict = specs

    def __len__(self) -> int:
        return len(self._dict)

    def __getitem__(self, behavior: BehaviorName) -> BehaviorSpec:
        return self._dict[behavior]

    def __iter__(self) -> Iterator[BehaviorName]:
        yield from self._dict


class BaseEnv(ABC):
    """Agents in a game. A step runs until at least one agent asks for a decision or ends its episode.

    Usage: call ``reset()``. Then repeat: ``get_steps`` and ``set_actions`` for every behavior, ``step()``. At the end,
    call ``close()``.
    """

    @abstractmethod
    def step(self) -> None:
        """Continue with the actions that were set; agents without actions get zeros. The first step is a reset."""

    @abstractmethod
    def reset(self) -> None:
        """Restart all episodes; the interrupted ones report no end."""

    @abstractmethod
    def close(self) -> None:
        """End the game."""

    @property
    @abstractmethod
    def behavior_specs(self) -> Mapping[BehaviorName, BehaviorSpec]:
        """The behaviors seen so far, by full name (``Name?team=0``)."""

    @abstractmethod
    def set_actions(self, behavior_name: BehaviorName, action: ActionTuple) -> None:
        """Set the actions of all agents of a behavior, in the order of its DecisionSteps."""

    @abstractmethod
    def set_action_for_agent(self, behavior_name: BehaviorName, agent_id: AgentId, action: ActionTuple) -> None:
        """Set the action of one agent: arrays of one row."""

    @abstractmethod
    def get_steps(self, behavior_name: BehaviorName) -> tuple[DecisionSteps, TerminalSteps]:
        """The agents that ask for a decision, and those whose episode ended. An agent can be in both."""
