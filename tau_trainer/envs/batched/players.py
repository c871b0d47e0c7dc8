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
        if isinstance(self._space, spaces.Box):
            self._low, self._high = (
                torch.as_tensor(np.asarray(bound, np.float32), device=env.device)
                for bound in (self._space.low, self._space.high)
            )

    def __call__(self, observations: torch.Tensor, mask: torch.Tensor | None, state: State) -> torch.Tensor:
        """See :class:`Player`."""
        draws = Draws(state["seed"], state["episode"], state["step"])
        if isinstance(self._space, spaces.Box):
            share = draws.uniform(_STREAM, self._all, *self._space.shape)[:, self._agents]
            return self._low + (self._high - self._low) * share
        discrete = isinstance(self._space, spaces.Discrete)
        sizes = branches(self._space)
        # Each of several uniform numbers is equally likely to be the largest.
        ranks = draws.uniform(_STREAM, self._all, sum(sizes))[:, self._agents]
        if mask is not None:
            ranks = torch.where(mask, ranks, -1.0)  # below any allowed one
        chosen = torch.stack([branch.argmax(dim=2) for branch in torch.split(ranks, sizes, dim=2)], dim=2)
        return chosen[..., 0] if discrete else chosen
