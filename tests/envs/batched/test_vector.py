"""Batched environments as Gymnasium's vector ones, with its own as judges."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from tau_trainer.envs.batched import registry
from tau_trainer.envs.batched.vector import BatchedVectorEnv
from tau_trainer.games.classic_control import MOTION
from tests.envs.batched.counting import Branched, Counting
from tests.games.classic import OF_GYMNASIUM


@pytest.mark.parametrize("name", OF_GYMNASIUM)
def test_it_answers_as_gymnasiums_own_vector_of_the_same_environments(name: str) -> None:
    """Same states, same actions: same arrays, same ends, same keys."""
    ours = BatchedVectorEnv(registry.make(name, 3, limit=40, seed=1))
    theirs = SyncVectorEnv(
        [lambda: gymnasium.make(OF_GYMNASIUM[name], max_episode_steps=40, disable_env_checker=True)] * 3,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.single_action_space == theirs.single_action_space
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    ours.reset(seed=5)
    theirs.reset(seed=5)
    theirs.action_space.seed(5)
    ends = 0
    for _ in range(200):
        for i, env in enumerate(theirs.envs):
            plain: Any = env.unwrapped
            plain.state = ours.batched.state[MOTION][i].numpy().astype(np.float64)
        actions = theirs.action_space.sample()
        found, wanted = ours.step(actions), theirs.step(actions)
        one: Any
        other: Any
        over = wanted[2] | wanted[3]
        np.testing.assert_allclose(found[0][~over], wanted[0][~over], rtol=1e-4, atol=1e-5)
        assert found[0] in ours.observation_space
        # Gymnasium's limit also truncates what terminates in the same step.
        for one, other in zip(found[1:4], (*wanted[1:3], wanted[3] & ~wanted[2]), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        assert found[4].keys() == wanted[4].keys() - {"final_info", "_final_info"} | (
            {"final_info", "_final_info"} if over.any() else set()
        )
        for i in map(int, np.flatnonzero(over)):
            np.testing.assert_allclose(found[4]["final_obs"][i], wanted[4]["final_obs"][i], rtol=1e-4, atol=1e-5)
        if over.any():
            assert found[4]["_final_obs"].tolist() == wanted[4]["_final_obs"].tolist() == over.tolist()
        ends += int(over.sum())
    assert ends >= 12


def test_gymnasiums_wrappers_take_it() -> None:
    env: Any = BatchedVectorEnv(registry.make("cartpole", 8, limit=20, seed=1))
    env = wrappers.NormalizeReward(wrappers.RecordEpisodeStatistics(env))
    env.reset(seed=1)
    env.action_space.seed(1)
    lengths = list[int]()
    for _ in range(60):
        observations, _, terminated, truncated, infos = env.step(env.action_space.sample())
        assert observations.shape == (8, 4)
        over = terminated | truncated
        if over.any():
            assert infos["_episode"].tolist() == over.tolist()
            assert infos["episode"]["r"][over].tolist() == infos["episode"]["l"][over].tolist()
            lengths += infos["episode"]["l"][over].tolist()
    assert min(lengths) > 8
    assert max(lengths) == 20
    pushed: Any = wrappers.DictInfoToList(
        wrappers.ClipReward(BatchedVectorEnv(registry.make("pendulum", 4, limit=2)), -0.5, 0.5)
    )
    pushed.reset(seed=1)
    pushed.step(np.zeros((4, 1), np.float32))
    _, rewards, _, _, infos = pushed.step(np.zeros((4, 1), np.float32))
    assert (np.abs(rewards) <= 0.5).all()
    assert [info["final_obs"].shape for info in infos] == [(3,)] * 4


def test_seeds_are_the_environments_own() -> None:
    env = BatchedVectorEnv(Counting(3, seed=7))
    first, _ = env.reset()
    assert (first == Counting(3, seed=7).reset().flatten(0, 1).numpy()).all()
    second, _ = env.reset()
    assert (second != first).any(), "the next episodes"
    again, _ = env.reset(seed=7)
    assert (again == first).all()
    each, _ = env.reset(seed=[4, 0, 3, 0, 4, 0])
    assert (each[0] == each[4]).all()
    alone, _ = BatchedVectorEnv(Counting(1)).reset(seed=3)
    assert (each[2:4] == alone).all()
    with pytest.raises(ValueError, match="2 seeds were given for 6 rows"):
        env.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="a seed is None"):
        env.reset(seed=[None] * 6)


def test_only_some_begin_anew_where_that_is_asked_for() -> None:
    env = BatchedVectorEnv(Counting(3))
    with pytest.raises(ValueError, match="an environment that has started"):
        env.reset(options={"reset_mask": np.ones(6, np.bool_)})
    env.reset(seed=1)
    before, *_ = env.step(np.zeros(6, np.int64))
    after, _ = env.reset(options={"reset_mask": np.array([False, False, True, False, False, False])})
    assert after[:, 1].tolist() == [1, 1, 0, 0, 1, 1]
    assert (after[[0, 1, 4, 5]] == before[[0, 1, 4, 5]]).all()


def test_agents_that_left_stay_as_rows_until_their_copy_ends() -> None:
    env = BatchedVectorEnv(Counting(2, limit=4, seed=3))
    assert env.num_envs == 4
    env.reset()
    env.batched.state["sum"][:] = 0
    told = [env.step(np.array(actions)) for actions in ([2, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 2, 0])]
    assert told[0][1].tolist() == [2.0, 1.0, 0.0, 0.0]
    assert told[1][1].tolist() == [0.0, 1.0, 0.0, 0.0], "who left earns nothing"
    assert [step[4]["present"].tolist() for step in told[:3]] == [[False, True, True, True]] * 3
    assert not any(step[2].any() or step[3].any() for step in told[:3])
    assert told[3][2].tolist() == [True, False, True, False], "terminated as it left"
    assert told[3][3].tolist() == [False, True, False, True]
    assert [row[1] for row in told[3][4]["final_obs"]] == [4.0] * 4
    assert told[3][4]["present"].all()
    assert env.step(np.array([0, 0, 0, 0]))[4]["present"].all()


def test_who_left_is_forgotten_with_a_reset() -> None:
    env = BatchedVectorEnv(Counting(1, limit=2))
    env.reset()
    env.step(np.array([2, 0]))
    env.reset()
    env.step(np.array([0, 0]))
    _, _, terminated, truncated, _ = env.step(np.array([0, 0]))
    assert (terminated.tolist(), truncated.tolist()) == ([False, False], [True, True])


def test_masks_are_told_and_branches_kept() -> None:
    env = BatchedVectorEnv(Counting(2))
    _, infos = env.reset()
    env.batched.state["sum"][:] = torch.tensor([0, 9])
    _, _, _, _, infos = env.step(np.zeros(4, np.int64))
    assert infos["action_mask"].tolist() == [[1, 1, 0]] * 2 + [[1, 1, 1]] * 2
    assert infos["_action_mask"].all()
    branched = BatchedVectorEnv(Branched(2))
    _, infos = branched.reset()
    assert "action_mask" not in infos
    assert branched.step(branched.action_space.sample())[1].shape == (4,)


def test_arrays_are_the_callers_own() -> None:
    env = BatchedVectorEnv(registry.make("cartpole", 2))
    seen, _ = env.reset()
    seen[:] = 9.0
    assert env.batched.state[MOTION].abs().max() < 0.1


def test_pictures_of_every_copy() -> None:
    env = BatchedVectorEnv(registry.make("cartpole", 2), render_mode="rgb_array")
    env.reset()
    shown = env.render()
    assert shown is not None
    assert [one.shape for one in shown] == [(300, 600, 3)] * 2
    assert BatchedVectorEnv(Counting(1)).render() is None
