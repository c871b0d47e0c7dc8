from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes.dungeon import DOOR, DOWN, HOLE, LEFT, ON_FLOOR, PACE, RIGHT, SIZE, UP, DungeonScene
from tau_trainer.specs import Actions, StepBatch
from tests.headless.scenes.playing import begin, step

DOOR_WAY, DRAGON_WAY, KEY_WAY = slice(2, 4), slice(5, 7), slice(8, 10)
DRAGON, FLOOR, HAS, OTHER_HAS = 4, 7, 10, 11


def do(actions: Any) -> Actions:
    return Actions(np.zeros((len(actions), 0), np.float32), np.array(actions, np.int32).reshape(-1, 1))


def expert(batch: StepBatch) -> Actions:
    """By what each agent sees: to the door with the key, else to the key, else to the dragon."""
    actions = []
    for seen in batch.obs[0]:
        way = seen[DOOR_WAY] if seen[HAS] else seen[KEY_WAY] if seen[FLOOR] else seen[DRAGON_WAY] * seen[DRAGON]
        along = DOWN if way[0] > 0 else UP
        across = RIGHT if way[1] > 0 else LEFT
        actions.append(0 if not np.abs(way).max() else along if abs(way[0]) >= abs(way[1]) else across)
    return do(actions)


def play(act: Callable[[StepBatch], Actions], groups: int, steps: int) -> tuple[list[float], int]:
    """What each group got whose episode ended, and how many agents left before."""
    scene, got, left = DungeonScene(agents=3 * groups, seed=1), list[float](), 0
    batch = begin(scene)
    for _ in range(steps):
        alive = np.bincount(batch.group_id, minlength=groups + 1)
        batch = step(scene, act(batch))
        over = batch.terminals
        dead = np.bincount(over.group_id, minlength=groups + 1)
        for group in np.flatnonzero(dead):
            if dead[group] == alive[group]:
                got.append(float(over.group_reward[over.group_id == group].max()))
            else:
                left += int(dead[group])
        assert (over.reward == 0.0).all()
        assert (np.bincount(batch.group_id, minlength=groups + 1)[1:] >= 1).all()
    return got, left


def test_what_agents_see_is_all_that_the_best_policy_needs() -> None:
    got, left = play(expert, 100, 100)
    assert len(got) > 700
    assert np.mean(got) == 1.0
    assert left > len(got) / 2, "one of each group gave itself up, unless all met the dragon at once"


def test_chance_and_nothing() -> None:
    rng = np.random.default_rng(0)
    got, _ = play(lambda batch: do(rng.integers(5, size=len(batch))), 100, 300)
    assert np.mean(got) == pytest.approx(0.27, abs=0.07)
    got, _ = play(lambda batch: do(np.zeros(len(batch))), 100, 100)
    assert np.mean(got) < 0.02


def placed(agents: int = 3, **state: Any) -> DungeonScene:
    """One group whose agents stand in the first column, the dragon away from them."""
    scene = DungeonScene(agents=agents)
    begin(scene)
    scene.place[0] = [(1, 0), (2, 0), (3, 0)]
    scene.dragon[0] = (3, 2)
    for name, value in state.items():
        getattr(scene, name)[0] = value
    return scene


def test_who_meets_the_dragon_dies_with_it_and_leaves_the_key() -> None:
    scene = placed(dragon=(3, 1))
    batch = step(scene, do([0, 0, RIGHT]))
    over = batch.terminals
    assert (over.agent_ids.tolist(), over.truncated.tolist(), over.group_reward.tolist()) == ([2], [False], [0.0])
    assert over.group_id.tolist() == [1]
    assert batch.agent_ids.tolist() == [0, 1]
    assert scene.key.tolist() == [ON_FLOOR]
    seen = batch.obs[0]
    assert seen[:, [DRAGON, FLOOR]].tolist() == [[0.0, 1.0]] * 2
    np.testing.assert_allclose(seen[:, KEY_WAY] * (SIZE - 1), [(2, 1), (1, 1)], atol=1e-6)
    assert sorted((seen[0, 12], seen[0, 15])) == [0.0, 1.0], "of the others one lives"
    for _ in range(2 * PACE):
        step(scene, do([0, 0]))
    assert scene.dragon[0].tolist() == [3, 1], "what is dead walks no more"


def test_of_several_that_meet_it_one_is_enough_and_the_next_has_the_key() -> None:
    scene = placed(place=[(3, 1), (2, 0), (3, 0)], dragon=(3, 1))
    batch = step(scene, do([0, DOWN, RIGHT]))
    assert batch.terminals.agent_ids.tolist() == [0]
    assert scene.key.tolist() == [2]
    assert batch.obs[0][:, [HAS, OTHER_HAS]].tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_the_key_opens_the_door_and_the_group_is_paid() -> None:
    scene = placed(place=[(1, 2), tuple(DOOR), (3, 0)], key=0)
    scene.alive[0, 2] = False
    batch = step(scene, do([0, 0]))
    assert not len(batch.terminals), "who has no key opens nothing"
    batch = step(scene, do([UP, 0]))
    over = batch.terminals
    assert (over.agent_ids.tolist(), over.group_reward.tolist()) == ([0, 1], [1.0, 1.0])
    assert not over.truncated.any()
    assert batch.agent_ids.tolist() == [0, 1, 2], "all three begin anew"
    assert scene.dragon[0, 1] == SIZE - 1


def test_the_dragon_walks_to_its_hole_and_all_is_lost() -> None:
    scene = placed(place=[(0, 5)] * 3, dragon=np.add(HOLE, (-1, 1)))
    ended = [step(scene, do([0] * 3)).terminals for _ in range(2 * PACE)]
    assert [len(over) for over in ended] == [0] * (2 * PACE - 1) + [3]
    assert ended[-1].group_reward.tolist() == [0.0] * 3
    assert not ended[-1].truncated.any()


def test_a_limit_cuts_a_whole_group() -> None:
    scene = DungeonScene(agents=6, max_decisions=2)
    begin(scene)
    for group in range(2):
        scene.place[group], scene.dragon[group] = [(0, 0), (1, 0), (2, 0)], (5, 5)
    step(scene, do([0] * 6))
    over = step(scene, do([0] * 6)).terminals
    assert over.truncated.tolist() == [True] * 6
    assert over.group_id.tolist() == [1, 1, 1, 2, 2, 2]


def test_groups_are_their_own_and_a_seed_starts_them_anew() -> None:
    few, many = DungeonScene(agents=3, seed=4), DungeonScene(agents=7, seed=4)
    first, second = begin(few), begin(many)
    np.testing.assert_array_equal(first.obs[0], second.obs[0][:3])
    assert second.group_id.tolist() == [1, 1, 1, 2, 2, 2, 3], "the last group is smaller"
    assert not np.array_equal(begin(few).obs[0], first.obs[0])
    few.seed(4)
    np.testing.assert_array_equal(begin(few).obs[0], first.obs[0])
    (batch,) = many.reset(EnvironmentParameters())
    assert batch.obs[0].dtype == np.float32
    assert np.abs(batch.obs[0]).max() <= 1.0
