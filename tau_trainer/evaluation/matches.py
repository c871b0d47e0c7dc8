"""Matches between teams in an environment."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tau_trainer.envs import Environment, Parameters
from tau_trainer.errors import SettingsError
from tau_trainer.evaluation.play import Play
from tau_trainer.evaluation.players import Player
from tau_trainer.metrics.games import Games
from tau_trainer.plugins import moved
from tau_trainer.specs import BehaviorSpec, StepBatch

_OF_POLYHEDRA = ("JAX", "get_rho_for_pair", "match", "rho_matrix")
"""Names that were here earlier."""
Contestant = Callable[[BehaviorSpec], Player]
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
        def player_of(spec: BehaviorSpec) -> Player:
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
                found[pair] = before.and_these(now.won, now.drawn, now.lost)
    finally:
        await environment.close()
    return found


def standings(found: Mapping[tuple[str, str], Games]) -> list[Games]:
    """Scores of every contestant against all others, best first."""
    totals: dict[str, Games] = {}
    for (first, second), games in found.items():
        for name, won, lost in ((first, games.won, games.lost), (second, games.lost, games.won)):
            totals[name] = totals.get(name, Games(name)).and_these(won, games.drawn, lost)
    return sorted(totals.values(), key=lambda total: -(total.score or 0.0))


def __getattr__(name: str) -> Any:
    if name in _OF_POLYHEDRA:
        return moved(__name__, "tau_trainer.games.polyhedra.matches", name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
