"""Settings of exploration."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tau_trainer.exploration import Explorer, make_exploration
from tau_trainer.settings.exploration import (
    EpsGreedySettings,
    ExplorationSettings,
    GaussianWhiteNoiseSettings,
    GreedySettings,
    GumbelSoftmaxSettings,
    OrnsteinUhlenbeckSettings,
)
from tau_trainer.specs import ActionSpec
from tests.exploration.making import NOBODY


def test_epsilon_falls_over_a_fifth_of_a_run_unless_it_is_said_how_long() -> None:
    falling = EpsGreedySettings(eps=1.0, eps_min=0.0)
    assert [falling.over(50_000).fallen(at) for at in (0, 5_000, 10_000, 50_000)] == [0.0, 0.5, 1.0, 1.0]
    assert falling.over(0).fallen(1) == 1.0, "a run that learns nothing"
    said = EpsGreedySettings(eps=1.0, eps_min=0.0, n_steps_annealing=700)
    assert said.over(50_000) is said
    assert GreedySettings().over(50_000) == GreedySettings()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"type": "eps_greedy", "epsilon": 0.2}, "epsilon"),
        ({"type": "eps_greedy", "eps": 1.2}, "less than or equal to 1"),
        ({"type": "eps_greedy", "eps": 0.1, "eps_min": 0.2}, "eps_min 0.2 is larger than eps 0.1"),
        ({"type": "eps_greedy", "eps_min": 0.0, "annealing": "exponential"}, "must be above 0"),
        ({"type": "boltzmann", "tau": 0}, "greater than 0"),
        ({"type": "boltzmann", "clip": [1.0, -1.0]}, "smaller number first"),
        ({"type": "gready"}, "unknown type"),
        ({"eps": 0.1}, "type"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Explorer(settings, 3)


def test_settings_may_be_read_already() -> None:
    settings: ExplorationSettings = GumbelSoftmaxSettings(eps=0.0)
    assert Explorer(settings, 2).choose([[0.0, 100.0]]).tolist() == [1]


def test_wrong_noises_are_refused() -> None:
    with pytest.raises(ValidationError, match="theta"):
        OrnsteinUhlenbeckSettings()  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match=r"sigma_min 2\.0 is larger than sigma 1\.0"):
        GaussianWhiteNoiseSettings(sigma_min=2.0)
    with pytest.raises(ValidationError, match="grows without limit"):
        OrnsteinUhlenbeckSettings(theta=2.0, dt=1.0)


@pytest.mark.parametrize(
    ("sigma_min", "decisions", "sigma"),
    [(0.1, 0, 1.0), (0.1, 500, 0.55), (0.1, 1000, 0.1), (0.1, 5000, 0.1), (None, 5000, 1.0), (0.0, 250, 0.75)],
)
def test_sigma_is_annealed(sigma_min: float | None, decisions: int, sigma: float) -> None:
    for settings in (
        GaussianWhiteNoiseSettings(sigma_min=sigma_min, n_steps_annealing=1000),
        OrnsteinUhlenbeckSettings(theta=0.15, sigma_min=sigma_min).over(5000),
    ):
        assert make_exploration(settings, ActionSpec(2)).numbers(decisions, NOBODY) == pytest.approx([sigma])
