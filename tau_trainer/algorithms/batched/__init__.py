"""Acting in copies on tensors that never leave their device, and the algorithms that learn there."""

from tau_trainer import plugins
from tau_trainer.algorithms.base import Setup
from tau_trainer.algorithms.batched.contract import Acted, TensorActor
from tau_trainer.algorithms.gradient import GradientAlgorithm

__all__ = ["Acted", "TensorActor", "learner_of"]

_ALGORITHMS = {
    "a2c": "tau_trainer.algorithms.a2c:A2C",
    "ppo": "tau_trainer.algorithms.ppo:PPO",
    "dqn": "tau_trainer.algorithms.batched.dqn:DQNLearner",
}
"""Algorithms that learn from tensors, by ``trainer_type``."""


def learner_of(setup: Setup) -> GradientAlgorithm:
    """The algorithm that ``trainer_type`` names. Raises SettingsError for actions that it cannot learn."""
    algorithm: GradientAlgorithm = plugins.resolve(_ALGORITHMS[setup.settings.trainer_type])(setup)
    return algorithm
