"""What both games of tag have in common: their twins, copies that are games of their own, players, pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.envs.batched import BatchedEnv, BatchedStep, registry
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.envs.batched.players import make_player
from tau_trainer.errors import SettingsError
from tests.games.tagging import actions_for, compare, row

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
FIRST = {
    "num_taggers": 2,
    "num_runners": 3,
    "max_acceleration": 1.0,
    "max_turn": np.pi / 4,
    "num_acceleration_levels": 3,
    "num_turn_levels": 3,
    "edge_hit_penalty": -1.0,
    "tagging_distance": 0.0,
}
SECOND = {
    "num_taggers": 4,
    "num_runners": 1,
    "max_acceleration": 0.05,
    "max_turn": np.pi / 4,
    "num_acceleration_levels": 3,
    "num_turn_levels": 3,
    "skill_level_tagger": 2.0,
    "use_full_observation": False,
    "runner_exits_game_after_tagged": False,
    "step_penalty_for_tagger": -0.1,
    "tagging_distance": 0.25,
}
EVERY = pytest.mark.parametrize("name", LIVELY)


def lively(name: str, num_envs: int, **more: Any) -> BatchedEnv:
    return registry.make(name, num_envs, **LIVELY[name] | more)


def played(env: BatchedEnv, steps: int, seed: int, order: torch.Tensor | None = None) -> list[BatchedStep]:
    generator = torch.Generator().manual_seed(seed)
    env.reset()
    found = []
    for _ in range(steps):
        actions = actions_for(env, generator)
        found.append(env.step(actions if order is None else actions[order]))
    return found


def compare_episodes(env: BatchedEnv, twin: Any, steps: int, seed: int) -> int:
    """Steps of every copy, begun anew where they end; how many ended."""
    generator, ended = torch.Generator().manual_seed(seed), 0
    observations = env.reset()
    for _ in range(steps):
        for i in range(env.num_envs):
            np.testing.assert_allclose(observations[i].numpy(), twin.observe(row(env.state, i)), rtol=0, atol=1e-5)
        actions = actions_for(env, generator)
        compare(env, twin, env.state, actions)
        step = env.step(actions)
        observations, ended = step.observations, ended + int(step.over.sum())
    return ended


@pytest.mark.parametrize(
    ("name", "arguments", "seed"),
    [
        ("tag_continuous", FIRST, 274880),
        ("tag_continuous", SECOND, 428096),
        ("tag_continuous", LIVELY["tag_continuous"], 1),
        ("tag_gridworld", {"num_taggers": 4, "grid_length": 4, "episode_length": 10}, 2),
        ("tag_gridworld", {**LIVELY["tag_gridworld"], "use_full_observation": False, "starts": "fixed"}, 3),
    ],
)
def test_two_copies_through_two_episodes(name: str, arguments: dict[str, Any], seed: int) -> None:
    env = registry.make(name, 2, seed=seed, **arguments)
    twin = registry.twin(name, **{key: value for key, value in arguments.items() if key != "starts"})
    assert compare_episodes(env, twin, 2 * arguments.get("episode_length", 100), seed) >= 4


@EVERY
@given(seed=st.integers(0, 2**31), starts=st.sampled_from(["drawn", "fixed", "pool"]))
@settings(max_examples=10, deadline=None)
def test_a_step_of_many_copies_is_a_step_of_each(name: str, seed: int, starts: Any) -> None:
    seeds = seeds_of(seed, 4)
    together = played(lively(name, 4, seed=seeds, starts=starts, pool=3), 20, seed)
    assert any(bool(step.over.any()) for step in together)
    generator = torch.Generator().manual_seed(seed)
    actions = [actions_for(lively(name, 4), generator) for _ in together]
    for i in range(4):
        alone = lively(name, 1, seed=seeds[i : i + 1], starts=starts, pool=3)
        alone.reset()
        for chosen, wanted in zip(actions, together, strict=True):
            found = alone.step(chosen[i : i + 1])
            assert all((one[0] == many[i]).all() for one, many in zip(found, wanted, strict=True))


@EVERY
def test_permuted_copies_play_permuted_games(name: str) -> None:
    order, seeds = torch.tensor([2, 0, 3, 1]), seeds_of(3, 4)
    one = played(lively(name, 4, seed=seeds), 30, 5)
    other = played(lively(name, 4, seed=seeds[order]), 30, 5, order)
    for first, second in zip(one, other, strict=True):
        assert all((b == a[order]).all() for a, b in zip(first, second, strict=True))


@EVERY
def test_copies_few_at_a_time_are_the_same_copies(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = played(lively(name, 5), 30, 5)
    monkeypatch.setattr("tau_trainer.games.tag_continuous._PAIRS", 80)
    for one, two in zip(wanted, played(lively(name, 5), 30, 5), strict=True):
        assert all((a == b).all() for a, b in zip(one, two, strict=True))


@EVERY
def test_a_reset_touches_only_its_copies(name: str) -> None:
    env = lively(name, 4, starts="drawn")
    played(env, 3, 1)
    before, chosen = dict(env.state), torch.tensor([False, True, False, True])
    env.reset(chosen)
    for key, values in env.state.items():
        assert (values[~chosen] == before[key][~chosen]).all()
    assert (env.state["step"][chosen] == 0).all()
    places = [key for key in ("x", "y", "place") if key in before]
    assert places
    assert all((env.state[key][chosen] != before[key][chosen]).any() for key in places)


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
        ({"tag_reward_for_tagger": float("inf")}, "tag_reward_for_tagger must be a number of at least 0, but is inf"),
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
