"""Adversarial inverse reinforcement learning (Fu, Luo and Levine 2018, arXiv 1710.11248).

The discriminator is ``D = exp(f) / (exp(f) + pi(a|s))`` with ``f = g(s) + gamma h(s') - h(s)``: ``g`` is the reward and
``h`` shapes it (section 5). It sees states alone, so that what it learns does not depend on how the game moves. After a
real end ``h`` is 0. What is paid is ``log D - log(1 - D) = f - log pi(a|s)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.models.normalizer import Normalizer
from tau_trainer.models.soft_actor_critic import TwinQ
from tau_trainer.rewards.learned import Experience, LearnedReward
from tau_trainer.specs import ActionSpec, BehaviorSpec

if TYPE_CHECKING:
    from tau_trainer.settings.signals import AIRLSettings

LOSS, EXPERT_ESTIMATE, POLICY_ESTIMATE = (
    "Losses/AIRL Loss",
    "Policy/AIRL Expert Estimate",
    "Policy/AIRL Policy Estimate",
)
"""Of the discriminator: its loss, and its mean on demonstrations and on the policy's transitions, as for GAIL."""
LEAST_LOG_PROB = -20.0
"""What is less likely counts as this: a Gaussian's density has no least logarithm, and one action would be all."""


class AIRL(LearnedReward):
    """``g`` and ``h``: two networks of one shape, which see what the policy sees.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: of the signal.
        generator: source of the initial weights.
    """

    def __init__(self, spec: BehaviorSpec, settings: AIRLSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.gamma = settings.gamma
        self.networks = TwinQ(spec, ActionSpec(), settings.network_settings, 1, generator)
        vectors = sum(sensor.size for sensor in spec.observations if len(sensor.shape) == 1)
        self.normalizer = Normalizer(vectors) if settings.network_settings.normalize and vectors else None

    @override
    def observe(self, inputs: list[torch.Tensor]) -> None:
        if self.normalizer is not None:
            self.normalizer.merge(inputs[0].cpu().numpy())

    @override
    def loss(self, own: Experience, expert: Experience) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        of_own, of_expert = (self._f(one) - one.log_prob.clamp(min=LEAST_LOG_PROB) for one in (own, expert))
        # The logarithm of D over 1 - D is f - log pi, so this is -log D of the expert and -log(1 - D) of the policy.
        loss = torch.nn.functional.softplus(-of_expert).mean() + torch.nn.functional.softplus(of_own).mean()
        told = {LOSS: loss, EXPERT_ESTIMATE: of_expert.sigmoid().mean(), POLICY_ESTIMATE: of_own.sigmoid().mean()}
        return loss, told

    @override
    def rewards(self, own: Experience) -> torch.Tensor:
        return self._f(own) - own.log_prob.clamp(min=LEAST_LOG_PROB)

    def _f(self, one: Experience) -> torch.Tensor:
        """[n]."""
        g, h = self._both(one.inputs)
        _, h_after = self._both(one.following)
        return g + self.gamma * one.goes_on * h_after - h

    def _both(self, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        vectors, *others = (one.to(torch.float32) if one.is_floating_point() else one for one in inputs)
        seen = [vectors if self.normalizer is None else self.normalizer(vectors), *others]
        g, h = self.networks(self.networks.see(seen), vectors.new_zeros(len(vectors), 0))[:, :, 0, 0]
        return g, h
