from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tau_trainer.evaluation.players import evenly
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes.soccer import (
    BACK,
    END,
    FORWARD,
    KICK,
    LEFT,
    MATES,
    PACE,
    POST,
    REACH,
    RIGHT,
    ROLL,
    SIDE,
    STAY,
    SoccerScene,
    strong,
)
from tau_trainer.specs import Actions, BehaviorSpec, BoolArray, Observations, StepBatch

Rule = Callable[[BehaviorSpec, Observations, BoolArray | None], Actions]
PARAMETERS = EnvironmentParameters()


def always(action: int) -> Rule:
    return lambda spec, obs, mask: Actions(
        np.zeros((len(obs[0]), 0), np.float32), np.full((len(obs[0]), 1), action, np.int32)
    )


def chance(seed: int) -> Rule:
    rng = np.random.default_rng(seed)
    return lambda spec, obs, mask: evenly(spec.actions, len(obs[0]), mask, rng)


def begun(games: int = 1, seed: int = 3, **settings: int) -> tuple[SoccerScene, list[StepBatch]]:
    scene = SoccerScene(agents=4 * games, seed=seed, **settings)
    return scene, scene.reset(PARAMETERS)


def played(scene: SoccerScene, batches: list[StepBatch], *rules: Rule) -> list[StepBatch]:
    pairs = zip(scene.specs, batches, rules, strict=True)
    return scene.step({spec.name: rule(spec, batch.obs, None) for spec, batch, rule in pairs})


def score(first: Rule, second: Rule, games: int = 32, steps: int = 300) -> tuple[int, int, int]:
    """Games that team 0 won, that were cut, and that it lost."""
    scene, batches = begun(games)
    results = np.zeros(0)
    for _ in range(steps):
        batches = played(scene, batches, first, second)
        results = np.concatenate([results, batches[0].terminals.group_reward[::MATES]])
    return int((results > 0).sum()), int((results == 0).sum()), int((results < 0).sum())


def test_floors() -> None:
    """What chance is worth, and the script: docs/scenes.md."""
    won, cut, lost = score(strong, chance(1))
    assert won > 20 * max(lost, 1)
    assert won > 3 * cut
    mirrored = score(chance(2), strong)
    assert mirrored[2] > 20 * max(mirrored[0], 1)
    won, cut, lost = score(chance(1), chance(2))
    assert 1.5 * (won + lost) > cut > won + lost, "by chance somebody scores now and then"
    assert score(strong, always(STAY))[0] > 100


def test_both_teams_see_their_own_side_of_the_same_field() -> None:
    scene, _ = begun()
    scene.place[0] = [[-0.5, 0.1], [-0.2, -0.3], [0.5, -0.1], [0.2, 0.3]]
    scene.ball[0], scene.speed[0] = 0.0, 0.0
    nobody = np.zeros(1, np.bool_)
    batches = scene._batches(nobody, np.zeros(1, np.float32), nobody, scene._observe())
    here, there = (batch.obs[0] for batch in batches)
    np.testing.assert_allclose(here, there, atol=1e-6)
    np.testing.assert_allclose(here[0, :2], [-0.5, 0.1], atol=1e-6)
    np.testing.assert_allclose(here[0, 4:6], [0.5, -0.1], atol=1e-6)
    np.testing.assert_allclose(here[0, 8:10], [0.3, -0.4], atol=1e-6)


@pytest.mark.parametrize(("team", "way"), [(0, 1.0), (1, -1.0)])
def test_forward_is_towards_the_others_goal(team: int, way: float) -> None:
    scene, batches = begun()
    for action, step in ((FORWARD, (way, 0)), (BACK, (-way, 0)), (LEFT, (0, way)), (RIGHT, (0, -way)), (STAY, (0, 0))):
        scene.place[:] = [[[-0.6, 0.0], [-0.6, 0.2], [0.6, 0.0], [0.6, 0.2]]]
        before = scene.place.copy()
        rules = [always(STAY), always(STAY)]
        rules[team] = always(action)
        played(scene, batches, *rules)
        moved = (scene.place - before)[0, team * MATES : (team + 1) * MATES]
        np.testing.assert_allclose(moved, np.tile(np.array(step) * PACE, (MATES, 1)), atol=1e-9)


