"""A game with one agent as a Gymnasium environment."""

from __future__ import annotations

import logging
from typing import Any

import gymnasium
import numpy as np

from tau_trainer.envs.mlagents.base_env import BaseEnv, DecisionSteps, TerminalSteps
from tau_trainer.envs.mlagents.envs.spaces import (
    Choices,
    ObsView,
    UnityGymException,
    mask_row,
    only_behavior,
    tell_seed,
)
from tau_trainer.specs import FloatArray

__all__ = ["UnityGymException", "UnityToGymWrapper"]

_log = logging.getLogger(__name__)


class UnityToGymWrapper(gymnasium.Env[Any, Any]):
    """One behavior with one agent. ``info``: its ID, group, and for discrete actions ``action_mask`` (1 = allowed)."""

    def __init__(
        self,
        unity_env: BaseEnv,
        uint8_visual: bool = False,
        flatten_branched: bool = False,
        allow_multiple_obs: bool = False,
        action_space_seed: int | None = None,
        *,
        render_mode: str | None = None,
    ) -> None:
        """Resets the game.

        Args:
            unity_env: the game; closing this closes it too.
            uint8_visual: images as uint8 from 0 to 255, else float32 from 0 to 1.
            flatten_branched: several branches as one number.
            allow_multiple_obs: all sensors in a tuple: images, lists of entities, and one vector last; else the first
                image, or if there is no image, the vector.
            action_space_seed: seed of the action space.
            render_mode: ``rgb_array`` renders the first image.

        Raises:
            UnityGymException: there are several behaviors or agents, or no observations or actions.
        """
        self._env = unity_env
        self._name, spec = only_behavior(unity_env)
        self._view = ObsView(spec, uint8=uint8_visual, multiple=allow_multiple_obs)
        if self._view.hidden:
            _log.warning("the agent has more sensors than are shown; allow_multiple_obs=True shows all")
        self._choices = Choices(spec.action_spec, flatten=flatten_branched)
        self.observation_space = self._view.space
        self.action_space = self._choices.space
        if action_space_seed is not None:
            self.action_space.seed(action_space_seed)
        self.metadata = {"render_modes": ["rgb_array"] if self._view.renders else [], "render_fps": 30}
        self.render_mode = render_mode
        self._seeded = self._over = self._closed = False
        self._picture: FloatArray | None = None
        self._begin()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode. ``seed`` is sent as the environment parameter of that name."""
        super().reset(seed=seed)
        self._seeded |= seed is not None
        if self._seeded:
            tell_seed(self._env, self.np_random)
        return self._seen(self._begin())

    def _begin(self) -> DecisionSteps:
        self._env.reset()
        self._over = False
        decisions, _ = self._heard()
        return decisions

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action. Raises UnityGymException after an episode's end, and the environment's errors."""
        if self._over:
            raise UnityGymException("the episode is over; call reset() before the next step")
        self._env.set_actions(self._name, self._choices.to_tuple(action, 1))
        self._env.step()
        decisions, terminals = self._heard()
        self._over = len(terminals) > 0
        steps = terminals if self._over else decisions
        interrupted = self._over and bool(terminals.interrupted[0])
        obs, info = self._seen(steps)
        return obs, float(steps.reward[0]), self._over and not interrupted, interrupted, info

    def _heard(self) -> tuple[DecisionSteps, TerminalSteps]:
        """The first exchange in which the agent asks or ends."""
        while True:
            decisions, terminals = self._env.get_steps(self._name)
            agents = max(len(decisions), len(terminals))
            if agents > 1:
                raise UnityGymException(
                    f"this environment has {agents} agents and UnityToGymWrapper shows one; use UnityVectorEnv"
                )
            if agents:
                return decisions, terminals
            self._env.step()

    def _seen(self, steps: DecisionSteps | TerminalSteps) -> tuple[Any, dict[str, Any]]:
        if self._view.renders:
            self._picture = next(sensor[0] for sensor in steps.obs if sensor.ndim == 4)
        seen = self._view.of(steps.obs)
        info: dict[str, Any] = {
            "agent_id": int(steps.agent_id[0]),
            "group_id": int(steps.group_id[0]),
            "group_reward": float(steps.group_reward[0]),
        }
        if self._choices.spec.discrete_size:
            masks = steps.action_mask if isinstance(steps, DecisionSteps) else None
            info["action_mask"] = mask_row(self._choices.allowed(masks, 1), 0)
        return tuple(part[0] for part in seen) if isinstance(seen, tuple) else seen[0], info

    def render(self) -> Any:
        """The latest first image, uint8 [height, width, 3]; None without ``render_mode="rgb_array"``."""
        if self.render_mode != "rgb_array" or self._picture is None:
            return None
        picture = np.rint(self._picture.transpose(1, 2, 0) * 255).astype(np.uint8)
        return picture if picture.shape[2] == 3 else picture.repeat(3, axis=2)

    def close(self) -> None:
        """Close the game; further calls do nothing."""
        if not self._closed:
            self._closed = True
            self._env.close()
