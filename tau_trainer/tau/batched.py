"""The Tau task as tensors: the headless scene (tau.md 5) with thousands of copies at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from tau_trainer.envs.batched import BatchedEnv, Draws, Outcome, State
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.settings.problems import did_you_mean
from tau_trainer.tau.dataset import SplitName, load_dataset
from tau_trainer.tau.formulas import DEFAULT_THRESHOLD
from tau_trainer.tau.profiles import EMBEDDING_SIZE, profile_named
from tau_trainer.tau.targets import targets

_SPLITS: tuple[SplitName, ...] = ("train", "evaluation", "validation", "test")

_FORMULAS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "binary": lambda error, threshold: (2.0 * (error < threshold).double() - 1.0).mean(dim=-1),
    "difference": lambda error, threshold: (-error).mean(dim=-1),
    "incremental": lambda error, threshold: (1.0 - 2.0 * error).mean(dim=-1),
    "binary_strict": lambda error, threshold: 2.0 * (error < threshold).all(dim=-1).double() - 1.0,
    "binary01": lambda error, threshold: (error < threshold).all(dim=-1).double(),
}
"""The formulas of :mod:`tau_trainer.tau.formulas` over tensors: errors [..., d] to [...]."""


class TauBatched(BatchedEnv):
    """Answer prompts, one prompt a step, drawn with replacement and independent of the actions.

    Observation: the prompt's embedding. Action: the profile's size, clipped to [-1, 1]. State: ``row`` int64 [E], the
    prompt's index in its split; ``earned`` float64 [E], of the running episode. Errors are computed in double
    precision, as in Tau, so that every binary reward is equal to the scene's.

    Args:
        num_envs: see :class:`BatchedEnv`.
        profile: ``tau3`` or ``tau384``.
        data: a data set in Tau's JSON format; None: the included one.
        split: the rows to use.
        reward: formula; None: the profile's.
        columns: number of components that count, from the first; None: all.
        threshold: error below which a component is correct.
        max_decisions: steps after which an episode is truncated; 0: never.
        reward_threshold: an episode whose reward falls to this terminates.
        faithful_terminal: report the first end as termination too, as Tau does.
    """

    name = "tau"
    truncates = True

    def __init__(
        self,
        num_envs: int,
        *,
        profile: str = "tau3",
        data: str | Path | None = None,
        split: SplitName = "train",
        reward: str | None = None,
        columns: int | None = None,
        threshold: float = DEFAULT_THRESHOLD,
        max_decisions: int = 2500,
        reward_threshold: float = -100.0,
        faithful_terminal: bool = False,
        **options: Any,
    ) -> None:
        """Raises SettingsError, DataError."""
        super().__init__(num_envs, **options)
        self.profile = profile_named(profile)
        self.dataset = load_dataset(data)
        self.rows = self.dataset.split(_known("split", split, _SPLITS))
        self.reward = _known("reward", reward or self.profile.reward, _FORMULAS)
        size = self.profile.action_size
        self.columns = size if columns is None else columns
        self.threshold, self.max_decisions = self.profile.threshold(threshold), max_decisions
        self.reward_threshold, self.faithful_terminal = reward_threshold, faithful_terminal
        if not len(self.rows):
            raise DataError(f"The data set {self.dataset.source} has no usable rows in its {split} split.")
        if not 1 <= self.columns <= size:
            raise SettingsError(f"columns is {columns}, but profile {profile} has the columns 1 to {size}")
        if not threshold > 0.0:
            raise SettingsError(f"threshold is {threshold:g}; give a number greater than 0")
        if max_decisions < 0:
            raise SettingsError(f"max_decisions is {max_decisions}; give 0 (no limit) or more")
        self.agents = ("agent",)
        self.observation_space = spaces.Box(-np.inf, np.inf, (EMBEDDING_SIZE,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (size,), np.float32)
        wanted = targets(self.dataset, self.profile)[self.rows.answer_index]
        self._prompts = torch.tensor(self.rows.prompts, device=self.device)
        self._targets = torch.tensor(wanted, device=self.device)

    def begin(self, draws: Draws) -> State:
        """The first prompt."""
        row = draws.integers(0, 0, len(self.rows))
        return {"row": row, "earned": torch.zeros(len(row), dtype=torch.float64, device=row.device)}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """Reward the answer, then draw the next prompt; at an episode's end, the last prompt stays visible."""
        error = (self.target(state).double() - actions.clamp(-1.0, 1.0).double()).abs()[:, 0, : self.columns]
        reward = _FORMULAS[self.reward](error, self.threshold)
        earned = state["earned"] + reward
        poor = earned <= self.reward_threshold
        late = state["step"] >= self.max_decisions if self.max_decisions else torch.zeros_like(poor)
        row = torch.where(poor | late, state["row"], draws.integers(0, 0, len(self.rows)))
        terminated = poor | late if self.faithful_terminal else poor
        changed = {"row": row, "earned": earned}
        return Outcome(changed, reward.float()[:, None], terminated[:, None], late[:, None])

    def observe(self, state: State) -> torch.Tensor:
        """The prompts."""
        return self._prompts[state["row"]][:, None]

    def target(self, state: State) -> torch.Tensor:
        """The right output, float32 [E, 1, c]: the scene's sensor ``target``, for computing rewards."""
        return self._targets[state["row"]][:, None]


def _known(key: str, value: Any, names: Any) -> Any:
    if value not in names:
        raise SettingsError(f"{key} is '{value}'; {did_you_mean(str(value), names)}")
    return value
