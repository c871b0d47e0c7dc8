from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.bridge.side_channels import Sampler, SamplerKind
from tau_trainer.errors import SettingsError
from tau_trainer.settings import RunSettings
from tau_trainer.settings.run import resolve_seed
from tau_trainer.training.lessons import FEWEST_EPISODES, Lessons


def settings(**parameters: Any) -> RunSettings:
    return RunSettings.model_validate({"environment_parameters": parameters})


def course(*thresholds: float, **criteria: Any) -> dict[str, Any]:
    """One lesson more than thresholds; lesson k has the value k."""
    rules = [{"behavior": "A", "threshold": one, **criteria} for one in thresholds]
    return {
        "curriculum": [
            {"name": f"L{i}", "value": float(i), **({"completion_criteria": rules[i]} if i < len(rules) else {})}
            for i in range(len(thresholds) + 1)
        ]
    }


class Run:
    """A run's lessons with what they say."""

    def __init__(self, **parameters: Any) -> None:
        self.progress = 0.0
        self.said: list[str] = []
        known = settings(**parameters).environment_parameters
        self.lessons = Lessons(known or {}, lambda behavior: self.progress, self.said.append)

    def play(self, *returns: float, behavior: str = "A") -> dict[str, Any]:
        """Episodes end; what environments are told then."""
        self.lessons.episodes(behavior, np.array(returns, np.float32))
        self.lessons.check()
        return dict(self.lessons.parameters)


def test_numbers_and_samplers_as_they_travel() -> None:
    sampled: dict[str, Any] = {
        "mass": 2,
        "size": {"sampler_type": "uniform", "sampler_parameters": {"seed": 3, "min_value": 1, "max_value": 2}},
        "wind": {"sampler_type": "gaussian", "sampler_parameters": {"seed": 4, "mean": 0, "st_dev": 1}},
        "gap": {
            "sampler_type": "multirangeuniform",
            "sampler_parameters": {"seed": 5, "intervals": [[0, 1], [3, 4]]},
        },
    }
    assert Run(**sampled).lessons.parameters == {
        "mass": 2.0,
        "size": Sampler(SamplerKind.UNIFORM, 3, (1.0, 2.0)),
        "wind": Sampler(SamplerKind.GAUSSIAN, 4, (0.0, 1.0)),
        "gap": Sampler(SamplerKind.MULTI_RANGE_UNIFORM, 5, (0.0, 1.0, 3.0, 4.0)),
    }


def test_samplers_of_lessons_get_seeds_of_their_own() -> None:
    sampler = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 0, "max_value": 4}}
    lessons = course(0.5)
    for lesson in lessons["curriculum"]:
        lesson["value"] = sampler
    known = settings(a=sampler, height=lessons, b=sampler).model_copy(
        update={"env_settings": settings().env_settings.model_copy(update={"seed": 100})}
    )
    first = Lessons(resolve_seed(known).environment_parameters or {})
    told = dict(first.parameters)
    first.episodes("A", np.full(10, 9.0, np.float32))
    first.check()
    told["second"] = first.parameters["height"]
    seeds = {name: value.seed for name, value in told.items() if isinstance(value, Sampler)}
    assert seeds == {"a": 100, "height": 101, "second": 102, "b": 103}


def test_a_lesson_ends_above_its_threshold_and_the_last_never() -> None:
    run = Run(height=course(1.0, 2.0, min_lesson_length=2, signal_smoothing=False), mass=3)
    assert run.play(9.0) == {"height": 0.0, "mass": 3.0}, "two episodes are needed"
    assert run.play(-7.0) == {"height": 0.0, "mass": 3.0}, "a mean of 1 is not above 1"
    assert run.play(9.5) == {"height": 1.0, "mass": 3.0}, "the mean of the last two is"
    assert run.play(9.5) == {"height": 1.0, "mass": 3.0}, "episodes of the lesson before do not count"
    assert run.play(9.5) == {"height": 2.0, "mass": 3.0}
    assert run.play(*[100.0] * 50) == {"height": 2.0, "mass": 3.0}
    assert run.said == ["height: lesson 2 of 3, L1", "height: lesson 3 of 3, L2"]
    assert run.lessons.sentences == ("height: lesson 3 of 3, L2",)
    assert run.lessons.numbers == {"height": 2}
    assert (run.lessons.version, run.lessons.reset_version) == (2, 0)


def test_a_single_lucky_episode_ends_no_lesson() -> None:
    """It does in mlagents-learn, where `min_lesson_length` is 0 unless it is set."""
    run = Run(height=course(1.0, signal_smoothing=False))
    assert run.play(*[100.0] * (FEWEST_EPISODES - 1))["height"] == 0.0
    assert run.play(100.0)["height"] == 1.0
    once = Run(height=course(1.0, min_lesson_length=1, signal_smoothing=False))
    assert once.play(100.0)["height"] == 1.0, "who asks for one gets one"


