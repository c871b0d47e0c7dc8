from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tau_trainer.bridge.side_channels import Sampler, SamplerKind
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes.walljump import (
    BIG,
    BLOCK_TOP,
    GOAL_HIGH,
    GOAL_LOW,
    HALF_AGENT,
    HALF_BLOCK,
    SMALL,
    WALL_FAR,
    WALL_NEAR,
    WallJumpScene,
)
from tau_trainer.specs import Actions, StepBatch, Terminals
from tests.headless.scenes.playing import assert_own

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.headless.scenes.conftest import Act, Play, Played

SMALL_NAME, BIG_NAME = "SmallWallJump?team=0", "BigWallJump?team=0"
JUMP = 2.75


def do(*branches: tuple[int, int, int, int]) -> Actions:
    """Ahead, turn, aside, jump."""
    return Actions(np.zeros((len(branches), 0), np.float32), np.array(branches, np.int32))


def expert(scene: WallJumpScene) -> Act:
    """Always looks ahead. Past the block and over a low wall; over a high one from the block, at the wall by then."""

    def act(batch: StepBatch) -> Actions:
        agent = batch.agent_ids
        (x, z), (block_x, block_z) = scene.place[agent].T, scene.block[agent].T
        height, wall = scene.height[agent], scene.wall[agent]
        behind = z >= WALL_FAR + HALF_AGENT
        high = (wall > JUMP) & ~behind
        low = ~high & ~behind
        aside = np.zeros(len(agent), np.int32)
        to_goal = np.clip(x, GOAL_LOW[0] + 0.3, GOAL_HIGH[0] - 0.3) - x
        aside = np.where(behind & (to_goal != 0.0), np.where(to_goal < 0.0, 1, 2), aside)
        in_the_way = low & (np.abs(x - block_x) < HALF_BLOCK + HALF_AGENT + 0.3) & (z < block_z)
        aside = np.where(in_the_way, np.where(block_x > 0.0, 1, 2), aside)
        off = x - block_x
        below = high & (height < BLOCK_TOP) & (z < block_z - HALF_BLOCK - HALF_AGENT)
        aside = np.where(below & (np.abs(off) > 0.5), np.where(off > 0.0, 1, 2), aside)
        at_wall = high & (block_z >= WALL_NEAR - HALF_BLOCK - 0.5) & (np.abs(off) < 1.5)
        on_edge = (height >= BLOCK_TOP) & (z >= block_z + 0.9)
        jump = (low & (wall > 0.0) & (z > WALL_NEAR - 1.2)) | (at_wall & ((height < BLOCK_TOP) | on_edge))
        branches = np.stack([np.ones_like(aside), np.zeros_like(aside), aside, jump], axis=1)
        return Actions(np.zeros((len(agent), 0), np.float32), branches.astype(np.int32))

    return act


def anything(seed: int) -> Act:
    generator = np.random.default_rng(seed)
    return lambda batch: do(*map(tuple, generator.integers(0, (3, 3, 3, 2), (len(batch), 4))))


def by_behavior(played: Played) -> dict[str, list[StepBatch]]:
    return {name: [batch for batch in played.batches if batch.behavior == name] for name in (SMALL_NAME, BIG_NAME)}


def ends(played: Played, name: str) -> NDArray[np.float32]:
    """The last rewards of all episodes of a behavior."""
    return np.concatenate([batch.terminals.reward for batch in by_behavior(played)[name]])


def alone(**state: float | tuple[float, float]) -> WallJumpScene:
    """One agent, in this state."""
    scene = WallJumpScene(agents=1)
    scene.reset(EnvironmentParameters())
    for name, value in state.items():
        getattr(scene, name)[0] = value
    return scene


def play_on(scene: WallJumpScene, branches: tuple[int, int, int, int], steps: int = 1) -> list[StepBatch]:
    for _ in range(steps):
        name = scene.specs[scene.behavior[0]].name
        batches = scene.step({name: do(branches)})
    return batches


def ends_here(scene: WallJumpScene, branches: tuple[int, int, int, int]) -> tuple[Terminals, StepBatch]:
    """How the episode of the one agent ends, and how its next one begins."""
    batches = play_on(scene, branches)
    (ended,) = (batch.terminals for batch in batches if len(batch.terminals))
    (begun,) = (batch for batch in batches if len(batch))
    return ended, begun


