"""Tag on a grid: WarpDrive's own test, rules one by one, starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.envs.batched.players import make_player
from tau_trainer.games.tag_gridworld import TagGridworld


def placed(env: TagGridworld, x: list[int], y: list[int]) -> torch.Tensor:
    """One copy, with everybody where we want."""
    env.reset()
    env.state = {**env.state, "place": torch.tensor([[x, y]])}
    return env.observe(env.state)


def test_warpdrives_own_case() -> None:
    env = TagGridworld(1, num_taggers=4, grid_length=4, episode_length=10)
    placed(env, [0, 0, 0, 0, 1], [0, 0, 0, 0, 1])
    step = env.step(torch.tensor([[2, 0, 3, 4, 2]]))
    assert step.rewards[0].tolist() == pytest.approx([9.9, 10.0, 10.0, 9.9, -2.0])
    assert step.terminated.all()
    assert step.over.all()
    last = step.final_observations[0]
    assert last[0].tolist() == pytest.approx([0, 0, 0, 0, 0, 0, 0, 0.25, 0, 0.25, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0.1])
    assert (last[:, 15:20] == torch.eye(5)).all()
    assert set(last[:, -1].tolist()) == {float(np.float32(0.1))}


def test_agents_have_names_by_what_they_do() -> None:
    assert TagGridworld(1, num_taggers=2).agents == ("tagger_0", "tagger_1", "runner_2")


def test_nobody_tagged_costs_taggers_what_it_brings_the_runner() -> None:
    env = TagGridworld(1, num_taggers=2, grid_length=4, step_cost_for_tagger=0.25, wall_hit_penalty=1)
    placed(env, [4, 0, 2], [4, 0, 2])
    step = env.step(torch.tensor([[1, 1, 3]]))
    assert step.rewards[0].tolist() == [-1.25, -0.25, 0.25]
    assert env.state["place"].tolist() == [[[4, 1, 2], [4, 0, 3]]]
    assert not step.terminated.any()


def test_time_is_up() -> None:
    env = TagGridworld(1, num_taggers=1, episode_length=2, starts="fixed")
    env.reset()
    assert not env.step(torch.zeros(1, 2, dtype=torch.int64)).over.any()
    step = env.step(torch.zeros(1, 2, dtype=torch.int64))
    assert step.terminated.all()
    assert not step.truncated.any()


def test_who_sees_little_sees_the_runner_or_the_first_of_the_nearest_taggers() -> None:
    env = TagGridworld(1, num_taggers=3, grid_length=4, use_full_observation=False, episode_length=10)
    seen = placed(env, [4, 1, 2, 2], [4, 2, 1, 2])
    wanted = [
        [1.0, 1.0, 0.5, 0.5, 0.0, 0.0],
        [0.25, 0.5, 0.5, 0.5, 0.0, 0.0],
        [0.5, 0.25, 0.5, 0.5, 0.0, 0.0],
        [0.5, 0.5, 0.25, 0.5, 1.0, 0.0],
    ]
    assert seen[0].tolist() == wanted


def test_starts_are_the_middle_or_anywhere_inside() -> None:
    fixed = TagGridworld(3, num_taggers=2, grid_length=5, starts="fixed")
    fixed.reset()
    assert fixed.state["place"].tolist() == [[[2, 2, 0]] * 2] * 3
    for starts in ("drawn", "pool"):
        drawn = TagGridworld(500, num_taggers=2, grid_length=5, starts=starts, pool=400)
        drawn.reset()
        for axis in (0, 1):
            assert (drawn.state["place"][:, axis, -1] == 0).all()
            assert set(drawn.state["place"][:, axis, :-1].flatten().tolist()) == {1, 2, 3, 4}
        assert (drawn.state["place"][:, 0] != drawn.state["place"][:, 1]).any()


def test_starts_from_a_pool_have_the_pools_mean() -> None:
    env = TagGridworld(4000, num_taggers=3, grid_length=9, pool=16)
    env.reset()
    assert env._pool is not None
    wanted = env._pool.states["place"].double().mean(dim=0)
    assert len(set(map(tuple, env.state["place"].flatten(1).tolist()))) == 16
    assert torch.allclose(env.state["place"].double().mean(dim=0), wanted, atol=0.2)  # five standard deviations
    env.reset(torch.ones(4000, dtype=torch.bool))
    assert torch.allclose(env.state["place"].double().mean(dim=0), wanted, atol=0.2)


@pytest.mark.parametrize(
    ("runner", "action"), [((3, 2), 1), ((1, 2), 2), ((2, 3), 3), ((2, 1), 4), ((0, 3), 2), ((3, 0), 4), ((4, 4), 1)]
)
def test_a_chaser_goes_the_longer_way_first(runner: tuple[int, int], action: int) -> None:
    env = TagGridworld(1, num_taggers=1, grid_length=4)
    seen = placed(env, [2, runner[0]], [2, runner[1]])
    assert make_player("chaser", env, [0])(seen[:, :1], None, env.state).tolist() == [[action]]


@pytest.mark.parametrize(
    ("runner", "tagger", "actions"),
    [
        ((3, 3), (2, 3), {1}),
        ((3, 3), (3, 4), {1, 2, 4}),
        ((0, 3), (2, 3), {3, 4}),
        ((6, 6), (5, 6), {4}),
        ((6, 3), (5, 2), {3}),
        ((1, 2), (2, 1), {3}),  # as far as to the edge
    ],
)
def test_an_evader_goes_where_it_is_farthest(runner: Any, tagger: Any, actions: set[int]) -> None:
    env = TagGridworld(1, num_taggers=1, grid_length=6)
    seen = placed(env, [tagger[0], runner[0]], [tagger[1], runner[1]])
    assert make_player("evader", env, [1])(seen[:, 1:], None, env.state).item() in actions


def test_an_evader_minds_the_nearest_of_several() -> None:
    env = TagGridworld(1, num_taggers=2, grid_length=6)
    seen = placed(env, [0, 4, 3], [3, 3, 3])
    assert make_player("evader", env, [2])(seen[:, 2:], None, env.state).item() == 2


def test_a_picture_shows_who_is_where() -> None:
    env = TagGridworld(1, num_taggers=1, grid_length=9, episode_length=10)
    placed(env, [2, 7], [4, 7])
    picture = env.frame({name: values[0].numpy() for name, values in env.state.items()})
    red = (picture == (0xD6, 0x45, 0x41)).all(axis=2).nonzero()
    blue = (picture == (0x2D, 0x74, 0xBE)).all(axis=2).nonzero()
    assert red[1].mean() == pytest.approx(8 + 2.5 * 40, abs=1)
    assert red[0].mean() == pytest.approx(8 + (10 - 4.5) * 40, abs=1)
    assert blue[1].mean() == pytest.approx(8 + 7.5 * 40, abs=1)
    assert blue[0].mean() == pytest.approx(8 + (10 - 7.5) * 40, abs=1)
