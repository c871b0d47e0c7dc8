"""A fixed player in place of a learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from typing_extensions import override

from tau_trainer.algorithms.base import State
from tau_trainer.algorithms.batched import Acted, BatchedLearner, TensorRollout
from tau_trainer.columns import Arrays
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.envs.batched.players import make_player


class FixedPlayer(BatchedLearner):
    """Decides by a rule of the environment; learns nothing.

    Raises:
        SettingsError: the environment has no player of that name.
    """

    horizon = 1

    def __init__(self, name: str, env: BatchedEnv, agents: Sequence[int]) -> None:
        self._env, self._player = env, make_player(name, env, agents)

    @override
    def act(
        self,
        observations: torch.Tensor,
        mask: torch.Tensor | None,
        present: torch.Tensor | None = None,
        *,
        deterministic: bool = False,
    ) -> Acted:
        return Acted(self._player(observations, mask, self._env.state))

    @override
    def learn(self, rollout: TensorRollout, progress: float) -> Mapping[str, torch.Tensor]:
        return {}

    @override
    def state(self) -> State:
        return {}, {}

    @override
    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        pass
