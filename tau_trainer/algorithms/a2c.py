"""Advantage actor-critic (Mnih et al. 2016) with WarpDrive's coefficients: every decision is learned from once.

The loss is ``- mean(A log pi) + c_v mean((V - R)²) - c_e H``; all else is PPO's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from typing_extensions import override

from tau_trainer.algorithms.losses import Objective, policy_gradient
from tau_trainer.algorithms.minibatches import Coefficients, Rows, Samples
from tau_trainer.algorithms.ppo import PPO, PolicyUpdate
from tau_trainer.algorithms.schedules import BETA_FLOOR, scheduled
from tau_trainer.metrics import keys
from tau_trainer.settings.hyperparameters import A2CHyperparameters


class A2CUpdate(PolicyUpdate):
    """One pass over all decisions, by default in a single gradient step."""

    @property
    def _a2c(self) -> A2CHyperparameters:
        return A2CHyperparameters.of(self.hyperparameters)

    @cached_property
    @override
    def objective(self) -> Objective:
        return Objective(policy_gradient, (self._a2c.vf_loss_coeff,))

    @override
    def coefficients(self, progress: float) -> tuple[float, float]:
        a2c, steps = self._a2c, self._max_steps
        beta = scheduled(a2c.entropy_coeff, a2c.entropy_coeff_schedule, progress, BETA_FLOOR, steps)
        return 0.0, beta  # no ratio is clipped

    @override
    def as_metrics(self, hyper: Coefficients) -> dict[str, float]:
        return {keys.LEARNING_RATE: hyper.learning_rate, keys.POLICY_BETA: hyper.beta}

    @override
    def _prepared(self, samples: Samples, rows: Rows) -> Samples:
        samples = super()._prepared(samples, rows)
        if self._a2c.normalize_return:
            samples = samples._replace(returns=rows.normalized(samples.returns))
        return samples

    @override
    def _epoch(self, samples: Samples, rows: Rows, minibatches: int, batch: int) -> tuple[Samples, Sequence[int]]:
        if batch == rows.count:  # a single minibatch needs no order
            return samples, [len(samples.returns)]
        # An incomplete last minibatch is left out.
        return rows.minibatches(samples, rows.order(samples.begins)[: minibatches * batch], batch)

    @override
    def _losses(self, epochs: torch.Tensor) -> dict[str, torch.Tensor]:
        unknown = keys.APPROXIMATE_KL, keys.CLIP_FRACTION  # nothing is clipped
        return {name: value for name, value in super()._losses(epochs).items() if name not in unknown}


class A2C(PPO):
    """The learner of one behavior."""

    name = "a2c"
    starts_from = ("ppo",)
    update_kind = A2CUpdate

    @cached_property
    @override
    def rollout_size(self) -> int:
        hyper = A2CHyperparameters.of(self.settings.hyperparameters)
        return hyper.rollout_size if self.copies is None else hyper.gathered(self.copies.decisions)
