"""The plain numpy twin of the batched Tau task."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.envs.batched.contract import Played
from tau_trainer.tau.batched import TauBatched
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.targets import targets

_Arrays = dict[str, NDArray[Any]]


class TauTwin:
    """Implements :class:`~tau_trainer.envs.batched.Twin` with the engines' formulas; ``row`` is drawn."""

    def __init__(self, **arguments: Any) -> None:
        """Raises SettingsError, DataError."""
        self._game = TauBatched(1, **arguments)

    def advance(self, state: _Arrays, actions: NDArray[Any]) -> Played:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        game = self._game
        wanted = targets(game.dataset, game.profile)[game.rows.answer_index[state["row"]]]
        reward = REWARDS[game.reward](np.clip(actions, -1.0, 1.0), wanted[None], game.threshold, game.columns)
        earned = state["earned"] + reward[0]
        late = bool(game.max_decisions) and bool(state["step"] >= game.max_decisions)
        terminated = bool(earned <= game.reward_threshold) or (game.faithful_terminal and late)
        return {"earned": earned}, reward.astype(np.float32), np.array([terminated]), np.array([late])

    def observe(self, state: _Arrays) -> NDArray[Any]:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        return self._game.rows.prompts[state["row"]][None]
