"""Tensor names, order and versions that Unity's runtime expects of a model file.

Source: ``TensorNames.cs`` and ``SentisModelParamLoader.cs`` of com.unity.ml-agents 3.0.0; files written by
mlagents 1.1.0.
"""

from __future__ import annotations

VERSION_NUMBER = "version_number"
MEMORY_SIZE = "memory_size"
ACTION_MASKS = "action_masks"
RECURRENT_IN, RECURRENT_OUT = "recurrent_in", "recurrent_out"
CONTINUOUS = "continuous_actions"
CONTINUOUS_SHAPE = "continuous_action_output_shape"
DETERMINISTIC_CONTINUOUS = "deterministic_continuous_actions"
DISCRETE = "discrete_actions"
DISCRETE_SHAPE = "discrete_action_output_shape"
DETERMINISTIC_DISCRETE = "deterministic_discrete_actions"

BATCH = "batch"
"""Name of the dynamic axis 0."""

MODEL_VERSION = 3
"""``ModelApiVersion.MLAgents2_0``: sensors are inputs named ``obs_i``."""

IR_VERSION = 4
"""ONNX file format of opset 9; from 4 on, constants need not be inputs."""

OPSET = 9
"""Read by every runtime since Barracuda 1.0; Sentis documents 7 to 15."""


def observation_name(index: int) -> str:
    """Input name of the sensor at ``index`` in wire order: ``obs_0``, ``obs_1``, ..."""
    return f"obs_{index}"
