from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.errors import NonFiniteError
from tau_trainer.rewards import EngineReward
from tau_trainer.rewards.rewarder import check_finite
from tau_trainer.specs import Actions

ROWS, EVERY = np.array([3, 0]), np.ones(2, np.bool_)


@pytest.mark.parametrize("ended", [False, True])
def test_the_engines_reward_passes_as_it_was_sent(ended: bool) -> None:
    rewarder, reward = EngineReward(), np.array([0.5, -7.25], np.float32)
    assert rewarder.width == 1
    assert rewarder.decided(ROWS, Actions(np.zeros((2, 1), np.float32), np.zeros((2, 0), np.int32)), ()) is None
    paid, score = rewarder.answered(ROWS, reward, acted=EVERY, ended=ended)
    assert paid.tolist() == [[0.5], [-7.25]]
    assert score is None
    rewarder.clear()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_reward_that_is_no_number_is_named(bad: float) -> None:
    with pytest.raises(NonFiniteError, match="engine's reward of agent 2 of 2 in this step is not finite"):
        EngineReward().answered(ROWS, np.array([0.0, bad], np.float32), acted=EVERY, ended=False)
    with pytest.raises(NonFiniteError, match="The distance of agent 3 of 4"):
        check_finite(np.array([[0, 0], [0, 0], [0, bad], [bad, 0]]), "distance")