def test_who_touches_the_ball_kicks_it_away_and_a_goal_pays_both_groups() -> None:
    scene, batches = begun()
    scene.place[:] = [[[0.35, 0.0], [-0.9, 0.5], [0.5, 0.5], [0.5, -0.5]]]
    scene.ball[0], scene.speed[0] = (0.45, 0.0), 0.0
    batches = played(scene, batches, always(STAY), always(STAY))
    np.testing.assert_allclose(scene.ball[0], [0.45 + KICK, 0.0])
    np.testing.assert_allclose(scene.speed[0], [KICK * ROLL, 0.0])
    assert not len(batches[0].terminals)
    batches = played(scene, batches, always(STAY), always(STAY))
    ours, theirs = (batch.terminals for batch in batches)
    assert ours.group_reward.tolist() == [1.0, 1.0]
    assert theirs.group_reward.tolist() == [-1.0, -1.0]
    assert ours.reward.tolist() == theirs.reward.tolist() == [0.0, 0.0]
    assert not np.concatenate([ours.truncated, theirs.truncated]).any()
    assert (ours.group_id.tolist(), theirs.group_id.tolist()) == ([1, 1], [2, 2])
    assert ours.obs[0][0, 2] > END, "the last that is seen is the ball behind the line"
    assert [batch.agent_ids.tolist() for batch in batches] == [[0, 1], [2, 3]]
    assert abs(scene.ball[0, 0]) < REACH, "the next game begins at once"


def test_the_ball_bounces_off_the_walls_beside_a_goal() -> None:
    scene, batches = begun()
    scene.place[:] = [[[-0.9, -0.5]] * 4]
    scene.ball[0], scene.speed[0] = (END - 0.05, POST + 0.1), (0.1, 0.0)
    played(scene, batches, always(STAY), always(STAY))
    np.testing.assert_allclose(scene.ball[0], [END - 0.05, POST + 0.1], atol=1e-5)
    assert scene.speed[0, 0] < 0.0
    scene.ball[0], scene.speed[0] = (0.0, SIDE - 0.02), (0.0, 0.1)
    played(scene, batches, always(STAY), always(STAY))
    assert scene.ball[0, 1] == pytest.approx(SIDE - 0.08)
    assert scene.speed[0, 1] < 0.0


def test_a_game_without_a_goal_is_cut_and_nobodys() -> None:
    scene, batches = begun(games=2, max_decisions=3)
    for _ in range(3):
        scene.place[:], scene.ball[:] = -0.9, 0.0
        batches = played(scene, batches, always(STAY), always(STAY))
    for batch in batches:
        assert batch.terminals.truncated.all()
        assert batch.terminals.group_reward.tolist() == [0.0] * 4
    scene.update(EnvironmentParameters({"max_decisions": 0.0}))
    assert scene.max_decisions == 0


def test_what_one_group_gets_the_other_loses() -> None:
    scene, batches = begun(games=8)
    rules = strong, chance(5)
    for _ in range(200):
        batches = played(scene, batches, *rules)
        ours, theirs = (batch.terminals for batch in batches)
        np.testing.assert_array_equal(ours.group_reward, -theirs.group_reward)
        assert (np.abs(scene.place) <= [END, SIDE]).all()


def test_a_field_plays_the_same_whatever_the_number_of_fields() -> None:
    few, many = begun(games=1), begun(games=3)
    for _ in range(100):
        few, many = ((scene, played(scene, batches, strong, strong)) for scene, batches in (few, many))
        np.testing.assert_array_equal(few[0].place[0], many[0].place[0])
    assert SoccerScene(agents=5).agents == 8, "fields are whole"
