"""Tag in a square, rule by rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.envs.batched import BatchedStep
from tau_trainer.envs.batched.players import make_player
from tau_trainer.games.tag_continuous import TagContinuous


def nearly(*values: float) -> Any:
    return pytest.approx(list(values), rel=1e-5, abs=1e-6)


class Square(TagContinuous):
    """One copy; taggers are given places before runners, whatever their numbers."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(1, **{"grid_length": 10, "tagging_distance": 0.1, **arguments})
        self.reset()

    @property
    def order(self) -> torch.Tensor:
        return torch.cat((self.tagger_ids, self.runner_ids))

    def put(self, **values: list[float]) -> None:
        for name, given in values.items():
            found = self.state[name].clone()
            found[0, self.order] = torch.tensor(given, dtype=found.dtype)
            self.state = {**self.state, name: found}

    def of(self, name: str) -> list[float]:
        found: list[float] = self.state[name][0, self.order].tolist()
        return found

    def play(self, *actions: tuple[int, int]) -> BatchedStep:
        """Who is not named does nothing."""
        chosen = torch.zeros(1, self.num_agents, 2, dtype=torch.int64)
        for agent, action in zip(self.order.tolist(), actions, strict=False):
            chosen[0, agent] = torch.tensor(action)
        return self.step(chosen)

    def ordered(self, values: torch.Tensor) -> list[float]:
        found: list[float] = values[0, self.order].tolist()
        return found


def test_taggers_are_drawn_once_for_all() -> None:
    one, other = TagContinuous(1, num_taggers=3, num_runners=7), TagContinuous(9, num_taggers=3, num_runners=7, seed=5)
    assert one.agents == other.agents
    assert sum(name.startswith("tagger_") for name in one.agents) == 3
    assert [name.split("_")[1] for name in one.agents] == [str(i) for i in range(10)]
    assert [i for i, name in enumerate(one.agents) if name.startswith("tagger_")] == one.tagger_ids.tolist()
    patterns = {tuple(TagContinuous(1, num_taggers=3, num_runners=n).tagger_ids.tolist()) for n in range(3, 30)}
    assert len(patterns) > 3  # not always the same places
    assert (0, 1, 2) not in patterns


def test_games_start_at_rest_along_the_sides_and_always_the_same() -> None:
    env = TagContinuous(300, num_taggers=2, num_runners=8, grid_length=7)
    env.reset()
    first = env.state
    for axis in "xy":
        assert 0 <= first[axis].min() < 0.1
        assert 6.9 < first[axis].max() < 7
        assert abs(float(first[axis].mean()) - 3.5) < 0.2
    assert (first["x"] != first["y"]).any()
    quarters = first["direction"] / (math.pi / 2)
    assert set(quarters.round().flatten().tolist()) == {0, 1, 2, 3}
    assert torch.allclose(quarters, quarters.round(), atol=1e-6)
    assert not first["speed"].any()
    assert not first["acceleration"].any()
    env.reset(torch.ones(300, dtype=torch.bool))
    assert all((env.state[name] == first[name]).all() for name in ("x", "y", "direction"))
    assert (first["x"][0] != first["x"][1]).any()


def test_actions_are_changes_of_acceleration_and_turns() -> None:
    env = Square(num_acceleration_levels=3, num_turn_levels=2, max_speed=5, num_runners=2)
    assert env.action_space.nvec.tolist() == [4, 3]  # type: ignore[union-attr]
    env.put(x=[2, 5, 8], y=[2, 5, 8], direction=[0, 0, 0])
    env.play((3, 0), (1, 2), (2, 1))
    assert env.of("acceleration") == [1, 0, 0]  # who stands keeps none
    assert env.of("speed") == [1, 0, 0]
    assert env.of("x") == [3, 5, 8]
    assert env.of("direction") == nearly(0, math.pi / 2, 3 * math.pi / 2)
    env.play((0, 2))
    assert env.of("acceleration") == [1, 0, 0]
    assert env.of("speed") == [2, 0, 0]
    assert env.of("x") == nearly(3, 5, 8)
    assert env.of("y") == nearly(4, 5, 8)


def test_who_is_as_fast_as_can_be_accelerates_no_longer() -> None:
    env = Square(max_speed=1.5, skill_level_runner=0.5, num_runners=1)
    env.put(x=[1, 1], y=[2, 8], direction=[0, 0], speed=[1, 0], acceleration=[0.25, 0.5])
    env.play((8, 0), (9, 0))  # + 0.555..., + 0.777...
    assert env.of("speed") == [1.5, 0.75]
    assert env.of("acceleration") == [0, 0]


