"""Defaults, name by name, as in ML-Agents 1.1.0."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tau_trainer.settings import (
    HindsightSettings,
    MemorySettings,
    OffPolicyHyperparameters,
    PPOHyperparameters,
    PPOTrainerSettings,
    RunSettings,
    SACHyperparameters,
)
from tau_trainer.settings.hyperparameters import (
    DDPGHyperparameters,
    DQNHyperparameters,
    IQNHyperparameters,
    MADDPGHyperparameters,
    OfflineHyperparameters,
    TD3Hyperparameters,
)
from tau_trainer.settings.networks import NormalizingNetworkSettings
from tau_trainer.settings.replay import DistanceSettings
from tau_trainer.settings.signals import BehavioralCloningSettings, SelfPlaySettings
from tau_trainer.settings.trainers import SACLNTrainerSettings

DEFAULTS: list[tuple[BaseModel, dict[str, Any]]] = [
    (HindsightSettings(), {"strategy": "future", "k": 4.0, "achieved": "achieved_goal", "reward_done": None}),
    (DistanceSettings(threshold=0.1), {"reached": 0.0, "missed": -1.0, "terminates": True}),
    (MemorySettings(), {"memory_size": 128, "sequence_length": 64, "type": "lstm"}),
    (SelfPlaySettings(), {"save_steps": 20000, "team_change": 100000, "swap_steps": 2000, "window": 10}),
    (SelfPlaySettings(), {"play_against_latest_model_ratio": 0.5, "initial_elo": 1200.0}),
    (BehavioralCloningSettings(demo_path="x"), {"strength": 1.0, "steps": 0, "samples_per_update": 0}),
]
"""What no file of tests/settings/data, which mlagents-learn wrote, and no page of docs/guides has."""


@pytest.mark.parametrize(("section", "expected"), DEFAULTS)
def test_names_and_defaults_are_those_of_mlagents(section: BaseModel, expected: dict[str, Any]) -> None:
    assert expected.items() <= section.model_dump().items()


@pytest.mark.parametrize(
    ("batch", "buffer", "updates", "expected"),
    [
        (64, 12000, "auto", 6000),
        (64, 12000, 1, 12000),
        (64, 2048, "auto", 1024),
        (64, 2047, "auto", 2047),
        (512, 8192, "auto", 8192),
        (512, 8192, 2, 4096),
        (512, 1000, 2, 1000),
    ],
)
def test_new_decisions_that_an_update_waits_for(batch: int, buffer: int, updates: Any, expected: int) -> None:
    numbers = PPOHyperparameters(batch_size=batch, buffer_size=buffer, updates_per_buffer=updates)
    assert numbers.rollout_size == expected


def test_numbers_that_follow_others() -> None:
    assert SelfPlaySettings(save_steps=100).team_change == 500
    assert SACHyperparameters(steps_per_update=4).reward_signal_steps_per_update == 4.0


def test_auto_gradient_steps_lie_between_two_numbers_and_those_of_signals_follow_the_floor() -> None:
    for kind in (SACHyperparameters, DQNHyperparameters, IQNHyperparameters, DDPGHyperparameters, TD3Hyperparameters):
        auto = kind.model_validate({"steps_per_update": "auto"})
        assert (auto.auto, auto.decisions_per_step, auto.decisions_per_signal_step) == (True, (1.0, 8.0), 8.0)
        assert kind.model_validate(auto.model_dump(mode="json")) == auto
    given = SACHyperparameters.model_validate({"steps_per_update": "auto", "reward_signal_steps_per_update": "32"})
    assert given.decisions_per_signal_step == 32.0
    number = SACHyperparameters.model_validate({"steps_per_update": "4", "reward_signal_steps_per_update": "auto"})
    assert (number.auto, number.decisions_per_step, number.decisions_per_signal_step) == (False, (4.0, 4.0), 4.0)


@pytest.mark.parametrize("value", ["atuo", 0, -1, True, "nan", "1e999", None])
def test_gradient_steps_that_are_neither_auto_nor_a_number(value: object) -> None:
    with pytest.raises(ValidationError, match="1 validation error") as raised:
        SACHyperparameters.model_validate({"steps_per_update": value, "reward_signal_steps_per_update": 1})
    assert "must be auto, or a number above 0 such as 8 or 0.5" in str(raised.value)


def test_auto_is_refused_where_it_means_nothing() -> None:
    with pytest.raises(ValidationError, match="must be a number"):
        MADDPGHyperparameters.model_validate({"steps_per_update": "auto"})
    with pytest.raises(ValidationError, match="has no effect for a trainer that learns only from recordings"):
        OfflineHyperparameters.model_validate({"steps_per_update": "auto"})


def test_even_checkpoints_divide_max_steps() -> None:
    assert PPOTrainerSettings(max_steps=1000, keep_checkpoints=4, even_checkpoints=True).checkpoint_every == 250
    assert PPOTrainerSettings(max_steps=3, keep_checkpoints=4, even_checkpoints=True).checkpoint_every == 1
    assert PPOTrainerSettings(checkpoint_interval=70).checkpoint_every == 70


def test_settings_can_be_made_in_python_from_nested_mappings() -> None:
    run = RunSettings.model_validate({"behaviors": {"A": {"hyperparameters": {"learning_rate_schedule": "constant"}}}})
    numbers = run.behaviors["A"].hyperparameters
    assert isinstance(numbers, PPOHyperparameters)
    assert numbers.beta_schedule == "constant"


def test_an_algorithm_takes_no_hyperparameters_of_another() -> None:
    found = DDPGHyperparameters()
    assert OffPolicyHyperparameters.of(found) is found
    with pytest.raises(TypeError, match="DDPGHyperparameters are no PPOHyperparameters"):
        PPOHyperparameters.of(found)


def test_a_minibatch_of_sac_ln_is_eight_sequences_if_its_network_has_a_memory() -> None:
    memory: dict[str, Any] = {"network_settings": {"memory": {}}}

    def batch_size(settings: dict[str, Any]) -> int:
        return SACLNTrainerSettings.model_validate(settings).hyperparameters.batch_size

    def of_length(length: Any) -> dict[str, Any]:
        return {"network_settings": {"memory": {"sequence_length": length}}}

    assert batch_size({}) == batch_size({"network_settings": {"memory": None}}) == 128
    assert batch_size(memory) == batch_size(memory | {"hyperparameters": {"n_step": 2}}) == 512
    short = NormalizingNetworkSettings(memory=MemorySettings(sequence_length=16))
    assert batch_size({"network_settings": short}) == batch_size(of_length(16)) == 128
    assert batch_size(of_length(200)) == 1600
    assert batch_size(of_length("1e2")) == batch_size(of_length(1e2)) == 800
    assert batch_size(memory | {"hyperparameters": {"batch_size": 64}}) == 64
    for wrong, place in (
        (memory | {"hyperparameters": 5}, "hyperparameters"),
        (of_length("many"), "network_settings.memory.sequence_length"),
        (of_length(0), "network_settings.memory.sequence_length"),
        (of_length(None), "network_settings.memory.sequence_length"),
        ({"network_settings": {"memory": 3}}, "network_settings.memory"),
    ):
        with pytest.raises(ValidationError, match=place):
            batch_size(wrong)
