"""Acting in copies on tensors that never leave their device, and learning from them."""

from tau_trainer.algorithms.batched.contract import Acted, TensorActor, make_learner

__all__ = ["Acted", "TensorActor", "make_learner"]
