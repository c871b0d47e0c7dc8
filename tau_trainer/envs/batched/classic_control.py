"""What the classic control problems share: one agent, one tensor of physics, and a limit of steps."""

from __future__ import annotations

from typing import Any

import torch

from tau_trainer.envs.batched.contract import BatchedEnv, Outcome, State
from tau_trainer.errors import SettingsError

MOTION = "motion"
"""Of the state: [E, n], positions and velocities. The games compute in its dtype, which is float32 unless a caller puts
another there."""


class ClassicControl(BatchedEnv):
    """Spaces, dynamics, rewards, starts and limits are those of Gymnasium 1.4's environment of the same name.

    Args:
        num_envs: see :class:`BatchedEnv`.
        limit: steps after which an episode is truncated.
    """

    truncates = True

    def __init__(self, num_envs: int, *, limit: int, **options: Any) -> None:
        super().__init__(num_envs, **options)
        if limit < 1:
            raise SettingsError(f"limit is {limit}; an episode has at least 1 step")
        self.agents = ("agent",)
        self.limit = limit

    def moved(
        self, state: State, motion: tuple[torch.Tensor, ...], rewards: torch.Tensor, terminated: torch.Tensor
    ) -> Outcome:
        """What a step brought: the columns of the motion [E], rewards [E], and where that was the end, bool [E]."""
        late = state["step"] >= self.limit
        moved = {MOTION: torch.stack(motion, dim=1)}
        return Outcome(moved, rewards.to(torch.float32)[:, None], terminated[:, None], late[:, None])

    def observe(self, state: State) -> torch.Tensor:
        """The motion itself."""
        return state[MOTION].to(torch.float32)[:, None]
