"""Conversion of the bridge's data to mlagents-envs' types."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tau_trainer.envs.mlagents.base_env import ActionSpec, BehaviorSpec, DecisionSteps, ObservationSpec, TerminalSteps
from tau_trainer.specs import BehaviorSpec as WireSpec
from tau_trainer.specs import BoolArray, DimensionProperty, FloatArray, StepBatch

_PIXEL: Final = np.float32(255)


def behavior_spec(wire: WireSpec) -> BehaviorSpec:
    """A behavior's spec in mlagents-envs' form."""
    unspecified = DimensionProperty.UNSPECIFIED
    sensors = [
        ObservationSpec(
            sensor.shape,
            sensor.dimension_property or (unspecified,) * len(sensor.shape),
            sensor.observation_type,
            sensor.name,
        )
        for sensor in wire.observations
    ]
    return BehaviorSpec(sensors, ActionSpec(wire.actions.continuous_size, wire.actions.discrete_branches))


def steps(spec: BehaviorSpec, batch: StepBatch | None) -> tuple[DecisionSteps, TerminalSteps]:
    """One exchange of a behavior; ``batch`` is None if no agent of it reported."""
    if batch is None:
        return DecisionSteps.empty(spec), TerminalSteps.empty(spec)
    ended = batch.terminals
    return (
        DecisionSteps(
            _as_floats(batch.obs),
            batch.reward,
            batch.agent_ids,
            _masks(spec.action_spec.discrete_branches, batch),
            batch.group_id,
            batch.group_reward,
        ),
        TerminalSteps(
            _as_floats(ended.obs),
            ended.reward,
            ended.truncated,
            ended.agent_ids,
            ended.group_id,
            ended.group_reward,
        ),
    )


def _as_floats(sensors: Sequence[NDArray[Any]]) -> list[FloatArray]:
    """Sensors as float32; images received as bytes are scaled to 0 to 1, as in mlagents-envs."""
    return [
        np.true_divide(sensor, _PIXEL, dtype=np.float32) if sensor.dtype == np.uint8 else sensor for sensor in sensors
    ]


def _masks(branches: Sequence[int], batch: StepBatch) -> list[BoolArray] | None:
    """One mask for each branch for the agents that ask; nothing is forbidden if the engine sent no mask."""
    if not branches or not len(batch):
        return None
    flat = batch.action_mask
    if flat is None:
        flat = np.zeros((len(batch), sum(branches)), np.bool_)
    return [flat[:, start:stop] for start, stop in pairwise(accumulate(branches, initial=0))]