def test_the_edge_stops_and_costs_once() -> None:
    env = Square(edge_hit_penalty=-0.5, num_runners=2, step_penalty_for_tagger=-0.25, max_speed=3)
    env.put(x=[9.5, 9.5, 5], y=[9.5, 5, 5], direction=[math.pi / 4, math.pi, 0], speed=[3, 1, 0])
    step = env.play()
    assert env.of("x") == nearly(10, 8.5, 5)
    assert env.of("y") == nearly(10, 5, 5)
    assert env.ordered(step.rewards) == [-0.75, 0, 0]


def test_the_nearest_tagger_catches_and_who_is_caught_leaves() -> None:
    env = Square(num_taggers=2, num_runners=3, tag_reward_for_tagger=3, tag_penalty_for_runner=-2)
    env.put(x=[1, 2, 1.75, 2.5, 9], y=[5, 5, 5, 5, 5], direction=[0] * 5)
    step = env.play()
    assert env.ordered(step.rewards) == [0, 6, -2, -2, 0]
    assert env.ordered(step.terminated) == [False, False, True, True, False]
    assert env.of("present") == [True, True, False, False, True]
    assert env.of("alive") == [True] * 5  # seen once more
    step = env.play((0, 0), (0, 0), (10, 10), (10, 0))
    assert not step.rewards.any()
    assert env.of("alive") == [True, True, False, False, True]
    assert env.of("x") == [1, 2, 1.75, 2.5, 9]
    env.put(x=[1, 2, 0, 0, 2.25])
    step = env.play()
    assert env.ordered(step.terminated) == [True, True, False, False, True]
    assert step.over.tolist() == [True]


def test_exactly_as_far_as_it_takes_is_too_far_and_the_first_of_two_catches() -> None:
    env = Square(num_taggers=2, num_runners=2, tagging_distance=0.1)
    env.put(x=[3, 4, 5, 3.5], y=[5, 5, 5, 5])
    assert env.ordered(env.play().rewards) == [1, 0, 0, -1]


def test_who_may_stay_is_caught_again_and_paid_at_the_end_all_the_same() -> None:
    env = Square(num_runners=1, runner_exits_game_after_tagged=False, episode_length=2, end_of_game_reward_for_runner=5)
    env.put(x=[5, 5], y=[5, 5])
    step = env.play()
    assert env.ordered(step.rewards) == [1, -1]
    assert not step.terminated.any()
    step = env.play()
    assert env.ordered(step.rewards) == [1, 4]
    assert step.terminated.all()
    assert not step.truncated.any()


def test_who_is_caught_in_the_last_step_is_not_paid_for_the_end() -> None:
    env = Square(num_runners=3, episode_length=2, end_of_game_reward_for_runner=5, step_reward_for_runner=0.5)
    env.put(x=[5, 5, 0, 9], y=[5, 5, 0, 9])
    env.play()
    env.put(x=[5, 0, 5, 9], y=[5, 0, 5, 9])
    step = env.play()
    assert env.ordered(step.rewards) == [1, 0, -0.5, 5.5]
    assert step.terminated[0, env.order].tolist() == [True, False, True, True]


def test_what_everybody_sees_of_everybody() -> None:
    env = Square(num_taggers=1, num_runners=2, episode_length=4, max_speed=2)
    env.put(x=[1, 4, 8], y=[2, 2, 6], direction=[0, math.pi, 0], speed=[1, 0, 2], acceleration=[0, 0, 0.5])
    env.put(alive=[1, 1, 0])
    env.state["step"] = torch.tensor([1])
    ids, diagonal = env.order.tolist(), 10 * math.sqrt(2)
    seen = env.observe(env.state)[0]
    columns = sorted(range(3), key=lambda i: ids[i])  # of tagger, runner, runner, by number
    of_each = {
        1: [3 / diagonal, 0, -0.5, 0, 0.5, 0, 1],
        2: [7 / diagonal, 4 / diagonal, 0.5, 0.25, 0, 0, 0],
    }
    others = [of_each[i] for i in columns if i != 0]
    assert seen[ids[0]].tolist() == pytest.approx(
        [value for pair in zip(*others, strict=True) for value in pair] + [0.25]
    )
    out = {0: [0, 0, 0, 0, 0, 1, 1], 1: [0, 0, 0, 0, 0, 0, 1]}
    others = [out[i] for i in columns if i != 2]  # type: ignore[misc]
    assert seen[ids[2]].tolist() == [value for pair in zip(*others, strict=True) for value in pair] + [0]


