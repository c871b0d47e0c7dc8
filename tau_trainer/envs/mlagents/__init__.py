# ruff: noqa: F403
"""mlagents-envs' low-level API on Tau Trainer's bridge: replace ``mlagents_envs`` by ``tau_trainer.envs.mlagents``.

Modules, names, signatures and meanings are those of mlagents-envs 1.1.0 (API 1.5.0); docs/guides/python-api.md lists
the differences. All names are also available here; each is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tau_trainer.bridge.protocol import PACKAGE_VERSION

if TYPE_CHECKING:
    from tau_trainer.envs.mlagents.base_env import *
    from tau_trainer.envs.mlagents.environment import *
    from tau_trainer.envs.mlagents.envs.unity_aec_env import *
    from tau_trainer.envs.mlagents.envs.unity_gym_env import *
    from tau_trainer.envs.mlagents.envs.unity_parallel_env import *
    from tau_trainer.envs.mlagents.envs.unity_vector_env import *
    from tau_trainer.envs.mlagents.exception import *
    from tau_trainer.envs.mlagents.registry import *
    from tau_trainer.envs.mlagents.side_channel import *
    from tau_trainer.envs.mlagents.side_channel.engine_configuration_channel import *
    from tau_trainer.envs.mlagents.side_channel.environment_parameters_channel import *
    from tau_trainer.envs.mlagents.side_channel.float_properties_channel import *
    from tau_trainer.envs.mlagents.side_channel.raw_bytes_channel import *
    from tau_trainer.envs.mlagents.side_channel.stats_side_channel import *

__version__ = PACKAGE_VERSION
"""Version of the mlagents-envs that this package replaces."""

_HOMES = {
    "base_env": (
        "ActionSpec ActionTuple AgentId BaseEnv BehaviorMapping BehaviorName BehaviorSpec DecisionStep DecisionSteps "
        "DimensionProperty GroupId ObservationSpec ObservationType TerminalStep TerminalSteps"
    ),
    "environment": "UnityEnvironment",
    "envs.unity_aec_env": "UnityAECEnv",
    "envs.unity_gym_env": "UnityGymException UnityToGymWrapper",
    "envs.unity_parallel_env": "UnityParallelEnv",
    "envs.unity_vector_env": "UnityVectorEnv",
    "exception": (
        "UnityActionException UnityCommunicationException UnityCommunicatorStoppedException UnityEnvironmentException "
        "UnityException UnityObservationException UnityPolicyException UnitySideChannelException "
        "UnityTimeOutException UnityWorkerInUseException"
    ),
    "registry": "UnityEnvRegistry default_registry",
    "side_channel": "DefaultTrainingAnalyticsSideChannel IncomingMessage OutgoingMessage SideChannel",
    "side_channel.engine_configuration_channel": "EngineConfig EngineConfigurationChannel",
    "side_channel.environment_parameters_channel": "EnvironmentParametersChannel",
    "side_channel.float_properties_channel": "FloatPropertiesChannel",
    "side_channel.raw_bytes_channel": "RawBytesChannel",
    "side_channel.stats_side_channel": "StatsAggregationMethod StatsSideChannel",
}
"""Names by module."""

if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = ["__version__", *" ".join(_HOMES.values()).split()]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
