from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.report.configuration import Configuration
from tau_trainer.settings import dump_settings, load_settings


def written(path: Path, config: str, **overrides: object) -> Configuration:
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    path.write_text(dump_settings(load_settings(config, given)), "utf-8")
    return Configuration.load(path)


def test_what_is_not_the_default_is_marked(tmp_path: Path) -> None:
    found = written(tmp_path / "c.yaml", "tau3", tau__pairs=7)
    changed = {place: (one.value, one.default) for place, one in found.settings.items() if one.changed}
    assert changed["tau.pairs"] == (7, 4)
    assert changed["behaviors.TauAgent.hyperparameters.batch_size"] == (256, 1024)
    assert changed["behaviors.TauAgent.reward_signals.extrinsic.gamma"] == (0.0, 0.99)
    assert "behaviors.TauAgent.hyperparameters.epsilon" not in changed
    assert "tau.agents" not in changed
    assert found.settings["tau.agents"].value == 32, "told all the same"
    assert found.environment == "headless:tau"
    assert found.trainers == {"TauAgent": "ppo"}


@pytest.mark.parametrize("config", ["3DBall", "3DBallSAC", "Pendulum"])
def test_each_trainers_own_defaults_count(config: str, tmp_path: Path) -> None:
    plain = load_settings(config)
    ((name, given),) = plain.behaviors.items()
    path = tmp_path / "c.yaml"
    default = plain.model_copy(update={"behaviors": {name: type(given).model_validate({})}})
    path.write_text(dump_settings(default), "utf-8")
    changed = [place for place, one in Configuration.load(path).settings.items() if one.changed]
    assert not [place for place in changed if place.startswith("behaviors.")]


def test_what_cannot_be_read_as_settings_is_told_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("behaviors: {A: {trainer_type: ppo}}\nno_such_key: 5\n")
    found = Configuration.load(tmp_path / "c.yaml")
    assert found.fault is not None
    assert found.fault.startswith("c.yaml cannot be read: ")
    assert {place: one.value for place, one in found.settings.items()} == {
        "behaviors.A.trainer_type": "ppo",
        "no_such_key": 5,
    }
    assert not any(one.changed for one in found.settings.values())


@pytest.mark.parametrize("text", ["{", "5", "\x00", "[" * 1500])
def test_damage_is_a_fault(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    found = Configuration.load(tmp_path / "c.yaml")
    assert found.fault is not None
    assert not found.settings
    assert Configuration.load(tmp_path / "none.yaml").fault == "none.yaml is missing"
