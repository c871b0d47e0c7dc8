"""A behavior's spec as JSON, so that a checkpoint can be used without an engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from tau_trainer.specs import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    Json,
    NamedAction,
    ObservationSpec,
    ObservationType,
)

_DTYPES = {"float32": np.float32, "uint8": np.uint8}
"""Data types of a sensor's values."""


def to_json(spec: BehaviorSpec) -> dict[str, Any]:
    """The spec as plain JSON values."""
    return {
        "name": spec.name,
        "observations": [
            {
                "name": sensor.name,
                "shape": list(sensor.shape),
                "dimension_property": [int(flag) for flag in sensor.dimension_property],
                "observation_type": int(sensor.observation_type),
                "dtype": np.dtype(sensor.dtype).name,
                "hidden": sensor.hidden,
            }
            for sensor in spec.observations
        ],
        "continuous_size": spec.actions.continuous_size,
        "discrete_branches": list(spec.actions.discrete_branches),
        "named_actions": [[action.name, action.size, action.discrete] for action in spec.actions.named],
    }


def from_json(values: Json) -> BehaviorSpec:
    """The spec that :func:`to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
    named = tuple(NamedAction(*action) for action in values.get("named_actions", ()))
    sizes = sum(action.size for action in named if not action.discrete)
    branches = [action.size for action in named if action.discrete]
    if named and (sizes, branches) != (values["continuous_size"], list(values["discrete_branches"])):
        raise ValueError("the named actions are not the behavior's")
    return BehaviorSpec(
        values["name"],
        tuple(
            ObservationSpec(
                sensor["name"],
                tuple(sensor["shape"]),
                tuple(DimensionProperty(flag) for flag in sensor["dimension_property"]),
                ObservationType(sensor["observation_type"]),
                _DTYPES[sensor.get("dtype", "float32")],  # older checkpoints do not name a type
                sensor.get("hidden", False),
            )
            for sensor in values["observations"]
        ),
        ActionSpec(values["continuous_size"], tuple(values["discrete_branches"]), named),
    )
