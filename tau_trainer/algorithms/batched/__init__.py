"""Acting in copies on tensors that never leave their device, and learning from them."""

from tau_trainer.algorithms.batched.contract import Acted, TensorActor

__all__ = ["Acted", "TensorActor"]
