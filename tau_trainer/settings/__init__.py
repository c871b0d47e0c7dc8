"""Reads YAML in ML-Agents' format and flags into validated, frozen settings.

>>> from tau_trainer.settings import load_settings
>>> settings = load_settings("configs/tau3.yaml", {"tau.pairs": 2})  # doctest: +SKIP
"""

from __future__ import annotations

import warnings
from typing import Any

from tau_trainer.settings.document import find_config, shipped_names
from tau_trainer.settings.engines import ATTACH, EDITOR, GODOT, HEADLESS_PREFIX, EngineSettings, EnvSettings
from tau_trainer.settings.hyperparameters import (
    AgentHyperparameters,
    DDPGHyperparameters,
    DQNHyperparameters,
    Hyperparameters,
    IQLHyperparameters,
    IQNHyperparameters,
    MADDPGHyperparameters,
    OfflineCriticHyperparameters,
    OfflineHyperparameters,
    OffPolicyHyperparameters,
    POCAHyperparameters,
    PPOHyperparameters,
    SACHyperparameters,
    SACLNHyperparameters,
    TD3Hyperparameters,
)
from tau_trainer.settings.loading import dump_settings, load_batched, load_settings
from tau_trainer.settings.networks import MemorySettings, NetworkSettings
from tau_trainer.settings.parameters import (
    Curriculum,
    GaussianSampler,
    MultiRangeUniformSampler,
    UniformSampler,
)
from tau_trainer.settings.replay import HindsightSettings
from tau_trainer.settings.run import (
    CheckpointSettings,
    ExportChoice,
    RunSettings,
    TorchSettings,
    check_device,
    full_key,
    resolve_seed,
)
from tau_trainer.settings.signals import RewardSignalSettings
from tau_trainer.settings.tasks import (
    AsyncTrainerSettings,
    ClusterSettings,
    CollectionSettings,
    Distribution,
    RewardSettings,
    SweepSettings,
    TauSettings,
)
from tau_trainer.settings.trainers import (
    DDPGTrainerSettings,
    DQNTrainerSettings,
    MADDPGTrainerSettings,
    OfflineTrainerSettings,
    PPOTrainerSettings,
    SACLNTrainerSettings,
    SACTrainerSettings,
    TD3TrainerSettings,
    TrainerSettings,
    TrainerType,
    shared_out,
    trainer_type,
)

__all__ = [
    "ATTACH",
    "EDITOR",
    "GODOT",
    "HEADLESS_PREFIX",
    "AgentHyperparameters",
    "AsyncTrainerSettings",
    "CheckpointSettings",
    "ClusterSettings",
    "CollectionSettings",
    "Curriculum",
    "DDPGHyperparameters",
    "DDPGTrainerSettings",
    "DQNHyperparameters",
    "DQNTrainerSettings",
    "Distribution",
    "EngineSettings",
    "EnvSettings",
    "ExportChoice",
    "GaussianSampler",
    "HindsightSettings",
    "Hyperparameters",
    "IQLHyperparameters",
    "IQNHyperparameters",
    "MADDPGHyperparameters",
    "MADDPGTrainerSettings",
    "MemorySettings",
    "MultiRangeUniformSampler",
    "NetworkSettings",
    "OffPolicyHyperparameters",
    "OfflineCriticHyperparameters",
    "OfflineHyperparameters",
    "OfflineTrainerSettings",
    "POCAHyperparameters",
    "PPOHyperparameters",
    "PPOTrainerSettings",
    "RewardSettings",
    "RewardSignalSettings",
    "RunSettings",
    "SACHyperparameters",
    "SACLNHyperparameters",
    "SACLNTrainerSettings",
    "SACTrainerSettings",
    "SweepSettings",
    "TD3Hyperparameters",
    "TD3TrainerSettings",
    "TauSettings",
    "TorchSettings",
    "TrainerSettings",
    "TrainerType",
    "UniformSampler",
    "check_device",
    "dump_settings",
    "find_config",
    "full_key",
    "load_batched",
    "load_settings",
    "resolve_seed",
    "shared_out",
    "shipped_names",
    "trainer_type",
]


def __getattr__(name: str) -> Any:
    if name != "BatchedSettings":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("a batched run has RunSettings with `environment`; use these", DeprecationWarning, stacklevel=2)
    return RunSettings
