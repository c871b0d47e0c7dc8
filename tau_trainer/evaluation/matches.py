"""Matches between teams in an environment, and between host and agent at Hironaka's game.

Hironaka's game is scored by games per turn (rho), for every host against every agent. A high rho is good for the host,
a low one for the agent. The results stay on the device; only reading the numbers waits for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from tau_trainer.envs import Environment, Parameters
from tau_trainer.envs.batched import Draws
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.envs.polyhedra.env import Polyhedra
from tau_trainer.envs.polyhedra.players import Player, found, view_of
from tau_trainer.envs.polyhedra.points import subsets
from tau_trainer.envs.polyhedra.rules import Position, Rules, drawn, ordered, over, played
from tau_trainer.errors import SettingsError
from tau_trainer.evaluation.play import Play
from tau_trainer.evaluation.players import Player as TeamPlayer
from tau_trainer.metrics.games import Games
from tau_trainer.specs import BehaviorSpec, StepBatch

_RESCALED = Rules(rescale=True)
Contestant = Callable[[BehaviorSpec], TeamPlayer]
"""Creates the player of a behavior."""


class TeamReferee:
    """Counts the games of one team, the same number for each of its places on the field.

    A game is an agent's episode, or a group's. The sign of its last reward, including the group's, decides who won; a
    game cut by a limit is a draw. If simply the first games to end were counted, quick games would count more.
    """

    def __init__(self, games: int, opponent: str = "") -> None:
        """``games``: the number of games, or a few more if it cannot be divided evenly."""
        self.games = Games(opponent)
        self.team = 0
        """The team whose games are counted."""
        self._wanted = games
        self._playing: dict[str, dict[int, int]] = {}
        """The group of each agent in an episode, by behavior."""
        self._counted: dict[tuple[str, int, int], int] = {}
        """Number of games by place: a group, or an agent without one."""

    @property
    def done(self) -> bool:
        """Whether every place has played its games, or other agents have replaced them and played many."""
        quota = -(-self._wanted // max(1, len(self._counted)))
        had = self._counted.values()
        return bool(had) and (min(had) >= quota or sum(had) >= 10 * self._wanted)

    def see(self, spec: BehaviorSpec, batch: StepBatch) -> None:
        """See :class:`.play.Referee`."""
        if spec.team != self.team:
            return
        playing, ended = self._playing.setdefault(spec.name, {}), batch.terminals
        first: dict[tuple[str, int, int], int] = {}
        for i, agent in enumerate(ended.agent_ids.tolist()):
            group = playing.pop(agent, None)
            if group is not None:
                first.setdefault(_place(spec, agent, group), i)
        going = set(playing.values())
        for place, i in first.items():
            if place[1] and place[1] in going:
                continue  # an agent that left before the others does not decide the game
            quota = -(-self._wanted // max(1, len(self._counted)))
            if self._counted[place] < quota:
                sign = 0.0 if ended.truncated[i] else float(np.sign(ended.reward[i] + ended.group_reward[i]))
                self.games = self.games.and_more((sign + 1.0) / 2.0)
            self._counted[place] += 1
        for agent, group in zip(batch.agent_ids.tolist(), batch.group_id.tolist(), strict=True):
            playing[agent] = group
            self._counted.setdefault(_place(spec, agent, group), 0)

    def abandon(self) -> None:
        """See :class:`.play.Referee`."""
        self._playing.clear()


def _place(spec: BehaviorSpec, agent: int, group: int) -> tuple[str, int, int]:
    return (spec.short_name, group, 0) if group else (spec.name, 0, agent + 1)


async def team_matches(
    environment: Environment,
    contestants: Mapping[str, Contestant],
    games: int,
    parameters: Parameters,
    stopped: Callable[[], bool] = lambda: False,
    on_match: Callable[[str], None] = lambda name: None,
) -> dict[tuple[str, str], Games]:
    """Play every contestant against every other one, the same number of games on each side.

    The first contestant of a pair plays one team, the second plays the other teams.

    Args:
        environment: an environment that is not started; closed at the end.
        contestants: at least two contestants by name.
        games: games of each pair, or a few more.
        parameters: parameters of the environment.
        stopped: called after every step; returns whether to end.
        on_match: called with each pair when it starts.

    Returns:
        Scores of the first of each pair, by pair.

    Raises:
        TauError: the environment cannot start, has only one team, or a contestant cannot play in it.
    """
    found: dict[tuple[str, str], Games] = {}

    def teams() -> list[int]:
        known = sorted({spec.team for spec in environment.specs.values()})
        if len(known) < 2:
            raise SettingsError(
                "a match needs two teams, but this environment has one; give its agents' behaviors different team ids"
            )
        return known

    async def play(pair: tuple[str, str], seat: int, referee: TeamReferee) -> None:
        def player_of(spec: BehaviorSpec) -> TeamPlayer:
            referee.team = teams()[seat]
            return contestants[pair[0] if spec.team == referee.team else pair[1]](spec)

        game = Play(environment, player_of, referee=referee)
        if begun:
            referee.team = teams()[seat]
            await game.begin_anew(parameters)
        else:
            begun.append(True)
            await game.begin(parameters)
        await game.until(lambda _: referee.done or stopped())

    begun: list[bool] = []
    try:
        for pair in itertools.combinations(contestants, 2):
            on_match(f"{pair[0]} - {pair[1]}")
            seat, seats = 0, 2
            while seat < seats and not stopped():
                referee = TeamReferee(-(-games // seats))
                await play(pair, seat, referee)
                seats = len(teams())
                seat += 1
                before, now = found.get(pair, Games(f"{pair[0]} - {pair[1]}")), referee.games
                for result, count in ((1.0, now.won), (0.5, now.drawn), (0.0, now.lost)):
                    before = before.and_more(result, count)
                found[pair] = before
    finally:
        await environment.close()
    return found


def standings(found: Mapping[tuple[str, str], Games]) -> list[Games]:
    """Scores of every contestant against all others, best first."""
    totals: dict[str, Games] = {}
    for (first, second), games in found.items():
        for name, won, lost in ((first, games.won, games.lost), (second, games.lost, games.won)):
            total = totals.get(name, Games(name))
            for result, count in ((1.0, won), (0.5, games.drawn), (0.0, lost)):
                total = total.and_more(result, count)
            totals[name] = total
    return sorted(totals.values(), key=lambda total: -(total.score or 0.0))


@dataclass(frozen=True, slots=True)
class Setting:
    """Rules and length of games. The defaults are those of hironaka's trainer."""

    dimension: int = 3
    max_num_points: int = 20
    max_value: int = 20
    """Largest coordinate at the start."""
    max_steps: int = 100
    """Turns after which an unfinished game ends; it counts as a game of this length."""
    rules: Rules = _RESCALED


