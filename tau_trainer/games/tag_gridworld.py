"""Tag on a grid: many taggers, one runner, and penalties for hitting walls.

The rules are those of WarpDrive's environment of this name. A step, in this order: all agents move; agents that would
leave the grid are put back and pay for each axis. If a tagger is on the runner's cell, taggers and runner get the tag
rewards and the game is over. Otherwise each tagger pays for the step, and the runner gets the same amount.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch.nn import functional

from tau_trainer.envs.batched.contract import BatchedEnv, Outcome, Starts, State
from tau_trainer.envs.batched.draws import Draws
from tau_trainer.games.arguments import Arguments
from tau_trainer.games.pitch import OUT, RUNNER, TAGGER, pitch

MOVES = (0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)
"""(x, y) of each action."""


class TagGridworld(BatchedEnv):
    """Agents 0 to N - 1 are taggers, agent N is the runner; cells are 0 ... ``grid_length`` on each axis.

    Agents observe the time and the game ends when it is up, so the last step terminates; nothing is truncated.

    Args:
        num_envs: copies.
        num_taggers: ``N``.
        grid_length: number of the last cell on an axis; at least 2.
        episode_length: steps of a game in which the runner is not tagged.
        wall_hit_penalty: cost for each axis on which an agent would leave the grid.
        tag_reward_for_tagger: reward of every tagger when any of them tags the runner.
        tag_penalty_for_runner: cost of being tagged.
        step_cost_for_tagger: cost of any other step for each tagger, and reward for the runner.
        use_full_observation: float32 [4 A + 1]: x of all, y of all (shares of ``grid_length``), which is the runner,
            which is the agent itself, time (share of ``episode_length``). Otherwise [6]: own x and y; for a tagger
            those of the runner, for the runner those of the nearest tagger (in a tie, the first); whether it is the
            runner; time.
        starts: the runner starts at (0, 0). Taggers start in the middle (``fixed``), else anywhere except on an edge.
        options: options of :class:`BatchedEnv`.

    Raises:
        SettingsError: an argument is invalid.
    """

    name = "tag_gridworld"

    def __init__(
        self,
        num_envs: int,
        *,
        num_taggers: int = 10,
        grid_length: int = 10,
        episode_length: int = 100,
        wall_hit_penalty: float = 0.1,
        tag_reward_for_tagger: float = 10.0,
        tag_penalty_for_runner: float = 2.0,
        step_cost_for_tagger: float = 0.01,
        use_full_observation: bool = True,
        starts: Starts = "pool",
        **options: Any,
    ) -> None:
        arguments = Arguments(self.name, locals())
        arguments.whole("num_taggers", "episode_length", low=1)
        arguments.whole("grid_length", low=2)
        arguments.number("wall_hit_penalty", "tag_reward_for_tagger", "tag_penalty_for_runner", low=0.0)
        arguments.number("step_cost_for_tagger", low=0.0)
        arguments.flag("use_full_observation")
        super().__init__(num_envs, starts=starts, **options)
        self.num_taggers, self.grid_length, self.episode_length = num_taggers, grid_length, episode_length
        self.wall_hit_penalty = float(wall_hit_penalty)
        self.agents = (*(f"tagger_{i}" for i in range(num_taggers)), f"runner_{num_taggers}")
        everybody = num_taggers + 1
        size = 4 * (num_taggers + 1) + 1 if use_full_observation else 6
        self.observation_space = spaces.Box(0.0, 1.0, (size,), np.float32)
        self.action_space = spaces.Discrete(len(MOVES))
        self._full = use_full_observation
        self._moves = torch.tensor(MOVES, device=self.device)
        runner = torch.arange(everybody, device=self.device) == num_taggers
        self._nobody = torch.zeros((), dtype=torch.bool, device=self.device)
        self._blank = torch.zeros(everybody, size, device=self.device)
        """The constant part of an agent's observation."""
        if use_full_observation:
            self._blank[:, 2 * everybody : 3 * everybody] = runner
            self._blank[:, 3 * everybody : -1] = torch.eye(everybody, device=self.device)
        else:
            self._blank[:, 4] = runner
        self._tagged_rewards = torch.where(runner, -float(tag_penalty_for_runner), float(tag_reward_for_tagger))
        self._step_rewards = torch.where(runner, float(step_cost_for_tagger), -float(step_cost_for_tagger))

    def begin(self, draws: Draws) -> State:
        """``place``, int64 [E, 2, A]: x of all and y of all."""
        taggers = draws.integers(0, 1, self.grid_length, 2, self.num_taggers)
        if self.starts == "fixed":
            taggers = torch.full_like(taggers, self.grid_length // 2)
        return {"place": functional.pad(taggers, (0, 1))}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """Move, pay, tag."""
        moved = state["place"] + functional.embedding(actions, self._moves).mT  # [E, 2, A]
        place = moved.clamp(0, self.grid_length)
        hit_x, hit_y = (place != moved).unbind(dim=1)  # bool [E, A]
        same_x, same_y = (place[..., :-1] == place[..., -1:]).unbind(dim=1)
        tagged = (same_x & same_y).any(dim=1, keepdim=True)  # bool [E, 1]
        rewards = torch.where(tagged, self._tagged_rewards, self._step_rewards)  # [E, A]
        rewards = rewards - self.wall_hit_penalty * (hit_x.to(torch.float32) + hit_y)
        over = tagged | (state["step"] >= self.episode_length)[:, None]  # bool [E, 1]
        terminated = over.expand_as(rewards)
        return Outcome({"place": place}, rewards, terminated, self._nobody.expand_as(rewards))

    def observe(self, state: State) -> torch.Tensor:
        """See ``use_full_observation``."""
        place = state["place"] / self.grid_length  # shares [E, 2, A]
        count = len(place)
        seen = self._blank.expand(count, -1, -1).clone()
        seen[..., -1] = (state["step"] / self.episode_length)[:, None]
        if self._full:
            seen[..., : 2 * self.num_agents] = place.view(count, 1, -1)
        else:
            seen[..., :2] = place.mT
            seen[:, :-1, 2:4] = place[:, None, :, -1]  # taggers see the runner
            seen[:, -1, 2:4] = self._nearest(state["place"]).squeeze(2) / self.grid_length
        return seen

    def _nearest(self, place: torch.Tensor) -> torch.Tensor:
        """Position of the tagger nearest to the runner (in a tie, the first), [E, 2, 1]."""
        taggers = place[..., :-1]
        distance = (taggers - place[..., -1:]).square().sum(dim=1, keepdim=True)  # [E, 1, taggers]
        return taggers.gather(2, distance.argmin(dim=2, keepdim=True).expand(-1, 2, -1))

    def frame(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """Taggers red, the runner blue, time the bar below."""
        cells = self.grid_length + 1
        picture = pitch(cells, int(row["step"]) / self.episode_length)
        for i in range(1, cells):
            picture.line([(i, 0.1), (i, cells - 0.1)], OUT, cells / 500)
            picture.line([(0.1, i), (cells - 0.1, i)], OUT, cells / 500)
        for x, y, name in zip(*row["place"].tolist(), self.agents, strict=True):
            picture.disc((x + 0.5, y + 0.5), 0.36, TAGGER if name.startswith("tagger") else RUNNER)
        return picture.pixels()


class _Chaser:
    """Moves toward the runner, first along the axis with the greater distance."""

    def __init__(self, env: TagGridworld, agents: Sequence[int]) -> None:
        self._agents = torch.tensor(agents, device=env.device)

    def __call__(self, observations: torch.Tensor, mask: torch.Tensor | None, state: State) -> torch.Tensor:
        place = state["place"]
        x, y = (place[..., -1:] - place[..., self._agents]).unbind(dim=1)  # distances to the runner [E, P]
        along_x = torch.where(x > 0, 1, torch.where(x < 0, 2, 0))
        along_y = torch.where(y > 0, 3, 4)
        return torch.where(x.abs() >= y.abs(), along_x, along_y)


class _Evader:
    """Maximizes the distance to the nearest tagger; in a tie, it keeps away from the edges."""

    def __init__(self, env: TagGridworld, agents: Sequence[int]) -> None:
        self._env = env
        self._agents = torch.tensor(agents, device=env.device)

    def __call__(self, observations: torch.Tensor, mask: torch.Tensor | None, state: State) -> torch.Tensor:
        env, place = self._env, state["place"]
        there = (place[:, None, :, self._agents] + env._moves[:, :, None]).clamp(0, env.grid_length)  # [E, 5, 2, P]
        ways = (there[..., None] - place[:, None, :, None, : env.num_taggers]).abs().sum(dim=2)  # [E, 5, P, taggers]
        off_centre = (there - env.grid_length / 2).abs().sum(dim=2)  # [E, 5, P]
        return (ways.amin(dim=3) - 1e-3 * off_centre).argmax(dim=1)  # only breaks ties


TagGridworld.players = {"chaser": _Chaser, "evader": _Evader}
