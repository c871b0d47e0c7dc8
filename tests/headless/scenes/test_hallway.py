from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.headless.scenes import hallway
from tau_trainer.headless.scenes.hallway import BACK, FORWARD, STAY, TURN_LEFT, TURN_RIGHT, HallwayScene
from tau_trainer.specs import Actions, StepBatch
from tests.headless.scenes.playing import assert_own, begin, step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.headless.scenes.conftest import Act, Play


def do(action: NDArray[np.integer]) -> Actions:
    return Actions(np.zeros((len(action), 0), np.float32), action.astype(np.int32)[:, None])


def walker(memory: bool) -> Act:
    """Walk on; where the goals come into sight, turn to the one with the gate's symbol (without memory: with O)."""
    seen: dict[int, int] = {}

    def act(batch: StepBatch) -> Actions:
        rays = batch.obs[0].reshape(len(batch), 5, 6)
        actions = np.full(len(batch), FORWARD)
        for row, (agent, (ahead, right, left, *_)) in enumerate(zip(batch.agent_ids, rays, strict=True)):
            if memory and ahead[2:4].any():
                seen[agent] = int(ahead[3])
            wanted = seen.get(agent, 0)
            if not ahead[:2].any() and not rays[row, :, 2:4].any():
                actions[row] = TURN_RIGHT if right[wanted] else TURN_LEFT if left[wanted] else FORWARD
        return do(actions)

    return act


def test_with_memory_nearly_all_and_without_half_of_the_choices_are_right(play: Play) -> None:
    with_memory = play(HallwayScene(agents=64, seed=1), walker(memory=True), 200)
    assert np.mean(with_memory.returns) > 0.93
    assert np.mean(with_memory.lengths) < 12.0
    assert not any(with_memory.truncated)
    without = play(HallwayScene(agents=64, seed=1), walker(memory=False), 200)
    assert np.mean(without.returns) == pytest.approx(0.40, abs=0.05)
    assert set(np.sign(without.returns)) == {-1.0, 1.0}


def test_anything_earns_little_and_nothing_loses(play: Play) -> None:
    generator = np.random.default_rng(0)
    played = play(HallwayScene(agents=50, seed=2), lambda batch: do(generator.integers(0, 5, len(batch))), 800)
    assert -0.9 < np.mean(played.returns) < -0.5
    idle = play(HallwayScene(agents=2), lambda batch: do(np.full(len(batch), STAY)), 400)
    assert idle.lengths == [200] * 4
    assert all(idle.truncated)
    np.testing.assert_allclose(idle.returns, -1.0, atol=1e-4)


def pair_at_the_gate(left: int) -> HallwayScene:
    """Two agents about to pass the gate: agent 0 has seen O, agent 1 X, from different places."""
    scene = HallwayScene(agents=2, max_decisions=0)
    begin(scene)
    scene._place[:] = [(-1.0, 4.4), (1.5, 4.2)]
    scene._heading[:] = [0.3, -0.2]
    scene._symbol[:] = [0, 1]
    scene._left[:] = left
    return scene


@settings(max_examples=150)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 1))
def test_no_memoryless_policy_can_pass(actions: list[int], left: int) -> None:
    """Behind the gate equal actions lead to equal observations, whatever the symbol was, so that a policy of the
    observation alone (a random one as well) does the same for both; and what is right for the one is wrong for the
    other, so that the two of them together never earn more than both goals are worth."""
    scene = pair_at_the_gate(left)
    before = begin_of(scene)
    assert not np.array_equal(before[0], before[1])  # the symbol is seen there
    batch = step(scene, do(np.array([FORWARD, FORWARD])))
    np.testing.assert_array_equal(batch.obs[0][0], batch.obs[0][1])
    for action in actions:
        batch = step(scene, do(np.array([action, action])))
        ended = batch.terminals
        if len(ended):
            assert ended.agent_ids.tolist() == [0, 1]
            assert sorted(ended.reward.tolist()) == pytest.approx([-0.1, 1.0])
            np.testing.assert_array_equal(ended.obs[0][0], ended.obs[0][1])
            return
        np.testing.assert_array_equal(batch.obs[0][0], batch.obs[0][1])
        assert batch.reward.tolist() == [np.float32(-0.005)] * 2


