"""Tag in a square: taggers and runners with heading, speed and acceleration.

The rules are those of WarpDrive's environment of this name, in its CPU version. Its GPU kernels differ: if a tagger
catches several runners in one step, they lose rewards, and they pay runners who are caught in the last step as if they
had escaped. A step, in this order: all agents turn, accelerate and move, and are put back inside the square; runners
are caught; the game ends if no runner is left or the time is up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.envs.batched.contract import BatchedEnv, Outcome, Starts, State
from tau_trainer.envs.batched.draws import Draws
from tau_trainer.games.arguments import Arguments
from tau_trainer.games.pitch import INK, OUT, REACH, RUNNER, TAGGER, pitch

_TURN = 2.0 * math.pi
_SEEN = "x", "y", "speed", "acceleration", "direction"
_NOWHERE = 0x7FF << 52
"""Bits of an infinite float64."""
_PAIRS, _PAIRS_ELSEWHERE = 2**18, 2**27
"""Distances that are computed together: as many as fit a core's cache; as many as fit another device's memory."""


class _Paid(NamedTuple):
    """Rewards, float32 [A] unless it is a number; ``tag``: for each runner that a tagger catches."""

    edge: float
    tag: float
    step: torch.Tensor
    caught: torch.Tensor
    end: torch.Tensor


class _Moves(NamedTuple):
    """Movements by action, float32 [levels + 1], turns in radians; and each agent's top speed, [A]."""

    accelerations: torch.Tensor
    turns: torch.Tensor
    top_speed: torch.Tensor


