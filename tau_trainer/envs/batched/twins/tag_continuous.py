"""Tag in a square, one copy, an agent at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.envs.batched.tag_continuous import drawn_taggers

_Arrays = dict[str, NDArray[Any]]
_TURN = np.float32(2.0 * math.pi)


class TagContinuousTwin:
    """Fulfils :class:`~tau_trainer.envs.batched.Twin`. Arguments as of ``TagContinuous``."""

    def __init__(
        self,
        *,
        num_taggers: int = 1,
        num_runners: int = 10,
        grid_length: float = 10.0,
        episode_length: int = 100,
        max_speed: float = 1.0,
        skill_level_runner: float = 1.0,
        skill_level_tagger: float = 1.0,
        max_acceleration: float = 1.0,
        min_acceleration: float = -1.0,
        max_turn: float = math.pi / 2,
        min_turn: float = -math.pi / 2,
        num_acceleration_levels: int = 10,
        num_turn_levels: int = 10,
        edge_hit_penalty: float = 0.0,
        use_full_observation: bool = True,
        num_other_agents_observed: int = 2,
        tagging_distance: float = 0.01,
        tag_reward_for_tagger: float = 1.0,
        step_penalty_for_tagger: float = 0.0,
        tag_penalty_for_runner: float = -1.0,
        step_reward_for_runner: float = 0.0,
        end_of_game_reward_for_runner: float = 1.0,
        runner_exits_game_after_tagged: bool = True,
    ) -> None:
        self.everybody = range(num_taggers + num_runners)
        self.taggers = drawn_taggers(num_taggers, num_runners)
        self.runners = [agent for agent in self.everybody if agent not in self.taggers]
        self.grid_length, self.episode_length, self.max_speed = grid_length, episode_length, max_speed
        self.skill_level_runner, self.skill_level_tagger = skill_level_runner, skill_level_tagger
        self.accelerations = [0.0, *np.linspace(min_acceleration, max_acceleration, num_acceleration_levels)]
        self.turns = [0.0, *np.linspace(min_turn, max_turn, num_turn_levels)]
        self.edge_hit_penalty = edge_hit_penalty
        self.use_full_observation = use_full_observation
        self.num_other_agents_observed = num_other_agents_observed
        self.tagging_distance = tagging_distance
        self.tag_reward_for_tagger, self.tag_penalty_for_runner = tag_reward_for_tagger, tag_penalty_for_runner
        self.step_penalty_for_tagger, self.step_reward_for_runner = step_penalty_for_tagger, step_reward_for_runner
        self.end_of_game_reward_for_runner = end_of_game_reward_for_runner
        self.runner_exits_game_after_tagged = runner_exits_game_after_tagged

    def advance(
        self, state: _Arrays, actions: NDArray[Any]
    ) -> tuple[_Arrays, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        alive = [bool(one) for one in state["present"]]
        new = {name: state[name].copy() for name in ("x", "y", "speed", "acceleration", "direction")}
        rewards = [0.0 for _ in self.everybody]
        for agent in self.everybody:
            at_edge = self._move(agent, new, alive[agent], *actions[agent])
            if alive[agent]:
                rewards[agent] += self.edge_hit_penalty if at_edge else 0.0
                is_tagger = agent in self.taggers
                rewards[agent] += self.step_penalty_for_tagger if is_tagger else self.step_reward_for_runner

        left = list(alive)
        for runner in self.runners:
            if not alive[runner]:
                continue
            nearest = min(self.taggers, key=lambda tagger: self._squared_distance(new, runner, tagger))
            reach = np.float32((self.tagging_distance * self.grid_length) ** 2)
            if self._squared_distance(new, runner, nearest) < reach:
                rewards[runner] += self.tag_penalty_for_runner
                rewards[nearest] += self.tag_reward_for_tagger
                if self.runner_exits_game_after_tagged:
                    left[runner] = False
        late = state["step"] >= self.episode_length
        if late:
            for runner in self.runners:
                if left[runner]:
                    rewards[runner] += self.end_of_game_reward_for_runner

        over = late or not any(left[runner] for runner in self.runners)
        ended = [over or not one for one in left]
        none = np.zeros(len(alive), np.bool_)
        return new | {"alive": np.array(alive)}, np.array(rewards, np.float32), np.array(ended, np.bool_), none

    def observe(self, state: _Arrays) -> NDArray[np.float32]:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        return np.array([self._seen_by(agent, state) for agent in self.everybody], np.float32)

    def _move(self, agent: int, new: _Arrays, alive: bool, acceleration: int, turn: int) -> bool:
        """Of one agent, in place; whether it would have left the square. In float32, as it is defined."""
        skill = self.skill_level_tagger if agent in self.taggers else self.skill_level_runner
        fastest = np.float32(self.max_speed * skill)
        direction = (new["direction"][agent] + np.float32(self.turns[turn])) % _TURN
        gained = new["acceleration"][agent] + np.float32(self.accelerations[acceleration])
        speed = min(max(new["speed"][agent] + gained, np.float32(0.0)), fastest)
        if not alive:
            direction = speed = np.float32(0.0)
        new["direction"][agent], new["speed"][agent] = direction, speed
        new["acceleration"][agent] = gained if 0.0 < speed < fastest else 0.0
        at_edge = False
        for name, step in (("x", speed * np.cos(direction)), ("y", speed * np.sin(direction))):
            place = new[name][agent] + step
            new[name][agent] = min(max(place, np.float32(0.0)), np.float32(self.grid_length))
            at_edge = at_edge or place < 0.0 or place > np.float32(self.grid_length)
        return at_edge

    def _squared_distance(self, state: _Arrays, one: int, other: int) -> np.float32:
        x, y = state["x"][one] - state["x"][other], state["y"][one] - state["y"][other]
        return np.float32(x * x + y * y)

    def _seen_by(self, agent: int, state: _Arrays) -> list[float]:
        alive = state["alive"]
        others = [one for one in self.everybody if one != agent]
        places = len(others)
        if not self.use_full_observation:
            places = self.num_other_agents_observed
            others = [one for one in others if alive[one]] if alive[agent] else []
            others.sort(key=lambda one: self._squared_distance(state, agent, one))  # stable: the first of several
            others = others[:places]
        diagonal, speed = math.sqrt(2.0) * self.grid_length, self.max_speed + 1e-10
        blocks = []
        for name, scale in (
            ("x", diagonal),
            ("y", diagonal),
            ("speed", speed),
            ("acceleration", speed),
            ("direction", 2.0 * math.pi),
        ):
            values = state[name].astype(np.float64) / scale
            blocks.append([float(values[one] - values[agent]) if alive[agent] else 0.0 for one in others])
        blocks.append([float(one in self.taggers) for one in others])
        blocks.append([float(alive[one]) for one in others])
        time = float(state["step"]) / self.episode_length if alive[agent] else 0.0
        padding = [0.0] * (places - len(others))
        return [value for block in blocks for value in block + padding] + [time]
