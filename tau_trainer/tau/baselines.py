"""Baselines of the Tau task: scores that a policy must beat, and scores of supervised learners (tau.md 1.7).

Without the prompt: ``zeros`` (always 0), ``constant`` (the best fixed action for the scored rows themselves, so no
other constant is better), ``majority`` (the target of the most frequent training answer). Supervised, with the right
answers of the training rows: ``ridge`` (linear regression from prompt to target), ``nearest``
(the answer of the most similar training prompt), ``logistic`` (a linear classifier over the training answers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tau_trainer.errors import DataError
from tau_trainer.metrics import BaselineScore
from tau_trainer.specs import BoolArray, Float64Array, FloatArray
from tau_trainer.tau.dataset import SplitName, TauDataset, TauSplit
from tau_trainer.tau.decoding import nearest
from tau_trainer.tau.formulas import DEFAULT_THRESHOLD, REWARDS
from tau_trainer.tau.logistic import Classifier, fit_logistic
from tau_trainer.tau.profiles import Profile
from tau_trainer.tau.targets import targets

Act = Callable[[FloatArray], NDArray[np.floating[Any]]]
"""Deterministic policy: prompts float32 ``[n, 384]`` to actions ``[n, A]``."""

Predictor = Callable[[ArrayLike], Float64Array]
"""From prompts ``[n, 384]`` to outputs float64 ``[n, A]`` in [-1, 1]."""

PENALTIES = tuple(float(value) for value in 10.0 ** np.arange(-4.0, 3.25, 0.25))
"""Ridge penalties for cross-validation to choose from."""

BLIND = ("zeros", "constant", "majority")
"""Baselines that ignore the prompt."""


@dataclass(frozen=True, slots=True)
class ConfiguredFormula:
    """A reward formula with its options, hashable."""

    name: str
    threshold: float = DEFAULT_THRESHOLD
    columns: int | None = None

    def __call__(self, output: ArrayLike, target: ArrayLike) -> Float64Array:
        """Reward of each row, float64 ``[n]``."""
        return REWARDS[self.name](output, target, self.threshold, self.columns)


@lru_cache(maxsize=32)
def baselines(
    dataset: TauDataset, profile: Profile, formula: ConfiguredFormula, split: SplitName = "test"
) -> dict[str, BaselineScore]:
    """Scores of every baseline on the rows of ``split``, the blind ones first.

    Computed once for each combination of arguments; do not modify the result.

    Raises:
        DataError: the data set has no evaluation rows.
        SettingsError: the formula or its options do not exist.
    """
    rows = dataset.split(split)
    return {
        name: score(act, dataset, profile, formula, rows)
        for name, act in rivals(dataset, profile, formula, split).items()
    }


def rivals(
    dataset: TauDataset, profile: Profile, formula: ConfiguredFormula, split: SplitName = "test"
) -> dict[str, Predictor]:
    """Every baseline as a function; the best constant is for ``split``. Raises like :func:`baselines`."""
    require_evaluation(dataset)
    rows = dataset.split(split)
    if not len(rows):
        return {}
    wanted = targets(dataset, profile).astype(np.float64)[rows.answer_index]
    fitted = {"constant": _always(best_constant(wanted, formula))} | predictors(dataset, profile)
    return {name: fitted[name] for name in dict.fromkeys((*BLIND, *fitted))}


@lru_cache(maxsize=8)
def predictors(dataset: TauDataset, profile: Profile) -> dict[str, Predictor]:
    """The baselines that are fitted on the training rows, as functions."""
    centres = targets(dataset, profile).astype(np.float64)
    prompts, answers = dataset.train.prompts, dataset.train.answer_index
    return {
        "zeros": _always(np.zeros(profile.action_size)),
        "majority": _always(centres[int(np.bincount(answers).argmax())]),
        "ridge": fit_ridge(prompts, centres[answers]),
        "nearest": lambda rows: centres[answers[nearest(rows, prompts)]],  # unit vectors: cosine is distance
        "logistic": _answering(classifier(dataset), centres),
    }


@lru_cache(maxsize=8)
def classifier(dataset: TauDataset) -> Classifier:
    """The logistic classifier of a data set, which is the same for every profile and formula."""
    return fit_logistic(dataset.train.prompts, dataset.train.answer_index)


def strongest(scores: Mapping[str, BaselineScore]) -> str:
    """Name of the baseline with the highest accuracy; if several are equal, the one with the highest reward."""
    return max(scores, key=lambda name: (scores[name].accuracy, scores[name].reward))


def score(
    act: Act, dataset: TauDataset, profile: Profile, formula: ConfiguredFormula, split: TauSplit
) -> BaselineScore:
    """Mean reward and decoded accuracy of ``act`` on the rows of ``split``."""
    rewards = formula(act(split.prompts), targets(dataset, profile)[split.answer_index])
    return BaselineScore(float(rewards.mean()), float(right_rows(act, dataset, profile, split).mean()))


def right_rows(act: Act, dataset: TauDataset, profile: Profile, split: TauSplit) -> BoolArray:
    """Bool [n]: the rows of ``split`` for which ``act`` is right, decoded among the training answers."""
    centres = targets(dataset, profile)
    right: BoolArray = nearest(act(split.prompts), centres[: dataset.training_answers]) == split.answer_index
    return right


def best_constant(wanted: Float64Array, formula: ConfiguredFormula) -> Float64Array:
    """The action ``[A]`` with the highest mean reward over targets ``[n, A]``.

    Exact if the formula is a mean over components: the median minimizes the absolute error, and for ``binary`` the
    middle of the fullest window of width two thresholds matches most rows. For formulas that judge all components
    together, the candidates are these, the mean, zeros and every distinct target.
    """
    candidates = [np.median(wanted, axis=0), wanted.mean(axis=0), _fullest_windows(wanted, formula.threshold)]
    candidates.append(np.zeros(wanted.shape[1]))
    if formula.name in ("binary_strict", "binary01"):
        candidates += list(np.unique(wanted, axis=0))
    means = [float(formula(np.broadcast_to(value, wanted.shape), wanted).mean()) for value in candidates]
    best: Float64Array = candidates[int(np.argmax(means))]
    return best


def fit_ridge(prompts: ArrayLike, wanted: ArrayLike) -> Predictor:
    """Ridge regression with intercept; the penalty has the smallest leave-one-out error on the training rows.

    The leave-one-out residuals are exact and need one decomposition only: residual / (1 - leverage) (Hastie,
    Tibshirani, Friedman, *The Elements of Statistical Learning*, 7.10). Outputs are clipped to [-1, 1] as actions are.
    """
    inputs, outputs = np.asarray(prompts, np.float64), np.asarray(wanted, np.float64)
    input_mean, output_mean = inputs.mean(axis=0), outputs.mean(axis=0)
    left, singular, right = np.linalg.svd(inputs - input_mean, full_matrices=False)
    projected = left.T @ (outputs - output_mean)
    errors = [_leave_one_out(left, singular, projected, outputs - output_mean, penalty) for penalty in PENALTIES]
    penalty = PENALTIES[int(np.argmin(errors))]
    weights = right.T @ ((singular / (singular**2 + penalty))[:, None] * projected)

    def predict(rows: ArrayLike) -> Float64Array:
        values: Float64Array = np.clip((np.asarray(rows, np.float64) - input_mean) @ weights + output_mean, -1.0, 1.0)
        return values

    return predict


def require_evaluation(dataset: TauDataset) -> TauSplit:
    """The held-out split.

    Raises:
        DataError: it is empty.
    """
    if len(dataset.evaluation) == 0:
        raise DataError(
            f"The data file {dataset.source} has no usable row in `evaluation_data`, so nothing can be evaluated; "
            "add rows whose prompts are not in training, or train with --no-evaluate."
        )
    return dataset.evaluation


def _answering(classify: Classifier, centres: Float64Array) -> Predictor:
    return lambda rows: centres[classify(rows)]


def _always(action: Float64Array) -> Predictor:
    return lambda rows: np.repeat(action[None, :], len(np.asarray(rows)), axis=0)


def _leave_one_out(
    left: Float64Array, singular: Float64Array, projected: Float64Array, centred: Float64Array, penalty: float
) -> float:
    shrink = singular**2 / (singular**2 + penalty)
    residual = centred - left @ (shrink[:, None] * projected)
    leverage = (left**2) @ shrink + 1.0 / len(left)
    return float(np.mean((residual / np.maximum(1.0 - leverage, 1e-9)[:, None]) ** 2))


def _fullest_windows(wanted: Float64Array, threshold: float) -> Float64Array:
    """For each component the middle of an open window of width ``2 * threshold`` that holds most values, ``[A]``."""
    ordered = np.sort(wanted, axis=0)
    middles = np.empty(wanted.shape[1])
    for component, column in enumerate(ordered.T):
        ends = np.searchsorted(column, column + 2.0 * threshold, side="left")
        first = int((ends - np.arange(len(column))).argmax())
        middles[component] = 0.5 * (column[first] + column[ends[first] - 1])
    clipped: Float64Array = np.clip(middles, -1.0, 1.0)
    return clipped
