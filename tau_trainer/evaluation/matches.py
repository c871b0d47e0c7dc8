"""Matches: of teams in an environment, and of two at Hironaka's game.

There: games a turn (rho), of every host against every agent. Much of it speaks for the host, little for the agent. On a
device nothing waits for it; who prints numbers does.
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
"""Makes the player of a behavior."""


class TeamReferee:
    """Counts the games of one team, of every one of its places on the field as many.

    A game is an agent's episode, or a group's. Its last reward, the group's with it, says by its sign who won; one that
    a limit cut is drawn. Were the first games counted to end, quick ones would count for more.
    """

    def __init__(self, games: int, opponent: str = "") -> None:
        """``games``: so many, or a few more where they cannot be shared out evenly."""
        self.games = Games(opponent)
        self.team = 0
        """Whose games are counted."""
        self._wanted = games
        self._playing: dict[str, dict[int, int]] = {}
        """By behavior, the group of each agent in an episode."""
        self._counted: dict[tuple[str, int, int], int] = {}
        """Games of every place: a group, or an agent without one."""

    @property
    def done(self) -> bool:
        """Whether every place has had its games, or other agents have come instead and had many."""
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
                continue  # who left before the others says nothing of the game
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
    """Everybody against everybody, as many games in the place of each team; the first of a pair plays one team.

    Args:
        environment: not yet started; closed at the end.
        contestants: by name, two at least.
        games: of each pair, or a few more.
        parameters: what the environment is told.
        stopped: asked after every step, whether somebody wants it to end.
        on_match: told of each pair as it begins.

    Returns:
        By pair, what the first of it has scored.

    Raises:
        TauError: the environment cannot be had, has one team alone, or somebody cannot play in it.
    """
    found: dict[tuple[str, str], Games] = {}

    def teams() -> list[int]:
        known = sorted({spec.team for spec in environment.specs.values()})
        if len(known) < 2:
            raise SettingsError(
                "a match is between teams, and this environment has one; give its agents' behaviors different team ids"
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
    """What everybody has scored against all others, the best first."""
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
    """Which games are played, and how long. As it stands: those of hironaka's trainer."""

    dimension: int = 3
    max_num_points: int = 20
    max_value: int = 20
    """Greatest entry at the start."""
    max_steps: int = 100
    """Turns after which a game that goes on is one of so many."""
    rules: Rules = _RESCALED


JAX = Setting(max_num_points=5, max_value=19, max_steps=39, rules=Rules(reposition=True))
"""Those of hironaka's JAX trainer, whose rho is another number."""


class Rho(NamedTuple):
    """An estimate: tensors [], or [H, A] of every host against every agent."""

    rho: torch.Tensor
    """Games by turns, without games that were over before their first turn."""
    error: torch.Tensor
    """One standard error of it."""
    unfinished: torch.Tensor
    """Share of games that were cut."""


class Turn(NamedTuple):
    """What both named, and what came of it, in every game."""

    coords: torch.Tensor
    """bool [B, d]: the host's coordinates."""
    axis: torch.Tensor
    """int64 [B]: the agent's."""
    position: Position
    """Points in their rows; nothing has changed in games that were over."""


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
    """int64 [copies]: games that were begun in ``num_steps`` turns on end, the last one included (a playoff).

    ``on_turn``: told of each turn, beginning with 1.
    ``arguments`` are those of :class:`Polyhedra`. A game that is over as it begins is one of one turn; one that is cut
    after ``step_threshold`` turns counts too. Raises SettingsError.
    """
    host = found("host", host)
    env = Polyhedra(copies, role="host", opponent=agent, seed=seed, device=device, **arguments)  # type: ignore[arg-type]
    env.reset()
    games = torch.ones(copies, dtype=torch.int64, device=device)
    for turn in range(1, num_steps + 1):
        games += env.step(host(env.view())[:, None]).over
        on_turn(turn)
    return games
