"""What a user writes: YAML in ML-Agents' form and flags, to validated, frozen settings.

>>> from tau_trainer.settings import load_settings
>>> settings = load_settings("configs/tau3.yaml", {"tau.pairs": 2})  # doctest: +SKIP
"""

from __future__ import annotations

from tau_trainer.settings.devices import check_device
from tau_trainer.settings.engines import HEADLESS_PREFIX, HEADLESS_SCENES, EngineSettings, EnvSettings
from tau_trainer.settings.hyperparameters import POCAHyperparameters, PPOHyperparameters, SACHyperparameters
from tau_trainer.settings.loading import dump_settings, load_settings, parse_settings
from tau_trainer.settings.networks import MemorySettings, NetworkSettings
from tau_trainer.settings.parameters import (
    Curriculum,
    GaussianSampler,
    MultiRangeUniformSampler,
    ParameterValue,
    Sampler,
    UniformSampler,
)
from tau_trainer.settings.run import CheckpointSettings, RunSettings, SettingsFile, TorchSettings
from tau_trainer.settings.seeds import resolve_seed
from tau_trainer.settings.shipped import configs_folder, find_config, shipped_names
from tau_trainer.settings.signals import RewardSignalSettings
from tau_trainer.settings.tasks import CollectionSettings, RewardSettings, TauSettings
from tau_trainer.settings.trainers import POCATrainerSettings, SACTrainerSettings, TrainerSettings

__all__ = [
    "HEADLESS_PREFIX",
    "HEADLESS_SCENES",
    "CheckpointSettings",
    "CollectionSettings",
    "Curriculum",
    "EngineSettings",
    "EnvSettings",
    "GaussianSampler",
    "MemorySettings",
    "MultiRangeUniformSampler",
    "NetworkSettings",
    "POCAHyperparameters",
    "POCATrainerSettings",
    "PPOHyperparameters",
    "ParameterValue",
    "RewardSettings",
    "RewardSignalSettings",
    "RunSettings",
    "SACHyperparameters",
    "SACTrainerSettings",
    "Sampler",
    "SettingsFile",
    "TauSettings",
    "TorchSettings",
    "TrainerSettings",
    "UniformSampler",
    "check_device",
    "configs_folder",
    "dump_settings",
    "find_config",
    "load_settings",
    "parse_settings",
    "resolve_seed",
    "shipped_names",
]
