from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from tau_trainer.envs import unity
from tau_trainer.envs.mlagents import ActionSpec, EnvironmentParametersChannel, UnityGymException, UnityToGymWrapper
from tests.envs.mlagents.doubles import NAME, Say, Scripted, spec_of

ONE_AGENT = ("gridworld", "foodcollector")
"""Images and grids; choices, and values beside them. Lists and values alone are in test_unity_vector_env."""


@pytest.fixture(autouse=True)
def _unbounded() -> Iterator[None]:
    """Nothing is known of sensors, which Gymnasium's checker regrets."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*A Box observation space (minimum|maximum) value is", UserWarning)
        yield


@pytest.mark.parametrize("scene", ONE_AGENT)
def test_gymnasiums_own_checks(scene: str) -> None:
    arguments: dict[str, Any] = {"file_name": f"headless:{scene}", "additional_args": ["--agents", "1"]}
    env = gymnasium.make(f"{unity.__name__}:tau/Unity-v0", allow_multiple_obs=True, **arguments)
    with contextlib.closing(env):
        check_env(env.unwrapped)


def test_an_episode() -> None:
    script = [Say([3]), Say([3], groups=[2]), Say(), Say([3]), Say([3], {3: False})]
    env = UnityToGymWrapper(Scripted(script))
    obs, info = env.reset()
    assert (obs.tolist(), info) == ([np.float32(0.03)] * 2, {"agent_id": 3, "group_id": 0, "group_reward": 0.0})
    obs, reward, terminated, truncated, info = env.step(np.array([0.5]))
    assert (obs[0], reward, terminated, truncated) == (np.float32(1.03), 3.0, False, False)
    assert info == {"agent_id": 3, "group_id": 2, "group_reward": 0.5}
    obs, *_ = env.step(np.array([-0.5]))
    assert obs[0] == np.float32(3.03), "a step in which it does not ask is passed over"
    obs, reward, terminated, truncated, _ = env.step(np.array([1.0]))
    assert (obs[0], reward, terminated, truncated) == (np.float32(4.53), -1.0, True, False)
    with pytest.raises(UnityGymException, match="over; call reset"):
        env.step(np.array([0.0]))
    assert env.reset()[0][0] == np.float32(0.03)
    env.close()
    env.close()


def test_what_was_chosen_reaches_the_game_and_a_cut_is_a_truncation() -> None:
    game = Scripted([Say([0]), Say([0]), Say((), {0: True})], spec_of(ActionSpec.create_hybrid(2, (3, 4))))
    env = UnityToGymWrapper(game)
    assert env.action_space == spaces.Tuple((spaces.Box(-1, 1, (2,), np.float32), spaces.MultiDiscrete([3, 4])))
    env.step((np.array([0.5, -0.5]), np.array([2, 3])))
    (given,) = (one[NAME] for one in game.given)
    assert (given.continuous.tolist(), given.discrete.tolist()) == ([[0.5, -0.5]], [[2, 3]])
    _, _, terminated, truncated, info = env.step(env.action_space.sample())
    assert (terminated, truncated) == (False, True)
    assert [mask.tolist() for mask in info["action_mask"]] == [[1, 1, 1], [1, 1, 1, 1]]
    with pytest.raises(UnityGymException, match="do not fit"):
        UnityToGymWrapper(game).step((np.zeros(3), np.zeros(2)))


def test_masks_are_those_of_sample() -> None:
    env = UnityToGymWrapper(
        Scripted([Say([0], forbidden=[[0, 2, 3]])] * 3, spec_of(ActionSpec.create_discrete((3, 2))))
    )
    _, info = env.reset()
    assert all(mask.dtype == np.int8 for mask in info["action_mask"])
    assert env.action_space.sample(info["action_mask"]).tolist() == [1, 1]


def test_games_that_are_none_of_this_kind() -> None:
    with pytest.raises(UnityGymException, match="2 agents and UnityToGymWrapper shows one; use UnityVectorEnv"):
        UnityToGymWrapper(Scripted([Say([0, 1])]))
    with pytest.raises(UnityGymException, match="'a', 'b'; use UnityParallelEnv"):
        UnityToGymWrapper(Scripted([{}], spec_of(), spec_of(), names=("a", "b")))
    with pytest.raises(UnityGymException, match="decide nothing"):
        UnityToGymWrapper(Scripted([Say([0])], spec_of(ActionSpec(0, ()))))
    nothing = spec_of()._replace(observation_specs=[])
    with pytest.raises(UnityGymException, match="observe nothing"):
        UnityToGymWrapper(Scripted([Say([0])], nothing))


def test_seeds_reach_the_game_once_one_was_given() -> None:
    class Told(EnvironmentParametersChannel):
        def set_float_parameter(self, key: str, value: float) -> None:
            told.append((key, value))

    told: list[tuple[str, float]] = []
    game: Any = Scripted([Say([0])])
    channel = Told()
    game._side_channel_manager = type("M", (), {"_side_channels_dict": {channel.channel_id: channel}})()
    env = UnityToGymWrapper(game)
    env.reset()
    assert told == []
    for seed in (5, None, 5, None, 6):
        env.reset(seed=seed)
    assert [name for name, _ in told] == ["seed"] * 5
    first, second, again, after, other = (value for _, value in told)
    assert (first, second) == (again, after)
    assert len({first, second, other}) == 3
    assert all(np.float32(value) == value for _, value in told)
