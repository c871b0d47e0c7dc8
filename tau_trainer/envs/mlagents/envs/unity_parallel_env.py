"""A PettingZoo environment with all agents of a game, of any behaviors, which act at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from tau_trainer.envs.mlagents.base_env import BaseEnv, BehaviorSpec, DecisionSteps, TerminalSteps
from tau_trainer.envs.mlagents.envs.spaces import (
    Choices,
    UnityGymException,
    begin,
    mask_row,
    sensor_space,
    tell_seed,
)
from tau_trainer.envs.mlagents.side_channel.side_channel_manager import channels_of

try:
    from pettingzoo import ParallelEnv
    from pettingzoo.utils.conversions import parallel_to_aec_wrapper
except ImportError as error:
    raise ImportError("this needs PettingZoo: pip install 'tau-trainer[pettingzoo]'") from error

__all__ = ["UnityParallelEnv", "parallel_to_aec_wrapper"]

Told = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class UnityParallelEnv(ParallelEnv[str, Any, Any]):  # type: ignore[misc]  # has no types
    """Agents are called ``<behavior>?agent_id=<id>``.

    Each agent plays one episode and leaves when it ends. When all have left, ``reset`` starts the next episode for all
    of them (in the meantime, an agent that left gets zeros in the game and is not reported). Agents that appear later
    join. An agent that does not ask in a step keeps its observation, and its action is ignored.

    Observations are arrays; if an agent has several sensors, dictionaries of arrays by name. With discrete actions they
    are dictionaries of ``observation`` and ``action_mask``, which ``action_space.sample`` accepts: int8, 1 = allowed
    (the opposite of ML-Agents' masks). With discrete and continuous actions no space can hold such a mask, so it is in
    ``infos``, which also have ``behavior_name``, ``group_id`` and ``group_reward``.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None) -> None:
        """Resets the game. ``seed``: for the action spaces. Raises UnityGymException if agents have no actions."""
        self._env = env
        self._action_seed = seed
        self.metadata = {"name": "unity", "render_modes": [], "is_parallelizable": True}
        self.render_mode = None
        self._closed = False
        self.agents: list[str] = []
        self.possible_agents: list[str] = []
        self._choices: dict[str, Choices] = {}
        self._spaces: dict[str, spaces.Space[Any]] = {}
        self._sensors: dict[str, list[str]] = {}
        """Names of a behavior's sensors."""
        self._rng: np.random.Generator | None = None
        self._left: set[str] = set()
        """Agents whose episode has ended since the last reset."""
        self._last: dict[str, Any] = {}
        begin(env)
        self.reset()

    @property
    def side_channel(self) -> dict[str, Any]:
        """The side channels by the names of their classes."""
        return {type(channel).__name__: channel for channel in channels_of(self._env).values()}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The same for all agents of a behavior."""
        return self._spaces[_behavior(agent)]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The same for all agents of a behavior."""
        return self._choices[_behavior(agent)].space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Restart all episodes. ``seed`` is sent as the environment parameter of that name."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        if self._rng is not None:
            tell_seed(self._env, self._rng)
        self._env.reset()
        self.agents, self._left, self._last = [], set(), {}
        obs, _, _, _, infos = self._heard()
        return obs, infos

    def step(self, actions: Mapping[str, Any]) -> Told:
        """Act for all agents at once; omitted agents get zeros. Raises UnityGymException for unknown agents."""
        for agent in actions:
            if agent not in self.agents:
                raise UnityGymException(f"agent '{agent}' is not in the game now; act for those in `agents`, or reset")
        for name, choices in self._choices.items():
            decisions, _ = self._env.get_steps(name)
            chosen = choices.spec.empty_action(len(decisions))
            for row, agent_id in enumerate(decisions.agent_id.tolist()):
                action = actions.get(_agent(name, agent_id))
                if action is not None:
                    given = choices.to_tuple(action, 1)
                    chosen.continuous[row], chosen.discrete[row] = given.continuous[0], given.discrete[0]
            self._env.set_actions(name, chosen)
        self._env.step()
        return self._heard()

    def _heard(self) -> Told:
        """The results of the last exchange for the current agents."""
        here, obs = self.agents, dict(self._last)
        rewards = dict.fromkeys(here, 0.0)
        ended = dict.fromkeys(here, False)
        cut = dict.fromkeys(here, False)
        infos: dict[str, dict[str, Any]] = {
            agent: {"behavior_name": _behavior(agent), "group_id": 0, "group_reward": 0.0} for agent in here
        }
        for name, spec in self._env.behavior_specs.items():
            self._meet(name, spec)
            decisions, terminals = self._env.get_steps(name)
            for steps in (terminals, decisions):
                for row, agent_id in enumerate(steps.agent_id.tolist()):
                    agent = _agent(name, agent_id)
                    if agent in self._left:
                        continue  # its episode is over
                    rewards[agent] = float(steps.reward[row])
                    ended[agent], cut[agent] = False, False
                    infos[agent] = {
                        "behavior_name": name,
                        "group_id": int(steps.group_id[row]),
                        "group_reward": float(steps.group_reward[row]),
                    }
                    obs[agent] = self._observation(name, steps, row, infos[agent])
                    if isinstance(steps, TerminalSteps):
                        cut[agent] = bool(steps.interrupted[row])
                        ended[agent] = not cut[agent]
                        self._left.add(agent)
        self.agents = sorted(agent for agent in obs if agent not in self._left)
        self.possible_agents[:] = sorted({*self.possible_agents, *obs})  # UnityAECEnv has the same list
        self._last = {agent: obs[agent] for agent in self.agents}
        return obs, rewards, ended, cut, infos

    def _meet(self, name: str, spec: BehaviorSpec) -> None:
        """Make the spaces of a new behavior."""
        if name in self._choices:
            return
        choices = self._choices[name] = Choices(spec.action_spec)
        if self._action_seed is not None:
            choices.space.seed(self._action_seed)
        names: list[str] = []
        for i, sensor in enumerate(spec.observation_specs):
            names.append(f"{sensor.name}_{i}" if sensor.name in ("", *names) else sensor.name)
        self._sensors[name] = names
        sensors: dict[str, spaces.Space[Any]] = {}
        sensors |= {shown: sensor_space(sensor) for shown, sensor in zip(names, spec.observation_specs, strict=True)}
        space: spaces.Space[Any] = sensors[names[0]] if len(names) == 1 else spaces.Dict(sensors)
        if spec.action_spec.discrete_size and not choices.hybrid:
            masks = [spaces.MultiBinary(size) for size in spec.action_spec.discrete_branches]
            mask: spaces.Space[Any] = masks[0] if len(masks) == 1 else spaces.Tuple(masks)
            space = spaces.Dict({"observation": space, "action_mask": mask})
        self._spaces[name] = space

    def _observation(self, name: str, steps: DecisionSteps | TerminalSteps, row: int, info: dict[str, Any]) -> Any:
        """An agent's observation; a mask that no space can hold is put into ``info``."""
        seen: Any = {sensor: values[row] for sensor, values in zip(self._sensors[name], steps.obs, strict=True)}
        seen = next(iter(seen.values())) if len(seen) == 1 else seen
        choices = self._choices[name]
        if not choices.spec.discrete_size:
            return seen
        masks = None
        if isinstance(steps, DecisionSteps) and steps.action_mask is not None:
            masks = [mask[row : row + 1] for mask in steps.action_mask]
        allowed = mask_row(choices.allowed(masks, 1), 0)
        if choices.hybrid:
            info["action_mask"] = (None, allowed)
            return seen
        return {"observation": seen, "action_mask": allowed}

    def close(self) -> None:
        """Close the game; further calls do nothing."""
        if not self._closed:
            self._closed = True
            self._env.close()


def _agent(behavior: str, agent_id: int) -> str:
    return f"{behavior}?agent_id={agent_id}"


def _behavior(agent: str) -> str:
    return agent.rpartition("?agent_id=")[0]
