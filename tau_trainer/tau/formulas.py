"""Tau's reward formulas over an output and a target, one function each (tau.md 1.3, 5.2).

All of them take ``output`` and ``target`` as ``[n, d]`` arrays of any float type, compare in float64 as Tau does,
use only the first ``columns`` components (``None`` = all ``d``), and return float64 ``[n]``. "Within" means an
absolute error strictly below ``threshold``. Nothing is clipped here: the environment clips actions to [-1, 1] before.

Tau's historical ``2 * sigmoid(error) - 1`` grows with the error and so pays for being wrong; it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tau_trainer.errors import SettingsError
from tau_trainer.specs import Float64Array

DEFAULT_THRESHOLD = 0.1
"""Absolute error below which a component counts as right (Tau's constant)."""


class RewardFormula(Protocol):
    """Signature that every entry of :data:`REWARDS` has."""

    def __call__(
        self,
        output: ArrayLike,
        target: ArrayLike,
        threshold: float = DEFAULT_THRESHOLD,
        columns: int | None = None,
    ) -> Float64Array:
        """Reward of each row: ``[n, d]``, ``[n, d]`` to float64 ``[n]``."""


def binary(
    output: ArrayLike, target: ArrayLike, threshold: float = DEFAULT_THRESHOLD, columns: int | None = None
) -> Float64Array:
    """Mean over components of +1 (within) or -1 (not). Range [-1, 1]."""
    within = _errors(output, target, columns) < _checked(threshold)
    return 2.0 * _row_mean(within) - 1.0


def binary_strict(
    output: ArrayLike, target: ArrayLike, threshold: float = DEFAULT_THRESHOLD, columns: int | None = None
) -> Float64Array:
    """+1 if every component is within, else -1."""
    return 2.0 * binary01(output, target, threshold, columns) - 1.0


def difference(
    output: ArrayLike, target: ArrayLike, threshold: float = DEFAULT_THRESHOLD, columns: int | None = None
) -> Float64Array:
    """Minus the mean absolute error. Range (-inf, 0]; ``threshold`` has no effect."""
    return -_row_mean(_errors(output, target, columns))


def incremental(
    output: ArrayLike, target: ArrayLike, threshold: float = DEFAULT_THRESHOLD, columns: int | None = None
) -> Float64Array:
    """Mean over components of 1 - 2 * error. Range [-3, 1] for values in [-1, 1]; ``threshold`` has no effect."""
    return 1.0 - 2.0 * _row_mean(_errors(output, target, columns))


def binary01(
    output: ArrayLike, target: ArrayLike, threshold: float = DEFAULT_THRESHOLD, columns: int | None = None
) -> Float64Array:
    """1 if every component is within, else 0: the wording of Tau's announcement."""
    within = _errors(output, target, columns) < _checked(threshold)
    return np.asarray(within.all(axis=1), np.float64)


REWARDS: dict[str, RewardFormula] = {
    "binary": binary,
    "difference": difference,
    "incremental": incremental,
    "binary_strict": binary_strict,
    "binary01": binary01,
}
"""Formulas by name; the position is the value of the environment parameter ``reward_type`` (tau.md 5.4)."""

_COMPONENTS: dict[str, Callable[[Float64Array, float], Float64Array]] = {
    "binary": lambda error, threshold: np.where(error < threshold, 1.0, -1.0),
    "difference": lambda error, threshold: -error,
    "incremental": lambda error, threshold: 1.0 - 2.0 * error,
}


def get_reward(name: str) -> RewardFormula:
    """Formula called ``name``.

    Raises:
        SettingsError: there is no such formula.
    """
    try:
        return REWARDS[name]
    except KeyError:
        known = ", ".join(f"`{key}`" for key in REWARDS)
        raise SettingsError(f"There is no reward formula `{name}`; choose one of {known}.") from None


def reward_name_by_index(index: float) -> str:
    """Name of the formula that the environment parameter ``reward_type`` stands for.

    Raises:
        SettingsError: the number stands for no formula.
    """
    for position, name in enumerate(REWARDS):
        if position == index:
            return name
    known = ", ".join(f"{position} (`{name}`)" for position, name in enumerate(REWARDS))
    raise SettingsError(f"Environment parameter `reward_type` is {index:g}, which stands for no formula; use {known}.")


def has_components(name: str) -> bool:
    """Whether formula ``name`` is a mean over components, so that each component can be paid on its own."""
    return name in _COMPONENTS


def component_reward(
    name: str,
    output: ArrayLike,
    target: ArrayLike,
    threshold: float = DEFAULT_THRESHOLD,
    columns: int | None = None,
) -> Float64Array:
    """What each component earns by formula ``name``, before it is averaged.

    Returns:
        float64 ``[n, d]``; components from ``columns`` on earn 0. The mean over the first ``columns`` equals
        ``REWARDS[name](output, target, threshold, columns)``.

    Raises:
        SettingsError: the formula is unknown, or judges all components together (``binary_strict``, ``binary01``).
    """
    get_reward(name)
    if not has_components(name):
        known = ", ".join(f"`{key}`" for key in _COMPONENTS)
        raise SettingsError(
            f"Reward formula `{name}` judges all components together, so it has no reward per component; "
            f"set `credit: aggregate` or choose one of {known}."
        )
    rewards = _COMPONENTS[name](_errors(output, target, None), _checked(threshold))
    rewards[:, _checked_columns(columns, rewards.shape[1]) :] = 0.0
    return rewards


def _errors(output: ArrayLike, target: ArrayLike, columns: int | None) -> Float64Array:
    """Absolute errors of the first ``columns`` components, float64 ``[n, columns]``."""
    left = np.asarray(output, np.float64)
    right = np.asarray(target, np.float64)
    if left.ndim != 2 or left.shape != right.shape:
        raise ValueError(f"output {left.shape} and target {right.shape} must both be [n, d]")
    if columns is not None:
        count = _checked_columns(columns, left.shape[1])
        left, right = left[:, :count], right[:, :count]
    return np.abs(right - left)


def _row_mean(values: NDArray[np.bool_] | Float64Array) -> Float64Array:
    return np.asarray(np.mean(values, axis=1, dtype=np.float64))


def _checked(threshold: float) -> float:
    if not threshold > 0.0:
        raise SettingsError(f"Reward `threshold` is {threshold:g} but must be greater than 0.")
    return threshold


def _checked_columns(columns: int | None, size: int) -> int:
    if columns is None:
        return size
    if not 1 <= columns <= size:
        raise SettingsError(f"Reward `columns` is {columns} but must lie between 1 and the {size} action components.")
    return int(columns)
