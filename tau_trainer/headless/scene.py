"""Scenes of the headless engine: the contract of a scene, and a base class for scenes in which all agents act in step.

::

    scene = create_scene(...)
    scene.seed(7)
    batches = scene.reset(parameters)        # first observations, reward 0, no ended episodes
    while True:
        batches = scene.step(actions)        # actions[name] [n]: for the agents of that behavior's batch, in its order

A scene assigns its agents' ids: they count from 0, as in Unity, and stay the same over episodes and resets. Between two
episodes an agent may change its behavior: it ends with the old one and starts with the new one. A scene never changes
an array that it has returned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tau_trainer.bridge.side_channels import Stat
from tau_trainer.errors import DecodeError
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.streams import AgentRandom
from tau_trainer.specs import (
    Actions,
    BehaviorSpec,
    BoolArray,
    DimensionProperty,
    FloatArray,
    IndexArray,
    Observations,
    ObservationSpec,
    ObservationType,
    StepBatch,
    Terminals,
    empty_terminals,
)

ScalarT = TypeVar("ScalarT", bound=np.generic)
Played = tuple[FloatArray, BoolArray]
"""The reward of every agent (float32 [agents]), and a flag that is true if its episode is over (bool [agents])."""
_EVEN = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE


def numbers(name: str, size: int, kind: ObservationType = ObservationType.DEFAULT) -> ObservationSpec:
    """A sensor of ``size`` numbers."""
    return ObservationSpec(name, (size,), (DimensionProperty.NONE,), kind)


def picture(name: str, channels: int, height: int, width: int) -> ObservationSpec:
    """An image sensor: uint8 [channels, height, width]."""
    return ObservationSpec(name, (channels, height, width), (DimensionProperty.NONE, _EVEN, _EVEN), dtype=np.uint8)


def entities(name: str, most: int, size: int) -> ObservationSpec:
    """A sensor of up to ``most`` things of ``size`` numbers each. Their order has no meaning; unused rows are zeros."""
    return ObservationSpec(name, (most, size), (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE))


class Scene(ABC):
    """A game without a screen, with one or more behaviors and many agents. Its inputs and outputs are arrays."""

    specs: tuple[BehaviorSpec, ...]
    """The behaviors of the scene, with their sensors in wire order."""
    agents: int
    """Number of agents."""
    max_decisions: int = 0
    """Number of decisions after which an episode is truncated; 0: never."""

    random: AgentRandom
    """The scene's random streams."""

    def seed(self, seed: int) -> None:
        """Restart all random streams from ``seed``. Takes effect with the next :meth:`reset`."""
        self.random = AgentRandom(seed, len(self.random))

    @abstractmethod
    def reset(self, parameters: EnvironmentParameters) -> list[StepBatch]:
        """Start a new episode for every agent, without reporting an end of the old ones (as Unity's reset does).

        Returns a batch for each behavior, in the order of ``specs``; some may be empty. Reads ``parameters`` and keeps
        it for values that are drawn in every episode. The random streams continue; to restart them, call :meth:`seed`
        first.
        """

    @abstractmethod
    def step(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        """Play one decision of every agent that asked for one.

        ``actions`` maps the full name of each behavior to its actions, in the order of the ids in its last batch. You
        may omit behaviors whose last batch is empty. Returns a batch for each behavior, in the order of ``specs``.
        """

    def update(self, parameters: EnvironmentParameters) -> None:
        """Apply parameters that arrived without a reset. Most scenes read the others at an episode's begin."""
        self.max_decisions = int(parameters.get("max_decisions", self.max_decisions))

    def stats(self) -> Sequence[Stat]:
        """Statistics since the last call. Most scenes have none."""
        return ()


class LockstepScene(Scene):
    """A scene in which every agent asks for a decision in every step. Subclasses implement the hooks below.

    If an agent's episode ends, the agent is in ``terminals`` with its last observation and reward. In the same step it
    asks for the first decision of its next episode, with reward 0. All behaviors have the same sensors and actions.
    """

    def __init__(self, specs: tuple[BehaviorSpec, ...], agents: int, seed: int, max_decisions: int) -> None:
        self.specs = specs
        self.agents = agents
        self.max_decisions = max_decisions
        self.parameters = EnvironmentParameters()
        self.random = AgentRandom(seed, agents)
        self.age = np.zeros(agents, np.int64)
        """int64 [agents]: number of decisions in the running episode."""
        self.behavior = np.zeros(agents, np.intp)
        """intp [agents]: the behavior of the running episode, as an index of ``specs``; :meth:`begin` may change it."""
        self._ids = _frozen(np.arange(agents, dtype=np.int32))
        self._none = _frozen(np.zeros(agents, np.int32))
        self._no_reward = _frozen(np.zeros(agents, np.float32))
        self._nobody = empty_terminals(specs[0].observations)
        self._everyone = _frozen(np.arange(agents, dtype=np.intp))

    @abstractmethod
    def begin(self, index: IndexArray) -> None:
        """Start a new episode for the agents ``index`` (intp [k])."""

    @abstractmethod
    def advance(self, actions: Actions) -> Played:
        """Play one decision of every agent."""

    @abstractmethod
    def observe(self) -> Observations:
        """Current observations of every agent: a new array [agents, *shape] for each sensor, in the sensor's dtype."""

    def mask(self) -> BoolArray | None:
        """Actions that are forbidden now: a new bool [agents, sum of branches]; None: all actions are allowed."""
        return None

    def turn(self) -> None:
        """Prepare the next observations; called after the last observations of ended episodes were taken."""

    def reset(self, parameters: EnvironmentParameters) -> list[StepBatch]:
        """See :meth:`Scene.reset`."""
        self.parameters = parameters
        self.update(parameters)
        self.age[:] = 0
        self.begin(self._everyone)
        self.turn()
        return self._batches(self._no_reward, [self._nobody] * len(self.specs))

    def step(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        """See :meth:`Scene.step`. Raises DecodeError for NaN actions, which would make the scene's state NaN too."""
        reward, over = self.advance(self._joined(actions))
        self.age += 1
        ended = over | (self.age >= self.max_decisions) if self.max_decisions else over
        terminals = [self._nobody] * len(self.specs)
        if np.count_nonzero(ended):
            index = np.flatnonzero(ended)
            terminals = self._terminals(index, reward, over)
            reward[index] = 0.0
            self.age[index] = 0
            self.begin(index)
        self.turn()
        return self._batches(reward, terminals)

    def _joined(self, actions: Mapping[str, Actions]) -> Actions:
        """The actions of all agents, ordered by id."""
        first = self.specs[0]
        if len(self.specs) == 1:
            joined = actions[first.name]
        else:
            joined = Actions.zeros(first.actions, self.agents)
            for spec, index in zip(self.specs, self._members(self._everyone), strict=True):
                if len(index):
                    joined.continuous[index] = actions[spec.name].continuous
                    joined.discrete[index] = actions[spec.name].discrete
        if np.count_nonzero(np.isnan(joined.continuous)):
            agent = np.flatnonzero(np.isnan(joined.continuous).any(axis=1))[0]
            raise DecodeError(
                f"the trainer sent NaN as an action of behavior `{self.specs[self.behavior[agent]].name}` for agent "
                f"{agent}; its policy has diverged. Try a smaller learning rate."
            )
        return joined

    def _members(self, index: IndexArray) -> list[IndexArray]:
        """The agents ``index``, split by behavior."""
        if len(self.specs) == 1:
            return [index]
        return [index[self.behavior[index] == number] for number in range(len(self.specs))]

    def _terminals(self, index: IndexArray, reward: FloatArray, over: BoolArray) -> list[Terminals]:
        everyone = self._acting(reward, self._nobody)
        return [everyone.ended(some, ~over) for some in self._members(index)]

    def _batches(self, reward: FloatArray, terminals: list[Terminals]) -> list[StepBatch]:
        everyone = self._acting(reward, terminals[0])
        if len(self.specs) == 1:
            return [everyone]
        members = zip(self.specs, self._members(self._everyone), terminals, strict=True)
        return [replace(everyone.some(rows, ended), behavior=spec.name) for spec, rows, ended in members]

    def _acting(self, reward: FloatArray, ended: Terminals) -> StepBatch:
        """All agents with their current observations, as if they had the first behavior."""
        name, seen = self.specs[0].name, self.observe()
        return StepBatch(name, self._ids, seen, reward, self._none, self._no_reward, ended, self.mask())


def _frozen(array: NDArray[ScalarT]) -> NDArray[ScalarT]:
    """Make an array read-only and return it: every batch shares it."""
    array.flags.writeable = False
    return array