@pytest.mark.parametrize("height", [8.0, 2.0])
def test_the_expert_always_arrives(play: Play, height: float) -> None:
    scene = WallJumpScene(agents=64, seed=1)
    played = play(scene, expert(scene), 250, EnvironmentParameters({"big_wall_height": height}))
    small, big = ends(played, SMALL_NAME), ends(played, BIG_NAME)
    assert min(len(small), len(big)) > 100
    assert set(small) == set(big) == {1.0}
    assert np.mean(played.returns) > 0.87


def test_a_high_wall_needs_the_block_and_a_low_one_does_not(play: Play) -> None:
    """Who leaves the block alone gets over all walls but the high one."""
    scene = WallJumpScene(agents=64, seed=2)

    def hop(batch: StepBatch) -> Actions:
        scene.block[:] = (-8.5, -6.0)
        aside = np.where(scene.place[batch.agent_ids, 0] < 5.0, 2, 0)
        return do(*[(1, 0, int(side), 1) for side in aside])

    low = play(scene, hop, 200, EnvironmentParameters({"big_wall_height": 6.4}))
    assert (ends(low, BIG_NAME) == 1.0).mean() > 0.9
    high = play(scene, hop, 400, EnvironmentParameters({"big_wall_height": 6.6}))
    assert not (ends(high, BIG_NAME) == 1.0).any()
    assert (ends(high, SMALL_NAME) == 1.0).mean() > 0.9


def test_anything_hardly_ever_arrives_and_nothing_loses(play: Play) -> None:
    played = play(WallJumpScene(agents=32, seed=3), anything(0), 800)
    assert -1.4 < np.mean(played.returns) < -1.0
    assert (np.concatenate([ends(played, SMALL_NAME), ends(played, BIG_NAME)]) == 1.0).mean() < 0.03
    idle = play(WallJumpScene(agents=8), lambda batch: do(*[(0, 0, 0, 0)] * len(batch)), 400)
    assert idle.lengths == [400] * 8
    assert all(idle.truncated)
    np.testing.assert_allclose(idle.returns, -1.0, atol=1e-4)


def test_behaviors_have_the_sensors_of_the_original() -> None:
    scene = WallJumpScene(agents=10, seed=4)
    small, big = scene.specs
    assert (small.name, big.name) == (SMALL_NAME, BIG_NAME)
    assert small.observations == big.observations
    assert [sensor.shape for sensor in small.observations] == [(210,), (210,), (24,)]
    assert [sensor.name for sensor in small.observations] == sorted(sensor.name for sensor in small.observations)
    assert sum(sensor.size for sensor in small.observations) == 6 * 74
    assert small.actions == big.actions
    assert small.actions.discrete_branches == (3, 3, 3, 2)
    for batch in scene.reset(EnvironmentParameters()):
        assert [sensor.shape[1:] for sensor in batch.obs] == [(210,), (210,), (24,)]
        assert all(sensor.dtype == np.float32 for sensor in batch.obs)


def test_three_of_five_episodes_are_big(play: Play) -> None:
    scene = WallJumpScene(agents=50, seed=5, max_decisions=2)
    played = play(scene, anything(1), 200)
    big = by_behavior(played)[BIG_NAME]
    assert sum(map(len, big)) / (50 * 201) == pytest.approx(0.6, abs=0.03)


def test_walls_follow_their_parameters() -> None:
    scene = WallJumpScene(agents=3000, seed=6)
    scene.reset(EnvironmentParameters())
    assert set(scene.wall[scene.behavior == BIG]) == {3.5}
    assert set(scene.wall[scene.behavior == SMALL]) == {0.0, 1.5}
    assert (scene.wall[scene.behavior == SMALL] == 0.0).mean() == pytest.approx(0.5, abs=0.05)
    heights = {"no_wall_height": 3.0, "small_wall_height": 2.0, "big_wall_height": 6.0}
    scene.reset(EnvironmentParameters(heights))
    assert set(scene.wall[scene.behavior == BIG]) == {2.5}
    assert set(scene.wall[scene.behavior == SMALL]) == {1.0, 0.5}
    sampler = Sampler(SamplerKind.UNIFORM, 3, (0.0, 4.0))
    scene.reset(EnvironmentParameters({"big_wall_height": sampler}))
    drawn = scene.wall[scene.behavior == BIG]
    assert (drawn.min(), drawn.max()) == (0.0, pytest.approx(1.5, abs=0.01))
    assert (drawn == 0.0).mean() == pytest.approx(0.25, abs=0.04)  # a box that does not reach out of the ground


