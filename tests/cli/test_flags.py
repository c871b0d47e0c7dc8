"""Flags as overrides of settings."""

from __future__ import annotations

import pytest

from tau_trainer.cli.engines import EngineFlags, ManyEngineFlags, PairFlags
from tau_trainer.cli.flags import overridden, overrides_of
from tau_trainer.cli.options import BatchFlags, LearnFlags, LearningFlags, LegacyFlags, OutputFlags, RunFlags
from tau_trainer.settings import PPOTrainerSettings, RunSettings
from tau_trainer.settings.problems import known_keys, section_at

GROUPS = (RunFlags, BatchFlags, PairFlags, ManyEngineFlags, LearningFlags, OutputFlags, LegacyFlags)


@pytest.mark.parametrize("group", GROUPS)
def test_the_settings_behind_the_flags_exist(group: type) -> None:
    for _, path, _ in overridden(group):
        parts = path.split(".")
        root: type = RunSettings
        if parts[:2] == ["behaviors", "*"]:
            root, parts = PPOTrainerSettings, parts[2:]
        assert parts[-1] in known_keys(section_at(root, parts[:-1])), path


def test_flags_that_were_not_given_override_nothing() -> None:
    assert overrides_of(RunFlags(), PairFlags(), EngineFlags(), LearningFlags(), OutputFlags()) == ({}, {})


def test_flags_within_flags_override_too() -> None:
    flags = LearnFlags(run=RunFlags(seed="3"), engines=ManyEngineFlags(num_envs="2"))
    assert overrides_of(flags) == (
        {"env_settings.num_envs": "2", "env_settings.seed": "3"},
        {"env_settings.num_envs": "--num-envs", "env_settings.seed": "--seed"},
    )


def test_given_flags_override_their_settings_and_are_known_by_name() -> None:
    overrides, names = overrides_of(RunFlags(seed="3", force=True), PairFlags(no_evaluate=True, pairs="2"))
    assert overrides == {
        "env_settings.seed": "3",
        "checkpoint_settings.force": True,
        "tau.pairs": "2",
        "tau.evaluate": False,
    }
    assert names["tau.evaluate"] == "--no-evaluate"
    assert names["env_settings.seed"] == "--seed"
