"""Learning from tensors that never leave their device."""

from tau_trainer.algorithms.batched.contract import Acted, BatchedLearner, LearnerSetup, TensorRollout, make_learner

__all__ = ["Acted", "BatchedLearner", "LearnerSetup", "TensorRollout", "make_learner"]
