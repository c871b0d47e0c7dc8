"""Records agents' steps in columns by agent and time: a demonstration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.bridge.demonstrations import Demonstration
from tau_trainer.specs import Actions, BehaviorSpec, BoolArray, Observations, StepBatch


class Recording:
    """Steps of all agents of one behavior, in columns.

    Args:
        spec: the behavior, with the sensors to keep.
    """

    def __init__(self, spec: BehaviorSpec) -> None:
        self.spec = spec
        self._life = 0
        self._parts: dict[str, list[NDArray[Any]]] = {}

    def step(self, batch: StepBatch, obs: Observations, last: Observations, actions: Actions | None) -> None:
        """Record a message: agents that need a decision, with ``obs`` [n], and ended agents, with ``last`` [m]."""
        spec, ended = self.spec.actions, batch.terminals
        if len(ended):
            nobody = Actions.zeros(spec, len(ended))
            self._add(ended.agent_ids, last, ended.reward + ended.group_reward, nobody, None, ended.truncated)
        if len(batch) and actions is not None:
            self._add(batch.agent_ids, obs, batch.reward + batch.group_reward, actions, batch.action_mask)

    def _add(
        self,
        ids: NDArray[Any],
        obs: Observations,
        reward: NDArray[Any],
        actions: Actions,
        mask: BoolArray | None,
        truncated: BoolArray | None = None,
    ) -> None:
        """``truncated``: for agents that ended; None: these agents continue."""
        n = len(ids)
        nothing = np.zeros((n, self.spec.actions.mask_size), np.bool_)
        values: dict[str, NDArray[Any]] = {
            "agent": ids.astype(np.int64) + (self._life << 32),
            "reward": reward.astype(np.float32),
            "ended": np.full(n, truncated is not None),
            "truncated": np.zeros(n, np.bool_) if truncated is None else truncated,
            "continuous": actions.continuous,
            "discrete": actions.discrete,
            "mask": nothing if mask is None else mask,
        }
        for i, sensor in enumerate(obs):
            values[f"obs_{i}"] = np.array(sensor)
        for name, value in values.items():
            self._parts.setdefault(name, []).append(value)

    def abandon(self) -> None:
        """After the environment was lost, treat all further agents as new."""
        self._life += 1

    def demonstration(self, *, whole: bool) -> Demonstration:
        """All records by agent and time; ``whole``: without unfinished episodes."""
        columns = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        order = np.argsort(columns["agent"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        agent, ended = columns["agent"], columns["ended"]
        begins = np.ones(len(agent), np.bool_)
        begins[1:] = (agent[1:] != agent[:-1]) | ended[:-1]
        episode = np.cumsum(begins) - 1
        kept = ~(begins & ended)  # drop ends without a decision
        if whole:
            kept &= np.bincount(episode, ended)[episode] > 0
        columns = {name: values[kept] for name, values in columns.items()}
        return Demonstration(
            self.spec,
            tuple(columns[f"obs_{i}"] for i in range(len(self.spec.observations))),
            columns["reward"],
            begins[kept],
            columns["ended"],
            columns["truncated"],
            Actions(columns["continuous"], columns["discrete"]),
            columns["mask"] if columns["mask"].any() else None,
        )
