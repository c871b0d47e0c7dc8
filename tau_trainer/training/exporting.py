"""From a policy to the file that Unity loads."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from tau_trainer.export import Linear, Normalization, PolicyGraph, export_onnx
from tau_trainer.models.policy import ActResult, Policy
from tau_trainer.specs import BehaviorSpec, BoolArray, FloatArray


class _Exportable:
    """A policy as the exporter sees it: its network as arrays, and its actions to compare with."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def graph(self) -> PolicyGraph:
        """The network, with the action head split into mean and branches."""
        weights, actions = self._policy.weights, self._policy.spec.actions
        size = actions.continuous_size
        bounds = size + np.cumsum([0, *actions.discrete_branches])
        normalizer = weights.normalizer
        return PolicyGraph(
            observations=self._policy.spec.observations,
            actions=actions,
            body=[Linear(weight, bias) for weight, bias in weights.body],
            mu=Linear(weights.action_weight[:, :size], weights.action_bias[:size]) if size else None,
            log_sigma=weights.log_sigma if size else None,
            branches=[
                Linear(weights.action_weight[:, begin:end], weights.action_bias[begin:end])
                for begin, end in itertools.pairwise(bounds)
            ],
            normalization=None if normalizer is None else Normalization(normalizer.mean, normalizer.std),
        )

    def act(
        self,
        obs: tuple[FloatArray, ...],
        mask: BoolArray | None,
        generator: np.random.Generator,
        deterministic: bool = False,
    ) -> ActResult:
        """Actions for ``n`` agents."""
        return self._policy.act(obs, mask, generator, deterministic)


def export_policy(policy: Policy, spec: BehaviorSpec, path: Path) -> Path:
    """Write ``policy`` as ONNX, verified against it. Raises ExportError, NonFiniteError."""
    return export_onnx(_Exportable(policy), spec, path)
