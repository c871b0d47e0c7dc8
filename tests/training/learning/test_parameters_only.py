"""Checkpoints of parameters alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer.training.stored import export_run
from tests.training.fakes import Memory, Stage, newest, sac_settings, tau_settings, train


@pytest.mark.parametrize("settings", [tau_settings, sac_settings])
def test_parameters_alone_are_kept_and_what_is_lost_is_told(
    stage: Stage, tmp_path: Path, memory: Memory, settings: Any
) -> None:
    options: dict[str, Any] = {"behaviors__TauAgent__save_param_only": True}
    if settings is sac_settings:
        options["behaviors__TauAgent__hyperparameters__save_replay_buffer"] = True
    first = train(settings(tmp_path, **options))
    others = {name for name in newest(first.folder, "TauAgent").tensors if "normalizer." not in name}
    assert {name.split(".")[0] for name in others} == {"model", "best"}
    assert export_run(first.folder, tmp_path)
    resumed = train(
        settings(tmp_path, **options, behaviors__TauAgent__max_steps=700, checkpoint_settings__resume=True), memory
    )
    assert resumed.outcome == "completed"
    assert resumed.decisions >= 700
    (said,) = [warning for warning in memory.warnings if "has only parameters" in warning]
    assert "a fresh optimizer, fresh random numbers and no experience" in said
    assert not any("replay memory" in warning for warning in memory.warnings)
