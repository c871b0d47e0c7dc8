"""The real `UnityEnvironment` (mlagents-envs 1.1.0) launches our headless engine as its build and steps all scenes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tau_trainer.headless.args import parse_args
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import create_scene

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

Json = dict[str, Any]
Play = Callable[..., Json]
Mirror = Callable[..., Json]

SCENES = {
    "tau3": ("tau", ["--agents", "5"], "TauAgent?team=0", [384], 3, []),
    "tau384": ("tau", ["--tau-profile", "tau384", "--agents", "3"], "TauAgent?team=0", [384], 384, []),
    "balance": ("balance", [], "3DBall?team=0", [8], 2, []),
    "basic": ("basic", ["--agents", "3"], "Basic?team=0", [20], 0, [3]),
}


def exchanges(seen: Json) -> list[Json]:
    """The exchanges of the only behavior, without its masks."""
    (name,) = seen["specs"]
    return [{key: value for key, value in one[name].items() if key != "masks"} for one in seen["exchanges"]]


@pytest.mark.parametrize("case", SCENES)
def test_scene_is_the_same_game_over_the_wire_as_in_process(case: str, play: Play, mirror: Mirror) -> None:
    """Specs, ids, rewards, observations, ends and resets: bit for bit what the scene object does without a wire."""
    scene, arguments, behavior, shape, continuous, branches = SCENES[case]
    wishes: Json = {"steps": 60, "resets": [7, 30], "parameters": {"max_decisions": 9.0}}
    seen = play(scene, arguments, **wishes)
    assert list(seen["specs"]) == [behavior]
    spec = seen["specs"][behavior]
    assert [sensor["shape"] for sensor in spec["observations"]] == [shape]
    assert all(sensor["dimensions"] == [1] and sensor["type"] == 0 for sensor in spec["observations"])
    assert (spec["continuous"], spec["branches"]) == (continuous, branches)
    over_wire = exchanges(seen)
    assert all(one["finite"] for one in over_wire)
    assert over_wire == exchanges(mirror(scene, arguments, **wishes))


EXAMPLES = {"gridworld": 4, "hallway": 7, "foodcollector": 6, "sorter": 6, "walljump": 9}
"""Twins of ML-Agents' examples, and how many agents play: images, masks, lists of entities, several behaviors."""


@pytest.mark.parametrize("scene", EXAMPLES)
def test_examples_are_the_same_game_over_the_wire_as_in_process(scene: str, play: Play, mirror: Mirror) -> None:
    """All behaviors, specs, masks, ids, rewards, observations and ends: bit for bit what the scene object does."""
    arguments = ["--agents", str(EXAMPLES[scene])]
    wishes: Json = {"steps": 70, "resets": [11, 30], "parameters": {"max_decisions": 9.0}}
    seen, here = play(scene, arguments, **wishes), mirror(scene, arguments, **wishes)
    assert seen["exchanges"] == here["exchanges"]
    wanted = {spec.name: spec for spec in create_scene(parse_args(["--scene", scene]), EnvironmentParameters()).specs}
    assert set(seen["specs"]) == set(here["specs"]) == set(wanted)
    for name, spec in seen["specs"].items():
        sensors = [(tuple(sensor["shape"]), tuple(sensor["dimensions"])) for sensor in spec["observations"]]
        assert sensors == [(sensor.shape, sensor.dimension_property) for sensor in wanted[name].observations]
        assert [sensor["name"] for sensor in spec["observations"]] == [s.name for s in wanted[name].observations]
        assert [sensor["type"] for sensor in spec["observations"]] == [
            int(sensor.observation_type) for sensor in wanted[name].observations
        ]
        assert (spec["continuous"], tuple(spec["branches"])) == (
            wanted[name].actions.continuous_size,
            wanted[name].actions.discrete_branches,
        )


@pytest.mark.parametrize("case", SCENES)
def test_ends_and_resets_are_told_apart(case: str, play: Play) -> None:
    """An episode that a limit cuts is interrupted, and goes on in the same exchange; a reset ends nothing."""
    scene, arguments, *_ = SCENES[case]
    seen = exchanges(play(scene, arguments, steps=24, resets=[20], parameters={"max_decisions": 9.0}))
    agents = seen[0]["ids"]
    assert agents == list(range(len(agents)))
    assert all(one["ids"] == agents for one in seen)
    cut = [one for one in seen if any(one["interrupted"])]
    assert cut, "no episode was cut at nine decisions"
    assert set(cut[0]["ended"]) <= set(agents)
    after_reset = seen[21]
    assert after_reset["ended"] == []
    assert after_reset["rewards"] == [0.0] * len(agents)


