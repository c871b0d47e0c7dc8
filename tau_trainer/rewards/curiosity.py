"""The intrinsic curiosity module (Pathak et al. 2017, arXiv 1705.05363).

Features of observations are learned such that the features before and after a step predict the action (the inverse
model), which leaves out parts of the world that actions do not affect. A forward model predicts the features after a
step from those before and the action; half its squared error is the reward (equation 6), at most ``1 / strength``, so 1
after multiplication with the strength. Before the first learning it pays nothing, because everything would be new.

Weights, sizes and limits are ML-Agents': both losses train the features, the forward loss has the weight ``BETA`` and
the inverse one the rest (equation 7), the hidden layer of either model has ``HIDDEN`` units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.models.distributions import branch_bounds
from tau_trainer.models.features import Features, Readout
from tau_trainer.rewards.learned import Experience, LearnedReward, Loss, flat_actions

if TYPE_CHECKING:
    from tau_trainer.settings.signals import CuriositySettings
    from tau_trainer.specs import BehaviorSpec

FORWARD_LOSS = "Losses/Curiosity Forward Loss"
INVERSE_LOSS = "Losses/Curiosity Inverse Loss"
BETA = 0.2
LOSS_FACTOR = 10.0
"""Factor on the whole loss. With Adam, it only decides how small a gradient counts as none."""
HIDDEN = 256


class Curiosity(LearnedReward):
    """Features, the inverse and the forward model.

    Args:
        spec: see :class:`LearnedReward`.
        settings: of the signal.
        generator: source of the initial weights.
    """

    learned: torch.Tensor
    """float32 []: 1 once it has learned, 0 before."""

    def __init__(self, spec: BehaviorSpec, settings: CuriositySettings, generator: torch.Generator) -> None:
        super().__init__()
        self._actions = spec.actions
        self._most = 1.0 / settings.strength if settings.strength > 0.0 else torch.inf
        self.register_buffer("learned", torch.zeros(()))
        self.features = Features(spec, settings.network_settings, generator)
        size = self.features.size
        actions = spec.actions.width
        self.inverse = Readout(2 * size, HIDDEN, actions, generator)
        self.forward_model = Readout(size + actions, HIDDEN, size, generator)

    @override
    def observe(self, some: Experience, *, expert: bool) -> None:
        self.features.take_in(some.inputs[0])

    @override
    def loss(self, played: Experience, expert: Experience | None) -> Loss:
        self.learned.fill_(1.0)
        before, after = self._features(played)
        forward = self._error(played, before, after).mean()
        inverse = self._inverse_loss(played, before, after)
        loss = LOSS_FACTOR * (BETA * forward + (1.0 - BETA) * inverse)
        return loss, {FORWARD_LOSS: forward, INVERSE_LOSS: inverse}

    @override
    def rewards(self, played: Experience) -> torch.Tensor:
        error = self._error(played, *self._features(played))
        return error.clamp(max=self._most) * self.learned

    def _features(self, some: Experience) -> tuple[torch.Tensor, torch.Tensor]:
        """Features before and after the steps, [n, H] each."""
        before = self.features.prepare(some.inputs)
        after = self.features.prepare(some.following)
        return self.features(before), self.features(after)

    def _error(self, some: Experience, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        """Error of the forward model, [n]."""
        actions = flat_actions(some, self._actions)
        predicted = self.forward_model(torch.cat((before, actions), dim=1))
        error: torch.Tensor = 0.5 * (after - predicted).square().sum(dim=1)
        return error

    def _inverse_loss(self, some: Experience, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        """Squared error of continuous actions plus cross entropy of every branch, []."""
        guess = self.inverse(torch.cat((before, after), dim=1))
        size = self._actions.continuous_size
        loss: torch.Tensor = (some.continuous - guess[:, :size]).square().sum(dim=1).mean()
        bounds = branch_bounds(self._actions.discrete_branches)
        for branch, (begin, end) in enumerate(bounds):
            logits = guess[:, size + begin : size + end]
            loss = loss + torch.nn.functional.cross_entropy(logits, some.discrete[:, branch])
        return loss
