"""Tag as a game of engines: it plays as the batched one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.envs.batched import registry
from tests.games.tagging import actions_for, compare


@given(
    seed=st.integers(0, 2**31),
    arguments=st.fixed_dictionaries(
        {
            "num_taggers": st.integers(1, 4),
            "grid_length": st.integers(2, 5),
            "episode_length": st.integers(1, 6),
            "wall_hit_penalty": st.floats(0, 2),
            "tag_reward_for_tagger": st.integers(0, 9),
            "tag_penalty_for_runner": st.floats(0, 9),
            "step_cost_for_tagger": st.floats(0, 1),
            "use_full_observation": st.booleans(),
        }
    ),
)
@settings(max_examples=40, deadline=None)
def test_the_grids_twin_plays_the_same(seed: int, arguments: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(seed)
    env, twin = registry.make("tag_gridworld", 6, **arguments), registry.twin("tag_gridworld", **arguments)
    env.reset()
    place = torch.randint(0, arguments["grid_length"] + 1, (6, 2, env.num_agents), generator=generator)
    late = torch.randint(0, arguments["episode_length"], (6,), generator=generator)
    compare(env, twin, {**env.state, "place": place, "step": late}, actions_for(env, generator))


@given(
    seed=st.integers(0, 2**31),
    lattice=st.booleans(),
    arguments=st.fixed_dictionaries(
        {
            "num_taggers": st.integers(1, 4),
            "num_runners": st.integers(1, 5),
            "grid_length": st.sampled_from([2, 4.0, 7.5]),
            "episode_length": st.integers(1, 4),
            "max_speed": st.sampled_from([0.3, 1, 2.5]),
            "skill_level_runner": st.sampled_from([0.5, 1]),
            "skill_level_tagger": st.sampled_from([0, 1, 1.7]),
            "max_acceleration": st.sampled_from([0.1, 1]),
            "min_acceleration": st.sampled_from([-1, -0.1, 0.05]),
            "max_turn": st.floats(0, 3),
            "min_turn": st.floats(-3, 0),
            "num_acceleration_levels": st.integers(0, 4),
            "num_turn_levels": st.integers(0, 4),
            "edge_hit_penalty": st.sampled_from([0, -1, -0.25]),
            "use_full_observation": st.booleans(),
            "num_other_agents_observed": st.just(1),
            "tagging_distance": st.sampled_from([0, 0.1, 0.3]),
            "tag_reward_for_tagger": st.integers(0, 9),
            "step_penalty_for_tagger": st.sampled_from([0, -0.5]),
            "tag_penalty_for_runner": st.sampled_from([0, -2]),
            "step_reward_for_runner": st.sampled_from([0, 0.125]),
            "end_of_game_reward_for_runner": st.sampled_from([0, 3]),
            "runner_exits_game_after_tagged": st.booleans(),
        }
    ),
    observed=st.integers(1, 8),
)
@settings(max_examples=80, deadline=None)
def test_the_squares_twin_plays_the_same(seed: int, lattice: bool, arguments: dict[str, Any], observed: int) -> None:
    """Of agents anywhere; or, so that many are as far as others, of agents at rest on a lattice, who stay there."""
    everybody = arguments["num_taggers"] + arguments["num_runners"]
    arguments["num_other_agents_observed"] = min(observed, everybody - 1)
    generator = torch.Generator().manual_seed(seed)
    env, twin = registry.make("tag_continuous", 5, **arguments), registry.twin("tag_continuous", **arguments)
    env.reset()

    def some(high: float) -> torch.Tensor:
        return torch.rand(5, everybody, generator=generator) * high

    state = {
        **env.state,
        "x": some(arguments["grid_length"]),
        "y": some(arguments["grid_length"]),
        "speed": torch.minimum(some(2 * arguments["max_speed"]), env.moves.top_speed),  # type: ignore[attr-defined]
        "acceleration": some(2.0) - 1.0,
        "direction": some(2 * np.pi),
        "present": some(1.0) < 0.7,
        "alive": some(1.0) < 0.7,
        "step": torch.randint(0, arguments["episode_length"], (5,), generator=generator),
    }
    actions = actions_for(env, generator)
    if lattice:
        state["x"], state["y"] = (torch.floor(state[axis] * 2) / 2 for axis in "xy")
        state["speed"] = state["acceleration"] = torch.zeros(5, everybody)
        actions[..., 0] = 0
    compare(env, twin, state, actions)
