"""Networks: parameters, normaliser, distributions, and the policy snapshot that acts."""

from __future__ import annotations

from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.layout import ParameterLayout
from tau_trainer.models.normalizer import NormalizerState, RunningNormalizer
from tau_trainer.models.policy import ActResult, Policy, PolicyWeights, to_env

__all__ = [
    "ActResult",
    "ActorCritic",
    "NormalizerState",
    "ParameterLayout",
    "Policy",
    "PolicyWeights",
    "RunningNormalizer",
    "to_env",
]
