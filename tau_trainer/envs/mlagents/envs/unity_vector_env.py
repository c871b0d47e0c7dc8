"""All agents of a game as one Gymnasium vector environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tau_trainer.envs.mlagents.base_env import ActionTuple, BaseEnv
from tau_trainer.envs.mlagents.envs.spaces import Choices, ObsView, Seen, UnityGymException, only_behavior, tell_seed
from tau_trainer.specs import BoolArray, FloatArray, IndexArray, IntArray

Step = tuple[Any, FloatArray, BoolArray, BoolArray, dict[str, Any]]


class UnityVectorEnv(VectorEnv[Any, Any, Any]):
    """Each agent of the only behavior is a copy, in the order of their IDs when the game starts.

    ``AutoresetMode.SAME_STEP``: an agent whose episode ended already has the first observation of its next episode; the
    last one is in ``infos["final_obs"]``. A step is one exchange. If agents ask at different times, ``infos["asking"]``
    says whose next action is used; the other rows stay unchanged. An agent that appears later takes the place of one
    that has left.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        unity_env: BaseEnv,
        uint8_visual: bool = False,
        flatten_branched: bool = False,
        allow_multiple_obs: bool = False,
    ) -> None:
        """Resets the game; same arguments as UnityToGymWrapper. Raises UnityGymException."""
        self._env = unity_env
        self._name, spec = only_behavior(unity_env)
        self._view = ObsView(spec, uint8=uint8_visual, multiple=allow_multiple_obs)
        self._choices = Choices(spec.action_spec, flatten=flatten_branched)
        self._seeded = False
        self._slots: dict[int, int] = {}
        self._gone: set[int] = set()
        """Agents whose episode ended and that have not asked since."""
        self._asking: IndexArray = np.zeros(0, np.intp)
        """The slots of the agents that ask, in the order in which their actions are expected."""
        self.num_envs = self._begin()
        self._obs = [np.zeros((self.num_envs, *sensor.shape), np.float32) for sensor in spec.observation_specs]
        self._allowed = [np.zeros((self.num_envs, size), np.bool_) for size in spec.action_spec.discrete_branches]
        self.single_observation_space = self._view.space
        self.single_action_space = self._choices.space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Restart all episodes. ``seed``, one for the game, is sent as the environment parameter of that name."""
        if isinstance(seed, Sequence):
            raise UnityGymException("all agents are in one game; give one seed, not one for each")
        super().reset(seed=seed)
        self._seeded |= seed is not None
        if self._seeded:
            tell_seed(self._env, self.np_random)
        agents = self._begin()
        if agents != self.num_envs:
            raise UnityGymException(
                f"the game now has {agents} agents instead of {self.num_envs}; make a new environment"
            )
        self._take_decisions()
        return self._seen(), self._infos()

    def _begin(self) -> int:
        """Reset the game; returns the number of agents."""
        self._env.reset()
        decisions, _ = self._env.get_steps(self._name)
        self._slots = {agent: slot for slot, agent in enumerate(sorted(decisions.agent_id.tolist()))}
        self._gone = set()
        return len(self._slots)

    def step(self, actions: Any) -> Step:
        """Act for all agents: one row each."""
        chosen = self._choices.to_tuple(actions, self.num_envs)
        ask = self._asking
        self._env.set_actions(self._name, ActionTuple(chosen.continuous[ask], chosen.discrete[ask]))
        self._env.step()
        _, terminals = self._env.get_steps(self._name)
        rewards = np.zeros(self.num_envs, np.float32)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        ended = self._places(terminals.agent_id)
        final: Seen | None = None
        if len(ended):
            rewards[ended] = terminals.reward
            terminated[ended], truncated[ended] = ~terminals.interrupted, terminals.interrupted
            final = self._view.of(terminals.obs)
            self._gone.update(terminals.agent_id.tolist())
            for sensor, last in zip(self._obs, terminals.obs, strict=True):
                sensor[ended] = last  # until the next episode starts, usually at once
        paid = self._take_decisions()
        going = np.ones(self.num_envs, np.bool_)
        going[ended] = False
        rewards += np.where(going, paid, np.float32(0))
        infos = self._infos()
        if final is not None:
            infos |= _final(final, ended, self.num_envs)
        return self._seen(), rewards, terminated, truncated, infos

    def _take_decisions(self) -> FloatArray:
        """Store the observations of the agents that ask; returns their rewards, float32 [num_envs]."""
        decisions, _ = self._env.get_steps(self._name)
        self._gone.difference_update(decisions.agent_id.tolist())
        self._asking = places = self._places(decisions.agent_id)
        for sensor, seen in zip(self._obs, decisions.obs, strict=True):
            sensor[places] = seen
        for forbidden, mask in zip(self._allowed, decisions.action_mask or (), strict=False):
            forbidden[places] = mask
        rewards = np.zeros(self.num_envs, np.float32)
        rewards[places] = decisions.reward
        return rewards

    def _places(self, agents: IntArray) -> IndexArray:
        """The slots of these agents. Raises UnityGymException if there are more than at the start."""
        for agent in agents.tolist():
            if agent not in self._slots:
                if not self._gone:
                    raise UnityGymException(
                        f"agent {agent} appeared in addition to the first {self.num_envs}, which a vector environment "
                        "does not support; use UnityParallelEnv"
                    )
                away = min(self._gone)
                self._gone.remove(away)
                self._slots[agent] = self._slots.pop(away)
        return np.fromiter((self._slots[agent] for agent in agents.tolist()), np.intp, len(agents))

    def _seen(self) -> Any:
        return self._view.of([sensor.copy() for sensor in self._obs])

    def _infos(self) -> dict[str, Any]:
        asking = np.zeros(self.num_envs, np.bool_)
        asking[self._asking] = True
        infos: dict[str, Any] = {"asking": asking}
        if self._allowed:
            infos["action_mask"] = self._choices.allowed(self._allowed, self.num_envs)
        return infos

    def close_extras(self, **kwargs: Any) -> None:
        """Close the game."""
        self._env.close()


def _final(seen: Seen, ended: IndexArray, n: int) -> dict[str, Any]:
    """The last observations in the form of Gymnasium's vector environments: objects, and a mask of valid ones."""
    last = np.full(n, None, object)
    for row, slot in enumerate(ended.tolist()):
        last[slot] = tuple(part[row] for part in seen) if isinstance(seen, tuple) else seen[row]
    have = np.zeros(n, np.bool_)
    have[ended] = True
    return {"final_obs": last, "_final_obs": have, "final_info": {}, "_final_info": have.copy()}
