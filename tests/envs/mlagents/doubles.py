"""An environment that plays a script, of no class of ours: what adapters are promised of a BaseEnv is all it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tau_trainer.envs.mlagents.base_env import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)

if TYPE_CHECKING:
    from tau_trainer.envs.mlagents.base_env import BaseEnv as _Typed
else:
    _Typed = object
NAME = "Runner?team=0"


def sensor(*shape: int, name: str = "s") -> ObservationSpec:
    return ObservationSpec(shape, (DimensionProperty.NONE,) * len(shape), ObservationType.DEFAULT, name)


def spec_of(actions: ActionSpec | None = None, *sensors: ObservationSpec) -> BehaviorSpec:
    return BehaviorSpec(list(sensors) or [sensor(2)], actions or ActionSpec.create_continuous(1))


@dataclass
class Say:
    """One exchange of one behavior: who asks, and whose episode ended (and was cut)."""

    asks: Sequence[int] = ()
    ended: Mapping[int, bool] = field(default_factory=dict)
    forbidden: Sequence[Sequence[int]] = ()
    """For each agent that asks: forbidden numbers of the flat mask."""
    groups: Sequence[int] = ()


class Scripted(_Typed):
    """Observations of exchange ``k`` are ``k + id / 100``, those of ends 0.5 more; a reward is the id, or -1."""

    def __init__(
        self, script: Sequence[Say | Mapping[str, Say]], *specs: BehaviorSpec, names: Sequence[str] = (NAME,)
    ) -> None:
        self.script = [one if isinstance(one, Mapping) else {NAME: one} for one in script]
        self.specs = dict(zip(names, specs or [spec_of()], strict=True))
        self._met: dict[str, BehaviorSpec] = {}
        self.at = self.resets = self.closed = 0
        self.given: list[dict[str, ActionTuple]] = []
        self._actions: dict[str, ActionTuple] = {}

    def reset(self) -> None:
        self.resets += 1
        self.at = 0
        self._met = self.specs

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        return self._met

    def step(self) -> None:
        self.given.append(self._actions)
        self._actions = {}
        self.at += 1

    def close(self) -> None:
        self.closed += 1

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        raise NotImplementedError

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        asking = len(self.get_steps(behavior_name)[0])
        self.specs[behavior_name].action_spec._validate_action(action, asking, behavior_name)
        self._actions[behavior_name] = action

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        say, spec = self.script[self.at].get(behavior_name, Say()), self.specs[behavior_name]
        asks, ended = list(say.asks), list(say.ended)
        branches = spec.action_spec.discrete_branches
        masks = None
        if branches and asks:
            flat = np.zeros((len(asks), sum(branches)), np.bool_)
            for row, numbers in enumerate(say.forbidden):
                flat[row, list(numbers)] = True
            masks = np.split(flat, np.cumsum(branches)[:-1], axis=1)
        groups = list(say.groups) or [0] * len(asks)
        return (
            DecisionSteps(
                self._seen(spec, asks, float(self.at)),
                np.array(asks, np.float32),
                np.array(asks, np.int32),
                masks,
                np.array(groups, np.int32),
                np.array(groups, np.float32) * np.float32(0.25),
            ),
            TerminalSteps(
                self._seen(spec, ended, self.at + 0.5),
                np.full(len(ended), -1, np.float32),
                np.array([say.ended[agent] for agent in ended], np.bool_),
                np.array(ended, np.int32),
                np.zeros(len(ended), np.int32),
                np.zeros(len(ended), np.float32),
            ),
        )

    @staticmethod
    def _seen(spec: BehaviorSpec, agents: Sequence[int], value: float) -> list[Any]:
        column = np.array([value + agent / 100 for agent in agents], np.float32)
        return [
            np.broadcast_to(column.reshape(-1, *[1] * len(one.shape)), (len(agents), *one.shape)).copy()
            for one in spec.observation_specs
        ]
