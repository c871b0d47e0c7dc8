"""Fixed players of batched environments, by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from gymnasium import spaces

from tau_trainer.envs.batched.contract import BatchedEnv, Player, State, branches
from tau_trainer.envs.batched.draws import Draws
from tau_trainer.errors import SettingsError
from tau_trainer.settings.problems import did_you_mean

_STREAM = 2**20 + 1
"""Stream number of :class:`Draws`, beyond those of environments."""


def make_player(name: str, env: BatchedEnv, agents: Sequence[int]) -> Player:
    """The player ``name`` of this environment, for the agents with these numbers. Raises SettingsError if unknown."""
    players = {"random": RandomPlayer, **env.players}
    if name not in players:
        whose = env.name or type(env).__name__
        raise SettingsError(f"{whose} has no fixed player '{name}'; {did_you_mean(name, players)}")
    return players[name](env, agents)


class RandomPlayer:
    """Chooses uniformly among the allowed actions. Draws depend on the copy, its episode and its step."""

    def __init__(self, env: BatchedEnv, agents: Sequence[int]) -> None:
        self._space = env.action_space
        self._agents = torch.tensor(agents, device=env.device)
        self._all = env.num_agents
        self._branches = branches(self._space)
        self.size = sum(self._branches)
        """Random numbers of a decision."""
        if isinstance(self._space, spaces.Box):
            (self.size,) = self._space.shape
            self._low, self._high = (
                torch.as_tensor(np.asarray(bound, np.float32), device=env.device)
                for bound in (self._space.low, self._space.high)
            )

    def __call__(self, observations: torch.Tensor, mask: torch.Tensor | None, state: State) -> torch.Tensor:
        """See :class:`Player`."""
        draws = Draws(state["seed"], state["episode"], state["step"])
        return self.chosen(draws.uniform(_STREAM, self._all, self.size)[:, self._agents], mask)

    def chosen(self, drawn: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """The actions by uniform random numbers [E, agents, size] from 0 to 1."""
        if isinstance(self._space, spaces.Box):
            return self._low + (self._high - self._low) * drawn
        # Each of several uniform numbers is equally likely to be the largest.
        if mask is not None:
            drawn = torch.where(mask, drawn, -1.0)  # below any allowed one
        best = torch.stack([branch.argmax(dim=2) for branch in torch.split(drawn, self._branches, dim=2)], dim=2)
        return best[..., 0] if isinstance(self._space, spaces.Discrete) else best
