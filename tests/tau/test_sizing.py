"""Components, levels and decisions that follow from the data, and those that a file says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.settings import PPOHyperparameters, RunSettings, find_config, load_settings
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.sizing import LEVELS_LEARN_BY, SHRINK_AT, decisions_for, size_sentence, sized
from tau_trainer.tau.task import TauTask
from tests.tau.conftest import MakeFile

LEVELS = "behaviors.TauAgent.network_settings.action_levels"


@pytest.fixture
def data(make_file: MakeFile) -> Path:
    """Twelve answers, two rows each."""
    return make_file([(f"{kind} {name}?", f"{name}s") for name in "abcdefghijkl" for kind in ("one", "a")])


def said(
    data: Path | None, overrides: dict[str, Any] | None = None, config: str = "tau"
) -> tuple[str | None, int | None, int]:
    """Profile, levels and decisions of a run."""
    settings = sized(load_settings(config, {"tau.data": None if data is None else str(data), **(overrides or {})}))
    assert settings.tau is not None
    behavior = settings.behaviors["TauAgent"]
    return settings.tau.profile, behavior.network_settings.action_levels, behavior.max_steps


def test_what_a_file_does_not_say_follows_from_the_data(data: Path) -> None:
    assert said(data) == ("1x12", 12, 400_000)
    assert said(data, {"env_settings.env_path": "batched:tau"}) == ("1x12", 12, 400_000)


def test_how_levels_are_learned_follows_where_a_file_does_not_say(data: Path) -> None:
    def numbers(overrides: dict[str, Any], config: str = "tau") -> dict[str, Any]:
        found = sized(load_settings(config, {"tau.data": str(data), **overrides}))
        values = found.behaviors["TauAgent"].hyperparameters.model_dump()
        return {key: values[key] for key in LEVELS_LEARN_BY}

    assert numbers({}) == numbers({"tau.profile": "2x4"}) == LEVELS_LEARN_BY
    assert (LEVELS_LEARN_BY["num_epoch"], LEVELS_LEARN_BY["learning_rate"]) == (1, 6e-4), "as the guide says"
    assert numbers({"env_settings.env_path": "batched:tau"}) == LEVELS_LEARN_BY
    for key, value in {"beta": 0.1, "epsilon": 0.2, "learning_rate": 1e-3, "num_epoch": 2}.items():
        assert numbers({f"behaviors.TauAgent.hyperparameters.{key}": value}) == {**LEVELS_LEARN_BY, key: value}
    usual = PPOHyperparameters().model_dump()
    assert numbers({"tau.profile": "tau3"}) == {key: usual[key] for key in LEVELS_LEARN_BY}  # Gaussians may not
    assert numbers({}, "tau3") == {"beta": 0.03, "epsilon": 0.2, "learning_rate": 1e-3, "num_epoch": 4}


def test_a_policy_of_levels_shrinks_where_its_algorithm_can(data: Path) -> None:
    def at(overrides: dict[str, Any]) -> Any:
        found = sized(load_settings("tau", {"tau.data": str(data), **overrides}))
        return getattr(found.behaviors["TauAgent"].hyperparameters, "shrink_at", None)

    assert at({}) == SHRINK_AT
    assert at({"behaviors.TauAgent.hyperparameters.shrink_at": None}) is None
    assert at({"env_settings.env_path": "batched:tau"}) is None
    assert at({"strategy": "parameter_server", "devices": 2}) is None
    assert at({"tau.profile": "tau3"}) is None


def test_what_a_file_says_stays(data: Path) -> None:
    assert said(data, config="tau3") == ("tau3", 41, 200_000)
    assert said(data, config="tau384") == ("tau384", None, 1_000_000)
    assert sized(load_settings("tau3", {"tau.data": str(data)})) == load_settings("tau3", {"tau.data": str(data)})
    assert said(data, {LEVELS: 4}) == ("2x4", 4, 400_000)
    assert said(data, {"tau.profile": "1x16"}) == ("1x16", 16, 400_000)
    assert said(data, {"behaviors.TauAgent.max_steps": 5000}) == ("1x12", 12, 5000)


def test_where_the_engine_is_not_ours_or_the_data_are_it_is_tau3(data: Path) -> None:
    assert said(data, {"env_settings.env_path": "Build/Game.x86_64"}) == ("tau3", None, 500_000)
    assert said(data, {"env_settings.env_path": None}) == ("tau3", None, 500_000)
    assert said(None) == ("tau3", None, 500_000)


def test_an_algorithm_that_may_have_no_levels_gets_tau3(data: Path) -> None:
    values = {"tau": {"data": str(data)}, "env_settings": {"env_path": "headless:tau"}}
    settings = sized(RunSettings.model_validate({**values, "behaviors": {"TauAgent": {"trainer_type": "sac"}}}))
    assert settings.tau is not None
    assert settings.tau.profile == "tau3"
    assert settings.behaviors["TauAgent"].network_settings.action_levels is None


def test_a_file_without_behaviors_gets_the_scenes(data: Path) -> None:
    own = RunSettings.model_validate({"tau": {"data": str(data)}, "env_settings": {"env_path": "headless:tau"}})
    behavior = sized(own).behaviors["TauAgent"]
    assert (behavior.network_settings.action_levels, behavior.max_steps) == (12, 400_000)
    plain = RunSettings()
    assert sized(plain) is plain


def test_levels_of_another_number_than_the_profiles_are_refused(data: Path) -> None:
    with pytest.raises(SettingsError, match=r"action_levels is 41, but tau.profile 1x16 has 16 levels; leave one"):
        said(data, {"tau.profile": "1x16", LEVELS: 41})


def test_fewer_places_than_answers_are_refused_before_an_engine_is_started(data: Path) -> None:
    with pytest.raises(SettingsError, match=r"12 answers in training, but the profile 1x4 has places for 4; leave"):
        said(data, {"tau.profile": "1x4"})


def test_decisions_follow_rows_and_answers(make_file: MakeFile) -> None:
    rows = [(f"number {row}?", f"answer {row % 150}") for row in range(1510)]
    assert decisions_for(load_dataset(make_file(rows))) == 910_000, "906,000 in round numbers"
    assert decisions_for(load_dataset(make_file(rows[:150], name="few.json"))) == 400_000


def test_the_line_of_the_start(data: Path) -> None:
    settings = sized(load_settings(find_config("tau"), {"tau.data": str(data), "tau.evaluate": False}))
    assert settings.tau is not None
    line = "12 answers in 24 training rows, as 1 component of 12 levels (1x12), 400,000 decisions"
    line += "; weights shrink once, after 280,000"
    assert TauTask(settings.tau).size(settings) == line
    other = sized(load_settings("tau384", {"tau.data": str(data), "tau.evaluate": False}))
    assert other.tau is not None
    task = TauTask(other.tau)
    assert size_sentence(task.dataset, task.profile, other).endswith("as 384 components (tau384), 1,000,000 decisions")
