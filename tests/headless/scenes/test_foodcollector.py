from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.headless.scenes.foodcollector import (
    AGENT,
    BAD_FOOD,
    FOOD,
    FROZEN,
    FROZEN_DECISIONS,
    GOOD,
    NOTHING,
    WALL,
    FoodCollectorScene,
)
from tau_trainer.specs import Actions, StepBatch
from tests.headless.scenes.playing import assert_own, begin, step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.headless.scenes.conftest import Play

MIDDLES = np.arange(40) - 19.5
NONE = (0.0, 0.0, 0.0, 0)


def do(*rows: tuple[float, float, float, int]) -> Actions:
    """Ahead, right, left turn, fire."""
    values = np.array(rows, np.float32)
    return Actions(values[:, :3].copy(), values[:, 3:].astype(np.int32))


def seen(grid: NDArray[np.uint8], channel: int) -> NDArray[np.float64]:
    """Metres ahead and to the right of what one agent sees, [k, 2]."""
    row, column = np.nonzero(grid[channel])
    return np.stack([-MIDDLES[row], MIDDLES[column]], axis=1)


def expert(batch: StepBatch) -> Actions:
    """To the nearest good food, around the bad."""
    rows = []
    for grid in batch.obs[0]:
        food = seen(grid, FOOD)
        if not len(food):
            rows.append((0.6, 0.0, 0.2, 0))
            continue
        way = food[np.hypot(*food.T).argmin()]
        way = way / np.hypot(*way)
        for bad in seen(grid, BAD_FOOD):
            distance = np.hypot(*bad)
            way = way - 0.8 * max(2.5 - distance, 0.0) * bad / distance
        rows.append((*(way / max(1.0, np.hypot(*way))), 0.0, 0))
    return do(*rows)


def empty(agents: int = 5) -> FoodCollectorScene:
    """All food in one corner, agents at rest in the other corners' middle, looking along z."""
    scene = FoodCollectorScene(agents=agents, seed=1)
    begin(scene)
    scene.food[:] = (-19.5, -19.5)
    scene.heading[:] = 0.0
    scene._places[:] = np.stack([4.0 * np.arange(agents), np.full(agents, 10.0)], axis=1)
    return scene


def test_the_expert_eats_what_is_good_and_anything_earns_nothing(play: Play) -> None:
    played = play(FoodCollectorScene(seed=1), expert, 1000)
    assert played.lengths == [1000] * 5
    assert all(played.truncated)
    assert np.mean(played.returns) > 40.0  # ML-Agents' documented reward is 10
    generator = np.random.default_rng(0)

    def anything(batch: StepBatch) -> Actions:
        n = len(batch)
        return do(*np.concatenate([generator.uniform(-1, 1, (n, 3)), generator.integers(0, 2, (n, 1))], axis=1))

    assert abs(np.mean(play(FoodCollectorScene(agents=10, seed=2), anything, 1000).returns)) < 2.0
    idle = play(FoodCollectorScene(agents=10, seed=3), lambda batch: do(*[NONE] * 10), 1000)
    assert abs(np.mean(idle.returns)) < 1.0


def test_food_pays_its_eater_and_appears_elsewhere() -> None:
    scene = empty()
    for item, reward in ((0, 1.0), (GOOD, -1.0)):
        scene.food[0, item] = scene._places[2] + (0.0, 1.4)
        assert step(scene, do(*[NONE] * 5)).reward.tolist() == [0.0] * 5
        batch = step(scene, do(NONE, NONE, (1.0, 0.0, 0.0, 0), NONE, NONE))
        assert batch.reward.tolist() == [0.0, 0.0, reward, 0.0, 0.0]
        assert np.hypot(*(scene.food[0, item] - scene._places[2])) > 1.0
        scene.food[0, item] = (-19.5, -19.5)
    scene.food[0, :2] = scene._places[0] + (0.3, 0.0)  # two at once
    assert step(scene, do(*[NONE] * 5)).reward.tolist() == [2.0, 0.0, 0.0, 0.0, 0.0]


