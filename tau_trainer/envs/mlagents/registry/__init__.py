"""Environments by name."""

from tau_trainer.envs.mlagents.registry.unity_env_registry import UnityEnvRegistry, default_registry

__all__ = ["UnityEnvRegistry", "default_registry"]
