"""Any batched environment as a parallel environment of PettingZoo."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.errors import SettingsError

_Step = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class BatchedParallelEnv(ParallelEnv):  # type: ignore[misc]
    """One copy of an environment; each agent leaves when its own episode ends.

    If not all actions are allowed, ``infos[agent]["action_mask"]``, int8 [k], says which are.

    Args:
        env: an environment with one copy.
        render_mode: ``rgb_array``, for environments with pictures.

    Raises:
        SettingsError: the environment has several copies.
    """

    def __init__(self, env: BatchedEnv, *, render_mode: str | None = None) -> None:
        if env.num_envs != 1:
            raise SettingsError(f"PettingZoo has no copies, but the environment has {env.num_envs}; make it with 1")
        self.batched = env
        self.metadata = {"render_modes": ["rgb_array"], "name": env.name or type(env).__name__}
        self.render_mode = render_mode
        self.possible_agents = list(env.agents)
        self.agents: list[str] = []
        self._observation_spaces = {agent: deepcopy(env.observation_space) for agent in env.agents}
        self._action_spaces = {agent: deepcopy(env.action_space) for agent in env.agents}
        self._fresh = False
        """Whether an episode has started and no agent has moved."""
        self._begun = False

    def observation_space(self, agent: str) -> spaces.Box:
        """What ``agent`` sees."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """What ``agent`` may do."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Restart; without ``seed``, start the next episode."""
        env = self.batched
        if seed is not None:
            env.seed(seed)
        if seed is not None or not self._begun:
            env.reset()
        elif not self._fresh:
            env.reset(torch.ones(1, dtype=torch.bool, device=env.device))
        self._begun = self._fresh = True
        self.agents = list(env.agents)
        return self._by_agent(env.observe(env.state), self.agents), self._infos(self.agents)

    def step(self, actions: dict[str, Any]) -> _Step:
        """One step of all agents that are in the game."""
        env, here = self.batched, self.agents
        missing = [agent for agent in here if agent not in actions]
        if missing:
            raise ValueError(f"no action for {', '.join(missing)}")
        dtype = np.float32 if isinstance(env.action_space, spaces.Box) else np.int64
        given = np.zeros((1, env.num_agents, *(env.action_space.shape or ())), dtype)
        for place, agent in enumerate(env.agents):
            if agent in here:
                given[0, place] = actions[agent]
        step = env.step(torch.as_tensor(given, device=env.device))
        rewards, terminated, truncated = (
            {agent: value.item() for agent, value in self._by_agent(values, here).items()}
            for values in (step.rewards, step.terminated, step.truncated)
        )
        self.agents = [agent for agent in here if not (terminated[agent] or truncated[agent])]
        self._fresh = not self.agents
        infos = {agent: dict[str, Any]() for agent in here} | self._infos(self.agents)
        return self._by_agent(step.final_observations, here), rewards, terminated, truncated, infos

    def render(self) -> NDArray[np.uint8] | None:
        """A picture."""
        if self.render_mode is None:
            return None
        return self.batched.frame({name: values[0].cpu().numpy() for name, values in self.batched.state.items()})

    def _infos(self, agents: list[str]) -> dict[str, dict[str, Any]]:
        mask = self.batched.mask
        if mask is None:
            return {agent: {} for agent in agents}
        return {agent: {"action_mask": row.astype(np.int8)} for agent, row in self._by_agent(mask, agents).items()}

    def _by_agent(self, values: torch.Tensor, agents: list[str]) -> dict[str, NDArray[Any]]:
        """[1, A, ...] as a separate array for each of ``agents``."""
        rows = values[0].cpu().numpy().copy()
        return {agent: rows[self.possible_agents.index(agent)] for agent in agents}
