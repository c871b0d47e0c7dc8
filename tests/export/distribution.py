"""Whether a model's random outputs are distributed as the policy's."""

from __future__ import annotations

import math

import numpy as np
import onnxruntime

from tau_trainer.errors import ExportError
from tau_trainer.export.cases import Case, random_mask, random_observations
from tau_trainer.export.reference import Reference
from tau_trainer.export.session import run_case
from tau_trainer.models import tensor_names as names
from tau_trainer.models.heads import ACTION_LIMIT
from tau_trainer.specs import BehaviorSpec, Float64Array, FloatArray

SAMPLES = 4096
"""Draws behind each check."""

_SIGMAS = 6.0  # a right model fails a check of this width once in 5e8 draws; the draws are seeded besides


def check_distribution(
    session: onnxruntime.InferenceSession,
    reference: Reference,
    spec: BehaviorSpec,
    visible: tuple[int, ...],
    log_sigma: FloatArray,
    memory: int,
    rng: np.random.Generator,
) -> None:
    """One agent's observation, ``SAMPLES`` draws: mean and width of the Gaussian, frequencies of the branches.

    Raises:
        ExportError: names the output and by how much it is off beyond chance.
    """
    obs = tuple(np.repeat(values, SAMPLES, axis=0) for values in random_observations(spec, 1, 1.0, rng))
    mask = np.repeat(random_mask(spec, 1, 0.7, rng), SAMPLES, axis=0) if spec.actions.discrete_size else None
    state = np.zeros((SAMPLES, memory), np.float32) if memory else None
    outputs = run_case(session, spec, Case("many draws", obs, mask, state))
    expected = reference(tuple(obs[i][:1] for i in visible), None if mask is None else mask[:1])
    if spec.actions.continuous_size:
        mean, std = clipped_gaussian(expected.mu.value[0], np.exp(log_sigma.astype(np.float64)))
        sample = outputs[names.CONTINUOUS].astype(np.float64)
        slack = expected.continuous.error[0]
        off = np.abs(sample.mean(axis=0) - mean) - _SIGMAS * std / math.sqrt(SAMPLES) - slack
        wide = np.abs(sample.std(axis=0) - std) - 0.1 * std - 0.01 - slack
        for fault, what in ((off, "mean"), (wide, "width")):
            if not (fault <= 0).all():
                raise ExportError(f"The {what} of '{names.CONTINUOUS}' is off by {fault.max():.3g} beyond chance.")
    for branch, size in enumerate(spec.actions.discrete_branches):
        logits = expected.branches[branch].value[0]
        powers = np.exp(logits - logits.max())
        p = powers / powers.sum()
        frequency = np.bincount(outputs[names.DISCRETE][:, branch], minlength=size) / SAMPLES
        fault = np.abs(frequency - p) - _SIGMAS * (np.sqrt(p * (1 - p) / SAMPLES) + 1 / SAMPLES)
        if not (fault <= 0).all():
            raise ExportError(f"Frequencies of '{names.DISCRETE}' branch {branch} are off by {fault.max():.3g}.")


def clipped_gaussian(mu: Float64Array, sigma: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Mean and standard deviation of ``clip(N(mu, sigma), -3, 3) / 3``, by moments of the censored normal.

    Source: Greene, Econometric Analysis, theorem on moments of the censored normal variable, both sides.
    """
    low, high = (-ACTION_LIMIT - mu) / sigma, (ACTION_LIMIT - mu) / sigma
    cdf_low, cdf_high = _normal_cdf(low), _normal_cdf(high)
    pdf_low, pdf_high = _normal_pdf(low), _normal_pdf(high)
    inside, first = cdf_high - cdf_low, pdf_low - pdf_high
    second = inside + low * pdf_low - high * pdf_high
    edge = ACTION_LIMIT * ((1 - cdf_high) - cdf_low)
    mean = edge + mu * inside + sigma * first
    square = ACTION_LIMIT**2 * ((1 - cdf_high) + cdf_low)
    square = square + mu**2 * inside + 2 * mu * sigma * first + sigma**2 * second
    return mean / ACTION_LIMIT, np.sqrt(np.maximum(square - mean**2, 0.0)) / ACTION_LIMIT


def _normal_cdf(x: Float64Array) -> Float64Array:
    return np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in x])


def _normal_pdf(x: Float64Array) -> Float64Array:
    return np.asarray(np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi))
