from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.bridge.side_channels import Sampler, SamplerKind
from tau_trainer.errors import SettingsError
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import sorter
from tau_trainer.headless.scenes.sorter import SorterScene
from tau_trainer.specs import Actions, DimensionProperty, StepBatch
from tests.headless.scenes.playing import assert_own, begin, step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.headless.scenes.conftest import Play

AHEAD, BACK, RIGHT, LEFT = (1, 0, 0), (2, 0, 0), (0, 1, 0), (0, 2, 0)
STEPS = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])
STAY = (0, 0, 0)


def do(*branches: tuple[int, int, int]) -> Actions:
    return Actions(np.zeros((len(branches), 0), np.float32), np.array(branches, np.int32))


class Expert:
    """To the lowest open tile, each time through the middle of the room, reading the observations alone."""

    def __init__(self) -> None:
        self.outward: dict[int, bool] = {}
        self.wanted: dict[int, tuple[float, ...]] = {}

    def __call__(self, batch: StepBatch) -> Actions:
        return do(*(self.choose(*row) for row in zip(batch.agent_ids.tolist(), *batch.obs, strict=True)))

    def choose(self, agent: int, tiles: NDArray[np.float32], own: NDArray[np.float32]) -> tuple[int, int, int]:
        place = own[:2] * 20.0
        there = tiles[tiles.any(axis=1)]
        open_tiles = there[there[:, -1] == 0.0]
        tile = open_tiles[open_tiles[:, :20].argmax(axis=1).argmin()]
        wanted = (*tile[:20], len(open_tiles), len(there))
        self.outward[agent] = np.hypot(*place) < 1.5 or (self.wanted.get(agent) == wanted and self.outward[agent])
        self.wanted[agent] = wanted
        target = place + 20.0 * tile[20:22] if self.outward[agent] else np.zeros(2)
        return (AHEAD, BACK, RIGHT, LEFT)[np.hypot(*(place + STEPS - target).T).argmin()]


def put(scene: SorterScene, *tiles: tuple[int, int]) -> None:
    """Give agent 0 these tiles: number and place on the wall."""
    begin(scene)
    scene._there[0] = np.arange(20) < len(tiles)
    scene._number[0, : len(tiles)], scene._slot[0, : len(tiles)] = np.array(tiles).T


@pytest.mark.parametrize(("tiles", "steps", "mean"), [(2.0, 200, 1.47), (20.0, 900, 9.4)])
def test_the_expert_visits_all_tiles_in_order(play: Play, tiles: float, steps: int, mean: float) -> None:
    scene = SorterScene(agents=20, seed=1)
    played = play(scene, Expert(), steps, EnvironmentParameters({"num_tiles": tiles}))
    earned = np.array(played.returns) - sorter.STEP_REWARD * np.array(played.lengths)
    assert len(earned) > 30
    assert np.allclose(earned, np.rint(earned), atol=1e-3)
    assert earned.min() > 0.5  # never a wrong tile
    assert np.mean(played.returns) == pytest.approx(mean, rel=0.1)
    assert not any(played.truncated)


def test_anything_earns_little_and_nothing_loses(play: Play) -> None:
    generator = np.random.default_rng(0)

    def anything(batch: StepBatch) -> Actions:
        return do(*map(tuple, generator.integers(0, 3, (len(batch), 3))))

    played = play(SorterScene(agents=20, seed=2), anything, 1500)
    assert -0.6 < np.mean(played.returns) < 0.2
    idle = play(SorterScene(agents=2, max_decisions=300), lambda batch: do(*[STAY] * len(batch)), 300)
    assert idle.truncated == [True, True]
    np.testing.assert_allclose(idle.returns, -0.3, atol=1e-4)


def test_the_order_of_numbers_counts_and_touching_again_does_nothing() -> None:
    scene = SorterScene(agents=1)
    put(scene, (11, 0), (4, 10))  # 12 ahead, 5 behind
    for _ in range(8):
        assert step(scene, do(BACK)).reward[0] == np.float32(-0.001)
    batch = step(scene, do(BACK))  # 9 m from the middle
    assert batch.reward[0] == pytest.approx(0.999)
    assert batch.obs[0][0, :2, -1].tolist() == [0.0, 1.0]
    assert step(scene, do(BACK)).reward[0] == np.float32(-0.001)
    for _ in range(17):
        assert len(step(scene, do(AHEAD)).terminals) == 0
    ended = step(scene, do(AHEAD)).terminals
    assert ended.reward[0] == pytest.approx(0.999)
    assert not ended.truncated[0]
    assert ended.obs[0][0, :2, -1].tolist() == [1.0, 1.0]
    put(scene, (11, 0), (4, 10))
    for _ in range(8):
        step(scene, do(AHEAD))
    ended = step(scene, do(AHEAD)).terminals
    assert ended.reward[0] == pytest.approx(-1.001)
    assert not ended.truncated[0]


