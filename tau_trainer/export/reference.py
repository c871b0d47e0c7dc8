"""The same network in numpy and float64, with a bound on what float32 may make of it.

An exported model is compared with this. The bound follows every layer: a layer of float32 arithmetic adds at most
a small multiple of the sum of its terms' absolute values, and hands on the errors of the layer before as
independent ones (root of summed squares), so that it neither hides a wrong weight nor fails a right model when
observations or weights are large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tau_trainer.export.graph import ACTION_LIMIT, MASKED_LOGIT, NORMALIZED_LIMIT, Linear, PolicyGraph
from tau_trainer.specs import BoolArray, FloatArray

Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]

ROUNDING = 1e-6
"""Error of one float32 operation relative to the sum of its terms' absolute values: 16 times machine precision."""

_SWISH_SLOPE = 1.1  # largest derivative of x * sigmoid(x)


class Value(NamedTuple):
    """Numbers and how far float32 arithmetic may be away from them, both [n, size]."""

    value: Float64Array
    error: Float64Array


@dataclass(frozen=True)
class ReferenceOutput:
    """What the network says about ``n`` agents."""

    mu: Value
    """[n, continuous_size]: the Gaussian's mean before clipping."""
    branches: tuple[Value, ...]
    """Masked logits, [n, branch size] per branch."""

    @property
    def continuous(self) -> Value:
        """[n, continuous_size]: deterministic actions, ``clip(mu, -3, 3) / 3``."""
        clipped = np.clip(self.mu.value, -ACTION_LIMIT, ACTION_LIMIT)
        return Value(clipped / ACTION_LIMIT, self.mu.error / ACTION_LIMIT + ROUNDING)

    def best(self) -> Int64Array:
        """int64 [n, branches]: the most likely action of each branch."""
        columns = [branch.value.argmax(axis=1) for branch in self.branches]
        return np.stack(columns, axis=1) if columns else np.zeros((len(self.mu.value), 0), np.int64)

    def probabilities(self, branch: int) -> Float64Array:
        """[n, branch size]: softmax of the masked logits."""
        logits = self.branches[branch].value
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)


def forward(graph: PolicyGraph, obs: Sequence[FloatArray], forbidden: BoolArray | None = None) -> ReferenceOutput:
    """Runs ``graph`` on observations of ``n`` agents.

    Args:
        graph: the policy.
        obs: one float32 [n, *shape] for every sensor of ``graph.observations``.
        forbidden: bool [n, sum of branches], True = forbidden; None allows everything.
    """
    n = len(obs[0])
    features = _input(graph, obs)
    for layer in graph.body:
        features = _swish(_apply(layer, features))
    nothing = Value(np.zeros((n, 0)), np.zeros((n, 0)))
    mu = _apply(graph.mu, features) if graph.mu is not None else nothing
    branches = [_apply(head, features) for head in graph.branches]
    if forbidden is not None:
        branches = [
            Value(np.where(forbidden[:, part], MASKED_LOGIT, branch.value), branch.error)
            for branch, part in zip(branches, graph.branch_slices, strict=True)
        ]
    return ReferenceOutput(mu, tuple(branches))


def _input(graph: PolicyGraph, obs: Sequence[FloatArray]) -> Value:
    n = len(obs[0])
    x = np.concatenate([obs[i].reshape(n, -1) for i in graph.sensors], axis=1).astype(np.float64)
    if graph.normalization is None:
        return Value(x, np.zeros_like(x))
    mean, std = (values.astype(np.float64) for values in graph.normalization)
    error = ROUNDING * (np.abs(x) + np.abs(mean)) / std
    return Value(np.clip((x - mean) / std, -NORMALIZED_LIMIT, NORMALIZED_LIMIT), error)


def _apply(layer: Linear, x: Value) -> Value:
    weight, bias = layer.weight.astype(np.float64), layer.bias.astype(np.float64)
    terms = np.abs(x.value) @ np.abs(weight) + np.abs(bias)
    return Value(x.value @ weight + bias, np.sqrt(x.error**2 @ weight**2) + ROUNDING * terms)


def _swish(x: Value) -> Value:
    value = x.value * 0.5 * (1.0 + np.tanh(0.5 * x.value))
    return Value(value, _SWISH_SLOPE * x.error + ROUNDING * np.abs(x.value))
