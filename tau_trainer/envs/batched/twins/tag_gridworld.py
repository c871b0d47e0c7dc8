"""Tag on a grid, one copy, an agent at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class TagGridworldTwin:
    """Fulfils :class:`~tau_trainer.envs.batched.Twin`. Arguments as of ``TagGridworld``."""

    def __init__(
        self,
        *,
        num_taggers: int = 10,
        grid_length: int = 10,
        episode_length: int = 100,
        wall_hit_penalty: float = 0.1,
        tag_reward_for_tagger: float = 10.0,
        tag_penalty_for_runner: float = 2.0,
        step_cost_for_tagger: float = 0.01,
        use_full_observation: bool = True,
    ) -> None:
        self.taggers, self.runner = range(num_taggers), num_taggers
        self.everybody = range(num_taggers + 1)
        self.grid_length, self.episode_length = grid_length, episode_length
        self.wall_hit_penalty = wall_hit_penalty
        self.tag_reward_for_tagger, self.tag_penalty_for_runner = tag_reward_for_tagger, tag_penalty_for_runner
        self.step_cost_for_tagger = step_cost_for_tagger
        self.use_full_observation = use_full_observation

    def advance(
        self, state: dict[str, NDArray[Any]], actions: NDArray[Any]
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        place = state["place"].copy()
        x, y = place
        rewards = np.zeros(len(x))
        for agent in self.everybody:
            match int(actions[agent]):
                case 1:
                    x[agent] += 1
                case 2:
                    x[agent] -= 1
                case 3:
                    y[agent] += 1
                case 4:
                    y[agent] -= 1
            for axis in (x, y):
                if axis[agent] < 0:
                    axis[agent] = 0
                    rewards[agent] -= self.wall_hit_penalty
                if axis[agent] > self.grid_length:
                    axis[agent] = self.grid_length
                    rewards[agent] -= self.wall_hit_penalty
        tagged = any(x[agent] == x[self.runner] and y[agent] == y[self.runner] for agent in self.taggers)
        for agent in self.taggers:
            rewards[agent] += self.tag_reward_for_tagger if tagged else -self.step_cost_for_tagger
        rewards[self.runner] += -self.tag_penalty_for_runner if tagged else self.step_cost_for_tagger
        over = tagged or state["step"] >= self.episode_length
        ended = np.full(len(x), over)
        return {"place": place}, rewards.astype(np.float32), ended, np.zeros(len(x), np.bool_)

    def observe(self, state: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        x, y = state["place"]
        time = float(state["step"]) / self.episode_length
        rows = []
        for agent in self.everybody:
            if self.use_full_observation:
                row = [float(x[one]) / self.grid_length for one in self.everybody]
                row += [float(y[one]) / self.grid_length for one in self.everybody]
                row += [float(one == self.runner) for one in self.everybody]
                row += [float(one == agent) for one in self.everybody]
            else:
                other = self.runner
                if agent == self.runner:
                    far = [(x[one] - x[agent]) ** 2 + (y[one] - y[agent]) ** 2 for one in self.taggers]
                    other = far.index(min(far))
                row = [float(axis[one]) / self.grid_length for one in (agent, other) for axis in (x, y)]
                row.append(float(agent == self.runner))
            rows.append([*row, time])
        return np.array(rows, np.float32)
