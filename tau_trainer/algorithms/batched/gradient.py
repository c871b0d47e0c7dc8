"""Base of learners on tensors that train one network by gradient: its policy and its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from typing_extensions import override

from tau_trainer.algorithms.base import State
from tau_trainer.algorithms.batched.contract import BatchedLearner, LearnerSetup
from tau_trainer.algorithms.parameters import FlatParameters, fitting
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError
from tau_trainer.models import ActorCritic, Policy, make_policy


class GradientLearner(BatchedLearner):
    """A subclass sets its :attr:`name`, and makes :attr:`network` and :attr:`parameters`."""

    name: str
    """Its ``trainer_type``."""
    network: ActorCritic
    """The network that acts."""
    parameters: FlatParameters
    """The parameters of the network."""

    def __init__(self, setup: LearnerSetup) -> None:
        self._setup, self.device = setup, setup.device
        self.generator = torch.Generator(self.device).manual_seed(setup.seed)
        """Draws random numbers for acting and learning."""

    @property
    @override
    def module(self) -> torch.nn.Module:
        return self.network

    @override
    def policy(self, version: int) -> Policy:
        tensors = self.network.state_dict().items()
        # Copies: the policy may be read while updates continue.
        weights = {name: tensor.detach().to("cpu", copy=True).numpy() for name, tensor in tensors}
        return make_policy(self.network, weights, version)

    @override
    def state(self) -> State:
        arrays = self.parameters.state()
        arrays["random.generator"] = self.generator.get_state().numpy()
        return arrays, {"trainer_type": self.name, "optimizer": self.parameters.optimizer.kind}

    @override
    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        generator, kind = None, self.parameters.optimizer.kind
        if not fresh:
            self.check_resumed(facts)
            generator = fitting(arrays, "random.generator", tuple(self.generator.get_state().shape))
        with torch.no_grad():  # another optimizer cannot use the moments
            self.parameters.load(arrays, moments=facts.get("optimizer") == kind)
        if generator is not None:
            self.generator.set_state(torch.from_numpy(generator.copy()))  # a tensor on the CPU, for CUDA's too

    def check_resumed(self, facts: Mapping[str, Any]) -> None:
        """Raises CheckpointError if the run cannot be resumed."""
        kind = self.parameters.optimizer.kind
        if (facts.get("trainer_type"), facts.get("optimizer")) != (self.name, kind):
            raise CheckpointError(
                f"The checkpoint of policy '{self._setup.spec.name}' is of {facts.get('trainer_type')} with optimizer "
                f"{facts.get('optimizer')}, but the settings ask for {self.name} with {kind}; use those of the run "
                "that wrote it."
            )