def test_a_tile_is_narrower_than_its_place() -> None:
    scene = SorterScene(agents=1)
    for degrees, touched in ((6.5, True), (7.5, False), (-6.5, True), (-7.5, False)):
        put(scene, (3, 0))
        way = np.deg2rad(degrees)
        scene._place[0] = 8.9 * np.array([np.sin(way), np.cos(way)])
        scene._heading[0] = way
        assert (len(step(scene, do(AHEAD)).terminals) == 1) is touched


def test_tiles_are_seen_as_rows_and_absent_ones_are_zeros() -> None:
    scene = SorterScene(agents=1)
    put(scene, (19, 5), (0, 0))
    scene._place[0] = (2.0, -4.0)
    tiles, own = scene.observe()
    np.testing.assert_allclose(tiles[0, 0, 20:], [(10 - 2) / 20, 4 / 20, 0.0], atol=1e-6)
    np.testing.assert_allclose(tiles[0, 1, 20:], [-2 / 20, 14 / 20, 0.0], atol=1e-6)
    assert np.flatnonzero(tiles[0, 0, :20]).tolist() == [19]
    assert np.flatnonzero(tiles[0, 1, :20]).tolist() == [0]
    assert not tiles[0, 2:].any()
    np.testing.assert_allclose(own[0], [0.1, -0.2, 0.0, 1.0], atol=1e-6)
    buffer = scene.specs[0].observations[0]
    assert buffer.shape == (20, 23)
    assert buffer.dimension_property == (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)


def test_moves_follow_the_heading_and_sideways_wins() -> None:
    scene = SorterScene(agents=6)
    begin(scene)
    batch = step(scene, do(AHEAD, BACK, RIGHT, LEFT, (1, 1, 0), (0, 0, 1)))
    np.testing.assert_allclose(scene._place[:5], [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 0)], atol=1e-9)
    np.testing.assert_allclose(np.rad2deg(scene._heading), [0, 0, 0, 0, 0, -20])
    scene._heading[:] = np.pi / 2
    scene._place[:] = 0.0
    step(scene, do(AHEAD, BACK, RIGHT, LEFT, STAY, (0, 0, 2)))
    np.testing.assert_allclose(scene._place[:4], [(1, 0), (-1, 0), (0, -1), (0, 1)], atol=1e-9)
    assert len(batch.terminals) == 0


@settings(max_examples=40)
@given(st.integers(1, 20), st.integers(0, 10_000))
def test_tiles_are_different_and_as_many_as_allowed(most: int, seed: int) -> None:
    scene = SorterScene(agents=30, seed=seed)
    tiles, own = begin(scene, EnvironmentParameters({"num_tiles": float(most)})).obs
    there = tiles.any(axis=2)
    assert there.sum(axis=1).min() >= 1
    assert there.sum(axis=1).max() <= most
    numbers = tiles[:, :, :20].sum(axis=1)
    assert numbers.max() == 1.0
    np.testing.assert_array_equal(numbers.sum(axis=1), there.sum(axis=1))
    np.testing.assert_allclose(np.hypot(*tiles[there][:, 20:22].T), 0.5, atol=1e-6)
    for row in tiles:
        places = row[row.any(axis=1)][:, 20:22]
        assert len(np.unique(places.round(4), axis=0)) == len(places)
    np.testing.assert_array_equal(own, np.tile([0, 0, 0, 1], (30, 1)))


def test_the_number_of_tiles_follows_its_parameter_with_each_episode(play: Play) -> None:
    scene = SorterScene(agents=300, seed=5)
    parameters = EnvironmentParameters()
    assert begin(scene, parameters).obs[0].any(axis=2).sum(axis=1).max() == 2
    parameters.set("num_tiles", 8.0)
    scene.update(parameters)
    scene.max_decisions = 1
    seen = step(scene, do(*[STAY] * 300)).obs[0].any(axis=2).sum(axis=1)
    assert np.bincount(seen, minlength=9)[1:].min() > 15
    parameters.set("num_tiles", Sampler(SamplerKind.UNIFORM, 1, (19.0, 20.9)))
    assert step(scene, do(*[STAY] * 300)).obs[0].any(axis=2).sum(axis=1).max() == 20
    for wrong, said in (((0.0, 0.0), 0), ((21.0, 21.0), 21), ((3.0, 30.0), r"2[1-9]|30")):
        drawn = EnvironmentParameters()
        drawn.set("num_tiles", Sampler(SamplerKind.UNIFORM, 1, wrong))
        with pytest.raises(SettingsError, match=rf"`num_tiles` is ({said}); give 1 to 20"):
            begin(scene, drawn)


def test_rooms_are_an_agents_own(play: Play) -> None:
    few, many = (play(SorterScene(agents=n, seed=4), Expert(), 60).batches for n in (3, 8))
    assert_own(few, many)
