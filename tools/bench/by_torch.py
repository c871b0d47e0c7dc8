"""PPO with torch's own differentiation throughout, to compare the hand-written minibatches with."""

from __future__ import annotations

from tau_trainer.algorithms.ppo import PPO, PolicyUpdate


class UpdateByTorch(PolicyUpdate):
    """Differentiates plain networks too."""

    fuses = False


class PPOByTorch(PPO):
    """The same numbers as PPO's, more slowly."""

    update_kind = UpdateByTorch
