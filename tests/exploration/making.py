"""Kinds of exploration, and how often they choose what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tau_trainer.exploration import Exploration, Explorer, make_exploration
from tau_trainer.settings.exploration import VALUE_EXPLORATIONS
from tau_trainer.specs import ActionSpec


def made(settings: Mapping[str, Any], branches: tuple[int, ...] = (4,)) -> Exploration:
    kind = VALUE_EXPLORATIONS[settings["type"]]
    return make_exploration(kind.model_validate(dict(settings)), ActionSpec(0, branches))


def epsilon(settings: Mapping[str, Any], decisions: int) -> float:
    exploration = made(settings)
    clock = exploration.tick(exploration.clock(), np.zeros((decisions, 1), np.int32))
    return float(exploration.numbers(clock[0], clock[1:])[0])


NOBODY = np.zeros(0)


VALUES = np.array([0.1, 0.5, 0.3, 0.1], np.float32)


ROWS = 40_000


def shares(settings: Mapping[str, Any], values: NDArray[Any], forbidden: Any = None, rows: int = ROWS) -> Any:
    """How often each value is chosen, of many rows that are alike."""
    explorer = Explorer(settings, len(values), seed=3)
    mask = None if forbidden is None else np.tile(np.asarray(forbidden, np.bool_), (rows, 1))
    chosen = explorer.choose(np.tile(values, (rows, 1)), mask)
    return (np.bincount(chosen, minlength=len(values)) / rows).tolist()


def near(expected: Any) -> Any:
    return pytest.approx(expected, abs=0.011)  # more than four deviations of a share of 40,000 rows