def test_what_everybody_sees_of_the_nearest_in_the_game() -> None:
    env = Square(num_taggers=1, num_runners=4, use_full_observation=False, num_other_agents_observed=3)
    first, second = sorted(env.runner_ids[:2].tolist())
    env.put(x=[5, 6, 4, 9, 5], y=[5, 5, 5, 9, 5], alive=[1, 1, 1, 0, 0])
    seen = env.observe(env.state)[0]
    assert first < second  # as far as each other, so the first comes first
    d = 1 / (10 * math.sqrt(2))
    assert seen[env.tagger_ids[0]].tolist()[:3] == pytest.approx([d, -d, 0])
    assert seen[env.tagger_ids[0]].tolist()[-4:] == [1, 1, 0, 0]
    assert seen[first].tolist()[:3] == pytest.approx([-d, -2 * d, 0])
    assert seen[first].tolist()[15:18] == [1, 0, 0]
    assert not seen[env.runner_ids[2]].any()


@pytest.mark.parametrize(("heading", "turn"), [(0.0, 0), (math.pi / 2, 1), (-math.pi / 2, 2)])
def test_a_chaser_turns_to_the_nearest_runner_and_stops_there(heading: float, turn: int) -> None:
    env = Square(num_runners=2, num_turn_levels=2, max_speed=1, num_acceleration_levels=5)
    env.put(x=[5, 7, 9], y=[5, 5, 5], direction=[heading, 0, 0])
    chase = make_player("chaser", env, env.tagger_ids.tolist())
    assert chase(torch.zeros(1), None, env.state).tolist() == [[[5, turn]]]
    env.put(x=[5, 5.5, 9], present=[1, 1, 1])
    assert chase(torch.zeros(1), None, env.state).tolist() == [[[4, turn]]]  # the nearest there is to half a step
    env.put(present=[1, 0, 1])
    assert chase(torch.zeros(1), None, env.state).tolist() == [[[5, turn]]]


@pytest.mark.parametrize(("x", "y", "along"), [(6, 4, math.pi / 2), (7, 6, math.pi)])
def test_a_chaser_goes_where_the_runner_will_be(x: float, y: float, along: float) -> None:
    env = Square(num_runners=1, max_speed=2, num_turn_levels=5, max_turn=math.pi / 4, min_turn=-math.pi / 4)
    env.put(x=[5, x], y=[5, y], direction=[0, along], speed=[1, 2])
    if along == math.pi:  # from (7, 6) to (5, 6)
        env.put(direction=[math.pi / 4, along])
    assert make_player("chaser", env, env.tagger_ids.tolist())(torch.zeros(1), None, env.state)[0, 0, 1] == 5


def test_a_chaser_that_cannot_turn_enough_stops() -> None:
    env = Square(num_runners=1, num_turn_levels=0, num_acceleration_levels=5, max_speed=2)
    env.put(x=[5, 8], y=[5, 5], direction=[math.pi, 0], speed=[1, 0])
    assert make_player("chaser", env, env.tagger_ids.tolist())(torch.zeros(1), None, env.state).tolist() == [[[1, 0]]]


@pytest.mark.parametrize(
    ("x", "y", "heading", "turn"),
    [(5, 5, 0.0, 0), (5, 5, math.pi / 2, 1), (9.9, 5.5, math.pi / 2, 0), (9.9, 4.5, math.pi / 2, 2)],
)
def test_an_evader_turns_away_and_along_the_edge(x: float, y: float, heading: float, turn: int) -> None:
    arguments = {"num_turn_levels": 2, "min_turn": -math.pi / 2, "max_turn": math.pi}
    env = Square(num_runners=1, **(arguments if y == 4.5 else {"num_turn_levels": 2}))
    env.put(x=[x - 2, x], y=[5, y], direction=[0, heading])
    assert make_player("evader", env, env.runner_ids.tolist())(torch.zeros(1), None, env.state).tolist() == [
        [[10, turn]]
    ]


def test_a_picture_shows_who_is_where_and_who_is_out() -> None:
    env = Square(num_runners=2, tagging_distance=0.05, episode_length=10)
    env.put(x=[2, 8, 5], y=[3, 8, 5], direction=[0, 0, 0], present=[1, 1, 0])
    picture = env.frame({name: values[0].numpy() for name, values in env.state.items()})

    def centre(*colour: int) -> list[float]:
        found = np.argwhere((picture == colour).all(axis=2))
        return [found[:, 1].mean(), found[:, 0].mean()]

    unit = 432 / 108 * 10
    assert centre(0xD6, 0x45, 0x41) == pytest.approx([8 + 2 * unit, 8 + 7 * unit], abs=3)
    assert centre(0x2D, 0x74, 0xBE) == pytest.approx([8 + 8 * unit, 8 + 2 * unit], abs=3)
    faint = (picture[:400] == (0xDE, 0xDE, 0xD8)).all(axis=2).nonzero()
    assert [faint[1].mean(), faint[0].mean()] == pytest.approx([8 + 5 * unit, 8 + 5 * unit], abs=3)
