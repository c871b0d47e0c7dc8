"""What the headless engine plays: the contract of a scene, and the base of scenes whose agents step together.

::

    scene = create_scene(...)
    scene.seed(7)
    batch = scene.reset(parameters)          # first observations, reward 0, nobody has ended
    while True:
        batch = scene.step(actions)          # actions [n] answer batch.agent_ids [n], in this order

A scene owns its agents' ids: they count from 0, as Unity's do, and stay over episodes and resets. A scene never
changes an array that it has handed out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
    FloatArray,
    IndexArray,
    StepBatch,
    Terminals,
    empty_terminals,
)

ScalarT = TypeVar("ScalarT", bound=np.generic)


class Scene(ABC):
    """A game without pictures: one behavior, many agents, arrays in and arrays out."""

    spec: BehaviorSpec
    """The one behavior of the scene, with its sensors in wire order."""
    agents: int
    """Number of agents."""

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Start all random streams anew from ``seed``. Takes effect with the next :meth:`reset`."""

    @abstractmethod
    def reset(self, parameters: EnvironmentParameters) -> StepBatch:
        """Begin a new episode for every agent, without ending the old ones on the wire (as Unity's reset does).

        Reads ``parameters`` and keeps it for values that are drawn anew with every episode. The streams of random
        numbers go on; call :meth:`seed` before to start them anew.
        """

    @abstractmethod
    def step(self, actions: Actions) -> StepBatch:
        """Play one decision of every agent that asked for one; ``actions`` in the order of the last batch's ids."""

    def update(self, parameters: EnvironmentParameters) -> None:  # noqa: B027 - most scenes read parameters at episode begin
        """Take note of parameters that arrived without a reset."""

    def stats(self) -> Sequence[Stat]:
        """Statistics since the last call: usually none."""
        return ()


class LockstepScene(Scene):
    """Scenes in which every agent asks for a decision in every step. Subclasses write the four hooks below.

    An agent whose episode ends is in ``terminals`` with its last observation and reward, and in the same batch asks
    for the first decision of its next episode with reward 0.
    """

    max_decisions: int
    """Decisions after which an episode is cut (truncated); 0: never."""

    def __init__(self, spec: BehaviorSpec, agents: int, seed: int, max_decisions: int) -> None:
        self.spec = spec
        self.agents = agents
        self.max_decisions = max_decisions
        self.parameters = EnvironmentParameters()
        self.random = AgentRandom(seed, agents)
        self.age = np.zeros(agents, np.int64)
        """int64 [agents]: decisions taken in the running episode."""
        self._ids = _frozen(np.arange(agents, dtype=np.int32))
        self._no_group = _frozen(np.zeros(agents, np.int32))
        self._no_reward = _frozen(np.zeros(agents, np.float32))
        self._nobody = empty_terminals(spec.observations)
        self._everyone = _frozen(np.arange(agents, dtype=np.intp))

    @abstractmethod
    def begin(self, index: IndexArray) -> None:
        """Begin a new episode for the agents ``index`` (intp [k])."""

    @abstractmethod
    def advance(self, actions: Actions) -> tuple[FloatArray, BoolArray]:
        """Play one decision of every agent: its reward (float32 [agents]) and whether its episode is over (bool)."""

    @abstractmethod
    def observe(self) -> tuple[FloatArray, ...]:
        """What every agent sees now: one new float32 [agents, *shape] for each sensor."""

    def update(self, parameters: EnvironmentParameters) -> None:
        """See :meth:`Scene.update`."""
        self.max_decisions = int(parameters.get("max_decisions", self.max_decisions))

    def turn(self) -> None:
        """Move on what agents will see next, after ends were observed and before the next observation."""

    def seed(self, seed: int) -> None:
        """See :meth:`Scene.seed`."""
        self.random = AgentRandom(seed, self.agents)

    def reset(self, parameters: EnvironmentParameters) -> StepBatch:
        """See :meth:`Scene.reset`."""
        self.parameters = parameters
        self.update(parameters)
        self.age[:] = 0
        self.begin(self._everyone)
        self.turn()
        return self._batch(self._no_reward, self._nobody)

    def step(self, actions: Actions) -> StepBatch:
        """See :meth:`Scene.step`. Raises DecodeError for NaN actions, which would poison the scene for ever."""
        if np.count_nonzero(np.isnan(actions.continuous)):
            agent = np.flatnonzero(np.isnan(actions.continuous).any(axis=1))[0]
            raise DecodeError(
                f"the trainer sent NaN as an action of behavior `{self.spec.name}` for agent {agent}; "
                "its policy has diverged."
            )
        reward, over = self.advance(actions)
        self.age += 1
        ended = over | (self.age >= self.max_decisions) if self.max_decisions else over
        terminals = self._nobody
        if np.count_nonzero(ended):
            index = np.flatnonzero(ended)
            terminals = self._terminals(index, reward, over)
            reward[index] = 0.0
            self.age[index] = 0
            self.begin(index)
        self.turn()
        return self._batch(reward, terminals)

    def _terminals(self, index: IndexArray, reward: FloatArray, over: BoolArray) -> Terminals:
        none = np.zeros(len(index), np.int32)
        return Terminals(
            agent_ids=self._ids[index],
            obs=tuple(sensor[index] for sensor in self.observe()),
            reward=reward[index],
            truncated=~over[index],
            group_id=none,
            group_reward=none.astype(np.float32),
        )

    def _batch(self, reward: FloatArray, terminals: Terminals) -> StepBatch:
        return StepBatch(self.spec.name, self._ids, self.observe(), reward, self._no_group, self._no_reward, terminals)


def _frozen(array: NDArray[ScalarT]) -> NDArray[ScalarT]:
    """The same array, read-only: it is handed out with every batch."""
    array.flags.writeable = False
    return array
