"""Tensors against lists of points: the same numbers, whatever is played."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.envs.batched import registry
from tau_trainer.errors import SettingsError
from tau_trainer.games.polyhedra import points as tensors
from tau_trainer.games.polyhedra import twin
from tau_trainer.games.polyhedra.env import Polyhedra
from tests.games.polyhedra.padding import left, padded

Games = list[list[list[int]]]


@st.composite
def games(draw: st.DrawFn, most: int = 8) -> Games:
    """A few sets of points of one dimension, entries small enough that many are equal or above another."""
    d = draw(st.integers(2, 4))
    point = st.lists(st.integers(0, 6), min_size=d, max_size=d)
    return draw(st.lists(st.lists(point, min_size=1, max_size=most), min_size=1, max_size=3))


@given(games())
@settings(max_examples=60)
def test_reduced_as_lists_are(sets: Games) -> None:
    found = tensors.reduced(padded(*sets, dtype=torch.float64))
    assert left(found) == [twin.reduced(one) for one in sets]
    assert torch.equal(tensors.reduced(found), found)


@given(games(most=7))
@settings(max_examples=25)
def test_exactly_reduced_as_fractions_say(sets: Games) -> None:
    wanted = [twin.reduced_exactly(one) for one in sets]
    for dtype in (torch.float64, torch.float32):
        assert left(tensors.reduced_exactly(padded(*sets, dtype=dtype))) == wanted


def test_vertices_of_a_large_set_are_those_of_its_hull() -> None:
    generator = torch.Generator().manual_seed(5)
    sets = torch.randint(0, 60, (3, 20, 3), generator=generator)
    found = tensors.reduced_exactly(sets.to(torch.float32))
    assert left(found) == [twin.reduced_exactly(one) for one in sets.tolist()]
    assert (tensors.count(found) < tensors.count(tensors.reduced(sets.to(torch.float32)))).any()


@given(games(), st.data())
@settings(max_examples=60)
def test_moved_shifted_and_scaled_as_lists_are(sets: Games, data: st.DataObject) -> None:
    d, points = len(sets[0][0]), padded(*sets, dtype=torch.float64)
    chosen = [data.draw(st.lists(st.integers(0, d - 1), min_size=2, max_size=d, unique=True)) for _ in sets]
    axes = [data.draw(st.sampled_from(coords)) for coords in chosen]
    coords = torch.tensor([[k in one for k in range(d)] for one in chosen])
    found = tensors.moved(points, coords, torch.tensor(axes), 1.0)
    here = tensors.available(points)
    assert [game[row].tolist() for game, row in zip(found, here, strict=True)] == [
        twin.moved(one, named, axis, 1) for one, named, axis in zip(sets, chosen, axes, strict=True)
    ]
    assert left(tensors.repositioned(points)) == [twin.repositioned(one) for one in sets]
    assert left(tensors.rescaled(points)) == [twin.rescaled(one) for one in sets]


PLAYED: list[dict[str, Any]] = [
    {},
    {"opponent": "choose_last", "rewards": "gym", "reward_based_on_point_reduction": True, "step_threshold": 4},
    {"role": "agent"},
    {"role": "agent", "opponent": "zeillinger", "rewards": "gym", "max_num_points": 7, "reposition": True},
    {"role": "agent", "opponent": "weak_spivakovsky", "reposition": True, "scale_observation": False, "dimension": 4},
    {"role": "agent", "opponent": "all_coord", "value_threshold": 30, "scale_observation": False},
    {"exact": True, "max_num_points": 6, "opponent": "choose_first", "scale_observation": False},
    {"variant": "original", "scale_observation": False, "max_value": 9, "max_num_points": 4},
    {"variant": "original", "scale_observation": False, "role": "agent"},
    {"variant": "thom", "weights": [1, 2, 3], "reposition": True, "scale_observation": False},
    {"variant": "thom", "role": "agent", "opponent": "zeillinger", "rewards": "gym", "weights": [3, 1, 1]},
]


@pytest.mark.parametrize("arguments", PLAYED, ids=str)
def test_the_environment_plays_as_its_twin(arguments: dict[str, Any]) -> None:
    copies, generator = 6, np.random.default_rng(3)
    env, other = registry.make("polyhedra", copies, seed=2, **arguments), registry.twin("polyhedra", **arguments)
    assert isinstance(env, Polyhedra)
    env.reset()
    ends = 0
    for _ in range(25):
        before = {name: values.numpy() for name, values in env.state.items()}
        observed = env.observe(env.state).numpy()
        actions = generator.integers(0, int(env.action_space.n), (copies, 1))  # type: ignore[union-attr]
        state, step = env.transition(env.state, torch.tensor(actions))
        for i in range(copies):
            row = {name: values[i] for name, values in before.items()}
            assert (other.observe(row) == observed[i]).all()
            row["step"] = row["step"] + 1
            found, rewards, terminated, truncated = other.advance(row, actions[i])
            assert rewards == pytest.approx(step.rewards[i].numpy())
            assert terminated == step.terminated[i].numpy()
            assert (truncated & ~terminated) == step.truncated[i].numpy()
            assert (other.observe({**row, **found}) == step.final_observations[i].numpy()).all()
            if not step.over[i]:
                assert all((found[name] == state[name][i].numpy()).all() for name in found)
            ends += bool(step.over[i])
        env.step(torch.tensor(actions))
    assert ends


def test_the_twin_says_whom_it_can_play() -> None:
    with pytest.raises(SettingsError, match="polyhedra's twin has no opponent 'spivakovsky'; use all_coord, zeill"):
        twin.PolyhedraTwin(role="agent", opponent="spivakovsky")