JAX = Setting(max_num_points=5, max_value=19, max_steps=39, rules=Rules(reposition=True))
"""The games of hironaka's JAX trainer, whose rho is a different number."""


class Rho(NamedTuple):
    """An estimate: tensors [], or [H, A] of every host against every agent."""

    rho: torch.Tensor
    """Games per turn, without games that were over before their first turn."""
    error: torch.Tensor
    """One standard error of rho."""
    unfinished: torch.Tensor
    """Share of games that were cut."""


class Turn(NamedTuple):
    """The choices of both players, and their result, in every game."""

    coords: torch.Tensor
    """bool [B, d]: the host's coordinates."""
    axis: torch.Tensor
    """int64 [B]: the agent's coordinate."""
    position: Position
    """Points in their rows; unchanged in games that were over."""


def take_turn(position: Position, host: Player, agent: Player, draws: Draws, rules: Rules) -> Turn:
    """One turn of every game."""
    coords = subsets(position.points.shape[2], position.points.device)[host(view_of(position, draws, None, rules))]
    axis = agent(view_of(position, draws, coords, rules))
    return Turn(coords, axis, played(position, coords, axis, rules))


@torch.no_grad()
def get_rho_for_pair(
    host: str | Player,
    agent: str | Player,
    num_samples: int = 100,
    setting: Setting = Setting(),
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Rho:
    """``(n - already over) / turns`` in ``n = num_samples`` games.

    Raises:
        SettingsError: there is no such player.
    """
    host, agent, rules = found("host", host), found("agent", agent), setting.rules
    seeds = seeds_of(seed, num_samples, device)
    zeros = torch.zeros_like(seeds)
    position = drawn(Draws(seeds, zeros, zeros), setting.dimension, setting.max_num_points, setting.max_value, rules)
    going = ~over(position, rules)
    turns = torch.zeros(num_samples, dtype=torch.float64, device=seeds.device)
    for step in range(1, setting.max_steps + 1):
        turns += going
        position = ordered(take_turn(position, host, agent, Draws(seeds, zeros, zeros + step), rules).position)
        going = ~over(position, rules)
        if going.device.type == "cpu" and not going.any():  # elsewhere looking would be waiting
            break
    counted = turns > 0
    games = counted.sum()
    mean = turns.sum() / games
    spread = (((turns - mean) ** 2) * counted).sum() / (games - 1)
    return Rho(1 / mean, (spread / games).sqrt() / mean**2, going.sum() / games)


def rho_matrix(
    hosts: Mapping[str, str | Player],
    agents: Mapping[str, str | Player],
    num_samples: int = 100,
    setting: Setting = Setting(),
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Rho:
    """Every host (rows) against every agent (columns), all from the same starts. Raises SettingsError."""
    pairs = [
        [get_rho_for_pair(host, agent, num_samples, setting, seed=seed, device=device) for agent in agents.values()]
        for host in hosts.values()
    ]
    rows = [[torch.stack(column) for column in zip(*row, strict=True)] for row in pairs]
    return Rho(*(torch.stack(column) for column in zip(*rows, strict=True)))


@torch.no_grad()
def match(
    host: str | Player,
    agent: str | Player,
    num_steps: int = 10_000,
    copies: int = 1,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_turn: Callable[[int], None] = lambda turn: None,
    **arguments: object,
) -> torch.Tensor:
    """int64 [copies]: number of games started in ``num_steps`` consecutive turns, including the last one (a playoff).

    ``on_turn``: called with each turn, from 1. ``arguments`` are those of :class:`Polyhedra`. A game that is over at
    its start counts as one turn; a game cut after ``step_threshold`` turns counts too. Raises SettingsError.
    """
    host = found("host", host)
    env = Polyhedra(copies, role="host", opponent=agent, seed=seed, device=device, **arguments)  # type: ignore[arg-type]
    env.reset()
    games = torch.ones(copies, dtype=torch.int64, device=device)
    for turn in range(1, num_steps + 1):
        games += env.step(host(env.view())[:, None]).over
        on_turn(turn)
    return games
