from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes.basic import BasicScene
from tau_trainer.specs import Actions, StepBatch
from tests.headless.scenes.playing import begin, step

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.headless.scenes.conftest import Play

STAY, LEFT, RIGHT = 0, 1, 2


def always(action: int) -> Callable[[StepBatch], Actions]:
    return lambda batch: Actions(np.zeros((len(batch), 0), np.float32), np.full((len(batch), 1), action, np.int32))


def test_going_right_earns_exactly_0_93(play: Play) -> None:
    played = play(BasicScene(), always(RIGHT), 70)
    assert played.lengths == [7] * 10
    assert played.truncated == [False] * 10
    np.testing.assert_allclose(played.returns, 0.93, atol=1e-6)


def test_going_left_earns_the_small_goal(play: Play) -> None:
    played = play(BasicScene(agents=3), always(LEFT), 3)
    assert played.lengths == [3, 3, 3]
    np.testing.assert_allclose(played.returns, 0.07, atol=1e-6)


def test_staying_is_cut_and_pays_the_steps(play: Play) -> None:
    played = play(BasicScene(max_decisions=50), always(STAY), 100)
    assert played.lengths == [50, 50]
    assert played.truncated == [True, True]
    np.testing.assert_allclose(played.returns, -0.5, atol=1e-5)


def test_observation_is_the_cell_one_hot_and_the_end_shows_the_goal() -> None:
    scene = BasicScene()
    batch = begin(scene)
    assert np.flatnonzero(batch.obs[0][0]).tolist() == [10]
    for _ in range(7):
        batch = step(scene, always(RIGHT)(batch))
    assert np.flatnonzero(batch.terminals.obs[0][0]).tolist() == [17]
    assert np.flatnonzero(batch.obs[0][0]).tolist() == [10]
    assert batch.terminals.reward[0] == pytest.approx(0.99)
    assert batch.reward[0] == 0.0


def test_limit_is_an_environment_parameter(play: Play) -> None:
    played = play(BasicScene(), always(STAY), 9, EnvironmentParameters({"max_decisions": 3.0}))
    assert played.lengths == [3, 3, 3]