def begin_of(scene: HallwayScene) -> NDArray[np.float32]:
    (seen,) = scene.observe()
    return seen


@pytest.mark.parametrize(("left", "turn", "rewards"), [(0, TURN_LEFT, (1.0, -0.1)), (0, TURN_RIGHT, (-0.1, 1.0))])
def test_the_goal_with_the_gates_symbol_is_the_right_one(left: int, turn: int, rewards: tuple[float, float]) -> None:
    scene = pair_at_the_gate(left)
    for action in [FORWARD, FORWARD, FORWARD, turn, *[FORWARD] * 4]:
        batch = step(scene, do(np.array([action, action])))
        if len(batch.terminals):
            break
    assert batch.terminals.reward.tolist() == pytest.approx(rewards)


def test_the_bare_wall_between_the_goals_ends_nothing_and_the_gate_is_no_way_back() -> None:
    scene = pair_at_the_gate(0)
    step(scene, do(np.array([FORWARD, FORWARD])))
    for _ in range(10):
        batch = step(scene, do(np.array([FORWARD, BACK])))
    assert len(batch.terminals) == 0
    assert scene._place[:, 1].tolist() == [hallway.END - hallway.RADIUS, hallway.GATE + hallway.RADIUS]
    assert not begin_of(scene).reshape(2, 5, 6)[:, :, 2:4].any()  # nor does it show its symbol again


def test_what_the_rays_see() -> None:
    scene = HallwayScene(agents=1)
    begin(scene)
    scene._place[0], scene._heading[0], scene._symbol[0], scene._left[0] = (0.0, 1.0), 0.0, 1, 0
    rays = begin_of(scene).reshape(5, 6)
    np.testing.assert_allclose(rays[0], [0, 0, 0, 1, 0, 4.0 / 20.0])  # X on the gate, 4 m ahead
    side = 3.0 / np.sin(np.deg2rad(70.0)) / 20.0
    np.testing.assert_allclose(rays[3:], [[0, 0, 0, 0, 0, side]] * 2, rtol=1e-6)  # both side walls
    scene._place[0], scene._through[0] = (0.0, 8.0), True
    rays = begin_of(scene).reshape(5, 6)
    np.testing.assert_allclose(rays[0], [0, 0, 0, 0, 0, 3.0 / 20.0])  # bare
    slanting = 3.0 / np.cos(np.deg2rad(35.0)) / 20.0
    np.testing.assert_allclose(rays[1], [0, 1, 0, 0, 0, slanting], rtol=1e-6)  # X on the right, O on the left
    np.testing.assert_allclose(rays[2], [1, 0, 0, 0, 0, slanting], rtol=1e-6)


def test_turning_goes_right_and_left_and_back_is_back() -> None:
    scene = HallwayScene(agents=4)
    begin(scene)
    scene._place[:], scene._heading[:] = (0.0, 2.0), 0.0
    step(scene, do(np.array([TURN_RIGHT, TURN_LEFT, FORWARD, BACK])))
    np.testing.assert_allclose(np.rad2deg(scene._heading), [30, -30, 0, 0])
    np.testing.assert_allclose(scene._place[2:], [(0, 3), (0, 1)])


def test_symbols_and_sides_are_drawn_apart_and_are_an_agents_own(play: Play) -> None:
    scene = HallwayScene(agents=4000, seed=3)
    begin(scene)
    counts = np.bincount(2 * scene._symbol + scene._left, minlength=4)
    assert counts.min() > 900
    few, many = (play(HallwayScene(agents=n, seed=4), walker(memory=True), 60).batches for n in (3, 8))
    assert_own(few, many)
