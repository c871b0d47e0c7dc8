"""Adversarial inverse reinforcement learning (Fu, Luo and Levine 2018, arXiv 1710.11248).

The discriminator is ``D = exp(f) / (exp(f) + pi(a|s))`` with ``f = g(s) + gamma h(s') - h(s)``: ``g`` is the reward and
``h`` shapes it (section 5). It sees only states, so that the reward does not depend on the game's dynamics. The paid
reward is ``log D - log(1 - D) = f - log pi(a|s)``.

**Ends.** A policy that plays worse than the expert is paid less than 0 per step, so ending the episode soon would pay
off. So a real end is a state as well, which is never left (Kostrikov et al. 2019, arXiv 1809.02925, section 4.2): its
``h`` is 0, and its ``g`` is the logarithm of the ratio of the expert's frequency of ends to the policy's, which is what
a discriminator of this one state would converge to. All its future rewards are paid with the last transition, ``gamma g
/ (1 - gamma)``. An episode that a limit cut continues, as everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.models.observation_encoder import normalizer_of
from tau_trainer.models.soft_actor_critic import TwinQ
from tau_trainer.rewards.learned import Experience, LearnedReward, Loss
from tau_trainer.specs import ActionSpec, BehaviorSpec

if TYPE_CHECKING:
    from tau_trainer.settings.signals import AIRLSettings

LOSS, EXPERT_ESTIMATE, POLICY_ESTIMATE = (
    "Losses/AIRL Loss",
    "Policy/AIRL Expert Estimate",
    "Policy/AIRL Policy Estimate",
)
"""Statistics of the discriminator: its loss, and its mean for expert and policy, as for GAIL."""
LEAST_LOG_PROB = -20.0
"""Lower limit of log-probabilities: a Gaussian's log-density has none, and a single action would dominate."""
GRADIENT_PENALTY = 10.0
"""Weight of the discriminator's gradient penalty, as in Kostrikov et al. and for ML-Agents' gail.

Without it, the discriminator separates demonstrations so well that its reward does not tell better from worse.
"""
LEAST_PATIENCE = 1e-3
"""Lower limit of ``1 - gamma`` for the sum of all future rewards of an end."""


class AIRL(LearnedReward):
    """``g`` and ``h``: two networks of one shape, with the observations of the policy.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: of the signal.
        generator: source of the initial weights, and of all later random numbers.
    """

    ends: torch.Tensor
    """float32 [2]: share of transitions that led to a real end, for the expert and for the policy."""

    def __init__(self, spec: BehaviorSpec, settings: AIRLSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.gamma = settings.gamma
        self._generator = generator
        self.register_buffer("ends", torch.ones(2))
        self.networks = TwinQ(spec, ActionSpec(), settings.network_settings, 1, generator)
        self.normalizer = normalizer_of(spec, normalize=settings.network_settings.normalize)

    @override
    def observe(self, some: Experience, *, expert: bool) -> None:
        if self.normalizer is not None:
            self.normalizer.merge(some.inputs[0].cpu().numpy())
        count = (1.0 - some.goes_on).sum()  # plus half an end, because an unseen end is still possible
        self.ends[0 if expert else 1] = (count + 0.5) / (len(some.goes_on) + 1.0)

    @override
    def loss(self, played: Experience, expert: Experience | None) -> Loss:
        assert expert is not None
        # [n] each: the logits f - log pi by which the discriminator separates both sides
        of_own, of_expert = (self._f(side) - side.log_prob.clamp(min=LEAST_LOG_PROB) for side in (played, expert))
        # The logarithm of D over 1 - D is f - log pi, so this is -log D of the expert and -log(1 - D) of the policy.
        loss = torch.nn.functional.softplus(-of_expert).mean() + torch.nn.functional.softplus(of_own).mean()
        loss = loss + GRADIENT_PENALTY * self._steepness(played, expert)
        statistics = {LOSS: loss, EXPERT_ESTIMATE: of_expert.sigmoid().mean(), POLICY_ESTIMATE: of_own.sigmoid().mean()}
        return loss, statistics

    @override
    def rewards(self, played: Experience) -> torch.Tensor:
        for_ever = self.gamma / max(1.0 - self.gamma, LEAST_PATIENCE) * (self.ends[0] / self.ends[1]).log()
        return self._f(played) + (1.0 - played.goes_on) * for_ever - played.log_prob.clamp(min=LEAST_LOG_PROB)

    def _steepness(self, played: Experience, expert: Experience) -> torch.Tensor:
        """Mean square deviation of the norm of ``f``'s gradient from 1, by the vectors between both sides, []."""
        share = torch.rand(len(played.goes_on), 1, generator=self._generator).to(played.goes_on.device)
        pairs = [(played.inputs, expert.inputs), (played.following, expert.following)]
        between = [torch.lerp(mine[0], theirs[0], share).requires_grad_() for mine, theirs in pairs]
        inputs, following = ([vectors, *mine[1:]] for vectors, (mine, _) in zip(between, pairs, strict=True))
        f = self._f(played._replace(inputs=inputs, following=following))
        slopes = torch.autograd.grad(f.sum(), between, create_graph=True)
        norm = torch.linalg.vector_norm(torch.cat(slopes, dim=1), dim=1)  # [n]
        penalty: torch.Tensor = (norm - 1.0).square().mean()
        return penalty

    def _f(self, some: Experience) -> torch.Tensor:
        """[n]."""
        g, h = self._both(some.inputs)
        _, h_after = self._both(some.following)
        return g + self.gamma * some.goes_on * h_after - h

    def _both(self, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        vectors, *others = (x.to(torch.float32) if x.is_floating_point() else x for x in inputs)
        seen = [vectors if self.normalizer is None else self.normalizer(vectors), *others]
        # [n] each: without action inputs, and with one output stream.
        g, h = self.networks(self.networks.see(seen), vectors.new_zeros(len(vectors), 0))[:, :, 0, 0]
        return g, h
