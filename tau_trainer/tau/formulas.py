"""Tau's reward formulas over an output and a target, one of each (tau.md 1.3, 5.2).

All of them take ``output`` and ``target`` as ``[n, d]`` arrays of any float type, compare in float64 as Tau does,
use only the first ``columns`` components (``None`` = all ``d``), and return float64 ``[n]``. "Within" means an
absolute error strictly below ``threshold``. Nothing is clipped here: the environment clips actions to [-1, 1] before.

Tau's historical ``2 * sigmoid(error) - 1`` grows with the error and so pays for being wrong; it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.errors import SettingsError
from tau_trainer.specs import BoolArray, Float64Array
from tau_trainer.tau.profiles import named_by_number

DEFAULT_THRESHOLD = 0.1
"""Absolute error below which a component is correct (Tau's constant)."""


ByComponent = Callable[[Float64Array, float], Float64Array]
"""From absolute errors ``[n, d]`` and the threshold to the reward of each component, float64 ``[n, d]``."""


@dataclass(frozen=True, slots=True)
class RewardFormula:
    """Reward of each row of outputs, given targets."""

    of_errors: Callable[[Float64Array, float], Float64Array]
    """From absolute errors ``[n, d]`` and the threshold to float64 ``[n]``."""
    by_component: ByComponent | None = None
    """The rewards before they are averaged; None if all components are judged together."""

    def __call__(
        self,
        output: ArrayLike,
        target: ArrayLike,
        threshold: float = DEFAULT_THRESHOLD,
        columns: int | None = None,
    ) -> Float64Array:
        """``[n, d]``, ``[n, d]`` to float64 ``[n]``. Raises SettingsError for a bad ``threshold`` or ``columns``."""
        return self.of_errors(_errors(output, target, columns), _checked(threshold))

    def components(
        self,
        output: ArrayLike,
        target: ArrayLike,
        threshold: float = DEFAULT_THRESHOLD,
        columns: int | None = None,
    ) -> Float64Array:
        """The reward of each component: float64 ``[n, d]``; components from ``columns`` on get 0.

        The mean over the first ``columns`` is the formula's own value. Raises SettingsError if ``by_component`` is
        None.
        """
        if self.by_component is None:
            known = ", ".join(f"`{name}`" for name, formula in REWARDS.items() if formula.by_component)
            raise SettingsError(
                "The reward formula judges all components together, so it has no reward per component; "
                f"set `credit: aggregate` or choose one of {known}."
            )
        rewards = self.by_component(_errors(output, target, None), _checked(threshold))
        rewards[:, checked_columns(columns, rewards.shape[1]) :] = 0.0
        return rewards


REWARDS: dict[str, RewardFormula] = {
    # Mean over components of +1 (within) or -1 (not). Range [-1, 1].
    "binary": RewardFormula(
        lambda error, threshold: 2.0 * _row_mean(error < threshold) - 1.0,
        lambda error, threshold: np.where(error < threshold, 1.0, -1.0),
    ),
    # Minus the mean absolute error. Range (-inf, 0].
    "difference": RewardFormula(lambda error, threshold: -_row_mean(error), lambda error, threshold: -error),
    # Mean over components of 1 - 2 * error. Range [-3, 1] for values in [-1, 1].
    "incremental": RewardFormula(
        lambda error, threshold: 1.0 - 2.0 * _row_mean(error), lambda error, threshold: 1.0 - 2.0 * error
    ),
    # +1 if every component is within, else -1.
    "binary_strict": RewardFormula(lambda error, threshold: 2.0 * _all_within(error, threshold) - 1.0),
    # 1 if every component is within, else 0: the wording of Tau's announcement.
    "binary01": RewardFormula(lambda error, threshold: _all_within(error, threshold)),
}
"""Formulas by name; the position is the value of the environment parameter ``reward_type`` (tau.md 5.4)."""


def reward_name_by_index(index: float) -> str:
    """Name of the formula for the environment parameter ``reward_type``. Raises SettingsError."""
    return named_by_number("reward_type", index, REWARDS, "formula")


def _errors(output: ArrayLike, target: ArrayLike, columns: int | None) -> Float64Array:
    """Absolute errors of the first ``columns`` components, float64 ``[n, columns]``."""
    left = np.asarray(output, np.float64)
    right = np.asarray(target, np.float64)
    if left.ndim != 2 or left.shape != right.shape:
        raise ValueError(f"output {left.shape} and target {right.shape} must both be [n, d]")
    if columns is not None:
        count = checked_columns(columns, left.shape[1])
        left, right = left[:, :count], right[:, :count]
    return np.abs(right - left)


def _row_mean(values: BoolArray | Float64Array) -> Float64Array:
    return np.asarray(np.mean(values, axis=1, dtype=np.float64))


def _all_within(error: Float64Array, threshold: float) -> Float64Array:
    return np.asarray((error < threshold).all(axis=1), np.float64)


def _checked(threshold: float) -> float:
    if not threshold > 0.0:
        raise SettingsError(f"Reward `threshold` is {threshold:g} but must be greater than 0.")
    return threshold


def checked_columns(columns: int | None, size: int) -> int:
    """Number of components that count; None: all. Raises SettingsError."""
    if columns is None:
        return size
    if not 1 <= columns <= size:
        raise SettingsError(f"Reward `columns` is {columns} but must lie between 1 and the {size} action components.")
    return int(columns)
