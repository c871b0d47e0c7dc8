"""What Unity would say about a model file: the checks of com.unity.ml-agents, without Unity.

Follows ``SentisModelInfo`` and ``SentisModelParamLoader.CheckModel`` of release 3.0.0 for models of version 3: the
model runs once on zeros, constants are read from its outputs as floats, names of outputs are matched by *contains*.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import ExportError
from tau_trainer.export.session import Outputs, run_feed, session_of
from tau_trainer.models import tensor_names as names
from tau_trainer.specs import BehaviorSpec

_TOLERATED = {names.ACTION_MASKS, names.RECURRENT_IN, "epsilon", "sequence_length", "prev_action"}
_MIN_VERSION = 2  # models of ML-Agents 1.x, with other input names

Shape = tuple[int | None, ...]


def unity_check(path: Path, spec: BehaviorSpec, *, deterministic: bool = False) -> list[str]:
    """Everything that Unity would reject or warn about when ``path`` is used for ``spec``; empty when it is content.

    Args:
        path: the model file.
        spec: the behavior of the agent that uses it.
        deterministic: whether the agent's "Deterministic Inference" is ticked.
    """
    data = path.read_bytes()
    try:
        probe = _Probe(data)
    except ExportError as error:
        return [str(error)]
    problems = _missing_outputs(probe, spec, deterministic)
    if problems:
        return problems
    version = probe.integer(names.VERSION_NUMBER)
    if not _MIN_VERSION <= version <= names.MODEL_VERSION:
        return [f"Model version {version} is not supported; Unity loads {_MIN_VERSION} to {names.MODEL_VERSION}."]
    if version == _MIN_VERSION:
        return ["The model uses the input names of ML-Agents 1.x (version 2); export it again as version 3."]
    return [*_input_problems(probe, spec), *_action_problems(probe, spec)]


class _Probe:
    """The model run once on zeros, dynamic dimensions taken as 1."""

    def __init__(self, data: bytes) -> None:
        session = session_of(data)
        self.inputs: dict[str, Shape] = {
            value.name: tuple(dim if isinstance(dim, int) else None for dim in value.shape)
            for value in session.get_inputs()
        }
        feed: dict[str, NDArray[Any]] = {
            name: np.zeros([1 if dim is None else dim for dim in shape], np.float32)
            for name, shape in self.inputs.items()
        }
        self.outputs: Outputs = run_feed(session, feed)

    def contains(self, name: str) -> bool:
        """Whether any output's name contains ``name``, as Unity matches them."""
        return any(name in output for output in self.outputs)

    def integer(self, name: str) -> int:
        """First value of a constant; 0 when absent, as Unity reads it."""
        return int(self.outputs[name].ravel()[0]) if name in self.outputs else 0

    @property
    def continuous_size(self) -> int:
        """Number of continuous actions that the model announces."""
        return self.integer(names.CONTINUOUS_SHAPE)

    @property
    def branches(self) -> tuple[int, ...]:
        """Branch sizes that the model announces."""
        return tuple(int(size) for size in self.outputs.get(names.DISCRETE_SHAPE, np.zeros(0)).ravel())


def _missing_outputs(probe: _Probe, spec: BehaviorSpec, deterministic: bool) -> list[str]:
    """``CheckExpectedTensors``: without these Unity stops checking, or throws while it reads them."""
    for name in (names.VERSION_NUMBER, names.MEMORY_SIZE):
        if name not in probe.outputs:
            return [f"Required constant '{name}' was not found in the model file."]
    if not (probe.contains(names.CONTINUOUS) or probe.contains(names.DISCRETE)):
        return ["The model does not contain any action output."]
    constants = {names.VERSION_NUMBER, names.MEMORY_SIZE, names.CONTINUOUS_SHAPE, names.DISCRETE_SHAPE}
    for name in sorted(constants & set(probe.outputs)):
        if probe.outputs[name].dtype != np.float32:
            return [f"Constant '{name}' is {probe.outputs[name].dtype}; Unity reads it as float and throws."]
    kinds = (
        ("continuous", names.CONTINUOUS, names.CONTINUOUS_SHAPE, spec.actions.continuous_size),
        ("discrete", names.DISCRETE, names.DISCRETE_SHAPE, spec.actions.discrete_size),
    )
    for kind, output, shape, wanted in kinds:
        if not probe.contains(output):
            if wanted:
                return [f"The behavior has {kind} actions and the model has no output '{output}'."]
            continue
        if shape not in probe.outputs:
            return [f"The model uses {kind} actions but has no '{shape}'."]
        name = f"deterministic_{output}" if deterministic else output
        if not probe.contains(name) or sum(probe.outputs[shape].ravel()) <= 0:
            return [f"The model lacks '{name}' or its shape is not positive; change 'Deterministic Inference'."]
        if name not in probe.outputs:
            return [f"Unity reads the output '{name}', which only a longer name contains; it would fail later."]
    return []


def _input_problems(probe: _Probe, spec: BehaviorSpec) -> list[str]:
    """``CheckInputTensorPresence`` and ``CheckInputTensorShape``."""
    problems = []
    sensors = {names.observation_name(i): sensor for i, sensor in enumerate(spec.observations)}
    for name, sensor in sensors.items():
        if name not in probe.inputs:
            problems.append(f"The model does not contain an input '{name}' for sensor '{sensor.name}'.")
        elif probe.inputs[name][1:] != sensor.shape:
            found = probe.inputs[name][1:]
            problems.append(f"Input '{name}' has shape {found}; sensor '{sensor.name}' has {sensor.shape}.")
    if probe.integer(names.MEMORY_SIZE) > 0:
        for name, present in ((names.RECURRENT_IN, probe.inputs), (names.RECURRENT_OUT, probe.outputs)):
            if name not in present:
                problems.append(f"The model does not contain '{name}' but has a memory_size.")
    if probe.branches and names.ACTION_MASKS not in probe.inputs:
        problems.append(f"The model does not contain '{names.ACTION_MASKS}' but uses discrete actions.")
    unknown = set(probe.inputs) - set(sensors) - _TOLERATED
    problems.extend(f"The model contains an unexpected input '{name}'." for name in sorted(unknown))
    return problems


def _action_problems(probe: _Probe, spec: BehaviorSpec) -> list[str]:
    """``CheckOutputTensorShape``."""
    problems = []
    if probe.continuous_size != spec.actions.continuous_size:
        problems.append(
            f"The model has {probe.continuous_size} continuous actions, the behavior {spec.actions.continuous_size}."
        )
    if probe.branches != spec.actions.discrete_branches:
        problems.append(f"The model has the branches {probe.branches}, the behavior {spec.actions.discrete_branches}.")
    return problems
