"""What both games of tag have in common: copies that are games of their own, players, arguments."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tau_trainer.envs.batched import BatchedEnv, BatchedStep, registry
from tau_trainer.envs.batched.checking import check
from tau_trainer.envs.batched.players import make_player
from tau_trainer.errors import SettingsError
from tests.games.tagging import actions_for

LIVELY: dict[str, dict[str, Any]] = {
    "tag_gridworld": {"num_taggers": 3, "grid_length": 4, "episode_length": 9},
    "tag_continuous": {
        "num_taggers": 2,
        "num_runners": 4,
        "grid_length": 3.0,
        "episode_length": 9,
        "tagging_distance": 0.2,
        "edge_hit_penalty": -0.5,
        "use_full_observation": False,
        "num_other_agents_observed": 3,
    },
}
"""Small and short, so that much happens."""
# WarpDrive's own comparisons of its CPU version with its kernels.
EVERY = pytest.mark.parametrize("name", LIVELY)


def lively(name: str, num_envs: int, **more: Any) -> BatchedEnv:
    return registry.make(name, num_envs, **LIVELY[name] | more)


def played(env: BatchedEnv, steps: int) -> list[BatchedStep]:
    generator = torch.Generator().manual_seed(5)
    env.reset()
    return [env.step(actions_for(env, generator)) for _ in range(steps)]


@EVERY
@pytest.mark.parametrize("starts", ["drawn", "fixed", "pool"])
def test_copies_are_games_of_their_own(name: str, starts: str) -> None:
    findings = check(lambda copies, **more: lively(name, copies, starts=starts, pool=3, **more), steps=20, copies=4)
    assert findings.sentences == []
    assert findings.whole
    assert findings.episodes


@EVERY
def test_copies_few_at_a_time_are_the_same_copies(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = played(lively(name, 5), 30)
    monkeypatch.setattr("tau_trainer.games.tag_continuous._PAIRS", 80)
    for one, two in zip(wanted, played(lively(name, 5), 30), strict=True):
        assert all((a == b).all() for a, b in zip(one, two, strict=True))


@EVERY
def test_who_plays_by_rule_plays_better_than_at_random(name: str) -> None:
    arguments: dict[str, Any] = {"num_taggers": 2, "grid_length": 12, "episode_length": 60}
    if name == "tag_continuous":
        arguments |= {"num_runners": 4, "tagging_distance": 0.05}
    env = registry.make(name, 64, **arguments)
    taggers = [i for i, agent in enumerate(env.agents) if agent.startswith("tagger")]
    runners = [i for i, agent in enumerate(env.agents) if agent.startswith("runner")]
    scores = {}
    for pair in (("random", "random"), ("chaser", "random"), ("random", "evader"), ("chaser", "evader")):
        tagger, runner = make_player(pair[0], env, taggers), make_player(pair[1], env, runners)
        observations, total = env.reset(), torch.zeros(env.num_agents)
        for _ in range(60):
            actions = torch.empty((64, env.num_agents, *(env.action_space.shape or ())), dtype=torch.int64)
            actions[:, taggers] = tagger(observations[:, taggers], None, env.state)
            actions[:, runners] = runner(observations[:, runners], None, env.state)
            step = env.step(actions)
            observations, total = step.observations, total + step.rewards.mean(dim=0)
        scores[pair] = float(total[taggers].mean())
    assert scores["chaser", "random"] > 2 * scores["random", "random"] > 0
    assert scores["random", "evader"] < 0.3 * scores["random", "random"]
    assert scores["chaser", "evader"] > scores["random", "evader"]
    assert scores["chaser", "evader"] < 0.7 * scores["chaser", "random"]


@EVERY
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"num_taggers": 0}, "num_taggers must be a whole number of at least 1, but is 0"),
        ({"num_taggers": True}, "num_taggers must be a whole number of at least 1, but is True"),
        ({"episode_length": 2.5}, "episode_length must be a whole number of at least 1, but is 2.5"),
        ({"grid_length": -1}, "grid_length must be a .*number .*, but is -1"),
        ({"tag_reward_for_tagger": "ten"}, "tag_reward_for_tagger must be a number of at least 0, but is 'ten'"),
        ({"tag_reward_for_tagger": float("nan")}, "tag_reward_for_tagger must be a number of at least 0, but is nan"),
        ({"use_full_observation": "no"}, "use_full_observation must be true or false, but is 'no'"),
    ],
)
def test_arguments_that_make_no_game(name: str, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name}: {sentence}$"):
        registry.make(name, 1, **arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"grid_length": 0.0}, "grid_length must be a number above 0, but is 0.0"),
        ({"edge_hit_penalty": 1}, "edge_hit_penalty must be a number of at most 0, but is 1"),
        ({"num_runners": 0}, "num_runners must be a whole number of at least 1, but is 0"),
        ({"num_turn_levels": -1}, "num_turn_levels must be a whole number of at least 0, but is -1"),
        ({"min_turn": 2.0}, "min_turn must be at most max_turn, but is 2.0"),
        ({"min_acceleration": 2.0}, "min_acceleration must be at most max_acceleration, but is 2.0"),
        (
            {"use_full_observation": False, "num_other_agents_observed": 11},
            "num_other_agents_observed must be a whole number from 1 to 10, but is 11",
        ),
    ],
)
def test_arguments_that_make_no_square(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=f"^tag_continuous: {sentence}$"):
        registry.make("tag_continuous", 1, **arguments)


def test_a_grid_without_a_middle_is_refused() -> None:
    with pytest.raises(SettingsError, match="grid_length must be a whole number of at least 2, but is 1"):
        registry.make("tag_gridworld", 1, grid_length=1)
