"""Matches of teams; and what pairs of fixed players are worth at Hironaka's game, against figures of others."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.envs import Environment
from tau_trainer.envs.polyhedra.players import View
from tau_trainer.errors import EngineError, SettingsError
from tau_trainer.evaluation.matches import (
    JAX,
    Contestant,
    Setting,
    TeamReferee,
    get_rho_for_pair,
    match,
    rho_matrix,
    standings,
    team_matches,
)
from tau_trainer.evaluation.players import ScriptedPlayer
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes.soccer import SoccerScene, strong
from tau_trainer.metrics.games import Games
from tau_trainer.specs import ActionSpec, BehaviorSpec, StepBatch, empty_terminals
from tests.training.fakes import step, vector_spec

FIVE = Setting(max_num_points=5)
TRAINER = [
    # host, agent, at 20 points (of 20,000 games for random, 10,000 for pairs), at 5 points (of 10,000)
    ("random", "random", 0.165, 0.198),
    ("random", "choose_first", 0.042, 0.069),
    ("random_pair", "random", 0.146, 0.179),
    ("random_pair", "choose_first", 0.050, 0.083),
]
JAX_RULE = [
    ("random", 0.200, 0.091, 0.091),
    ("random_pair", 0.179, 0.103, 0.102),
    ("all_coord", 0.251, 0.032, 0.032),
    ("zeillinger", 0.256, 0.160, 0.166),
]
MATCHES = [
    # games in 10,000 turns, published and simulated anew by others
    ("random_pair", "choose_first", 488, 522),
    ("random_pair", "random", 1481, 1470),
    ("all_coord", "choose_first", 10, 13),
    ("all_coord", "random", 2139, 2113),
    ("zeillinger", "choose_first", 719, None),
    ("zeillinger", "random", 1898, None),
]


def assert_close(host: str, agent: str, setting: Setting, wanted: float, theirs: int, games: int = 3000) -> None:
    """``wanted`` is of ``theirs`` games and rounded to three digits."""
    found = get_rho_for_pair(host, agent, games, setting, seed=4)
    error = math.hypot(float(found.error), float(found.error) * math.sqrt(games / theirs))
    assert abs(float(found.rho) - wanted) <= 3 * error + 0.0005


@pytest.mark.parametrize(("host", "agent", "twenty", "five"), TRAINER)
def test_rho_as_the_trainer_counts(host: str, agent: str, twenty: float, five: float) -> None:
    assert_close(host, agent, Setting(), twenty, 10_000, games=2000)
    assert_close(host, agent, FIVE, five, 10_000)


@pytest.mark.parametrize(("host", "random", "first", "last"), JAX_RULE)
def test_rho_as_the_jax_trainer_counts(host: str, random: float, first: float, last: float) -> None:
    for agent, wanted in (("random", random), ("choose_first", first), ("choose_last", last)):
        assert_close(host, agent, JAX, wanted, 20_000)


@pytest.mark.parametrize(("host", "agent", "published", "again"), MATCHES)
def test_games_in_a_match(host: str, agent: str, published: int, again: int | None) -> None:
    parts, copies = 16, 10
    games = match(host, agent, 10_000 // parts, copies, seed=9, step_threshold=1000).double()
    ours = (games.mean() - 1) * parts + 1
    one_match = games.std() * math.sqrt(parts) + 1
    for theirs in (published, again):
        assert theirs is None or abs(float(ours) - theirs) <= 3 * float(one_match) * math.sqrt(1 + parts / copies)


def test_rho_counts_turns_exactly() -> None:
    """Two points in two dimensions: a host that names both ends them in one turn, or never with the wrong reply."""
    setting = Setting(dimension=2, max_num_points=2, max_value=3, max_steps=7)
    lengths: list[int] = []

    def stubborn(view: View) -> torch.Tensor:
        here = view.points[..., 0] >= 0
        lengths.append(int((here.sum(dim=1) == 2).sum()))
        return torch.zeros(len(view.points), dtype=torch.int64)

    found = get_rho_for_pair(stubborn, "choose_first", 500, setting, seed=1)
    assert 0 < lengths[0] < 500
    assert len(lengths) <= 7
    turns = sum(lengths)
    assert float(found.rho) == pytest.approx(lengths[0] / turns)
    spread = [length for length in range(1, 8) for _ in range(_ended(lengths, length))]
    mean = turns / lengths[0]
    variance = sum((one - mean) ** 2 for one in spread) / (lengths[0] - 1)
    assert float(found.error) == pytest.approx(math.sqrt(variance / lengths[0]) / mean**2)


def _ended(going: list[int], length: int) -> int:
    """Games of that many turns, from how many were going before each turn; the last ones are cut."""
    before, after = (going[i] if i < len(going) else 0 for i in (length - 1, length))
    return before - (after if length < 7 else 0)


def test_a_matrix_has_a_row_for_each_host() -> None:
    hosts, agents = {"a": "all_coord", "b": "random"}, {"x": "random", "y": "choose_first", "z": "choose_last"}
    found = rho_matrix(hosts, agents, 60, FIVE)
    assert found.rho.shape == found.error.shape == found.unfinished.shape == (2, 3)
    assert found.rho[1, 2] == get_rho_for_pair("random", "choose_last", 60, FIVE).rho
    assert found.unfinished[0, 1] > 0.3


# --- teams ------------------------------------------------------------------------------------------------------------

RED, BLUE = (vector_spec(name=f"A?team={team}", actions=ActionSpec(0, (3,))) for team in (0, 1))


class Field:
    """A scene of the headless engine, in this process."""

    def __init__(self, scene: Any) -> None:
        self.scene, self.specs = scene, {spec.name: spec for spec in scene.specs}
        self.begun = self.closed = 0
        self.faults: list[int] = []

    async def start(self, parameters: Any) -> list[StepBatch]:
        self.begun += 1
        return self.scene.reset(EnvironmentParameters(parameters))  # type: ignore[no-any-return]

    async def reset(self, parameters: Any) -> list[StepBatch]:
        return await self.start(parameters)

    async def recover(self, error: EngineError) -> list[StepBatch]:
        return await self.start({})

    def answer(self, actions: Any) -> None:
        self._actions = actions

    async def next(self) -> list[StepBatch]:
        if self.faults:
            raise EngineError(f"fault {self.faults.pop()}")
        return self.scene.step(self._actions)  # type: ignore[no-any-return]

    async def close(self) -> None:
        self.closed += 1


def script(function: Any = None, seed: int = 0) -> Contestant:
    return lambda spec: ScriptedPlayer(spec, seed, function)


def played(field: Any, contestants: dict[str, Contestant], games: int) -> dict[tuple[str, str], Games]:
    environment: Environment = field
    return asyncio.run(team_matches(environment, contestants, games, {}))


def test_everybody_meets_everybody_in_the_place_of_each_team() -> None:
    field = Field(SoccerScene(agents=32, seed=2))
    contestants = {"strong": script(strong), "chance": script(), "more": script(seed=4)}
    found = played(field, contestants, 32)
    assert list(found) == [("strong", "chance"), ("strong", "more"), ("chance", "more")]
    assert (field.begun, field.closed) == (6, 1), "two places each, in one environment"
    assert all(games.played == 32 for games in found.values()), "eight fields, and four games on each by a seat"
    for pair in list(found)[:2]:
        assert found[pair].interval[0] > 0.6
    low, high = found["chance", "more"].interval
    assert low < 0.5 < high
    first, *others = standings(found)
    assert first.opponent == "strong"
    assert first.played == 64
    assert [games.played for games in others] == [64, 64]
    assert sum(games.won for games in (first, *others)) == sum(games.lost for games in (first, *others))


def test_a_fault_costs_the_games_that_ran() -> None:
    field = Field(SoccerScene(agents=16, seed=2))
    field.faults.append(1)
    found = played(field, {"strong": script(strong), "chance": script()}, 16)
    assert found["strong", "chance"].played == 16


def test_one_team_is_no_match() -> None:
    class Alone(SoccerScene):
        specs = SoccerScene.specs[:1]

        def reset(self, parameters: EnvironmentParameters) -> list[StepBatch]:
            return super().reset(parameters)[:1]

    field = Field(Alone(agents=4))
    with pytest.raises(SettingsError, match="a match needs two teams, but this environment has one"):
        played(field, {"a": script(), "b": script()}, 2)
    assert field.closed == 1


def message(
    spec: BehaviorSpec, asking: dict[int, int], over: dict[int, float] | None = None, cut: bool = False
) -> StepBatch:
    """Agents by their group; those that ended by what they got."""
    over = over or {}
    ended = empty_terminals(spec.observations, len(over))
    ended.agent_ids[:] = list(over)
    ended.reward[:], ended.truncated[:] = list(over.values()), cut
    batch = step(spec, list(asking), 0.0, ended)
    batch.group_id[:] = list(asking.values())
    return batch


def test_a_referee_counts_a_groups_game_once_and_when_all_are_done() -> None:
    referee = TeamReferee(100)
    referee.see(RED, message(RED, {1: 5, 2: 5, 3: 0}))
    referee.see(BLUE, message(BLUE, {9: 0}))
    referee.see(BLUE, message(BLUE, {}, {9: 1.0}))
    assert referee.games.played == 0, "of the other team"
    referee.see(RED, message(RED, {2: 5, 3: 0}, {1: -1.0}))
    assert referee.games.played == 0, "its group plays on"
    referee.see(RED, message(RED, {1: 5, 2: 5, 3: 0}, {2: 1.0, 3: -1.0}))
    assert (referee.games.won, referee.games.lost) == (1, 1)
    referee.see(RED, message(RED, {}, {1: 1.0, 2: 1.0, 3: 2.0}, cut=True))
    assert (referee.games.won, referee.games.drawn, referee.games.lost) == (1, 2, 1)
    referee.see(RED, message(RED, {}, {1: 1.0}))
    assert referee.games.played == 4, "nobody ends twice"


def test_quick_games_count_for_no_more_than_slow_ones() -> None:
    """Agent 1 wins every two decisions, agent 2 loses every ten."""
    referee = TeamReferee(20)
    referee.see(RED, message(RED, {1: 0, 2: 0}))
    for number in range(1, 1000):
        over = {1: 1.0} if number % 2 == 0 else {}
        over |= {2: -1.0} if number % 10 == 0 else {}
        referee.see(RED, message(RED, {1: 0, 2: 0}, over))
        if referee.done:
            break
    assert (referee.games.won, referee.games.lost) == (10, 10)


def test_agents_that_come_for_one_game_alone_are_enough() -> None:
    referee = TeamReferee(5)
    referee.see(RED, message(RED, {0: 0}))
    for number in range(1, 500):
        referee.see(RED, message(RED, {number: 0}, {number - 1: 1.0}))
        if referee.done:
            break
    assert referee.games.won >= 5
    assert referee.done
    assert np.isfinite(referee.games.interval).all()