class TagContinuous(BatchedEnv):
    """Which agents are taggers is drawn once, the same for all copies and seeds: a policy's agents stay its own.

    Actions: a change of acceleration and a turn, each 0 for none or 1 ... levels, evenly spaced from least to most.
    Agents observe the time and are paid at the end, so a game's last step terminates; nothing is truncated.

    Args:
        num_envs: copies.
        num_taggers: number of taggers.
        num_runners: number of runners.
        grid_length: side of the square.
        episode_length: steps of a game, if a runner is left.
        max_speed: of skill 1, a step.
        skill_level_runner: a runner's greatest speed, in ``max_speed``.
        skill_level_tagger: a tagger's greatest speed, in ``max_speed``.
        max_acceleration: greatest change of acceleration in a step.
        min_acceleration: least.
        max_turn: greatest turn in a step, radians.
        min_turn: least.
        num_acceleration_levels: changes of acceleration in addition to none.
        num_turn_levels: turns in addition to none.
        edge_hit_penalty: reward, at most 0, if an agent would leave the square.
        use_full_observation: whether an agent observes all others, in the order of agents, or only the nearest.
            float32 [7 O + 1] of O others: all dx, all dy (shares of the diagonal), all differences of speed and of
            acceleration (in ``max_speed``), of direction (in full turns), whether it is a tagger, whether it is in the
            game, and time (share of ``episode_length``). Agents that are out observe zeros and, with full observation,
            who is a tagger.
        num_other_agents_observed: O, the nearest in the game; in a tie, the first. Zeros if there are fewer.
        tagging_distance: a runner nearer to a tagger than this share of ``grid_length`` is caught by the nearest.
        tag_reward_for_tagger: for each runner that it catches.
        step_penalty_for_tagger: reward of a step, at most 0.
        tag_penalty_for_runner: reward, at most 0, of being caught.
        step_reward_for_runner: of a step.
        end_of_game_reward_for_runner: of being in the game when time is up.
        runner_exits_game_after_tagged: whether a runner that is caught leaves the game.
        starts: places anywhere in the square, directions along its sides, at rest.
        options: options of :class:`BatchedEnv`.

    Raises:
        SettingsError: an argument is invalid.
    """

    name = "tag_continuous"

    def __init__(
        self,
        num_envs: int,
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
        starts: Starts = "fixed",
        **options: Any,
    ) -> None:
        arguments = Arguments(self.name, locals())
        arguments.whole("num_taggers", "num_runners", "episode_length", low=1)
        arguments.whole("num_acceleration_levels", "num_turn_levels", low=0)
        arguments.number("grid_length", "max_speed", low=0.0, above=True)
        arguments.number("skill_level_runner", "skill_level_tagger", "tagging_distance", low=0.0)
        arguments.number("max_acceleration", "min_acceleration", "max_turn", "min_turn")
        arguments.number("edge_hit_penalty", "step_penalty_for_tagger", "tag_penalty_for_runner", high=0.0)
        arguments.number("tag_reward_for_tagger", "step_reward_for_runner", "end_of_game_reward_for_runner", low=0.0)
        arguments.flag("use_full_observation", "runner_exits_game_after_tagged")
        everybody = num_taggers + num_runners
        if not use_full_observation:
            arguments.whole("num_other_agents_observed", low=1, high=everybody - 1)
        for what in ("acceleration", "turn"):
            wanted = f"must be at most max_{what}"
            arguments.require(f"min_{what}", locals()[f"min_{what}"] <= locals()[f"max_{what}"], wanted)
        super().__init__(num_envs, starts=starts, **options)
        self.episode_length, self.exits = episode_length, runner_exits_game_after_tagged
        self.grid_length = float(grid_length)
        self.tagging_distance = float(tagging_distance) * float(grid_length)
        self._nearest = None if use_full_observation else num_other_agents_observed

        chosen = drawn_taggers(num_taggers, num_runners)
        self.agents = tuple(f"{'tagger' if i in chosen else 'runner'}_{i}" for i in range(everybody))
        size = 7 * (num_other_agents_observed if self._nearest else everybody - 1) + 1
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.MultiDiscrete([num_acceleration_levels + 1, num_turn_levels + 1])

        def constant(values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype, device=self.device)

        self._ids = ids = torch.arange(everybody, device=self.device)
        self.tagger_ids = constant(chosen, torch.int64)
        self.is_tagger = torch.isin(ids, self.tagger_ids)
        self.runner_ids = ids[~self.is_tagger]

        def by_kind(tagger: float, runner: float) -> torch.Tensor:
            return torch.where(self.is_tagger, constant(tagger), constant(runner))

        self.moves = _Moves(
            constant([0.0, *np.linspace(min_acceleration, max_acceleration, num_acceleration_levels)]),
            constant([0.0, *np.linspace(min_turn, max_turn, num_turn_levels)]),
            by_kind(max_speed * skill_level_tagger, max_speed * skill_level_runner),
        )
        self._paid = _Paid(
            float(edge_hit_penalty),
            float(tag_reward_for_tagger),
            step=by_kind(step_penalty_for_tagger, step_reward_for_runner),
            caught=by_kind(0.0, tag_penalty_for_runner),
            end=by_kind(0.0, end_of_game_reward_for_runner),
        )
        diagonal, speed = math.sqrt(2.0) * self.grid_length, max_speed + 1e-10
        before = (ids[:-1] < ids[:, None])[:, None]  # in a list without the agent itself
        self._sight = constant([diagonal, diagonal, speed, speed, _TURN])[:, None], before

    def begin(self, draws: Draws) -> State:
        """Places, directions along the sides, at rest; float32 [E, A] each.

        ``alive``, bool [E, A]: agents that were in the game when the last step started; observations use this state.
        """
        x, y = (draws.uniform(stream, self.num_agents, high=self.grid_length) for stream in (0, 1))
        direction = draws.integers(2, 0, 4, self.num_agents) * (_TURN / 4)
        rest = torch.zeros_like(x)
        return dict(zip(_SEEN, (x, y, rest, rest, direction), strict=True)) | {"alive": rest == 0}

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """Move, catch, pay."""
        alive, limit, moves, paid = state["present"], self.grid_length, self.moves, self._paid
        direction = torch.remainder(state["direction"] + moves.turns[actions[..., 1]], _TURN) * alive
        acceleration = state["acceleration"] + moves.accelerations[actions[..., 0]]
        speed = torch.minimum((state["speed"] + acceleration).clamp_min(0.0), moves.top_speed) * alive
        acceleration = acceleration * ((speed > 0) & (speed < moves.top_speed))  # 0 at either limit
        far_x = state["x"] + speed * torch.cos(direction)
        far_y = state["y"] + speed * torch.sin(direction)
        x, y = far_x.clamp(0.0, limit), far_y.clamp(0.0, limit)  # [E, A]

        rewards = (paid.edge * ((x != far_x) | (y != far_y)) + paid.step) * alive
        caught, by = self._caught(x, y, alive)
        rewards = rewards + paid.caught * caught  # bool [E, A]
        rewards = rewards.scatter_add(1, by, caught[:, self.runner_ids] * paid.tag)
        left = alive & ~caught if self.exits else alive  # who stays in the game
        late = (state["step"] >= self.episode_length)[:, None]  # bool [E, 1]
        rewards = rewards + paid.end * (left & late)

        over = late | ~left[:, self.runner_ids].any(dim=1, keepdim=True)
        moved = dict(zip(_SEEN, (x, y, speed, acceleration, direction), strict=True)) | {"alive": alive}
        return Outcome(moved, rewards, over | ~left, torch.zeros_like(alive))

    def observe(self, state: State) -> torch.Tensor:
        """See ``use_full_observation``."""
        alive, (scale, before) = state["alive"], self._sight
        movement = torch.stack([state[name] for name in _SEEN], dim=1) / scale
        features = torch.cat((movement, self.is_tagger.expand_as(alive)[:, None], alive[:, None]), dim=1)  # [E, 7, A]
        seen = features.new_empty(*alive.shape, *self.observation_space.shape)
        seen[..., -1] = (state["step"] / self.episode_length)[:, None] * alive
        found = seen[..., :-1].view(*alive.shape, 7, -1)  # the same memory, [E, A, 7, O]
        relative = found[:, :, :5]  # a view: what follows changes `found`
        if self._nearest:
            nearest, there = self._neighbours(state["x"], state["y"], alive)
            everybody = features[:, None].expand(-1, self.num_agents, -1, -1)
            found[:] = everybody.gather(3, nearest[:, :, None].expand(found.shape))
            relative -= movement.mT[..., None]
            found *= (there & alive[..., None])[:, :, None]
        else:
            torch.where(before, features[:, None, :, :-1], features[:, None, :, 1:], out=found)
            relative -= movement.mT[..., None]
            relative *= alive[..., None, None]
        return seen

    def _neighbours(self, x: torch.Tensor, y: torch.Tensor, alive: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The nearest other agents in the game, int64 [E, A, O], and whether each exists, bool [E, A, O]."""
        parts = []
        for own_x, other_x, own_y in self._chunks(self.num_agents**2, x, x.masked_fill(~alive, math.inf), y):
            distance = (own_x[:, :, None] - other_x[:, None]).square_()
            distance += (own_y[:, :, None] - own_y[:, None]).square_()
            distance.diagonal(dim1=1, dim2=2).fill_(math.inf)  # an agent is not its own neighbor
            # The bits of nonnegative floats sort like numbers, and a float32 leaves 29 of 64 bits for the agent's
            # number.
            keys = distance.to(torch.float64).view(torch.int64).bitwise_or_(self._ids)
            parts.append(keys.topk(self._nearest or 1, dim=2, largest=False).values)
        keys = torch.cat(parts)
        return keys & (2**29 - 1), keys < _NOWHERE  # the agents' numbers; an infinite distance: no agent

    def _caught(self, x: torch.Tensor, y: torch.Tensor, alive: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Which agents are caught, bool [E, A], and each runner's nearest tagger, int64 [E, runners]."""
        found = []
        for some_x, some_y in self._chunks(len(self.tagger_ids) * len(self.runner_ids), x, y):
            distance = (some_x[:, self.runner_ids, None] - some_x[:, None, self.tagger_ids]).square_()
            distance += (some_y[:, self.runner_ids, None] - some_y[:, None, self.tagger_ids]).square_()
            found.append(distance.min(dim=2))  # [e, runners]
        nearest, taggers = (torch.cat(parts) for parts in zip(*found, strict=True))
        close = torch.zeros_like(alive)
        close[:, self.runner_ids] = nearest < self.tagging_distance**2
        return close & alive, self.tagger_ids[taggers]

    def _chunks(self, pairs: int, *values: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
        """Split tensors along copies into chunks whose ``pairs`` of agents fit in memory."""
        size = max(1, (_PAIRS if self.device.type == "cpu" else _PAIRS_ELSEWHERE) // pairs)
        return zip(*(torch.split(tensor, size) for tensor in values), strict=True)

    def frame(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """Taggers red, within the ring that catches; runners blue; those out are faint; a bar shows the time."""
        picture = pitch(self.grid_length, int(row["step"]) / self.episode_length)
        places = list(zip(row["x"].tolist(), row["y"].tolist(), strict=True))
        radius = max(0.5 * self.tagging_distance, self.grid_length / 80)
        taggers = set(self.tagger_ids.tolist())
        for i in taggers:
            picture.disc(places[i], self.tagging_distance, REACH)
        for i in sorted(range(self.num_agents), key=lambda i: (row["present"][i], i in taggers)):  # active ones on top
            x, y = places[i]
            if row["present"][i]:
                heading = float(row["direction"][i])
                picture.disc((x, y), radius, TAGGER if i in taggers else RUNNER)
                eye = x + 0.5 * radius * math.cos(heading), y + 0.5 * radius * math.sin(heading)
                picture.disc(eye, 0.3 * radius, INK)
            else:
                picture.disc((x, y), 0.6 * radius, OUT)
        return picture.pixels()


def drawn_taggers(num_taggers: int, num_runners: int) -> list[int]:
    """Numbers of the agents that are taggers, in order."""
    zero = torch.zeros(1, dtype=torch.int64)
    shuffled = Draws(zero, zero, zero).bits(0, num_taggers + num_runners)[0].argsort()
    return sorted(shuffled[:num_taggers].tolist())


class _Player:
    """Chooses a heading and then the best possible speed."""

    def __init__(self, env: TagContinuous, agents: Sequence[int]) -> None:
        self._env = env
        self._agents = torch.tensor(agents, device=env.device)
        self._top_speed = env.moves.top_speed[self._agents, None]

    def _nearest(self, state: State, among: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Each agent's x and y, and the predicted next x and y of its nearest opponent, [E, P, 1] each.

        The nearest is chosen from ``among`` (in a tie, the first). If none is in the game, it is the square's middle.
        """
        x, y = state["x"], state["y"]
        distance = (x[:, self._agents, None] - x[:, None, among]).square()
        distance += (y[:, self._agents, None] - y[:, None, among]).square()  # [E, P, among]
        least = distance.masked_fill_(~state["present"][:, None, among], math.inf).min(dim=2)
        place = among[least.indices]
        far_x = (x + state["speed"] * torch.cos(state["direction"])).clamp(0.0, self._env.grid_length)
        far_y = (y + state["speed"] * torch.sin(state["direction"])).clamp(0.0, self._env.grid_length)
        there = least.values < math.inf
        middle = torch.full_like(least.values, self._env.grid_length / 2)
        target = (torch.where(there, far.gather(1, place), middle)[..., None] for far in (far_x, far_y))
        return x[:, self._agents, None], y[:, self._agents, None], *target

    def _directions(self, state: State) -> torch.Tensor:
        """Possible directions, [E, P, turns]."""
        return state["direction"][:, self._agents, None] + self._env.moves.turns

    def _speeds(self, state: State) -> torch.Tensor:
        """Possible speeds, [E, P, accelerations]."""
        speed = state["speed"] + state["acceleration"]
        return torch.minimum(
            (speed[:, self._agents, None] + self._env.moves.accelerations).clamp_min(0.0), self._top_speed
        )


class _Chaser(_Player):
    """Turns to where the nearest runner will be, at the speed that gets it there."""

    def __call__(self, observations: torch.Tensor, mask: torch.Tensor | None, state: State) -> torch.Tensor:
        x, y, to_x, to_y = self._nearest(state, self._env.runner_ids)
        directions, wanted = self._directions(state), torch.atan2(to_y - y, to_x - x)
        ahead = torch.cos(directions - wanted)  # 1 straight at it
        turn = ahead.argmax(dim=2)
        way = (torch.hypot(to_x - x, to_y - y) * ahead.amax(dim=2, keepdim=True)).clamp_min(0.0)
        return torch.stack(((self._speeds(state) - way).abs().argmin(dim=2), turn), dim=2)


class _Evader(_Player):
    """Turns to where, after ``ahead`` steps inside the square, it is farthest from the nearest tagger."""

    ahead = 3

    def __call__(self, observations: torch.Tensor, mask: torch.Tensor | None, state: State) -> torch.Tensor:
        x, y, from_x, from_y = self._nearest(state, self._env.tagger_ids)
        directions, way = self._directions(state), self.ahead * self._top_speed
        far_x = (x + way * torch.cos(directions)).clamp(0.0, self._env.grid_length) - from_x
        far_y = (y + way * torch.sin(directions)).clamp(0.0, self._env.grid_length) - from_y
        turn = (far_x.square() + far_y.square()).argmax(dim=2)
        return torch.stack((self._speeds(state).argmax(dim=2), turn), dim=2)


TagContinuous.players = {"chaser": _Chaser, "evader": _Evader}
