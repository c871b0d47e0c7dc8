"""From a policy's output back to an answer: the nearest target (tau.md 5.6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.errors import NonFiniteError
from tau_trainer.specs import IntArray


def nearest(output: ArrayLike, targets: ArrayLike) -> IntArray:
    """Index of the target with the smallest Euclidean distance to each output; the lowest index if several tie.

    Args:
        output: ``[n, A]``.
        targets: ``[K, A]``, K >= 1.

    Returns:
        int32 ``[n]``, values in ``0 .. K-1``.

    Raises:
        NonFiniteError: an output is NaN or infinite (it would otherwise be read as some answer).
        ValueError: the widths differ or there is no target.
    """
    points = np.asarray(output, np.float64)
    centres = np.asarray(targets, np.float64)
    if points.ndim != 2 or centres.ndim != 2 or points.shape[1] != centres.shape[1] or len(centres) == 0:
        raise ValueError(f"output {points.shape} must be [n, A] and targets {centres.shape} [K, A] with K >= 1")
    if not np.isfinite(points).all():
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise NonFiniteError(f"The policy's output for row {row + 1} is not finite, so no answer can be read from it.")
    # |o - t|^2 without |o|^2, which is the same for every target.
    scores = np.einsum("ka,ka->k", centres, centres)[None, :] - 2.0 * (points @ centres.T)
    best: IntArray = scores.argmin(axis=1).astype(np.int32)
    return best
