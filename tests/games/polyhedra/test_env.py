"""Either side as a batched environment: masks, opponents, rewards, starts, and copies that mind themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.envs.batched import registry
from tau_trainer.envs.batched.checking import check
from tau_trainer.errors import SettingsError
from tau_trainer.games.polyhedra.env import Polyhedra
from tau_trainer.games.polyhedra.players import HOSTS, View
from tau_trainer.games.polyhedra.points import count


def first_allowed(env: Polyhedra) -> torch.Tensor:
    if env.mask is None:
        return torch.zeros(env.num_envs, 1, dtype=torch.int64)
    return env.mask.to(torch.int8).argmax(dim=2)


def with_points(env: Polyhedra, *games: list[list[float]]) -> None:
    """Put these games, ordered, in place of those that were drawn."""
    env.reset()
    points = torch.full_like(env.state["points"], -1.0)
    for i, game in enumerate(games):
        points[i, : len(game)] = torch.tensor(game)
    env.state = {**env.state, "points": points}


def test_its_defaults_are_those_of_the_trainer() -> None:
    host, agent = registry.make("polyhedra", 2), registry.make("polyhedra", 2, role="agent")
    assert host.agents == ("host",)
    assert agent.agents == ("agent",)
    assert host.reset().shape == (2, 1, 60) == (2, *(1,), *host.observation_space.shape)
    assert agent.reset().shape == (2, 1, 63)
    assert (host.action_space.n, agent.action_space.n) == (4, 3)  # type: ignore[union-attr]
    assert host.state["points"].amax(dim=(1, 2)).tolist() == [1.0, 1.0]
    unscaled = registry.make("polyhedra", 400, scale_observation=False)
    unscaled.reset()
    assert unscaled.state["points"].unique(sorted=True).tolist() == [-1.0, *map(float, range(21))]  # type: ignore[no-untyped-call]


def test_an_agent_may_choose_what_the_host_named_and_nothing_else() -> None:
    env = Polyhedra(500, role="agent", opponent="random", dimension=4)
    observations = env.reset()
    mask = env.mask
    assert mask is not None
    assert torch.equal(mask[:, 0], env.state["coords"])
    assert torch.equal(observations[:, 0, 80:], env.state["coords"].to(torch.float32))
    assert set(mask.sum(dim=2).flatten().tolist()) == {2, 3, 4}


def test_the_opponent_may_be_replaced_by_anybody() -> None:
    env = Polyhedra(3, role="agent", opponent="all_coord", step_threshold=None)
    env.reset()
    assert env.state["coords"].all()
    seen = []

    def mine(view: View) -> torch.Tensor:
        seen.append(view.observation().shape)
        return torch.ones(len(view.points), dtype=torch.int64)

    env.opponent = mine
    step = env.step(first_allowed(env))
    assert env.state["coords"].tolist() == [[True, False, True]] * 3
    assert seen[0] == (3, 60)
    assert not step.truncated.any()
    env.opponent = "zeillinger"
    assert env.opponent is HOSTS["zeillinger"]
    with pytest.raises(SettingsError, match="there is no host named 'choose_first'"):
        env.opponent = "choose_first"


@pytest.mark.parametrize(("role", "rewards", "wanted"), [
    ("host", "trainer", [1.0, 0.0, 0.0]),
    ("agent", "trainer", [-1.0, 0.0, 0.0]),
    ("host", "gym", [1.0, 0.0, 0.0]),
    ("agent", "gym", [0.0, 1.0, 0.0]),
])  # fmt: skip
def test_rewards_of_a_game_that_ends_one_that_goes_on_and_one_that_was_over(
    role: Any, rewards: Any, wanted: list[float]
) -> None:
    opponent = "choose_first" if role == "host" else "all_coord"
    env = Polyhedra(3, role=role, opponent=opponent, rewards=rewards, dimension=2, max_num_points=3)
    with_points(env, [[1.0, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 1.0]], [[1.0, 1.0]])
    if role == "agent":
        env.state["coords"][:] = True
    # coordinate 0 becomes the sum: (1.5, .5) (1, 1) goes on, and (1, 0) (1.25, 1) is one point
    step = env.step(torch.zeros(3, 1, dtype=torch.int64))
    order = [1, 0, 2]
    assert step.rewards[order, 0].tolist() == wanted
    assert step.terminated[order, 0].tolist() == [True, False, True]
    assert step.over[order].tolist() == [True, False, True]


def test_a_cut_game_costs_a_host_its_steps_with_gym_and_points_that_go_pay() -> None:
    arguments: dict[str, Any] = {"rewards": "gym", "step_threshold": 3, "reward_based_on_point_reduction": True}
    env = Polyhedra(200, opponent="choose_first", **arguments)
    env.reset()
    for turn in (1, 2, 3):
        before, first = count(env.state["points"]), env.state["episode"] == 0
        step = env.step(torch.full((200, 1), 3))
        after = (step.final_observations[:, 0].view(200, 20, 3)[..., 0] >= 0).sum(dim=1)
        ended, running = step.terminated[:, 0], first & (before > 1)
        paid = (before - after) + 1.0 * ended - (3.0 * ~ended if turn == 3 else 0.0)
        assert torch.equal(step.rewards[running, 0], paid[running].to(torch.float32))
        assert torch.equal(step.truncated[running, 0], (~ended & (turn == 3))[running])


def test_both_sides_draw_at_the_same_moment() -> None:
    env, bits = Polyhedra(4), []

    def opponent(view: View) -> torch.Tensor:
        bits.append(view.draws.bits(9))
        return torch.zeros(4, dtype=torch.int64)

    env.opponent = opponent
    env.reset()
    for _ in range(2):
        ours = env.view().draws.bits(9)
        env.step(torch.zeros(4, 1, dtype=torch.int64))
        assert torch.equal(ours, bits[-1])
    assert not torch.equal(bits[0], bits[1])


def test_games_that_are_over_at_the_start_are_few_and_end_at_once() -> None:
    env = Polyhedra(4000, max_num_points=5, seed=1)
    env.reset()
    over = count(env.state["points"]) <= 1
    assert 0.045 < float(over.float().mean()) < 0.07
    step = env.step(torch.zeros(4000, 1, dtype=torch.int64))
    assert step.terminated[over].all()
    assert not step.rewards[over].any()


@pytest.mark.parametrize(
    "arguments",
    [
        {"role": "host", "opponent": "choose_last", "starts": "fixed"},
        {"role": "agent", "opponent": "zeillinger", "reposition": True, "starts": "pool", "pool": 3},
        {"role": "agent", "variant": "thom", "starts": "drawn"},
        {"role": "host", "variant": "original", "scale_observation": False},
    ],
    ids=str,
)
def test_the_checker_of_batched_environments_finds_no_fault(arguments: dict[str, Any]) -> None:
    findings = check(lambda copies, **options: registry.make("polyhedra", copies, **options, **arguments), steps=30)
    assert findings.sentences == []


@pytest.mark.parametrize(("arguments", "words"), [
    ({"role": "guest"}, "polyhedra: role is 'guest'; did you mean agent"),
    ({"variant": "hard"}, "polyhedra: variant is 'hard'; known here: basic, original, thom"),
    ({"dimension": 1}, "polyhedra: dimension is 1; at least 2 is needed"),
    ({"opponent": "choose_frist"}, "there is no agent named 'choose_frist'; did you mean choose_first"),
    ({"variant": "original"}, "polyhedra: the variant 'original' needs unscaled points; set scale_observation"),
    ({"weights": [1, 2, 3]}, "polyhedra: weights are for the variant 'thom', 3 of them, one a coordinate"),
    ({"variant": "thom", "weights": [1, 2]}, "polyhedra: weights are for the variant 'thom', 3 of them"),
])  # fmt: skip
def test_what_cannot_be_played_is_said(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Polyhedra(1, **arguments)


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_a_picture_of_a_position(dimension: int) -> None:
    env = Polyhedra(1, role="agent", dimension=dimension)
    env.reset()
    env.watch(0)
    for _ in range(2):
        env.step(first_allowed(env))
    trace = env.trace()
    pictures = [env.frame({name: values[t] for name, values in trace.items()}) for t in range(2)]
    assert all(one.shape == (360, 360, 3) and one.dtype == np.uint8 and one.std() > 5 for one in pictures)
