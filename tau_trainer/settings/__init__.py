"""What a user writes: YAML in ML-Agents' form and flags, to validated, frozen settings.

>>> from tau_trainer.settings import load_settings
>>> settings = load_settings("configs/tau3.yaml", {"tau.pairs": 2})  # doctest: +SKIP
"""

from __future__ import annotations

from tau_trainer.settings.devices import check_device
from tau_trainer.settings.engines import EDITOR, HEADLESS_PREFIX, HEADLESS_SCENES, EngineSettings, EnvSettings
from tau_trainer.settings.hyperparameters import (
    Hyperparameters,
    POCAHyperparameters,
    PPOHyperparameters,
    SACHyperparameters,
)
from tau_trainer.settings.loading import dump_settings, load_settings, parse_settings
from tau_trainer.settings.networks import MemorySettings, NetworkSettings
from tau_trainer.settings.parameters import (
    Curriculum,
    GaussianSampler,
    MultiRangeUniformSampler,
    SamplerSettings,
    UniformSampler,
)
from tau_trainer.settings.run import CheckpointSettings, RunSettings, TorchSettings
from tau_trainer.settings.seeds import resolve_seed
from tau_trainer.settings.shipped import configs_folder, find_config, shipped_names
from tau_trainer.settings.signals import RewardSignalSettings
from tau_trainer.settings.tasks import CollectionSettings, RewardSettings, TauSettings
from tau_trainer.settings.trainers import (
    POCATrainerSettings,
    PPOTrainerSettings,
    SACTrainerSettings,
    TrainerSettings,
    TrainerType,
    trainer_type,
)

__all__ = [
    "EDITOR",
    "HEADLESS_PREFIX",
    "HEADLESS_SCENES",
    "CheckpointSettings",
    "CollectionSettings",
    "Curriculum",
    "EngineSettings",
    "EnvSettings",
    "GaussianSampler",
    "Hyperparameters",
    "MemorySettings",
    "MultiRangeUniformSampler",
    "NetworkSettings",
    "POCAHyperparameters",
    "POCATrainerSettings",
    "PPOHyperparameters",
    "PPOTrainerSettings",
    "RewardSettings",
    "RewardSignalSettings",
    "RunSettings",
    "SACHyperparameters",
    "SACTrainerSettings",
    "SamplerSettings",
    "TauSettings",
    "TorchSettings",
    "TrainerSettings",
    "TrainerType",
    "UniformSampler",
    "check_device",
    "configs_folder",
    "dump_settings",
    "find_config",
    "load_settings",
    "parse_settings",
    "resolve_seed",
    "shipped_names",
    "trainer_type",
]
