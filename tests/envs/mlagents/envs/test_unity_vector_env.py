from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from tau_trainer.envs import unity
from tau_trainer.envs.mlagents import ActionSpec, UnityEnvironment, UnityGymException, UnityVectorEnv
from tests.envs.mlagents.doubles import NAME, Say, Scripted, sensor, spec_of


def parts(obs: list[Any], row: int | None = None) -> list[Any]:
    """What a tuple of all sensors holds: images, lists of entities, and one vector."""
    shown = [one for rank in (4, 3) for one in obs if one.ndim == rank]
    vectors = [one for one in obs if one.ndim == 2]
    shown += [np.concatenate(vectors, axis=1)] if vectors else []
    return shown if row is None else [one[row] for one in shown]


def same(one: Any, other: list[Any]) -> bool:
    return len(one) == len(other) and all((a == b).all() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("scene", ["balance", "gridworld", "foodcollector", "sorter"])
def test_a_scene_is_the_same_game_as_through_the_low_level_api(scene: str) -> None:
    arguments = ["--agents", "3", "--seed", "5", "--max-decisions", "7"]
    low = UnityEnvironment(f"headless:{scene}", base_port=0, additional_args=arguments, num_areas=2)
    for _ in range(3):  # making the other one knows the behavior, and counts the agents
        low.reset()
    env: Any = gymnasium.make_vec(
        f"{unity.__name__}:tau/Unity-v0", num_envs=2, file_name=f"headless:{scene}",
        additional_args=arguments, allow_multiple_obs=True,
    )  # fmt: skip
    assert env.num_envs == 6
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    env.action_space.seed(1)
    env.reset()
    ((name, spec),) = low.behavior_specs.items()
    ends = 0
    for _ in range(20):
        action = env.action_space.sample()
        obs, rewards, terminated, truncated, infos = env.step(action)
        whole = spec.action_spec.empty_action(6)
        kinds = [one for one in (whole.continuous, whole.discrete) if one.size]
        for kind, chosen in zip(kinds, action if isinstance(action, tuple) else [action], strict=True):
            kind[:] = np.reshape(chosen, kind.shape)
        low.set_actions(name, whole)
        low.step()
        decisions, terminals = low.get_steps(name)
        assert obs in env.observation_space
        assert same(obs, parts(decisions.obs))
        paid = decisions.reward.copy()
        paid[terminals.agent_id] = terminals.reward
        assert (rewards == paid).all()
        assert np.flatnonzero(terminated | truncated).tolist() == sorted(terminals.agent_id.tolist())
        for row, agent in enumerate(terminals.agent_id.tolist()):
            ends += 1
            assert truncated[agent] == terminals.interrupted[row]
            assert same(infos["final_obs"][agent], parts(terminals.obs, row))
            assert infos["_final_obs"][agent]
    assert ends
    env.close()
    env.close()
    low.close()


def floats(*values: float) -> list[float]:
    return [float(np.float32(value)) for value in values]


def test_agents_that_ask_at_different_times() -> None:
    game = Scripted([Say([4, 2]), Say([2]), Say([2], {4: True}), Say([4]), Say([4, 2], {2: False})])
    env = UnityVectorEnv(game)
    obs, infos = env.reset()
    assert obs[:, 0].tolist() == floats(0.02, 0.04), "copies are in the order of their ids"
    assert infos["asking"].tolist() == [True, True]
    obs, rewards, _, _, infos = env.step(np.array([[0.2], [0.4]]))
    assert game.given[-1][NAME].continuous.ravel().tolist() == floats(0.4, 0.2)
    assert obs[:, 0].tolist() == floats(1.02, 0.04)
    assert (rewards.tolist(), infos["asking"].tolist()) == ([2.0, 0.0], [True, False])
    obs, rewards, terminated, truncated, infos = env.step(np.array([[0.2], [0.4]]))
    assert game.given[-1][NAME].continuous.ravel().tolist() == floats(0.2)
    assert (terminated.tolist(), truncated.tolist(), rewards.tolist()) == ([False] * 2, [False, True], [2.0, -1.0])
    assert obs[:, 0].tolist() == floats(2.02, 2.54), "its last observation, until it comes back"
    assert infos["final_obs"][1].tolist() == floats(2.54, 2.54)
    obs, rewards, terminated, truncated, infos = env.step(np.zeros((2, 1)))
    assert obs[:, 0].tolist() == floats(2.02, 3.04)
    assert not (terminated | truncated).any()
    assert "final_obs" not in infos
    obs, rewards, terminated, _, infos = env.step(np.zeros((2, 1)))
    assert obs[:, 0].tolist() == floats(4.02, 4.04), "the next episode begins in the same step"
    assert (terminated.tolist(), rewards.tolist()) == ([True, False], [-1.0, 4.0])
    assert infos["final_obs"][0].tolist() == floats(4.52, 4.52)
    assert infos["_final_obs"].tolist() == [True, False]


def test_a_newcomer_takes_the_place_of_one_that_is_gone() -> None:
    game = Scripted([Say([0, 1]), Say([0, 7], {0: False, 1: False}), Say([0, 7]), Say([0, 7, 8])])
    env = UnityVectorEnv(game)
    env.reset()
    obs, *_ = env.step(np.zeros((2, 1)))
    assert obs[:, 0].tolist() == floats(1.0, 1.07)
    env.step(np.array([[0.1], [0.7]]))
    assert game.given[-1][NAME].continuous.ravel().tolist() == floats(0.1, 0.7)
    with pytest.raises(
        UnityGymException, match=r"agent 8 appeared in addition to the first 2, .* use UnityParallelEnv"
    ):
        env.step(np.zeros((2, 1)))


def test_masks_and_several_sensors() -> None:
    spec = spec_of(ActionSpec.create_discrete((3,)), sensor(1, 2, 2), sensor(3))
    game = Scripted([Say([0, 1], forbidden=[[0], [1, 2]]), Say([1], {0: False}, [[0]]), Say([0, 1])], spec)
    plain = UnityVectorEnv(game)
    kept, _ = plain.reset()
    assert kept.shape == (2, 1, 2, 2)
    image = kept.copy()
    plain.step(np.array([1, 1]))
    assert (kept == image).all()
    env = UnityVectorEnv(game, uint8_visual=True, allow_multiple_obs=True)
    assert env.single_observation_space[0] == spaces.Box(0, 255, (1, 2, 2), np.uint8)  # type: ignore[index]
    obs, infos = env.reset()
    assert obs in env.observation_space
    assert infos["action_mask"].tolist() == [[0, 1, 1], [1, 0, 0]]
    before = [part.copy() for part in obs]
    later, _, _, _, infos = env.step(np.array([2, 0]))
    assert same(obs, before), "who keeps observations keeps them as they were"
    assert not same(later, before)
    assert game.given[-1][NAME].discrete.tolist() == [[2], [0]]
    assert infos["action_mask"][1].tolist() == [0, 1, 1]
    assert [part.shape for part in infos["final_obs"][0]] == [(1, 2, 2), (3,)]


def test_a_game_whose_agents_change_and_seeds_for_each() -> None:
    game = Scripted([Say([0, 1])])
    env = UnityVectorEnv(game)
    with pytest.raises(UnityGymException, match="give one seed"):
        env.reset(seed=[1, 2])
    game.script = [{NAME: Say([0])}]
    with pytest.raises(UnityGymException, match="now has 1 agents instead of 2"):
        env.reset()
    with pytest.raises(UnityGymException, match="'a', 'b'; use UnityParallelEnv"):
        UnityVectorEnv(Scripted([{}], spec_of(), spec_of(), names=("a", "b")))
