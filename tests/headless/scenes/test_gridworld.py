from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tau_trainer.headless.scenes.gridworld import DOWN, LEFT, RIGHT, STAY, UP, GridWorldScene
from tau_trainer.specs import Actions, ObservationType, StepBatch
from tests.headless.scenes.playing import assert_own, begin, step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.headless.scenes.conftest import Play

MOVES = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}
PLUS, CROSS, AGENT = (30, 170, 60), (200, 40, 40), (40, 80, 220)


def do(action: NDArray[np.integer]) -> Actions:
    return Actions(np.zeros((len(action), 0), np.float32), action.astype(np.int32)[:, None])


def find(picture: NDArray[np.uint8], colour: tuple[int, int, int]) -> NDArray[np.intp]:
    """Row and column of what bears a colour, of each agent, read from the middles of the cells."""
    cells = picture[:, :, 2:62, 12:72].reshape(-1, 3, 5, 12, 5, 12)[:, :, :, 5, :, 5]
    cell = (cells == np.array(colour)[:, None, None]).all(axis=1).reshape(len(picture), 25)
    assert (cell.sum(axis=1) == 1).all()
    return np.stack(np.divmod(cell.argmax(axis=1), 5), axis=1)


def expert(batch: StepBatch) -> Actions:
    """Read the picture and the goal; walk along the longer way first, around the wrong one."""
    picture, goal = batch.obs
    plus, cross, agents = (find(picture, colour) for colour in (PLUS, CROSS, AGENT))
    actions = []
    for place, first, second, wants_cross in zip(agents, plus, cross, goal[:, 1], strict=True):
        right, wrong = (second, first) if wants_cross else (first, second)
        free = {action: place + move for action, move in MOVES.items()}
        free = {a: p for a, p in free.items() if (p >= 0).all() and (p < 5).all() and (p != wrong).any()}
        ways = {action: (np.abs(right - p).sum(), np.abs(right - p).max()) for action, p in free.items()}
        actions.append(min(ways, key=lambda action: ways[action]))
    return do(np.array(actions))


def test_the_picture_and_the_goal_say_all_that_the_best_policy_needs(play: Play) -> None:
    played = play(GridWorldScene(agents=200, seed=1), expert, 40)
    assert len(played.returns) > 2000
    assert np.mean(played.returns) == pytest.approx(0.9765, abs=2e-3)  # by breadth-first search over all boards
    assert np.min(played.returns) > 0.9
    assert not any(played.truncated)


def test_without_the_goal_half_is_right(play: Play) -> None:
    def blind(batch: StepBatch) -> Actions:
        batch.obs[1][:] = (1.0, 0.0)
        return expert(batch)

    played = play(GridWorldScene(agents=200, seed=1), blind, 40)
    assert np.mean(np.array(played.returns) > 0.0) == pytest.approx(0.5, abs=0.05)
    assert abs(np.mean(played.returns)) < 0.1


def test_anything_earns_little_and_nothing_loses(play: Play) -> None:
    generator = np.random.default_rng(0)
    played = play(GridWorldScene(agents=50, seed=2), lambda batch: do(generator.integers(0, 5, len(batch))), 500)
    assert -0.4 < np.mean(played.returns) < -0.05
    idle = play(GridWorldScene(agents=3), lambda batch: do(np.full(len(batch), STAY)), 200)
    assert idle.lengths == [100] * 6
    assert all(idle.truncated)
    np.testing.assert_allclose(idle.returns, -1.0, atol=1e-5)


def test_moves_masks_and_walls() -> None:
    scene = GridWorldScene(agents=1)
    begin(scene)
    for corner, forbidden in (((0, 0), (UP, LEFT)), ((4, 4), (DOWN, RIGHT)), ((2, 4), (RIGHT,)), ((2, 2), ())):
        for action in range(5):
            scene._cells[:, 0] = [(3, 0), (3, 3), corner]
            mask = scene.mask()[0]
            assert np.flatnonzero(mask).tolist() == sorted(forbidden)
            batch = step(scene, do(np.array([action])))
            moved = np.add(corner, MOVES[action]) if action in MOVES and not mask[action] else corner
            assert scene._cells[2, 0].tolist() == list(moved)
            assert batch.reward[0] == np.float32(-0.01)
            assert batch.action_mask is not None
            assert not batch.action_mask[:, STAY].any()


@pytest.mark.parametrize(("goal", "place", "reward"), [(0, 0, 1.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 1.0)])
def test_the_goal_says_which_one_is_right(goal: int, place: int, reward: float) -> None:
    scene = GridWorldScene(agents=1)
    begin(scene)
    scene._cells[:, 0] = [(1, 2), (3, 2), (2, 2)]
    scene._goal[0] = goal
    batch = step(scene, do(np.array([DOWN if place else UP])))
    assert batch.terminals.reward.tolist() == [reward]
    assert not batch.terminals.truncated.any()
    assert batch.reward.tolist() == [0.0]
    picture, signal = batch.terminals.obs
    assert (picture[0, :, 2 + 12 * (3 if place else 1) + 6, 12 + 24 + 6] == AGENT).all()  # the agent covers it
    assert signal.tolist() == [np.eye(2)[goal].tolist()]


def test_observations_are_a_picture_in_bytes_and_a_goal() -> None:
    scene = GridWorldScene(agents=4)
    batch = begin(scene)
    image, goal = scene.specs[0].observations
    assert (image.shape, image.dimension_property) == ((3, 64, 84), (1, 2, 2))
    assert (goal.shape, goal.observation_type) == ((2,), ObservationType.GOAL_SIGNAL)
    assert batch.obs[0].shape == (4, 3, 64, 84)
    assert batch.obs[0].dtype == image.dtype == np.uint8
    assert batch.obs[0].flags.c_contiguous


def test_boards_are_uniform_and_an_agents_own(play: Play) -> None:
    scene = GridWorldScene(agents=5000, seed=3)
    batch = begin(scene)
    for cells in scene._cells:
        counts = np.bincount(cells @ (5, 1), minlength=25)
        assert counts.min() > 140
        assert counts.max() < 265
    plus, cross, agent = scene._cells @ (5, 1)
    assert ((plus != cross) & (plus != agent) & (cross != agent)).all()
    assert batch.obs[1].mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.03)
    few, many = (play(GridWorldScene(agents=n, seed=4), expert, 30).batches for n in (3, 8))
    assert_own(few, many)


def test_a_seed_starts_the_boards_anew_and_handed_out_pictures_stay() -> None:
    scene = GridWorldScene(agents=6, seed=5)
    first = begin(scene).obs[0]
    kept = first.copy()
    assert not np.array_equal(begin(scene).obs[0], kept)
    scene.seed(5)
    np.testing.assert_array_equal(begin(scene).obs[0], kept)
    for _ in range(20):
        step(scene, do(np.full(6, RIGHT)))
    np.testing.assert_array_equal(first, kept)
