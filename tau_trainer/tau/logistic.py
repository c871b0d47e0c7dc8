"""Multinomial logistic regression in numpy: predicts the answer of a prompt, learned from the right answers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.specs import FloatArray, IntArray

Classifier = Callable[[ArrayLike], IntArray]
"""From prompts ``[n, d]`` to classes int32 ``[n]``."""

STRENGTHS = (1.0, 0.1, 0.01, 0.001)
"""Weights of the L2 penalty for cross-validation to choose from, strongest first."""
STEPS = 16
"""Accelerated steps for each strength; each strength starts with the weights of the previous one."""
FOLDS = 4
MOST_COMPARED = 1000
"""Maximum rows to compare strengths on: a strength that suits this number of rows also suits more."""


def fit_logistic(prompts: ArrayLike, classes: IntArray) -> Classifier:
    """Fit to prompts ``[n, d]`` and their classes ``[n]``.

    The strength is the one with the most right answers in cross-validation; if several are equal, the strongest.
    """
    raw = np.asarray(prompts, np.float32)
    mean, labels = raw.mean(axis=0), np.unique(classes)
    index: IntArray = np.searchsorted(labels, classes).astype(np.int32)
    inputs = _with_one(raw - mean)
    # In the eigenvectors' coordinates the bound on the curvature is diagonal, and it also holds for parts of the rows.
    squares, axes = np.linalg.eigh((inputs.T @ inputs).astype(np.float64))
    kept = squares > 1e-7 * squares[-1]
    curvature = 0.5 * squares[kept].astype(np.float32)[:, None]
    rotation = axes[:, kept].astype(np.float32)
    rotated = inputs @ rotation
    compared = np.random.default_rng(0).permutation(len(index))[:MOST_COMPARED]
    right = _cross_validated(rotated[compared], index[compared], len(labels), curvature)
    path = _path(rotated, index, len(labels), curvature, STRENGTHS[: int(np.argmax(right)) + 1])
    weights = rotation @ path[-1]

    def classify(rows: ArrayLike) -> IntArray:
        scores = _with_one(np.asarray(rows, np.float32) - mean) @ weights
        found: IntArray = labels[scores.argmax(axis=1)].astype(np.int32)
        return found

    return classify


def _with_one(inputs: FloatArray) -> FloatArray:
    return np.concatenate([inputs, np.ones((len(inputs), 1), np.float32)], axis=1)


def _cross_validated(inputs: FloatArray, index: IntArray, classes: int, curvature: FloatArray) -> IntArray:
    """Right answers for each strength, over folds that contain every class as evenly as possible."""
    fold = np.empty(len(index), np.int64)
    fold[np.argsort(index, kind="stable")] = np.arange(len(index)) % FOLDS
    right = np.zeros(len(STRENGTHS), np.int32)
    for held_out in (fold == number for number in range(min(FOLDS, len(index)))):
        for position, weights in enumerate(_path(inputs[~held_out], index[~held_out], classes, curvature, STRENGTHS)):
            right[position] += ((inputs[held_out] @ weights).argmax(axis=1) == index[held_out]).sum()
    return right


def _path(
    inputs: FloatArray, index: IntArray, classes: int, curvature: FloatArray, strengths: tuple[float, ...]
) -> list[FloatArray]:
    """Weights ``[r, classes]`` for each strength.

    The Hessian of the loss is nowhere above half of ``inputs' inputs`` (Boehning 1992, *Multinomial logistic regression
    algorithm*), which is ``curvature`` ``[r, 1]`` here, so steps by the inverse of that need no line search; momentum
    (Nesterov) with restarts (O'Donoghue and Candes 2015) makes them fast.
    """
    weights, found = np.zeros((inputs.shape[1], classes), np.float32), []
    for strength in strengths:
        ahead, momentum = weights, 1.0
        for _ in range(STEPS):
            gradient = inputs.T @ _excess(inputs @ ahead, index) + np.float32(strength) * ahead
            after = ahead - gradient / (curvature + np.float32(strength))
            step = after - weights
            if float(((ahead - after) * step).sum()) > 0.0:
                momentum = 1.0
            grown = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            ahead = after + np.float32((momentum - 1.0) / grown) * step
            weights, momentum = after, grown
        found.append(weights)
    return found


def _excess(scores: FloatArray, index: IntArray) -> FloatArray:
    """Probabilities minus the truth, ``[n, classes]``."""
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    scores[np.arange(len(index)), index] -= 1.0
    return scores
