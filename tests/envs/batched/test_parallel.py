"""Batched environments as PettingZoo's parallel ones."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from tau_trainer.envs.batched import registry
from tau_trainer.envs.batched.parallel import BatchedParallelEnv
from tau_trainer.errors import SettingsError
from tests.envs.batched.counting import Branched, Counting

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it makes an environment of its own in a way that it has deprecated
    from pettingzoo.test import parallel_api_test, parallel_seed_test


@pytest.mark.parametrize(
    "make", [lambda: Counting(1), lambda: Branched(1), lambda: registry.make("pendulum", 1, limit=30)]
)
def test_pettingzoos_own_tests_pass(make: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(BatchedParallelEnv(make()), num_cycles=60)
        parallel_seed_test(lambda: BatchedParallelEnv(make()), num_cycles=40)


def test_a_parallel_environment_plays_the_same_game() -> None:
    env, other = BatchedParallelEnv(Counting(1, limit=4)), Counting(1, limit=4)
    observations, infos = env.reset(seed=3)
    other.seed(3)
    wanted = other.reset()
    assert observations["right"].tolist() == wanted[0, 1].tolist()
    assert infos["left"]["action_mask"].tolist() == other.allowed(other.state)[0, 0].int().tolist()
    episodes = 0
    for actions in ([0, 1], [2, 0], [0, 1], [0, 0]) * 3:
        here = list(env.agents)
        seen, rewards, terminated, truncated, infos = env.step(dict(zip(("left", "right"), actions, strict=True)))
        step = other.step(torch.tensor([actions]))
        assert seen.keys() == rewards.keys() == terminated.keys() == truncated.keys() == infos.keys() == set(here)
        for agent in here:
            place = other.agents.index(agent)
            assert seen[agent].tolist() == step.final_observations[0, place].tolist()
            assert rewards[agent] == float(step.rewards[0, place])
            assert terminated[agent] is bool(step.terminated[0, place])
            assert truncated[agent] is bool(step.truncated[0, place])
        if not env.agents:
            episodes += 1
            first, _ = env.reset()
            assert first["left"].tolist() == step.observations[0, 0].tolist(), "no episode is left out"
    assert episodes >= 3


def test_a_reset_in_the_middle_is_the_next_episode() -> None:
    env = BatchedParallelEnv(Counting(1, seed=4))
    env.reset()
    env.reset()
    assert env.batched.state["episode"].tolist() == [0], "nobody has moved"
    env.step({"left": 0, "right": 0})
    env.reset()
    assert env.batched.state["episode"].tolist() == [1]
    env.reset(seed=4)
    assert env.batched.state["episode"].tolist() == [0]


def test_what_pettingzoo_cannot_say_is_refused() -> None:
    with pytest.raises(SettingsError, match="PettingZoo has no copies, but the environment has 2; make it with 1"):
        BatchedParallelEnv(Counting(2))
    env = BatchedParallelEnv(Counting(1))
    env.reset()
    with pytest.raises(ValueError, match="no action for right"):
        env.step({"left": 1})
    assert env.render() is None
    shown = BatchedParallelEnv(registry.make("pendulum", 1), render_mode="rgb_array")
    shown.reset()
    picture = shown.render()
    assert picture is not None
    assert picture.shape == (300, 300, 3)