def test_a_jump_rises_to_two_and_three_quarters_and_is_none_in_the_air() -> None:
    scene = alone(block=(8.0, -8.0))
    heights = []
    for _ in range(6):
        play_on(scene, (0, 0, 0, 1))
        heights.append(float(scene.height[0]))
    assert heights == [1.375, 2.75, 1.75, 0.0, 1.375, 2.75]


def test_runs_are_slower_sideways() -> None:
    scene = alone(block=(8.0, -8.0), place=(0.0, -12.0))
    play_on(scene, (1, 0, 0, 0))
    np.testing.assert_allclose(scene.place[0], (0.0, -11.2))
    play_on(scene, (2, 0, 0, 0))
    play_on(scene, (1, 0, 1, 0))
    np.testing.assert_allclose(scene.place[0], (-0.48, -12.0))
    play_on(scene, (0, 0, 2, 0))
    np.testing.assert_allclose(scene.place[0], (0.0, -12.0), atol=1e-12)
    play_on(scene, (0, 0, 0, 1))
    play_on(scene, (1, 0, 0, 0))
    np.testing.assert_allclose(scene.place[0], (0.0, -11.2))
    scene = alone(block=(8.0, -8.0), place=(0.0, -12.0))
    for turn, heading in ((2, 30.0), (1, 0.0), (1, -30.0)):
        play_on(scene, (0, turn, 0, 0))
        assert np.rad2deg(scene._heading[0]) == pytest.approx(heading, abs=1e-9)


def test_a_block_is_pushed_to_the_wall_and_no_further() -> None:
    scene = alone(block=(0.0, -5.0), place=(1.0, -7.5), wall=3.5)
    play_on(scene, (1, 0, 0, 0))
    np.testing.assert_allclose(scene.block[0], (0.0, -4.7))  # 0.5 m of way, then 0.3 m of push
    np.testing.assert_allclose(scene.place[0], (1.0, -6.7))
    play_on(scene, (1, 0, 0, 0), steps=10)
    np.testing.assert_allclose(scene.block[0], (0.0, WALL_NEAR - HALF_BLOCK))
    np.testing.assert_allclose(scene.place[0], (1.0, WALL_NEAR - 2 * HALF_BLOCK - HALF_AGENT))
    aside = alone(block=(3.0, -8.0), place=(0.9, -8.0))
    play_on(aside, (0, 0, 2, 0))
    np.testing.assert_allclose(aside.block[0], (3.38, -8.0))
    np.testing.assert_allclose(aside.place[0], (1.38, -8.0))


def test_a_block_goes_on_where_there_is_no_wall_and_its_fall_is_the_end() -> None:
    scene = alone(block=(0.0, -5.0), place=(0.0, -7.5), wall=0.0)
    play_on(scene, (1, 0, 0, 0), steps=12)
    assert scene.block[0, 1] > WALL_NEAR
    scene = alone(block=(10.3, -8.0), place=(8.2, -8.0))
    ended, _ = ends_here(scene, (0, 0, 2, 0))
    assert ended.reward.tolist() == [-1.0]
    assert not ended.truncated[0]


def test_a_wall_stops_from_both_sides_and_carries() -> None:
    scene = alone(block=(8.0, -9.0), place=(0.0, 0.0), wall=1.5)
    play_on(scene, (2, 0, 0, 0), steps=3)
    assert scene.place[0, 1] == WALL_FAR + HALF_AGENT
    play_on(scene, (2, 0, 0, 1), steps=3)
    assert scene.height[0] == 1.75
    play_on(scene, (0, 0, 0, 0), steps=2)
    assert scene.height[0] == 1.5  # on top


def test_who_steps_from_a_block_falls_ever_faster() -> None:
    scene = alone(block=(0.0, -8.0), place=(0.0, -7.5), height=2.0)
    heights = []
    for _ in range(5):
        play_on(scene, (1, 0, 0, 0))
        heights.append(float(scene.height[0]))
    assert heights == [2.0, 1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("place", "branches"), [((0.0, -14.0), (2, 0, 0, 0)), ((10.2, -9.0), (0, 0, 2, 0))])
def test_beside_the_platform_is_the_end(place: tuple[float, float], branches: tuple[int, int, int, int]) -> None:
    scene = alone(block=(-8.0, -8.0), place=place)
    ended, _ = ends_here(scene, branches)
    assert ended.reward.tolist() == [-1.0]
    assert ended.truncated.tolist() == [False]


