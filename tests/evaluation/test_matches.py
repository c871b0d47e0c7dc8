"""Matches of teams."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from tau_trainer.envs import Environment
from tau_trainer.errors import EngineError, SettingsError
from tau_trainer.evaluation.matches import Contestant, TeamReferee, standings, team_matches
from tau_trainer.evaluation.players import ScriptedPlayer
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes.soccer import SoccerScene, strong
from tau_trainer.metrics.games import Games
from tau_trainer.specs import ActionSpec, BehaviorSpec, StepBatch, empty_terminals
from tests.training.fakes import step, vector_spec

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
