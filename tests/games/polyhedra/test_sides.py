"""Both sides at once: each plays as if it were alone, against whoever it was told to meet."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tau_trainer.envs.batched.draws import Draws, mixed, seeds_of
from tau_trainer.envs.batched.registry import make
from tau_trainer.errors import SettingsError
from tau_trainer.games.polyhedra.env import Polyhedra
from tau_trainer.games.polyhedra.players import View
from tau_trainer.games.polyhedra.sides import Hironaka

SIZES: dict[str, Any] = {
    "dimension": 3,
    "max_num_points": 5,
    "max_value": 9,
    "scale_observation": True,
    "reposition": False,
    "step_threshold": 12,
}


@pytest.mark.parametrize("seed", [4, seeds_of(4, 7)], ids=["of the run", "of each copy"])
def test_each_side_plays_as_if_it_were_alone(seed: int | torch.Tensor) -> None:
    env = Hironaka(7, seed=seed, **SIZES)
    env.meet("agent", lambda view: view.coords.to(torch.int8).argmax(dim=1))  # type: ignore[union-attr]
    alone = [
        Polyhedra(7, role=role, opponent=opponent, seed=mixed(seeds_of(4, 7) + number), **SIZES)  # type: ignore[arg-type]
        for number, (role, opponent) in enumerate((("host", "choose_first"), ("agent", "random")))
    ]
    observations, single = env.reset(), [one.reset() for one in alone]
    generator, overs = torch.Generator().manual_seed(0), 0
    for _ in range(60):
        for number, rows in enumerate(single):
            width = rows.shape[2]
            assert (observations[:, number, :width] == rows[:, 0]).all()
            assert (observations[:, number, width:] == 0).all()
        mask = env.mask
        assert mask is not None
        assert mask[:, 0].all()
        assert (mask[:, 1, :3] == alone[1].mask[:, 0]).all()  # type: ignore[index]
        assert not mask[:, 1, 3].any()
        actions = (torch.rand(mask.shape, generator=generator) * mask).argmax(dim=2)
        step, steps = env.step(actions), [one.step(actions[:, [i]]) for i, one in enumerate(alone)]
        for name in ("rewards", "terminated", "truncated"):
            assert (getattr(step, name) == torch.cat([getattr(one, name) for one in steps], dim=1)).all(), name
        for number, one in enumerate(steps):
            width = one.final_observations.shape[2]
            assert (step.final_observations[:, number, :width] == one.final_observations[:, 0]).all()
            overs += int(one.over.sum())
        assert env.state["present"].all()
        observations, single = step.observations, [one.observations for one in steps]
    assert overs > 20
    assert (env.observe(env.state) == observations).all()  # a resumed run goes on from its state


def test_the_other_side_may_change_at_any_time() -> None:
    env = Hironaka(4, seed=1, **SIZES)
    env.reset()
    asked: list[View] = []

    def host(view: View) -> torch.Tensor:
        asked.append(view)
        return torch.full((len(view.points),), 2)

    env.meet("host", host)
    env.step(torch.zeros(4, 2, dtype=torch.int64))
    assert asked
    assert all(view.coords is None for view in asked)
    assert (env.state["agent.coords"] == torch.tensor([False, True, True])).all()
    alone = Hironaka(4, sides=("host",), **SIZES)
    alone.meet("host", host)  # there are no games that this would be for
    assert alone.agents == ("host",)
    assert alone.reset().shape == (4, 1, 18)


def test_in_two_dimensions_a_host_has_one_action() -> None:
    env = Hironaka(3, **{**SIZES, "dimension": 2})
    env.reset()
    assert env.mask is not None
    assert env.mask[:, 0].tolist() == [[True, False]] * 3
    assert env.mask[:, 1].all()


def test_views_of_other_games_are_seen_as_in_its_own() -> None:
    env = Hironaka(1, **{**SIZES, "reposition": True})
    points = torch.tensor([[[2.0, 9.0, 1.0], [6.0, 1.0, 3.0], [-1.0, -1.0, -1.0]]], dtype=torch.float64)
    zeros = torch.zeros(1, dtype=torch.int64)
    draws = Draws(zeros, zeros, zeros)
    rows, choices = env.seen(View(points, draws))
    # The least of each coordinate is 0, the largest entry 1; the largest first coordinate comes first.
    wanted = [0.5, 0.0, 0.25, 0.0, 1.0, 0.0, *[-1.0] * 9, 0.0, 0.0, 0.0]
    assert rows[0].tolist() == wanted
    assert choices.tolist() == [[True] * 4]
    coords = torch.tensor([[True, False, True]])
    rows, choices = env.seen(View(points, draws, coords, None, coords))
    assert rows[0].tolist() == [*wanted[:15], 1.0, 0.0, 1.0]
    assert choices.tolist() == [[True, False, True, False]]


def test_nothing_has_a_default() -> None:
    for key in SIZES:
        with pytest.raises(SettingsError, match=f"needs the argument '{key}'"):
            make("hironaka", 2, **{name: value for name, value in SIZES.items() if name != key})
    with pytest.raises(SettingsError, match="sides are host and agent"):
        make("hironaka", 2, **SIZES, sides=("hots",))
