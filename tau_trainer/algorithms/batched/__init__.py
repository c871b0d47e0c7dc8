"""Learning from tensors that never leave their device."""

from tau_trainer.algorithms.batched.contract import Acted, BatchedLearner, TensorRollout

__all__ = ["Acted", "BatchedLearner", "TensorRollout"]