def test_smoothing_moves_with_new_episodes_only() -> None:
    run = Run(height=course(1.9, min_lesson_length=1))
    assert run.play(2.0)["height"] == 0.0, "0.25 x 0 + 0.75 x 2 = 1.5"
    for _ in range(20):
        assert run.play()["height"] == 0.0, "nothing new is known"
    assert run.play(2.0)["height"] == 0.0, "0.25 x 1.5 + 0.75 x 2 = 1.875"
    assert run.play(2.0)["height"] == 1.0, "0.25 x 1.875 + 0.75 x 2 = 1.97"


def test_progress_waits_for_the_least_episodes_too() -> None:
    run = Run(height=course(0.1, 0.2, measure="progress", min_lesson_length=3))
    run.progress = 0.9
    assert run.play(1.0, 1.0)["height"] == 0.0
    assert run.play(1.0, behavior="B")["height"] == 0.0
    assert run.play(1.0)["height"] == 1.0
    assert run.play(1.0, 1.0)["height"] == 1.0  # a lesson counts its own episodes
    again = Run(height=course(0.1, 0.2, measure="progress", min_lesson_length=3))
    again.lessons.load(json.loads(json.dumps(run.lessons.state())))
    again.progress = 0.9
    assert again.play()["height"] == 1.0
    assert again.play(1.0)["height"] == 2.0


def test_progress() -> None:
    run = Run(height=course(0.25, 0.5, measure="progress"))
    for progress, value in ((0.0, 0.0), (0.25, 0.0), (0.26, 1.0), (0.3, 1.0), (0.9, 2.0), (1.0, 2.0)):
        run.progress = progress
        assert run.play()["height"] == value, progress


def test_two_parameters_of_one_behavior_and_a_reset() -> None:
    run = Run(
        height=course(1.0, min_lesson_length=1, signal_smoothing=False),
        speed=course(5.0, min_lesson_length=1, signal_smoothing=False, require_reset=True),
    )
    assert run.play(2.0) == {"height": 1.0, "speed": 0.0}
    assert run.play(99.0, behavior="B") == {"height": 1.0, "speed": 0.0}, "somebody else's episodes"
    assert run.play(6.0) == {"height": 1.0, "speed": 1.0}
    assert (run.lessons.version, run.lessons.reset_version) == (2, 2)
    both = Run(height=course(1.0, min_lesson_length=1), speed=course(1.0, min_lesson_length=1))
    assert both.play(9.0) == {"height": 1.0, "speed": 1.0}, "what ends one lesson ends the other too"
    assert both.lessons.version == 1


def test_returns_that_are_no_numbers_count_for_nothing() -> None:
    run = Run(height=course(1.0, min_lesson_length=2, signal_smoothing=False))
    assert run.play(np.nan, np.inf, 3.0)["height"] == 0.0
    assert run.play(3.0)["height"] == 1.0


@given(returns=st.lists(st.lists(st.floats(-5, 5, width=32), max_size=4), max_size=30), cut=st.integers(0, 30))
def test_what_is_saved_and_loaded_goes_on_as_if_nothing_had_happened(returns: list[list[float]], cut: int) -> None:
    parameters = {"height": course(0.0, 0.5, 1.0, min_lesson_length=3), "mass": 1.0}
    whole, first, second = (Run(**parameters) for _ in range(3))
    told = [whole.play(*one) for one in returns]
    assert [first.play(*one) for one in returns[:cut]] == told[:cut]
    second.lessons.load(json.loads(json.dumps(first.lessons.state())))
    assert [second.play(*one) for one in returns[cut:]] == told[cut:]


def test_the_smoothed_mean_goes_on_where_it_was() -> None:
    """Two episodes of 2 make 0.25 x 1.5 + 0.75 x 2 = 1.875, one alone 1.5, which the threshold lies between."""
    first, second = (Run(height=course(1.7, min_lesson_length=1)) for _ in range(2))
    assert first.play(2.0)["height"] == 0.0
    second.lessons.load(json.loads(json.dumps(first.lessons.state())))
    assert second.play(2.0)["height"] == 1.0


def test_a_curriculum_that_was_changed_meanwhile() -> None:
    long = Run(height=course(0.0, 0.0, 0.0, min_lesson_length=1), gone=course(0.0, min_lesson_length=1))
    for _ in range(3):
        long.play(9.0)
    short = Run(height=course(0.0, min_lesson_length=1), new=course(0.0, min_lesson_length=1))
    short.lessons.load(long.lessons.state())
    assert short.lessons.parameters == {"height": 1.0, "new": 0.0}


def test_what_float32_cannot_hold_is_refused_in_any_lesson() -> None:
    lessons = course(1.0)
    lessons["curriculum"][1]["value"] = 1e40
    with pytest.raises(SettingsError, match=r"environment_parameters\.gravity is beyond 3\.4e\+38"):
        Run(gravity=lessons)