def test_lost_balls_are_real_ends_with_minus_one(play: Play) -> None:
    seen = exchanges(play("balance", steps=80))
    ended = [
        (reward, cut) for one in seen for reward, cut in zip(one["ended_rewards"], one["interrupted"], strict=True)
    ]
    assert len(ended) >= 5
    assert all(reward == -1.0 and not cut for reward, cut in ended)
    kept = {round(reward, 6) for one in seen[1:] for reward in one["rewards"]}
    assert kept == {0.0, 0.1}


def test_basic_pays_as_ml_agents_basic_does(play: Play) -> None:
    seen = exchanges(play("basic", ["--agents", "6"], steps=120))
    paid = {round(reward, 6) for one in seen for reward in [*one["rewards"], *one["ended_rewards"]]}
    assert paid <= {0.0, -0.01, 0.09, 0.99}
    assert -0.01 in paid
    assert 0.09 in paid or 0.99 in paid


@pytest.mark.parametrize(("profile", "lowest"), [("tau3", -3.0), ("tau384", -1.0)])
def test_tau_rewards_lie_in_their_range(profile: str, lowest: float, play: Play) -> None:
    """Incremental: 1 - 2 * error with errors up to 2. Binary: the mean of +1 and -1."""
    seen = exchanges(play("tau", ["--tau-profile", profile, "--agents", "4"], steps=30))
    rewards = [reward for one in seen[1:] for reward in one["rewards"]]
    assert all(lowest <= reward <= 1.0 for reward in rewards)
    assert len(set(rewards)) > 10


def test_basic_offers_masks_that_forbid_nothing(play: Play) -> None:
    seen = play("basic", ["--agents", "2"], steps=2)
    for one in seen["exchanges"]:
        assert one["Basic?team=0"]["masks"] == [[[False] * 3] * 2]


def test_environment_parameters_reach_the_scene_before_its_first_step_and_later(play: Play, mirror: Mirror) -> None:
    wishes: Json = {
        "steps": 40,
        "parameters": {"num_agents": 4.0, "max_decisions": 30.0},
        "later": {"10": {"max_decisions": 3.0}, "20": {"tilt_speed": 0.0}},
    }
    seen = exchanges(play("balance", **wishes))
    assert seen[0]["ids"] == [0, 1, 2, 3]
    assert sum(len(one["ended"]) for one in seen[11:20]) > sum(len(one["ended"]) for one in seen[:10])
    assert seen == exchanges(mirror("balance", **wishes))


def test_samplers_are_drawn_in_the_engine(play: Play, mirror: Mirror) -> None:
    wishes: Json = {"steps": 50, "uniform": {"gravity": (4.0, 20.0, 11)}}
    seen = exchanges(play("balance", **wishes))
    assert seen == exchanges(mirror("balance", **wishes))
    assert seen != exchanges(mirror("balance", steps=50))


def test_a_seed_parameter_starts_the_game_anew_with_every_reset(play: Play) -> None:
    seen = exchanges(play("balance", steps=30, resets=[12], parameters={"seed": 5.0}))
    assert seen[13]["observations"] == seen[0]["observations"]
    without = exchanges(play("balance", steps=30, resets=[12]))
    assert without[13]["observations"] != without[0]["observations"]


def test_the_trainers_seed_decides_the_game(play: Play) -> None:
    first, again, other = (exchanges(play("balance", steps=20, seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first[0]["observations"] != other[0]["observations"]


def test_training_areas_multiply_the_agents(play: Play) -> None:
    seen = exchanges(play("balance", ["--agents", "3"], areas=4, steps=3))
    assert seen[-1]["ids"] == list(range(12))


def test_statistics_arrive_in_the_stats_channel(play: Play) -> None:
    """Keys of the Tau scene after a thousand rewards: (value, aggregation) pairs, 0 average and 1 most recent."""
    stats = play("tau", ["--agents", "50"], steps=45)["stats"]
    assert {"Averaged Reward", "Tau/Accuracy", "Tau/Within Threshold", "Tau/Mean Abs Error"} <= set(stats)
    assert [value for value, _ in stats["Tau/Decisions"]] == [1000.0, 2000.0]
    assert {kind for _, kind in stats["Tau/Decisions"]} == {1}
    assert {kind for _, kind in stats["Averaged Reward"]} == {0}
    assert all(-3.0 <= value <= 1.0 for value, _ in stats["Averaged Reward"])


def test_close_ends_the_engine_at_once_and_cleanly(play: Play) -> None:
    """The play fixture checks the exit code; the reference would wait half a minute before it kills."""
    assert play("balance", steps=2)["close_seconds"] < 10.0