def test_food_between_two_is_the_nearer_ones() -> None:
    scene = empty()
    scene._places[1] = scene._places[0] + (1.0, 0.0)
    scene.food[0, 0] = scene._places[0] + (0.6, 0.0)
    assert step(scene, do(*[NONE] * 5)).reward.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_laser_freezes_the_nearest_ahead_and_only_it() -> None:
    scene = empty()
    scene._places[:] = [(0, -10), (1, 0), (0, 5), (3, -5), (0, -15)]
    fire = do((0.0, 0.0, 0.0, 1), *[NONE] * 4)
    batch = step(scene, fire)
    assert (scene.frozen > 0).tolist() == [False, True, False, False, False]  # too far aside, behind, covered
    assert batch.obs[1][:, 2].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert batch.obs[1][:, 3].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    step(scene, fire)
    assert scene.frozen[1] == FROZEN_DECISIONS - 1  # who is frozen is not frozen anew
    scene.frozen[1] = FROZEN_DECISIONS
    walk = do(NONE, (1.0, 0.0, 1.0, 1), *[NONE] * 3)
    for _ in range(FROZEN_DECISIONS):
        assert scene.frozen[1] > 0
        step(scene, walk)
    assert scene._places[1].tolist() == [1.0, 0.0]
    assert scene.heading[1] == 0.0
    assert (scene.frozen > 0).tolist() == [False] * 5  # nor could it fire
    step(scene, walk)
    assert scene._places[1].tolist() != [1.0, 0.0]
    scene = empty()
    scene._places[:] = [(0, -19), (0, 7), (9, 9), (12, 9), (15, 9)]
    step(scene, fire)
    assert not scene.frozen.any()  # 26 m away


def test_a_laser_stays_in_its_area() -> None:
    scene = empty(10)
    scene._places[5:] = scene._places[:5]
    scene._places[0], scene._places[6] = (-10.0, -10.0), (-10.0, -5.0)
    step(scene, do((0.0, 0.0, 0.0, 1), *[NONE] * 9))
    assert not scene.frozen.any()


def test_a_push_is_relative_to_the_heading_and_halved_by_firing() -> None:
    scene = empty()
    start = scene._places.copy()
    batch = step(scene, do((0.3, 0, 0, 0), (0, 0.3, 0, 0), (0.2, 0.2, 0, 0), (-0.3, 0, 1, 0), (0.3, 0, 0, 1)))
    moved = scene._places - start
    turned = np.deg2rad(30.0)
    expected = [(0, 0.3), (0.3, 0), (0.2, 0.2), (0.3 * np.sin(turned), -0.3 * np.cos(turned)), (0, 0.15)]
    np.testing.assert_allclose(moved, expected, atol=1e-6)
    np.testing.assert_allclose(np.rad2deg(scene.heading), [0, 0, 0, -30, 0], atol=1e-9)
    seen = [(0, 3), (3, 0), (2, 2), (0, -3), (0, 1.5)]  # to the right and ahead, by the heading of now
    np.testing.assert_allclose(batch.obs[1][:, :2], seen, atol=1e-6)


def test_an_agent_keeps_some_of_its_velocity_and_less_where_it_fires() -> None:
    scene = empty()
    scene._velocity[:] = (3.0, 0.0)
    scene.heading[4] = np.pi / 2.0
    batch = step(scene, do(NONE, (0, 0, 0, 1), (1.0, 0, 0, 0), NONE, NONE))
    expected = [(2.0, 0.0), (0.75, 0.0), (2.0 / np.hypot(2, 10) * 5.0, 10.0 / np.hypot(2, 10) * 5.0), (2.0, 0.0)]
    np.testing.assert_allclose(scene._velocity[:4], expected, atol=1e-9)
    np.testing.assert_allclose(batch.obs[1][:, :2], [*expected, (0.0, 2.0)], atol=1e-6)
    scene.frozen[0] = 5
    batch = step(scene, do(*[NONE] * 5))
    assert batch.obs[1][0].tolist() == [0.0, 0.0, 1.0, 0.0]  # who is frozen stands


