"""Flags as overrides of settings."""

from __future__ import annotations

import pytest

from tau_trainer.cli.engines import ManyEngineFlags, PairFlags
from tau_trainer.cli.flags import overridden
from tau_trainer.cli.options import BatchFlags, LearningFlags, LegacyFlags, OutputFlags, RunFlags
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
