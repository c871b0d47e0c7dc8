"""The acting side of a network: an immutable copy of its weights that turns observations into actions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.errors import NonFiniteError
from tau_trainer.models.distributions import LOG_SQRT_2PI
from tau_trainer.models.masks import MASKED_LOGIT, branch_bounds, effective_mask
from tau_trainer.models.normalizer import OBSERVATION_CLIP, NormalizerState
from tau_trainer.specs import Actions, BehaviorSpec, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from tau_trainer.export.graph import PolicyGraph

ACTION_LIMIT = 3.0
"""Raw samples beyond this are clipped; the environment gets the rest divided by it, so [-1, 1]."""

NUMPY_LIMIT = 200_000
"""Largest product of batch rows and weights of one layer that numpy computes: below it numpy's matrix products are
single-threaded and its smaller cost a call wins, above it torch obeys the number of threads that is asked for."""


def to_env(continuous: FloatArray) -> FloatArray:
    """Continuous actions as the environment gets them: ``clip(raw, -3, 3) / 3``, float32 [n, c]."""
    limited = np.maximum(continuous, np.float32(-ACTION_LIMIT))
    np.minimum(limited, np.float32(ACTION_LIMIT), out=limited)
    limited /= np.float32(ACTION_LIMIT)
    return limited


@dataclass(frozen=True, slots=True)
class PolicyWeights:
    """Everything that determines the actor, float32, ``[in, out]`` matrices (a layer is ``x @ W + b``).

    Attributes:
        normalizer: of the concatenated observations, or None: ``clip((x - mean) / std, -5, 5)``.
        body: weight [in, H] and bias [H] of each hidden layer; swish follows each.
        action_weight: [H, c + sum of branches]: columns of means, then logits of all branches.
        action_bias: [c + sum of branches].
        log_sigma: [c].
    """

    normalizer: NormalizerState | None
    body: tuple[tuple[FloatArray, FloatArray], ...]
    action_weight: FloatArray
    action_bias: FloatArray
    log_sigma: FloatArray

    def arrays(self) -> tuple[FloatArray, ...]:
        """All arrays, in the order of the computation."""
        own = (self.normalizer.mean, self.normalizer.std) if self.normalizer else ()
        layers = tuple(array for layer in self.body for array in layer)
        return (*own, *layers, self.action_weight, self.action_bias, self.log_sigma)


@dataclass(frozen=True, slots=True)
class ActResult:
    """What was chosen for ``n`` agents."""

    continuous: FloatArray
    """Raw sample, float32 [n, c]: what is learned from."""
    discrete: IntArray
    """Index in each branch, int32 [n, b]."""
    log_prob: FloatArray
    """Log-probability of each component, float32 [n, c + b]."""

    def to_env(self) -> Actions:
        """The actions as the environment gets them."""
        return Actions(to_env(self.continuous), self.discrete)


class Policy:
    """An actor with fixed weights; safe to use in any thread.

    Args:
        spec: the behavior with the sensors that the policy sees, in the order of ``obs``.
        weights: copied by nobody: hand over arrays that nobody writes to any more (they are made read-only).
        version: number of updates behind these weights.
    """

    def __init__(self, spec: BehaviorSpec, weights: PolicyWeights, version: int) -> None:
        for array in weights.arrays():
            array.flags.writeable = False
        self.spec = spec
        self.weights = weights
        self.version = version
        self._continuous_size = spec.actions.continuous_size
        self._bounds = branch_bounds(spec.actions.discrete_branches)
        self._sigma = np.exp(weights.log_sigma)
        self._log_prob_peak = -weights.log_sigma - np.float32(LOG_SQRT_2PI)
        # swish(z) = h + h * tanh(h) with h = z / 2, and tanh is numpy's fastest way there: halve the layers once.
        half = np.float32(0.5)
        self._half_body = tuple((weight * half, bias * half) for weight, bias in weights.body)
        matrices = [weight for weight, _ in weights.body] + [weights.action_weight]
        self._numpy_rows = NUMPY_LIMIT // max(1, max(matrix.size for matrix in matrices))
        self._torch_body: tuple[tuple[torch.Tensor, torch.Tensor], ...] | None = None
        self._torch_head: tuple[torch.Tensor, torch.Tensor] | None = None
        self._inverse_std = None if weights.normalizer is None else np.float32(1.0) / weights.normalizer.std

    def act(
        self,
        obs: Sequence[FloatArray],
        mask: BoolArray | None,
        rng: np.random.Generator,
        deterministic: bool = False,
    ) -> ActResult:
        """Choose an action for each of ``n`` agents.

        Args:
            obs: one float32 [n, *shape] for each sensor.
            mask: bool [n, sum of branches], True = forbidden; a branch that is forbidden as a whole counts as free.
            rng: source of exploration; untouched where ``deterministic``.
            deterministic: mean and most likely branch values instead of samples.

        Raises:
            NonFiniteError: an observation or an output is not a finite number.
        """
        inputs = flatten(obs)
        # The clip of a normaliser would hide an infinite observation, so inputs are looked at as well as outputs.
        outputs = self._outputs(inputs)
        if not (all_finite(inputs) and all_finite(outputs)):
            raise NonFiniteError(self._describe_non_finite(obs))
        size, rows = self._continuous_size, len(outputs)
        log_prob = np.empty((rows, self.spec.actions.components), np.float32)
        continuous = self._sample_continuous(outputs[:, :size], log_prob, None if deterministic else rng)
        discrete = np.empty((rows, len(self._bounds)), np.int32)
        if self._bounds:
            logits = outputs[:, size:]
            if mask is not None:
                blocked = effective_mask(mask, self.spec.actions.discrete_branches)
                logits = np.where(blocked, np.float32(MASKED_LOGIT), logits)
            self._sample_discrete(logits, discrete, log_prob, None if deterministic else rng)
        return ActResult(continuous, discrete, log_prob)

    def graph(self) -> PolicyGraph:
        """The network in the exporter's words; arrays are shared, not copied."""
        # Imported here: the exporter is a floor below, and only this method speaks its language.
        from tau_trainer.export.graph import Linear, Normalization, PolicyGraph

        weights, size = self.weights, self._continuous_size
        weight, bias = weights.action_weight, weights.action_bias
        return PolicyGraph(
            observations=self.spec.observations,
            actions=self.spec.actions,
            body=tuple(Linear(*layer) for layer in weights.body),
            mu=Linear(weight[:, :size], bias[:size]) if size else None,
            log_sigma=weights.log_sigma if size else None,
            branches=tuple(
                Linear(weight[:, size + begin : size + end], bias[size + begin : size + end])
                for begin, end in self._bounds
            ),
            normalization=Normalization(weights.normalizer.mean, weights.normalizer.std)
            if weights.normalizer
            else None,
        )

    def outputs(self, obs: Sequence[FloatArray]) -> FloatArray:
        """Means and unmasked logits, float32 [n, c + sum of branches], of one float32 [n, *shape] for each sensor."""
        return self._outputs(flatten(obs))

    def _outputs(self, hidden: FloatArray) -> FloatArray:
        if self.weights.normalizer is not None and self._inverse_std is not None:
            hidden = hidden - self.weights.normalizer.mean
            hidden *= self._inverse_std
            np.maximum(hidden, np.float32(-OBSERVATION_CLIP), out=hidden)
            np.minimum(hidden, np.float32(OBSERVATION_CLIP), out=hidden)
        return self._outputs_numpy(hidden) if len(hidden) <= self._numpy_rows else self._outputs_torch(hidden)

    def _outputs_numpy(self, hidden: FloatArray) -> FloatArray:
        # NaN and infinity go through without warnings: act() looks for them at the end.
        with np.errstate(invalid="ignore", over="ignore"):
            for weight, bias in self._half_body:
                half = hidden @ weight
                half += bias
                hidden = np.tanh(half)
                hidden *= half
                hidden += half
            outputs: FloatArray = hidden @ self.weights.action_weight
            outputs += self.weights.action_bias
        return outputs

    def _outputs_torch(self, observations: FloatArray) -> FloatArray:
        with torch.inference_mode():
            body, (head_weight, head_bias) = self._torch_weights()
            hidden = torch.from_numpy(np.ascontiguousarray(observations))
            for weight, bias in body:
                hidden = torch.nn.functional.silu(torch.addmm(bias, hidden, weight), inplace=True)
            outputs: FloatArray = torch.addmm(head_bias, hidden, head_weight).numpy()
        return outputs

    def _torch_weights(
        self,
    ) -> tuple[tuple[tuple[torch.Tensor, torch.Tensor], ...], tuple[torch.Tensor, torch.Tensor]]:
        if self._torch_body is None or self._torch_head is None:
            self._torch_body = tuple((torch.tensor(weight), torch.tensor(bias)) for weight, bias in self.weights.body)
            self._torch_head = torch.tensor(self.weights.action_weight), torch.tensor(self.weights.action_bias)
        return self._torch_body, self._torch_head

    def _sample_continuous(self, mean: FloatArray, log_prob: FloatArray, rng: np.random.Generator | None) -> FloatArray:
        """Draw from the Gaussians (the mean without ``rng``) and write the log-probabilities to their columns."""
        size = self._continuous_size
        if rng is None or size == 0:
            log_prob[:, :size] = self._log_prob_peak
            return np.ascontiguousarray(mean)
        noise = rng.standard_normal(mean.shape, dtype=np.float32)
        continuous = noise * self._sigma
        continuous += mean
        noise *= noise
        noise *= np.float32(-0.5)
        np.add(noise, self._log_prob_peak, out=log_prob[:, :size])
        return continuous

    def _sample_discrete(
        self, logits: FloatArray, discrete: IntArray, log_prob: FloatArray, rng: np.random.Generator | None
    ) -> None:
        """Choose in every branch by the Gumbel-max trick (the likeliest without ``rng``), log-probabilities too."""
        rows = np.arange(len(logits))
        for branch, (begin, end) in enumerate(self._bounds):
            shifted = logits[:, begin:end] - logits[:, begin:end].max(axis=1, keepdims=True)
            scores = shifted if rng is None else shifted + gumbel(rng, shifted.shape)
            choice = scores.argmax(axis=1)
            discrete[:, branch] = choice
            total = np.exp(shifted).sum(axis=1)
            log_prob[:, self._continuous_size + branch] = shifted[rows, choice] - np.log(total)

    def _describe_non_finite(self, obs: Sequence[FloatArray]) -> str:
        for sensor, values in zip(self.spec.observations, obs, strict=True):
            rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
            if len(rows):
                return (
                    f"Behavior '{self.spec.name}': observation '{sensor.name}' of agent row {rows[0]} is NaN or "
                    f"infinite ({len(rows)} of {len(values)} rows); make the engine send finite numbers."
                )
        return (
            f"Behavior '{self.spec.name}': the action outputs of policy version {self.version} are NaN or infinite; "
            "go back to an earlier checkpoint and lower the learning rate."
        )


def flatten(obs: Sequence[FloatArray]) -> FloatArray:
    """All sensors side by side: float32 [n, D] from one [n, *shape] each."""
    rows = [values if values.ndim == 2 else values.reshape(len(values), math.prod(values.shape[1:])) for values in obs]
    return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


def all_finite(values: FloatArray) -> bool:
    """Whether no element is NaN or infinite."""
    # A sum costs a fraction of looking at each number; only where it is not finite itself is that worth it.
    with np.errstate(invalid="ignore", over="ignore"):
        return math.isfinite(values.sum()) or bool(np.isfinite(values).all())


def gumbel(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Standard Gumbel noise, float32: ``argmax(logits + gumbel)`` is a draw from ``softmax(logits)``."""
    exponential = rng.standard_exponential(shape, dtype=np.float32)
    # An exponential of exactly 0 would be an infinite score.
    np.maximum(exponential, np.float32(1e-30), out=exponential)
    return -np.log(exponential)
