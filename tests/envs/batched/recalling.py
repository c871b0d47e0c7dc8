"""Games of which one observation does not say enough: a cue to remember, and a board that is a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from tau_trainer.envs.batched import BatchedEnv, Draws, Outcome, State


class Recalling(BatchedEnv):
    """Shows -1 or 1 at first, then nothing; who says at the end which it was gets 1. A guess gets 0.5 on average."""

    def __init__(self, num_envs: int, *, wait: int = 3, **options: Any) -> None:
        super().__init__(num_envs, **options)
        self.agents, self.wait = ("it",), wait
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def begin(self, draws: Draws) -> State:
        return {"cue": draws.integers(0, 0, 2)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        over = (state["step"] > self.wait)[:, None]
        right = actions == state["cue"][:, None]
        return Outcome({}, (right & over).float(), over, torch.zeros_like(over))

    def observe(self, state: State) -> torch.Tensor:
        shown = torch.where(state["step"] == 0, state["cue"] * 2.0 - 1.0, 0.0)
        asked = (state["step"] == self.wait).float()
        return torch.stack((shown, asked), dim=1)[:, None]


class Pictures(BatchedEnv):
    """A bright column of pixels, left or right; ``order``: of the picture's axes, ``hwc``, ``chw`` or ``hw``."""

    truncates = True

    def __init__(self, num_envs: int, *, order: str = "hwc", **options: Any) -> None:
        super().__init__(num_envs, **options)
        self.agents = ("left", "right")
        sides = {"h": 6, "w": 5, "c": 2}
        self.order = order
        self.observation_space = spaces.Box(0, 255, tuple(sides[axis] for axis in order), np.uint8)
        self.action_space = spaces.Discrete(2)

    def begin(self, draws: Draws) -> State:
        return {"place": draws.integers(0, 0, 2)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        late = (state["step"] >= 4)[:, None].expand(-1, 2)
        right = actions == state["place"][:, None]
        return Outcome({"place": 1 - state["place"]}, right.float(), torch.zeros_like(late), late)

    def observe(self, state: State) -> torch.Tensor:
        board = torch.zeros(len(state["place"]), 2, 6, 5, dtype=torch.uint8, device=self.device)  # [E, C, H, W]
        board[..., 1] = (state["place"] * 200)[:, None, None].to(torch.uint8)
        board[..., 3] = 200 - board[..., 1]
        board[:, 1, 0] = 7
        seen = {"hwc": board.movedim(1, -1), "chw": board, "hw": board[:, 0]}[self.order]
        return seen[:, None].expand(-1, 2, *seen.shape[1:]).contiguous()
