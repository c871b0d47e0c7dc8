"""A game on a page: two agents add 0, 1 or 2 to a sum; who chooses 2 leaves, and at ten or six steps it is over."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from tau_trainer.envs.batched import BatchedEnv, Draws, Outcome, State


class Counting(BatchedEnv):
    truncates = True

    def __init__(self, num_envs: int, *, limit: int = 6, **options: Any) -> None:
        super().__init__(num_envs, **options)
        self.agents = ("left", "right")
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.limit = limit
        self.usual = torch.tensor([True, True, False], device=self.device)

    def begin(self, draws: Draws) -> State:
        return {"sum": draws.integers(0, 0, 5)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        total = state["sum"] + (actions * state["present"]).sum(dim=1)
        over = (total >= 10)[:, None] | (actions == 2)
        late = (state["step"] >= self.limit)[:, None].expand_as(over)
        return Outcome({"sum": total}, actions.to(torch.float32), over, late)

    def observe(self, state: State) -> torch.Tensor:
        rows = torch.stack((state["sum"], state["step"]), dim=1).to(torch.float32)
        return rows[:, None].expand(-1, 2, -1)

    def allowed(self, state: State) -> torch.Tensor:
        return self.usual.expand(len(state["sum"]), 2, 3) | (state["sum"] > 2)[:, None, None]


class Branched(Counting):
    """Chooses on two branches, of which the first counts."""

    def __init__(self, num_envs: int, **options: Any) -> None:
        super().__init__(num_envs, **options)
        self.action_space: Any = spaces.MultiDiscrete([2, 4])

    def advance(self, state: Any, actions: torch.Tensor, draws: Any) -> Any:
        assert actions.shape[1:] == (2, 2)
        return super().advance(state, actions[..., 0], draws)

    def allowed(self, state: Any) -> Any:
        return None
