"""Generative adversarial imitation learning (Ho and Ermon 2016, arXiv 1606.03476), with ML-Agents' numbers.

A discriminator learns to separate the expert's observations from the policy's (with ``use_actions``, also actions and
real ends): ``D`` is near 1 for the expert. The reward is ``-log(1 - D)``, which is never negative and at most 16, the
negative logarithm of ``EPSILON``. The norm of its gradient between both sides is kept near 1 (Gulrajani et al. 2017,
arXiv 1704.00028).

``use_vail`` adds a bottleneck (Peng et al. 2018, arXiv 1810.00821): the features become the mean of a Gaussian code,
and the information in the code is kept near ``INFORMATION`` by a factor beta that grows as long as there is more
(equations 8 and 10, dual gradient descent).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.models.features import Features, Readout
from tau_trainer.rewards.learned import Experience, LearnedReward, Loss, flat_actions

if TYPE_CHECKING:
    from tau_trainer.settings.signals import GAILSettings
    from tau_trainer.specs import BehaviorSpec

LOSS = "Losses/GAIL Loss"
KL_LOSS = "Losses/GAIL KL Loss"
EXPERT_ESTIMATE = "Policy/GAIL Expert Estimate"
POLICY_ESTIMATE = "Policy/GAIL Policy Estimate"
PENALTY = "Policy/GAIL Grad Mag Loss"
BETA = "Policy/GAIL Beta"
GRADIENT_PENALTY = 10.0
EPSILON = 1e-7
ESTIMATE_GAIN = 0.2
CODE_GAIN = 0.1
"""Factors on the initial weights of the layers for D and for the code's mean."""
CODE_SIZE = 128
INFORMATION = 0.5
"""Nats that a code may hold, for the expert and the policy together."""
BETA_RATE = 5e-4
"""Growth of beta for each nat above that, in every step; it starts at 0, and never falls below 0."""


class GAIL(LearnedReward):
    """The discriminator.

    Args:
        spec: see :class:`LearnedReward`.
        settings: of the signal.
        generator: source of the initial weights, and of all later random numbers.
    """

    beta: torch.Tensor
    """float32 []."""

    def __init__(self, spec: BehaviorSpec, settings: GAILSettings, generator: torch.Generator) -> None:
        super().__init__()
        self._actions = spec.actions if settings.use_actions else None
        self._generator = generator
        beside = spec.actions.width + 1 if settings.use_actions else 0
        self.features = Features(spec, settings.network_settings, generator, beside)
        self.code: Readout | None = None
        if settings.use_vail:
            self.code = Readout(self.features.size, 0, CODE_SIZE, generator, CODE_GAIN)
            self.sigma = torch.nn.Parameter(torch.ones(CODE_SIZE))
            self.register_buffer("beta", torch.zeros(()))
        size = self.features.size if self.code is None else CODE_SIZE
        self.estimate = Readout(size, 0, 1, generator, ESTIMATE_GAIN)

    @override
    def observe(self, some: Experience, *, expert: bool) -> None:
        self.features.take_in(some.inputs[0])

    @override
    def loss(self, played: Experience, expert: Experience | None) -> Loss:
        assert expert is not None
        of_own, of_expert = self._seen(played), self._seen(expert)
        logits, code = self._logits(of_own, noisy=True)
        expert_logits, expert_code = self._logits(of_expert, noisy=True)
        # -log(1 - D) of the policy and -log D of the expert
        loss = torch.nn.functional.softplus(logits).mean()
        loss = loss + torch.nn.functional.softplus(-expert_logits).mean()
        penalty = GRADIENT_PENALTY * self._steepness(of_own, of_expert)
        statistics = {
            LOSS: loss,
            EXPERT_ESTIMATE: expert_logits.sigmoid().mean(),
            POLICY_ESTIMATE: logits.sigmoid().mean(),
            PENALTY: penalty,
        }
        if self.code is None:
            return loss + penalty, statistics
        # KL of both codes' Gaussians from the standard one, summed: KL = (mu² + sigma² - 1 - log sigma²) / 2 each.
        variance = self.sigma.square()
        means = 0.5 * (code.square() + expert_code.square())
        kl = (means + variance - 1.0 - variance.log()).sum(dim=1).mean()
        surplus, beta = kl - INFORMATION, self.beta.clone()
        with torch.no_grad():
            self.beta.add_(BETA_RATE * surplus).clamp_(min=0.0)
        return loss + penalty + beta * surplus, statistics | {KL_LOSS: kl, BETA: self.beta.clone()}

    @override
    def rewards(self, played: Experience) -> torch.Tensor:
        estimate = self._logits(self._seen(played), noisy=False)[0].sigmoid()
        return -torch.log(1.0 - estimate * (1.0 - EPSILON))

    def _seen(self, some: Experience) -> list[torch.Tensor]:
        """Its inputs as floats: observations, and last the actions and whether the episode ended."""
        seen = self.features.prepare(some.inputs)
        if self._actions is None:
            return seen
        ended = 1.0 - some.goes_on[:, None]
        done = flat_actions(some, self._actions)
        return [*seen, torch.cat((done, ended), dim=1)]

    def _logits(self, seen: list[torch.Tensor], *, noisy: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The logit of D, [n]; and the mean of the code [n, CODE_SIZE], or of length 0."""
        beside: torch.Tensor | None = None
        if self._actions is not None:
            *seen, beside = seen
        x = self.features(seen, beside)
        mean = x[:0]
        if self.code is not None:
            x = mean = self.code(x)
            if noisy:
                x = mean + self.normal(mean) * self.sigma
        return self.estimate(x)[:, 0], mean

    def _steepness(self, played: list[torch.Tensor], expert: list[torch.Tensor]) -> torch.Tensor:
        """Mean square deviation of the norm of D's gradient from 1, by all inputs between both sides, []."""
        between = [
            torch.lerp(theirs, mine, self.uniform(mine)).requires_grad_()
            for mine, theirs in zip(played, expert, strict=True)
        ]
        estimate = self._logits(between, noisy=True)[0].sigmoid()
        sides = [x for x in between if x.numel()]
        slopes = torch.autograd.grad(estimate.sum(), sides, create_graph=True)
        squares = estimate.new_full((), EPSILON)
        for slope in slopes:
            squares = squares + slope.flatten(1).square().sum(dim=1)
        penalty: torch.Tensor = (squares.sqrt() - 1.0).square().mean()
        return penalty

    def uniform(self, like: torch.Tensor) -> torch.Tensor:
        """Numbers in [0, 1) of this shape."""
        return torch.rand(like.shape, generator=self._generator).to(like.device)

    def normal(self, like: torch.Tensor) -> torch.Tensor:
        """Standard normal numbers of this shape."""
        return torch.randn(like.shape, generator=self._generator).to(like.device)
