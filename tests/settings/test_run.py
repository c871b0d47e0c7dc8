"""The sections around the behaviors."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tau_trainer.settings import CheckpointSettings, CollectionSettings, RewardSettings, TauSettings, TorchSettings
from tau_trainer.settings.engines import HEADLESS_SCENES


@pytest.mark.parametrize("run_id", ["ppo", "3DBall_1", "sweep/a", "with space", "ä.b-c"])
def test_a_run_id_is_a_folder_name(run_id: str) -> None:
    assert CheckpointSettings(run_id=run_id).run_id == run_id


@pytest.mark.parametrize("run_id", ["", " ", ".", "..", "a/../b", "/abs", "\\abs", "C:\\x", "a:b", "a?", "a\0b"])
def test_a_run_id_never_leaves_the_results(run_id: str) -> None:
    with pytest.raises(ValidationError):
        CheckpointSettings(run_id=run_id)


def test_a_number_is_a_run_id() -> None:
    assert CheckpointSettings.model_validate({"run_id": 7}).run_id == "7"


def test_the_deprecated_load_model_means_resume() -> None:
    assert CheckpointSettings.model_validate({"load_model": True, "resume": False}).resume is True
    assert CheckpointSettings.model_validate({"load_model": False}).resume is False


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1", "mps", "xpu", None])
def test_devices(device: str | None) -> None:
    assert TorchSettings(device=device).device == device


def test_defaults_of_the_tau_section() -> None:
    tau = TauSettings()
    assert (tau.profile, tau.pairs, tau.max_concurrent, tau.policy, tau.agents) == ("tau3", 4, None, "shared", 32)
    assert (tau.data, tau.evaluate) == (None, True)
    assert tau.reward == RewardSettings(source="trainer", credit="component", predicate="none", window=1)
    assert CollectionSettings() == CollectionSettings(deterministic=False, max_policy_age=1)


def test_the_known_scenes_are_those_of_the_headless_engine() -> None:
    from tau_trainer.headless.scenes import SCENES

    assert set(HEADLESS_SCENES) == set(SCENES)


def test_the_known_formulas_and_profiles_are_those_of_the_tau_task() -> None:
    from typing import get_args

    from tau_trainer.settings.tasks import Formula
    from tau_trainer.tau.formulas import REWARDS
    from tau_trainer.tau.profiles import PROFILES

    assert set(get_args(Formula)) == set(REWARDS)
    assert set(get_args(TauSettings.model_fields["profile"].annotation)) == set(PROFILES)
