"""Acting in copies on tensors that never leave their device, and learning from them."""

from tau_trainer.algorithms.batched.contract import Acted, ActorInput, TensorActor

__all__ = ["Acted", "ActorInput", "TensorActor"]