def test_rays_see_wall_goal_and_block() -> None:
    scene = alone(block=(0.0, -6.0), place=(0.0, -11.5), wall=3.5, height=0.0)
    upward, level, own = scene._look()
    np.testing.assert_allclose(level.reshape(7, 5)[0], [0, 0, 1, 0, (4.0 - 0.45) / 20.0], rtol=1e-6)  # the block
    assert upward.reshape(7, 5)[0].tolist() == [0, 0, 0, 1, 1]  # over it, and over the wall behind
    np.testing.assert_allclose(own[0], [0.0, 1.0 / 20.0, -7.5 / 20.0, 1.0])
    scene.block[0] = (8.0, -6.0)
    level = scene._look()[1].reshape(7, 5)
    np.testing.assert_allclose(level[0], [1, 0, 0, 0, (WALL_NEAR - 0.45 + 11.5) / 20.0], rtol=1e-6)  # the wall
    np.testing.assert_allclose(level[5], [0, 0, 0, 1, 1])  # nothing to the right
    scene.place[0] = (0.0, WALL_NEAR - HALF_AGENT)  # at the wall: it is ahead, but not to the sides
    level = scene._look()[1].reshape(7, 5)
    assert level[0, :4].tolist() == [1, 0, 0, 0]
    assert level[5:, :4].tolist() == [[0, 0, 0, 1]] * 2
    scene.height[0] = 3.2  # the eye is above the wall
    assert scene._look()[1].reshape(7, 5)[0, :4].tolist() == [0, 0, 0, 1]
    scene.wall[0], scene.place[0] = 0.0, (6.0, -2.0)
    np.testing.assert_allclose(scene._look()[1].reshape(7, 5)[0], [0, 1, 0, 0, (0.93 - 0.45 + 2.0) / 20.0], rtol=1e-6)


def test_the_upward_rays_tell_a_high_wall_from_a_low_one() -> None:
    """From 2.5 m above the eye, 2.5 m up on 20 m: a wall of 3.5 m is seen from near it, one of 1.5 m never."""
    seen = []
    for wall in (3.5, 1.5):
        scene = alone(block=(8.0, -6.0), place=(0.0, WALL_NEAR - 2.0), wall=wall)
        seen.append(scene._look()[0].reshape(7, 5)[0, 0])
    assert seen == [1.0, 0.0]


@pytest.mark.parametrize(("x", "there"), [(3.85, False), (3.9, True), (8.85, True), (8.9, False)])
def test_the_goal_is_as_wide_as_it_is_and_who_flies_over_it_is_not_there(x: float, there: bool) -> None:
    scene = alone(block=(-8.0, -8.0), place=(x, 2.0))
    assert any(len(batch.terminals) for batch in play_on(scene, (0, 0, 0, 0))) is there
    scene = alone(block=(-8.0, -8.0), place=(x, 2.0))
    arrived = [any(len(b.terminals) for b in play_on(scene, (0, 0, 0, int(step == 0)))) for step in range(4)]
    assert arrived == [False, False, False, there]


def test_observations_are_stacked_and_begin_empty() -> None:
    scene = alone(place=(0.0, -12.0), block=(8.0, -8.0))
    scene.begin(np.array([0]))
    scene.place[0], scene.block[0] = (0.0, -12.0), (8.0, -8.0)
    own = scene.observe()[2].reshape(6, 4)
    assert not own[:5].any()
    assert own[5].any()
    for step in range(1, 8):
        play_on(scene, (1, 0, 0, 0))
        own = scene.observe()[2].reshape(6, 4)
        assert own[:, 3].sum() == min(step + 1, 6)  # it stands in each frame that there is
    assert (np.diff(own[:, 2]) > 0.03).all()  # the newest last, 0.8 m apart


def test_the_end_is_seen_and_the_next_episode_begins_with_a_stack_of_its_own() -> None:
    scene = alone(place=(6.0, 0.3), block=(8.0, -8.0), wall=0.0)
    ended, begun = ends_here(scene, (1, 0, 0, 0))
    assert ended.reward.tolist() == [1.0]
    assert ended.obs[2].reshape(6, 4)[5, 2] == pytest.approx((1.1 + 4.0) / 20.0)
    assert begun.obs[2].reshape(6, 4)[5, 2] == pytest.approx((-12.0 + 4.0) / 20.0)
    assert not begun.obs[2].reshape(6, 4)[:5].any()


def test_episodes_are_an_agents_own(play: Play) -> None:
    def forward(batch: StepBatch) -> Actions:
        return do(*[(1, 0, 0, 1)] * len(batch))

    few, many = (play(WallJumpScene(agents=n, seed=7, max_decisions=30), forward, 80).batches for n in (3, 8))
    assert_own(few, many)
