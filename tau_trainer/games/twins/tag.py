"""Twins of both games of tag: one copy, one agent after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.envs.batched.contract import Played
from tau_trainer.games.arguments import completed
from tau_trainer.games.tag_continuous import TagContinuous, drawn_taggers
from tau_trainer.games.tag_gridworld import TagGridworld

_Arrays = dict[str, NDArray[Any]]
_TURN = np.float32(2.0 * math.pi)


class TagGridworldTwin:
    """Implements :class:`~tau_trainer.envs.batched.Twin`. Arguments as for ``TagGridworld``."""

    def __init__(self, **arguments: Any) -> None:
        self._game = completed(TagGridworld, arguments)
        self._taggers, self._runner = range(self._game.num_taggers), self._game.num_taggers
        self._everybody = range(self._game.num_taggers + 1)

    def advance(self, state: _Arrays, actions: NDArray[Any]) -> Played:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        game, place = self._game, state["place"].copy()
        x, y = place
        rewards = np.zeros(len(x))
        for agent in self._everybody:
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
                    rewards[agent] -= game.wall_hit_penalty
                if axis[agent] > game.grid_length:
                    axis[agent] = game.grid_length
                    rewards[agent] -= game.wall_hit_penalty
        tagged = any(x[agent] == x[self._runner] and y[agent] == y[self._runner] for agent in self._taggers)
        for agent in self._taggers:
            rewards[agent] += game.tag_reward_for_tagger if tagged else -game.step_cost_for_tagger
        rewards[self._runner] += -game.tag_penalty_for_runner if tagged else game.step_cost_for_tagger
        over = tagged or state["step"] >= game.episode_length
        ended = np.full(len(x), over)
        return {"place": place}, rewards.astype(np.float32), ended, np.zeros(len(x), np.bool_)

    def observe(self, state: _Arrays) -> NDArray[np.float32]:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        game, (x, y) = self._game, state["place"]
        time = float(state["step"]) / game.episode_length
        rows = []
        for agent in self._everybody:
            if game.use_full_observation:
                row = [float(x[seen]) / game.grid_length for seen in self._everybody]
                row += [float(y[seen]) / game.grid_length for seen in self._everybody]
                row += [float(seen == self._runner) for seen in self._everybody]
                row += [float(seen == agent) for seen in self._everybody]
            else:
                other = self._runner
                if agent == self._runner:
                    far = [(x[tagger] - x[agent]) ** 2 + (y[tagger] - y[agent]) ** 2 for tagger in self._taggers]
                    other = far.index(min(far))
                row = [float(axis[seen]) / game.grid_length for seen in (agent, other) for axis in (x, y)]
                row.append(float(agent == self._runner))
            rows.append([*row, time])
        return np.array(rows, np.float32)


class TagContinuousTwin:
    """Implements :class:`~tau_trainer.envs.batched.Twin`. Arguments as for ``TagContinuous``."""

    def __init__(self, **arguments: Any) -> None:
        game = self._game = completed(TagContinuous, arguments)
        self._everybody = range(game.num_taggers + game.num_runners)
        self._taggers = drawn_taggers(game.num_taggers, game.num_runners)
        self._runners = [agent for agent in self._everybody if agent not in self._taggers]
        self._accelerations = [
            0.0,
            *np.linspace(game.min_acceleration, game.max_acceleration, game.num_acceleration_levels),
        ]
        self._turns = [0.0, *np.linspace(game.min_turn, game.max_turn, game.num_turn_levels)]

    def advance(self, state: _Arrays, actions: NDArray[Any]) -> Played:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        game, alive = self._game, [bool(here) for here in state["present"]]
        new = {name: state[name].copy() for name in ("x", "y", "speed", "acceleration", "direction")}
        rewards = [0.0 for _ in self._everybody]
        for agent in self._everybody:
            at_edge = self._move(agent, new, alive[agent], *actions[agent])
            if alive[agent]:
                rewards[agent] += game.edge_hit_penalty if at_edge else 0.0
                is_tagger = agent in self._taggers
                rewards[agent] += game.step_penalty_for_tagger if is_tagger else game.step_reward_for_runner

        left = list(alive)
        for runner in self._runners:
            if not alive[runner]:
                continue
            nearest = min(self._taggers, key=lambda tagger: self._squared_distance(new, runner, tagger))
            reach = np.float32((game.tagging_distance * game.grid_length) ** 2)
            if self._squared_distance(new, runner, nearest) < reach:
                rewards[runner] += game.tag_penalty_for_runner
                rewards[nearest] += game.tag_reward_for_tagger
                if game.runner_exits_game_after_tagged:
                    left[runner] = False
        late = state["step"] >= game.episode_length
        if late:
            for runner in self._runners:
                if left[runner]:
                    rewards[runner] += game.end_of_game_reward_for_runner

        over = late or not any(left[runner] for runner in self._runners)
        ended = [over or not here for here in left]
        none = np.zeros(len(alive), np.bool_)
        return new | {"alive": np.array(alive)}, np.array(rewards, np.float32), np.array(ended, np.bool_), none

    def observe(self, state: _Arrays) -> NDArray[np.float32]:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        return np.array([self._seen_by(agent, state) for agent in self._everybody], np.float32)

    def _move(self, agent: int, new: _Arrays, alive: bool, acceleration: int, turn: int) -> bool:
        """Move one agent in place; returns whether it would have left the square. Computes in float32, as defined."""
        game = self._game
        skill = game.skill_level_tagger if agent in self._taggers else game.skill_level_runner
        fastest = np.float32(game.max_speed * skill)
        direction = (new["direction"][agent] + np.float32(self._turns[turn])) % _TURN
        gained = new["acceleration"][agent] + np.float32(self._accelerations[acceleration])
        speed = min(max(new["speed"][agent] + gained, np.float32(0.0)), fastest)
        if not alive:
            direction = speed = np.float32(0.0)
        new["direction"][agent], new["speed"][agent] = direction, speed
        new["acceleration"][agent] = gained if 0.0 < speed < fastest else 0.0
        at_edge = False
        for name, step in (("x", speed * np.cos(direction)), ("y", speed * np.sin(direction))):
            place = new[name][agent] + step
            new[name][agent] = min(max(place, np.float32(0.0)), np.float32(game.grid_length))
            at_edge = at_edge or place < 0.0 or place > np.float32(game.grid_length)
        return at_edge

    def _squared_distance(self, state: _Arrays, agent: int, other: int) -> np.float32:
        x, y = state["x"][agent] - state["x"][other], state["y"][agent] - state["y"][other]
        return np.float32(x * x + y * y)

    def _seen_by(self, agent: int, state: _Arrays) -> list[float]:
        game, alive = self._game, state["alive"]
        others = [other for other in self._everybody if other != agent]
        places = len(others)
        if not game.use_full_observation:
            places = game.num_other_agents_observed
            others = [other for other in others if alive[other]] if alive[agent] else []
            others.sort(key=lambda other: self._squared_distance(state, agent, other))  # stable: in a tie, the first
            others = others[:places]
        diagonal, speed = math.sqrt(2.0) * game.grid_length, game.max_speed + 1e-10
        blocks = []
        for name, scale in (
            ("x", diagonal),
            ("y", diagonal),
            ("speed", speed),
            ("acceleration", speed),
            ("direction", 2.0 * math.pi),
        ):
            values = state[name].astype(np.float64) / scale
            blocks.append([float(values[other] - values[agent]) if alive[agent] else 0.0 for other in others])
        blocks.append([float(other in self._taggers) for other in others])
        blocks.append([float(alive[other]) for other in others])
        time = float(state["step"]) / game.episode_length if alive[agent] else 0.0
        padding = [0.0] * (places - len(others))
        return [value for block in blocks for value in block + padding] + [time]
