"""The target output of the policy for each answer (tau.md 1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.errors import SettingsError
from tau_trainer.specs import Float64Array, FloatArray, IntArray
from tau_trainer.tau.dataset import TauDataset
from tau_trainer.tau.decoding import nearest
from tau_trainer.tau.profiles import EMBEDDING_SIZE, Profile

_SAME = 1e-9
"""Relative difference below which two loadings count as equal."""


@dataclass(frozen=True, slots=True)
class TokenProjection:
    """Standardize, project on principal components, scale to [-1, 1]: Tau's ``optimizer.py``, fitted once.

    The sign of a principal component is arbitrary; here its largest loading (by absolute value) is positive, so that
    the same vocabulary gives the same targets on every machine.
    """

    mean: Float64Array
    """``[d]``: mean of each embedding column over the vocabulary."""
    scale: Float64Array
    """``[d]``: standard deviation of each column (1 if a column is constant)."""
    axes: Float64Array
    """``[A, d]``: principal axes, unit length; zero if the vocabulary spans fewer dimensions."""
    low: Float64Array
    """``[A]``: smallest projection in the vocabulary."""
    high: Float64Array
    """``[A]``: largest projection in the vocabulary."""

    @staticmethod
    def fit(vectors: ArrayLike, components: int) -> TokenProjection:
        """Fit to vocabulary embeddings ``[K, d]``, K >= 1."""
        data = np.asarray(vectors, np.float64)
        mean, scale = data.mean(axis=0), data.std(axis=0)
        scale = np.where(scale > 1e-12, scale, 1.0)
        standard = (data - mean) / scale
        axes = _principal_axes(standard, components)
        projected = standard @ axes.T
        return TokenProjection(mean, scale, axes, projected.min(axis=0), projected.max(axis=0))

    def apply(self, vectors: ArrayLike) -> Float64Array:
        """Targets of embeddings ``[n, d]``: float64 ``[n, A]`` in [-1, 1].

        Embeddings outside the fitted range are clipped to it, because no action can reach further.
        """
        projected = ((np.asarray(vectors, np.float64) - self.mean) / self.scale) @ self.axes.T
        span = self.high - self.low
        unit = 2.0 * (projected - self.low) / np.where(span > 1e-9, span, 1.0) - 1.0
        clipped: Float64Array = np.clip(np.where(span > 1e-9, unit, 0.0), -1.0, 1.0)
        return clipped


@lru_cache(maxsize=32)
def targets(dataset: TauDataset, profile: Profile) -> FloatArray:
    """Target of every answer in the vocabulary: float32 ``[K, A]``, read-only, computed once for each data set.

    ``tau384``: the answers' embeddings. ``tau3``: their three principal components in [-1, 1], fitted on the answers
    that occur in training, so that held-out rows have no influence. For profiles like ``2x16``, see :func:`places`.
    """
    if profile.levels is not None:
        return places(dataset, profile.action_size, profile.levels)
    if profile.action_size == EMBEDDING_SIZE:
        return dataset.answer_vectors
    projection = TokenProjection.fit(dataset.answer_vectors[: dataset.training_answers], profile.action_size)
    result = projection.apply(dataset.answer_vectors).astype(np.float32)
    result.setflags(write=False)
    return result


def places(dataset: TauDataset, components: int, levels: int) -> FloatArray:
    """A point for each answer on a grid of ``levels`` values from -1 to 1 per component: float32 ``[K, A]``, read-only.

    Training answers are sorted by their first principal component and divided evenly among the levels of the first
    number; those of each level by the second component among the levels of the second number, and so on. Every training
    answer has its own point, and similar answers are close. Other answers get the point of the most similar one.

    Raises:
        SettingsError: there are more training answers than points.
    """
    known = dataset.answer_vectors[: dataset.training_answers]
    if len(known) > levels**components:
        raise SettingsError(
            f"The data file {dataset.source} has {len(known)} answers in training, but the profile "
            f"{components}x{levels} has places for {levels**components}; leave tau.profile out, or take more levels."
        )
    order = TokenProjection.fit(known, components).apply(known)
    level = np.zeros((len(known), components), np.int32)
    _share_out(np.arange(len(known), dtype=np.int32), order, level, 0, levels)
    alike = nearest(dataset.answer_vectors, known)  # a known answer is most like itself
    result = (2.0 * level[alike] / (levels - 1) - 1.0).astype(np.float32)
    result.setflags(write=False)
    return result


def _share_out(rows: IntArray, order: Float64Array, level: IntArray, component: int, levels: int) -> None:
    """Write the levels of the answers ``rows`` into ``level``, from ``component`` on."""
    if component == order.shape[1]:
        return
    ranked = rows[np.argsort(order[rows, component], kind="stable")]
    # Spread groups of equal size over all levels; the next components distinguish the answers within a group.
    groups = min(levels, len(ranked))
    for group, part in enumerate(np.array_split(ranked, groups)):
        level[part, component] = round(group * (levels - 1) / max(groups - 1, 1))
        _share_out(part, order, level, component + 1, levels)


def _principal_axes(standard: Float64Array, components: int) -> Float64Array:
    """First ``components`` right singular vectors with the sign convention above; zero rows beyond the rank."""
    _, singular, rows = np.linalg.svd(standard, full_matrices=False)
    axes = np.zeros((components, standard.shape[1]))
    usable = min(components, int((singular > 1e-9 * max(float(singular[0]), 1e-300)).sum()))
    top = rows[:usable]
    size = np.abs(top)
    # The first of those that are equal up to rounding; with two answers, all of them are.
    peak = (size >= size.max(axis=1, keepdims=True) * (1.0 - _SAME)).argmax(axis=1)
    axes[:usable] = top * np.sign(top[np.arange(usable), peak])[:, None]
    return axes
