"""Features of an agent's observations for models other than the policy, from their own layers and encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from tau_trainer.models.hyper import make_body
from tau_trainer.models.mlp import MLP, kaiming_normal_
from tau_trainer.models.observation_encoder import make_encoders, normalizer_of

if TYPE_CHECKING:
    from tau_trainer.settings import NetworkSettings
    from tau_trainer.specs import BehaviorSpec


class Features(torch.nn.Module):
    """Encoders and hidden layers of the same shape as a policy's, without a memory.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: of the network; its ``memory`` is ignored.
        generator: source of the initial weights.
        beside: number of further inputs of the hidden layers.
    """

    def __init__(
        self, spec: BehaviorSpec, settings: NetworkSettings, generator: torch.Generator, beside: int = 0
    ) -> None:
        super().__init__()
        self.normalizer = normalizer_of(spec, normalize=settings.normalize)
        self.encoders, size, goal = make_encoders(spec, settings, 1, generator)
        self.body, self.hyper = make_body(size + beside, goal, settings, 1, generator)
        self.size: int = self.body.size if self.hyper is None else self.hyper.size
        """``H``, number of output features."""

    def take_in(self, vectors: torch.Tensor) -> None:
        """Let the statistics take in raw vectors [n, D], if there are any."""
        if self.normalizer is not None:
            self.normalizer.take_in(vectors)

    def prepare(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Observations from :meth:`ActorCritic.arrange` as floats: vectors normalised, images in [0, 1]."""
        # Bytes become floats, so that values between two images are images too.
        vectors, *others = (x.float() / 255.0 if x.dtype == torch.uint8 else x.float() for x in inputs)
        if self.normalizer is not None:
            vectors = self.normalizer(vectors)
        return [vectors, *others]

    def forward(self, prepared: Sequence[torch.Tensor], beside: torch.Tensor | None = None) -> torch.Tensor:
        """Features [n, H] of prepared observations and of further numbers [n, beside]."""
        x = goal = prepared[0]
        if self.encoders:
            x, goal = self.encoders[0](list(prepared))
        if beside is not None:
            x = torch.cat((x, beside), dim=1)
        features: torch.Tensor = self.body(x, 0)
        if self.hyper is not None:
            features = self.hyper(features, goal, 0)
        return features


class Readout(torch.nn.Module):
    """Linear outputs [n, outputs], after a hidden layer of ``hidden`` units unless that is 0.

    Args:
        gain: factor on the initial weights of the last layer.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, generator: torch.Generator, gain: float = 1.0) -> None:
        super().__init__()
        self.body = MLP(inputs, hidden, 1 if hidden else 0, 1, generator)
        self.weight = torch.nn.Parameter(torch.zeros(self.body.size, outputs))
        self.bias = torch.nn.Parameter(torch.zeros(outputs))
        kaiming_normal_(self.weight, generator, gain)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs of inputs [n, inputs]."""
        return torch.addmm(self.bias, self.body(x, 0), self.weight)
