"""Networks made of blocks, distributions, and the policy snapshot that acts."""

from __future__ import annotations

from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.blocks import Encoder, ListEncoder, Recurrent
from tau_trainer.models.normalizer import Normalizer
from tau_trainer.models.policy import Decision, MLPPolicy, ModulePolicy, Policy, make_policy, to_env

__all__ = [
    "ActorCritic",
    "Decision",
    "Encoder",
    "ListEncoder",
    "MLPPolicy",
    "ModulePolicy",
    "Normalizer",
    "Policy",
    "Recurrent",
    "make_policy",
    "to_env",
]
