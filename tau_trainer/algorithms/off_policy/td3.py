"""Twin delayed deep deterministic policy gradients (Fujimoto et al. 2018): DDPG with three additions.

- Two Qs, of which the smaller one teaches both (clipped double Q-learning).
- The actor and all targets move only with every ``policy_delay``-th step of the Qs.
- Clipped noise on the target's actions: similar actions get similar values (target policy smoothing).
"""

from __future__ import annotations

import torch
from typing_extensions import override

from tau_trainer.algorithms.base import Setup
from tau_trainer.algorithms.off_policy.ddpg import DDPG
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.models.soft_actor_critic import TWINS
from tau_trainer.settings import TD3Hyperparameters


class TD3(DDPG):
    """The learner of one behavior; see :class:`DDPG`."""

    name = "td3"
    estimates = TWINS

    def __init__(self, setup: Setup, *, fused: bool = True) -> None:
        hyper = TD3Hyperparameters.of(setup.settings.hyperparameters)
        self.delay = hyper.policy_delay
        super().__init__(setup, fused=fused)
        self._deviation, self._limit = hyper.target_policy_noise, hyper.target_noise_clip

    @override
    def noise(self, drawn: Transitions) -> torch.Tensor:
        # [1, n, c], in units of actions.
        return self.normal(1, *drawn.continuous.shape).mul_(self._deviation).clamp_(-self._limit, self._limit)
