"""Random network distillation (Burda et al. 2018, arXiv 1810.12894).

A second network learns to predict the outputs of a fixed random network of the same shape. It predicts well for
familiar observations, so the squared distance of both features (section 2.2) is the reward: for the observation of the
decision, as in ML-Agents, and not divided by a running deviation as in the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.models.features import Features
from tau_trainer.rewards.learned import Experience, LearnedReward, Loss

if TYPE_CHECKING:
    from tau_trainer.settings.signals import RNDSettings
    from tau_trainer.specs import BehaviorSpec

LOSS = "Losses/RND Loss"


class RND(LearnedReward):
    """The fixed network, and the one that predicts it.

    Args:
        spec: see :class:`LearnedReward`.
        settings: of the signal.
        generator: source of the initial weights.
    """

    def __init__(self, spec: BehaviorSpec, settings: RNDSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.target, self.predictor = (Features(spec, settings.network_settings, generator) for _ in range(2))
        self.target.requires_grad_(False)
        self.target.normalizer = None
        """Its inputs are prepared by the predictor."""

    @override
    def observe(self, some: Experience, *, expert: bool) -> None:
        self.predictor.take_in(some.inputs[0])

    @override
    def loss(self, played: Experience, expert: Experience | None) -> Loss:
        loss = self.rewards(played).mean()
        return loss, {LOSS: loss}

    @override
    def rewards(self, played: Experience) -> torch.Tensor:
        seen = self.predictor.prepare(played.inputs)
        distance: torch.Tensor = (self.predictor(seen) - self.target(seen)).square().sum(dim=1)
        return distance
