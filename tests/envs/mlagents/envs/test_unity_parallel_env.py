from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from gymnasium import spaces

from tau_trainer.envs.mlagents import (
    ActionSpec,
    EngineConfigurationChannel,
    UnityAECEnv,
    UnityEnvironment,
    UnityGymException,
    UnityParallelEnv,
)
from tests.envs.mlagents.doubles import NAME, Say, Scripted, sensor, spec_of

PLAYED = ("foodcollector", "walljump")
"""Grids, choices and values at once; several behaviors. Other sensors and actions are Gymnasium's tests' business."""
ADVICE = (
    "We recommend agents to be named",
    "Agent's (min|max)imum observation space",
    "Observation space for each agent probably",
    "Action space for each agent probably",
    "Observation is not a NumPy",
    "Observation numpy array is all zeros",
    "No agents present but",
)
"""What PettingZoo's checks regret: names are ML-Agents', nothing is known of sensors, and masks stand beside them."""


def started(scene: str, *channels: EngineConfigurationChannel) -> UnityEnvironment:
    arguments = ["--agents", "3", "--max-decisions", "20"]
    return UnityEnvironment(f"headless:{scene}", base_port=0, additional_args=arguments, side_channels=list(channels))


@pytest.mark.parametrize("scene", PLAYED)
def test_pettingzoos_own_checks(scene: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of PettingZoo itself, as it is imported
        from pettingzoo.test import api_test, parallel_api_test

        for text in ADVICE:
            warnings.filterwarnings("ignore", f".*{text}", UserWarning)
        parallel = UnityParallelEnv(started(scene), seed=1)
        parallel_api_test(parallel, num_cycles=60)
        parallel.close()
        turns = UnityAECEnv(started(scene))
        api_test(turns, num_cycles=60)
        turns.close()
        turns.close()


def agent(number: int, behavior: str = NAME) -> str:
    return f"{behavior}?agent_id={number}"


def test_agents_leave_one_by_one_and_play_no_second_episode() -> None:
    game = Scripted(
        [Say([0, 1]), Say([0, 1], {0: True}), Say([0, 1, 5]), Say([0, 5]), Say([0, 5], {1: False, 5: False})]
    )
    env = UnityParallelEnv(game)
    obs, infos = env.reset()
    assert env.agents == env.possible_agents == [agent(0), agent(1)]
    assert set(obs) == set(infos) == set(env.agents)
    obs, rewards, ended, cut, _ = env.step({agent(0): np.array([0.5]), agent(1): np.array([-0.5])})
    assert game.given[-1][NAME].continuous.ravel().tolist() == [0.5, -0.5]
    assert (ended, cut) == ({agent(0): False, agent(1): False}, {agent(0): True, agent(1): False})
    assert (obs[agent(0)][0], rewards) == (np.float32(1.5), {agent(0): -1.0, agent(1): 1.0})
    assert env.agents == [agent(1)]
    with pytest.raises(
        UnityGymException, match=r"agent .*agent_id=0' is not in the game now; act for those in `agents`"
    ):
        env.step({agent(0): np.array([0.5])})
    obs, rewards, *_ = env.step({agent(1): np.array([1.0])})
    assert game.given[-1][NAME].continuous.ravel().tolist() == [0.0, 1.0], "one that has left gets zeros"
    assert set(obs) == {agent(1), agent(5)}
    assert env.agents == [agent(1), agent(5)]
    assert env.possible_agents == [agent(0), agent(1), agent(5)]
    obs, rewards, ended, *_ = env.step({one: np.array([1.0]) for one in env.agents})
    assert obs[agent(1)][0] == np.float32(2.01), "it did not ask"
    assert rewards == {agent(1): 0.0, agent(5): 5.0}
    _, rewards, ended, cut, _ = env.step({one: np.array([1.0]) for one in env.agents})
    assert ended == {agent(1): True, agent(5): True}
    assert (env.agents, any(cut.values())) == ([], False)
    env.reset()
    assert env.agents == [agent(0), agent(1)]


def test_newcomers_are_possible_in_turns_too() -> None:
    turns = UnityAECEnv(Scripted([Say([0]), Say([0, 7]), Say([0, 7])]))
    turns.reset()
    assert turns.possible_agents == [agent(0)]
    turns.step(np.array([0.5]))
    assert turns.agents == turns.possible_agents == [agent(0), agent(7)]


def test_behaviors_masks_groups_and_several_sensors() -> None:
    names = ("Cat?team=0", "Dog?team=1", "Emu")
    several = sensor(2, name="s"), sensor(1, 2, 2, name="s"), sensor(3, name="")
    hybrid = spec_of(ActionSpec.create_hybrid(1, (2, 3)), *several)
    choosing = spec_of(ActionSpec.create_discrete((2, 3)), *several)
    says = {names[0]: Say([1], groups=[4], forbidden=[[0, 3]]), names[1]: Say([1])}
    says[names[2]] = Say([1], forbidden=[[1, 2, 4]])
    game = Scripted([says] * 3, hybrid, spec_of(), choosing, names=names)
    env = UnityParallelEnv(game, seed=3)
    cat, dog, emu = (agent(1, name) for name in names)
    assert env.agents == [cat, dog, emu]
    obs, infos = env.reset()
    assert all(obs[one] in env.observation_space(one) for one in env.agents)
    assert {name: part.shape for name, part in obs[cat].items()} == {"s": (2,), "s_1": (1, 2, 2), "_2": (3,)}
    assert set(obs[emu]) == {"observation", "action_mask"}
    assert [mask.tolist() for mask in obs[emu]["action_mask"]] == [[1, 0], [0, 1, 0]]
    assert env.action_space(emu).sample(mask=obs[emu]["action_mask"]).tolist() == [0, 1]
    mask = infos[cat].pop("action_mask")
    assert infos[cat] == {"behavior_name": names[0], "group_id": 4, "group_reward": 1.0}
    assert isinstance(env.action_space(cat), spaces.Tuple)
    action = env.action_space(cat).sample(mask=mask)
    assert action[1][0] == 1
    assert action[1][1] in (0, 2)
    env.step({cat: action, dog: np.array([0.25])})
    assert game.given[-1][names[0]].discrete.tolist() == [action[1].tolist()]
    assert game.given[-1][names[1]].continuous.tolist() == [[0.25]]
    again = UnityParallelEnv(Scripted([says], hybrid, spec_of(), choosing, names=names), seed=3)
    env.action_space(dog).seed(3)
    assert env.action_space(dog).sample() == again.action_space(dog).sample()


def test_a_seed_makes_the_game_again_and_side_channels_can_be_reached() -> None:
    channel = EngineConfigurationChannel()
    env = UnityParallelEnv(started("balance", channel))
    first, again, other = (env.reset(seed=seed)[0] for seed in (4, 4, 5))
    assert all((first[one] == again[one]).all() for one in env.agents)
    assert any((first[one] != other[one]).any() for one in env.agents)
    assert env.side_channel["EngineConfigurationChannel"] is channel
    env.close()
    turns = UnityAECEnv(Scripted([Say([0])]))
    assert turns.side_channel == {}


def test_without_pettingzoo_there_is_a_sentence() -> None:
    code = (
        "import sys; sys.modules['pettingzoo'] = None\n"
        "try:\n    from tau_trainer.envs import UnityParallelEnv\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tau-trainer[pettingzoo]'" in done.stdout
