"""Fixed players: who is asked for, and what a random one plays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tau_trainer.envs.batched.players import make_player
from tau_trainer.errors import SettingsError
from tau_trainer.games.tag_gridworld import TagGridworld
from tests.envs.batched.counting import Counting


class Several(Counting):
    def __init__(self, num_envs: int, space: Any, **options: Any) -> None:
        super().__init__(num_envs, **options)
        self.action_space = space


def test_an_unknown_player_is_named_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match="tag_gridworld has no fixed player 'chasr'; did you mean chaser"):
        make_player("chasr", TagGridworld(1), [0])
    with pytest.raises(SettingsError, match="Counting has no fixed player 'nobody'; known here: random"):
        make_player("nobody", Counting(1), [0])


def test_random_players_take_what_is_allowed_as_often_as_anything_else() -> None:
    env = Counting(6000)
    observations = env.reset()
    mask = torch.tensor([[True, False, True], [True, True, True]]).expand(6000, 2, 3)
    actions = make_player("random", env, [0, 1])(observations, mask, env.state)
    counts = torch.nn.functional.one_hot(actions, 3).sum(dim=0)
    assert counts[0, 1] == 0
    assert abs(int(counts[0, 0]) - 3000) < 250  # six standard deviations
    assert all(abs(int(count) - 2000) < 250 for count in counts[1])


def test_random_players_draw_by_copy_and_step_and_agent() -> None:
    env = Counting(50)
    observations = env.reset()
    both, right = make_player("random", env, [0, 1]), make_player("random", env, [1])
    first = both(observations, None, env.state)
    assert (right(observations[:, 1:], None, env.state)[:, 0] == first[:, 1]).all()
    assert (first[:, 0] != first[:, 1]).any()
    env.step(first)
    assert (both(observations, None, env.state) != first).any()


def test_random_players_of_branches_and_of_boxes() -> None:
    branches = Several(3000, spaces.MultiDiscrete([2, 4]))
    mask = torch.tensor([True, True, True, False, True, True]).expand(3000, 1, 6)
    actions = make_player("random", branches, [1])(branches.reset()[:, 1:], mask, branches.state)
    assert actions.shape == (3000, 1, 2)
    assert set(actions[..., 0].flatten().tolist()) == {0, 1}
    assert set(actions[..., 1].flatten().tolist()) == {0, 2, 3}
    box = Several(3000, spaces.Box(np.array([-1, 5], np.float32), np.array([1, 9], np.float32)))
    actions = make_player("random", box, [0, 1])(box.reset(), None, box.state)
    assert actions.dtype == torch.float32
    assert actions.shape == (3000, 2, 2)
    low, high = actions.amin(dim=(0, 1)), actions.amax(dim=(0, 1))
    assert torch.allclose(low, torch.tensor([-1.0, 5.0]), atol=0.01)
    assert torch.allclose(high, torch.tensor([1.0, 9.0]), atol=0.01)
