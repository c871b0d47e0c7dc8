"""Spaces of a game for Gymnasium."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tau_trainer.envs.mlagents import ActionSpec, UnityActionException, UnityGymException, UnityToGymWrapper
from tests.envs.mlagents.doubles import NAME, Say, Scripted, sensor, spec_of


def test_branches_can_be_one_number() -> None:
    branches = (2, 3, 2)
    game = Scripted([Say([0], forbidden=[[1, 4]])] * 14, spec_of(ActionSpec.create_discrete(branches)))
    env = UnityToGymWrapper(game, flatten_branched=True, action_space_seed=3)
    assert env.action_space == spaces.Discrete(12)
    _, info = env.reset()
    for number, choice in enumerate(itertools.product(*map(range, branches))):
        env.step(number)
        assert game.given[-1][NAME].discrete.tolist() == [list(choice)]
        # number 1 of the first branch and number 2 of the second are forbidden
        assert info["action_mask"][number] == (choice[0] != 1 and choice[1] != 2)
    with pytest.raises((UnityGymException, UnityActionException)):
        env.step(12)
    again = UnityToGymWrapper(game, flatten_branched=True, action_space_seed=3).action_space
    env.action_space.seed(3)
    assert [env.action_space.sample() for _ in range(5)] == [again.sample() for _ in range(5)]


def test_which_sensors_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    sensors = [sensor(3), sensor(3, 2, 4), sensor(5, 2), sensor(4), sensor(1, 2, 2)]
    game = Scripted([Say([0])], spec_of(None, *sensors))
    first = UnityToGymWrapper(game)
    assert first.observation_space == spaces.Box(0, 1, (3, 2, 4), np.float32)
    assert "allow_multiple_obs=True" in caplog.text
    caplog.clear()
    every = UnityToGymWrapper(game, allow_multiple_obs=True)
    obs, _ = every.reset()
    assert [part.shape for part in obs] == [(3, 2, 4), (1, 2, 2), (5, 2), (7,)]
    assert obs in every.observation_space
    assert UnityToGymWrapper(Scripted([Say([0])], spec_of(None, sensor(3), sensor(5, 2)))).reset()[0].shape == (5, 2)
    vectors = UnityToGymWrapper(Scripted([Say([0])], spec_of(None, sensor(3), sensor(4))))
    assert vectors.reset()[0].shape == (7,)
    assert vectors.metadata["render_modes"] == []


def test_images_as_bytes() -> None:
    game = Scripted([Say([0])], spec_of(None, sensor(1, 2, 3), sensor(2)))
    game.get_steps(NAME)
    seen = np.array([[0.0, 1 / 255, 0.5], [200 / 255, 254 / 255, 1.0]], np.float32).reshape(1, 1, 2, 3)
    whole = game.get_steps

    def shown(name: str) -> Any:
        decisions, terminals = whole(name)
        decisions.obs[0] = seen
        return decisions, terminals

    game.get_steps = shown  # type: ignore[assignment]
    env = UnityToGymWrapper(game, uint8_visual=True, render_mode="rgb_array")
    obs, _ = env.reset()
    assert env.observation_space == spaces.Box(0, 255, (1, 2, 3), np.uint8)
    assert obs.tolist() == [[[0, 1, 128], [200, 254, 255]]]
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((2, 3, 3), np.uint8)
    assert picture[:, :, 2].tolist() == obs[0].tolist()