def test_nobody_is_faster_than_five_metres_a_second_or_leaves_the_area() -> None:
    scene = empty()
    start = scene._places.copy()
    for count in range(1, 6):
        step(scene, do(*[(3.0, 3.0, 0.0, 0)] * 5))
        np.testing.assert_allclose(np.hypot(*(scene._places - start).T), 0.5 * count, atol=1e-9)
    for _ in range(100):
        step(scene, do(*[(1.0, 1.0, 0.0, 0)] * 5))
    assert np.abs(scene._places).max() == 19.5


def test_the_grid_turns_with_the_agent() -> None:
    scene = empty()
    scene._places[:] = [(0, 0), (5.2, 0.3), (19, 19), (19, 18), (19, 17)]
    scene.frozen[1] = 3
    scene.food[0, 0], scene.food[0, GOOD] = (0.3, 7.3), (-3.3, 0.2)
    for turn in range(4):
        scene.heading[0] = turn * np.pi / 2
        grid = scene.observe()[0][0]

        def turned(ahead: float, right: float, turn: int = turn) -> list[float]:
            """Where what is seen ahead and to the right lies after so many right angles to the right."""
            for _ in range(turn):
                ahead, right = right, -ahead
            return [ahead, right]

        for channel, place in ((FOOD, (7.5, 0.5)), (BAD_FOOD, (0.5, -3.5)), (FROZEN, (0.5, 5.5))):
            cells = [cell for cell in seen(grid, channel).tolist() if max(map(abs, cell)) < 15.0]
            np.testing.assert_allclose(cells, [turned(*place)], atol=1.01)
        assert len(seen(grid, AGENT)) == 3
    scene._places[0], scene.heading[0] = (0.0, 15.0), 0.0
    wall = seen(scene.observe()[0][0], WALL)
    assert wall[:, 0].min() == 5.5
    assert len(wall) == 15 * 40


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_every_cell_is_exactly_one_thing_and_food_never_fails(seed: int, agents: int) -> None:
    scene = FoodCollectorScene(agents=agents, seed=seed)
    batch = begin(scene)
    generator = np.random.default_rng(seed)
    for _ in range(5):
        grid, own = batch.obs
        assert (grid.shape, own.shape) == ((agents, 6, 40, 40), (agents, 4))
        assert grid.dtype == scene.specs[0].observations[0].dtype == np.uint8
        assert set(np.unique(grid)) == {0, 255}
        assert (grid.astype(int).sum(axis=1) == 255).all()
        assert np.isfinite(own).all()
        assert (grid[:, FOOD].sum(axis=(1, 2)) // 255 <= GOOD).all()
        batch = step(scene, do(*generator.uniform(-2, 2, (agents, 4))))
    assert (np.abs(scene.food) <= 19.5).all()
    assert grid[:, NOTHING].any()


def test_areas_do_not_depend_on_how_many_there_are(play: Play) -> None:
    few, many = (play(FoodCollectorScene(agents=n, seed=4), expert, 80).batches for n in (5, 15))
    assert_own(few, many, 5)
    assert np.concatenate([batch.reward for batch in few]).any()


def test_a_reset_places_the_food_anew_and_an_episodes_end_does_not() -> None:
    scene = FoodCollectorScene(seed=5, max_decisions=3)
    first = begin(scene).obs[0]
    food, place = scene.food.copy(), scene._places.copy()
    for _ in range(3):
        batch = step(scene, do(*[NONE] * 5))
    assert batch.terminals.truncated.all()
    assert (scene.food == food).all(axis=2).mean() > 0.9
    assert not (scene._places == place).any()
    begin(scene)
    assert not (scene.food == food).any()
    scene.seed(5)
    np.testing.assert_array_equal(begin(scene).obs[0], first)
    np.testing.assert_array_equal(scene.food, food)
