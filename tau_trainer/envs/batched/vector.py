"""Any batched environment as a vector environment of Gymnasium."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.specs import BoolArray

_Array = NDArray[Any]


class BatchedVectorEnv(VectorEnv[_Array, _Array, _Array]):
    """The rows are all agents of all copies: row ``e * A + a``. Returned numpy arrays belong to the caller.

    Copies start a new episode in the step in which they end (``SAME_STEP``), with ``final_obs`` in the infos. If an
    agent leaves before its copy ends, its row stays, with reward 0 and ignored actions. Its episode ends when the copy
    ends, terminated or truncated as when it left. ``infos["present"]`` says which agents have not left. If not all
    actions are allowed, ``infos["action_mask"]``, int8 [rows, k], says which are.

    Args:
        env: the environment; :meth:`reset` starts it.
        render_mode: ``rgb_array``, for environments with pictures.
    """

    def __init__(self, env: BatchedEnv, *, render_mode: str | None = None) -> None:
        self.batched = env
        self.num_envs = env.num_envs * env.num_agents
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.observation_space = batch_space(env.observation_space, self.num_envs)
        self.action_space = batch_space(env.action_space, self.num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["rgb_array"]}
        self.render_mode = render_mode
        self._begun = False
        self._terminated = np.zeros(self.num_envs, np.bool_)
        """For agents that left: whether their episode really ended."""

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[_Array, dict[str, Any]]:
        """Start new episodes.

        Args:
            seed: like the environment's seed; or one for each row, of which only the one of a copy's first agent
                counts; None: continue with the next episodes.
            options: ``reset_mask``, bool [rows]: only copies that have a row there.
        """
        env = self.batched
        mask = (options or {}).get("reset_mask")
        chosen = torch.ones(env.num_envs, dtype=torch.bool)  # bool [E]
        if mask is not None:
            chosen = torch.as_tensor(np.asarray(mask, np.bool_).reshape(env.num_envs, env.num_agents).any(axis=1))
        if seed is not None:
            env.seed(self._seeds(seed))
        if seed is None and self._begun:
            observations = env.reset(chosen.to(env.device))
        elif mask is not None:
            raise ValueError("reset_mask needs an environment that has started, and no seed")
        else:
            observations = env.reset()
        self._begun = True
        self._terminated[np.repeat(chosen.numpy(), env.num_agents)] = False
        return self._rows(observations), self._infos()

    def step(self, actions: _Array) -> tuple[_Array, _Array, BoolArray, BoolArray, dict[str, Any]]:
        """One step of every copy, from actions [rows, ...]."""
        env = self.batched
        dtype = torch.float32 if isinstance(env.action_space, spaces.Box) else torch.int64
        given = torch.as_tensor(actions).to(env.device, dtype)
        step = env.step(given.view(env.num_envs, env.num_agents, *(env.action_space.shape or ())))
        over = np.repeat(step.over.cpu().numpy(), env.num_agents)  # bool [rows]
        self._terminated |= self._rows(step.terminated)  # remembered until the copy ends
        terminated, truncated = over & self._terminated, over & ~self._terminated
        self._terminated[over] = False
        infos = self._infos()
        if over.any():
            last = np.full(self.num_envs, None, object)
            for row, seen in zip(np.flatnonzero(over), self._rows(step.final_observations)[over], strict=True):
                last[row] = seen
            infos |= {"final_obs": last, "_final_obs": over, "final_info": {}, "_final_info": over}
        rewards = self._rows(step.rewards).astype(np.float64)  # rewards are float64 in Gymnasium's vectors
        return self._rows(step.observations), rewards, terminated, truncated, infos

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """A picture of every copy."""
        if self.render_mode is None:
            return None
        states = {name: values.cpu().numpy() for name, values in self.batched.state.items()}
        rows = ({name: values[i] for name, values in states.items()} for i in range(self.batched.num_envs))
        return tuple(self.batched.frame(row) for row in rows)

    def _seeds(self, seed: int | Sequence[int | None]) -> int | torch.Tensor:
        if isinstance(seed, int | np.integer):
            return int(seed)
        if len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds were given for {self.num_envs} rows")
        env = self.batched
        firsts = list(seed)[:: env.num_agents]
        known = [first for first in firsts if first is not None]
        if len(known) < len(firsts):
            raise ValueError("a seed is None; give one for every row, or none at all")
        return torch.cat([seeds_of(first, 1) for first in known])

    def _infos(self) -> dict[str, Any]:
        """Infos: data of the state that observations do not contain."""
        env = self.batched
        infos = dict[str, Any]()
        every = np.ones(self.num_envs, np.bool_)
        mask = env.mask
        if mask is not None:
            infos |= {"action_mask": self._rows(mask).astype(np.int8), "_action_mask": every}
        if env.num_agents > 1:
            infos |= {"present": self._rows(env.state["present"]), "_present": every}
        return infos

    def _rows(self, values: torch.Tensor) -> _Array:
        """[E, A, ...] as a separate array [rows, ...]."""
        return values.flatten(0, 1).cpu().numpy().copy()
