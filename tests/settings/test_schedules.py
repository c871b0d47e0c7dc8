"""Numbers that follow a schedule: their formulas, and what is said of bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from tau_trainer.errors import SettingsError
from tau_trainer.settings import DQNHyperparameters, PPOHyperparameters, SACLNHyperparameters, load_settings
from tau_trainer.settings.exploration import EpsGreedySettings
from tau_trainer.settings.schedules import FractionSchedule, at, described

READ: TypeAdapter[Any] = TypeAdapter(cast("Any", FractionSchedule))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (0.2, {0: 0.2, 1e9: 0.2}),
        ("2e-1", {5: 0.2}),
        # init * rate^t + v * (1 - rate^t)
        ({"mode": "exponential", "initial": 0.5, "final": 0.1, "rate": 0.9}, {0: 0.5, 1: 0.46, 2: 0.424, 1e6: 0.1}),
        ({"mode": "exponential", "initial": 0.1, "final": 0.5, "rate": 0.5}, {1: 0.3, 2: 0.4}),
        # rate / (t + rate / init)
        ({"mode": "inverse", "initial": 0.5, "rate": 10}, {0: 0.5, 20: 0.25, 60: 0.125}),
        ({"mode": "inverse", "initial": 0, "rate": 10}, {0: 0.0, 20: 0.0}),
        ([[100, 0.2], [300, 0.6], [400, 0.0]], {0: 0.2, 100: 0.2, 150: 0.3, 300: 0.6, 375: 0.15, 400: 0, 1e9: 0}),
        ([[7, 0.3]], {0: 0.3, 7: 0.3, 8: 0.3}),
    ],
)
def test_formulas(given: object, wanted: dict[float, float]) -> None:
    number = READ.validate_python(given)
    assert {t: at(number, t) for t in wanted} == pytest.approx(wanted)
    again = READ.validate_python(json.loads(READ.dump_json(number)))
    assert again == number


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (3e-4, "0.0003 linear"),
        ([[0, 0.3], [5, 0.2], [9, 0.1]], "0.3 to 0.1 by points"),
        ({"mode": "exponential", "initial": 0.5, "final": 0.1, "rate": 0.9}, "0.5 to 0.1 exponential"),
        ({"mode": "inverse", "initial": 0.5, "rate": 10}, "0.5 inverse"),
    ],
)
def test_a_schedule_is_described(given: object, wanted: str) -> None:
    assert described(READ.validate_python(given), "linear") == wanted


def test_the_learning_rate_of_sac_ln_falls_by_default() -> None:
    """If its schedule is given, it is a schedule of one number."""
    rates = [at(SACLNHyperparameters().learning_rate, t) for t in (0, 3466, 100_000)]
    assert rates == pytest.approx([1e-3, 6.5e-4, 3e-4], rel=1e-3)
    linear = SACLNHyperparameters.model_validate({"learning_rate_schedule": "linear"})
    assert (linear.learning_rate, linear.learning_rate_schedule) == (3e-4, "linear")
    both = SACLNHyperparameters.model_validate({"learning_rate": 0.002, "learning_rate_schedule": "linear"})
    assert both.learning_rate == 0.002


@pytest.mark.parametrize(
    "given",
    [
        [],
        [[5, 0.1], [3, 0.2]],
        [[0, 1.5]],
        [[-1, 0.5]],
        {"mode": "exponential", "initial": 1.5, "final": 0, "rate": 0.9},
        {"mode": "exponential", "initial": 0.5, "final": 1.5, "rate": 0.9},
        {"mode": "exponential", "initial": 0.5, "final": 0, "rate": 1.1},
        {"mode": "inverse", "initial": 0.5, "rate": 0},
        {"mode": "inverse", "initial": 0.5, "rate": 1, "final": 0},
        1.5,
        True,
    ],
)
def test_what_is_no_schedule(given: object) -> None:
    with pytest.raises(ValidationError):
        READ.validate_python(given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([[5, 1e-3], [5, 1e-4]], "learning_rate must be points [step, value] with increasing steps"),
        ([[5, 0]], "learning_rate[0][1] must be above 0, not 0"),
        ({"mode": "exponentail"}, "learning_rate has an unknown mode exponentail; did you mean exponential?"),
        ({"initial": 1}, "learning_rate has no mode; known: exponential, inverse"),
        ({"mode": "inverse", "initial": 1}, "learning_rate.rate is missing and has no default; add it"),
        ({"mode": "inverse", "initial": 1, "rat": 1, "rate": 1}, "rat: unknown key; did you mean rate?"),
        ("fast", "learning_rate must be a number such as 0.2 or 3e-4, not 'fast'"),
    ],
)
def test_bad_schedules_are_told_in_one_sentence(given: object, says: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(
        yaml.safe_dump({"behaviors": {"Agent": {"trainer_type": "ppo", "hyperparameters": {"learning_rate": given}}}})
    )
    with pytest.raises(SettingsError) as raised:
        load_settings(file)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_numbers_that_take_a_schedule() -> None:
    points = [[0, 0.5], [10, 0.1]]
    ppo = PPOHyperparameters.model_validate({"beta": points, "epsilon": points, "learning_rate": points})
    assert [at(one, 5) for one in (ppo.beta, ppo.epsilon, ppo.learning_rate)] == pytest.approx([0.3] * 3)
    dqn = DQNHyperparameters.model_validate({"exploration": {"type": "eps_greedy", "eps": points}})
    assert isinstance(dqn.exploration, EpsGreedySettings)
    assert at(dqn.exploration.eps, 5) == pytest.approx(0.3)
    with pytest.raises(ValidationError, match="remove one of them"):
        EpsGreedySettings.model_validate({"eps": points, "eps_min": 0.1})
