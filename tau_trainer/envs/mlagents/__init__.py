"""mlagents-envs' low-level API on Tau Trainer's bridge: replace ``mlagents_envs`` by ``tau_trainer.envs.mlagents``.

Modules, names, signatures and meanings are those of mlagents-envs 1.1.0 (API 1.5.0); docs/guides/python-api.md says
where they differ. All names can be had from here too, and are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tau_trainer.bridge.protocol import PACKAGE_VERSION

if TYPE_CHECKING:
    from tau_trainer.envs.mlagents.base_env import (
        ActionSpec,
        ActionTuple,
        AgentId,
        BaseEnv,
        BehaviorMapping,
        BehaviorName,
        BehaviorSpec,
        DecisionStep,
        DecisionSteps,
        DimensionProperty,
        GroupId,
        ObservationSpec,
        ObservationType,
        TerminalStep,
        TerminalSteps,
    )
    from tau_trainer.envs.mlagents.environment import UnityEnvironment
    from tau_trainer.envs.mlagents.envs.unity_aec_env import UnityAECEnv
    from tau_trainer.envs.mlagents.envs.unity_gym_env import UnityGymException, UnityToGymWrapper
    from tau_trainer.envs.mlagents.envs.unity_parallel_env import UnityParallelEnv
    from tau_trainer.envs.mlagents.envs.unity_vector_env import UnityVectorEnv
    from tau_trainer.envs.mlagents.exception import (
        UnityActionException,
        UnityCommunicationException,
        UnityCommunicatorStoppedException,
        UnityEnvironmentException,
        UnityException,
        UnityObservationException,
        UnityPolicyException,
        UnitySideChannelException,
        UnityTimeOutException,
        UnityWorkerInUseException,
    )
    from tau_trainer.envs.mlagents.registry import UnityEnvRegistry, default_registry
    from tau_trainer.envs.mlagents.side_channel import (
        DefaultTrainingAnalyticsSideChannel,
        IncomingMessage,
        OutgoingMessage,
        SideChannel,
    )
    from tau_trainer.envs.mlagents.side_channel.engine_configuration_channel import (
        EngineConfig,
        EngineConfigurationChannel,
    )
    from tau_trainer.envs.mlagents.side_channel.environment_parameters_channel import EnvironmentParametersChannel
    from tau_trainer.envs.mlagents.side_channel.float_properties_channel import FloatPropertiesChannel
    from tau_trainer.envs.mlagents.side_channel.raw_bytes_channel import RawBytesChannel
    from tau_trainer.envs.mlagents.side_channel.stats_side_channel import StatsAggregationMethod, StatsSideChannel

__version__ = PACKAGE_VERSION
"""Of the mlagents-envs whose place this takes."""

__all__ = [
    "ActionSpec",
    "ActionTuple",
    "AgentId",
    "BaseEnv",
    "BehaviorMapping",
    "BehaviorName",
    "BehaviorSpec",
    "DecisionStep",
    "DecisionSteps",
    "DefaultTrainingAnalyticsSideChannel",
    "DimensionProperty",
    "EngineConfig",
    "EngineConfigurationChannel",
    "EnvironmentParametersChannel",
    "FloatPropertiesChannel",
    "GroupId",
    "IncomingMessage",
    "ObservationSpec",
    "ObservationType",
    "OutgoingMessage",
    "RawBytesChannel",
    "SideChannel",
    "StatsAggregationMethod",
    "StatsSideChannel",
    "TerminalStep",
    "TerminalSteps",
    "UnityAECEnv",
    "UnityActionException",
    "UnityCommunicationException",
    "UnityCommunicatorStoppedException",
    "UnityEnvRegistry",
    "UnityEnvironment",
    "UnityEnvironmentException",
    "UnityException",
    "UnityGymException",
    "UnityObservationException",
    "UnityParallelEnv",
    "UnityPolicyException",
    "UnitySideChannelException",
    "UnityTimeOutException",
    "UnityToGymWrapper",
    "UnityVectorEnv",
    "UnityWorkerInUseException",
    "__version__",
    "default_registry",
]

_HOMES = (
    "base_env",
    "exception",
    "side_channel",
    "side_channel.engine_configuration_channel",
    "side_channel.environment_parameters_channel",
    "side_channel.float_properties_channel",
    "side_channel.raw_bytes_channel",
    "side_channel.stats_side_channel",
    "environment",
    "registry",
    "envs.unity_gym_env",
    "envs.unity_vector_env",
    "envs.unity_parallel_env",
    "envs.unity_aec_env",
)
"""Where they are, what takes long to load last."""


def __getattr__(name: str) -> Any:
    for home in _HOMES if name in __all__ else ():
        module = import_module(f"{__name__}.{home}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
