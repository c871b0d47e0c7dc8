from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tau_trainer.export.build import build_model
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.export.conftest import MakeNetwork
from tests.export.unity_check import unity_check

MEMORY = MemorySettings(memory_size=6)


@pytest.fixture
def check(tmp_path: Path, network_of: MakeNetwork, toys: None) -> Callable[..., list[str]]:
    """Unity's complaints about a hybrid model with memory after an edit."""

    def run(
        edit: Callable[[onnx.ModelProto], object] | None = None,
        spec: BehaviorSpec | None = None,
        deterministic: bool = False,
        memory: MemorySettings | None = MEMORY,
    ) -> list[str]:
        network = network_of(2, (3, 2), ((4,), (3, 5, 5)), memory=memory)
        model = build_model(network, network.spec)
        if edit is not None:
            edit(model)
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return unity_check(path, spec or network.spec, deterministic=deterministic)

    return run


def _without(name: str) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        (value,) = [output for output in model.graph.output if output.name == name]
        model.graph.output.remove(value)

    return edit


def _constant(name: str, values: np.ndarray) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        for tensor in model.graph.initializer:
            if tensor.name == f"{name}.value":
                tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
        for output in model.graph.output:
            if output.name == name:
                output.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(values.dtype)

    return edit


def _strange_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("temperature", TensorProto.FLOAT, ["batch", 1]))


@pytest.mark.parametrize("deterministic", [False, True])
def test_our_models_are_accepted(check: Callable[..., list[str]], deterministic: bool) -> None:
    assert check(deterministic=deterministic) == []


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (_without("version_number"), "'version_number' was not found"),
        (_without("memory_size"), "'memory_size' was not found"),
        (_without("continuous_action_output_shape"), "no 'continuous_action_output_shape'"),
        (_without("discrete_action_output_shape"), "no 'discrete_action_output_shape'"),
        (_without("discrete_actions"), "which only a longer name contains"),
        (_constant("version_number", np.array([4.0], np.float32)), "version 4 is not supported"),
        (_constant("version_number", np.array([2.0], np.float32)), "ML-Agents 1.x"),
        (_constant("version_number", np.array([3], np.int64)), "Unity reads it as float"),
        (_without("recurrent_out"), "'recurrent_out' but has a memory_size"),
        (_constant("continuous_action_output_shape", np.array([0.0], np.float32)), "not positive"),
        (_constant("continuous_action_output_shape", np.array([5.0], np.float32)), "5 continuous actions"),
        (_constant("discrete_action_output_shape", np.array([[3.0, 9.0]], np.float32)), r"branches \(3, 9\)"),
        (_strange_input, "unexpected input 'temperature'"),
    ],
)
def test_complaints(check: Callable[..., list[str]], edit: Callable[[onnx.ModelProto], None], text: str) -> None:
    problems = check(edit)
    assert problems
    assert any(re.search(text, problem) for problem in problems), problems


def test_a_memory_needs_its_tensors(check: Callable[..., list[str]]) -> None:
    assert check(memory=None) == []
    assert check(_constant("memory_size", np.array([64.0], np.float32)), memory=None) == [
        "The model does not contain 'recurrent_in' but has a memory_size.",
        "The model does not contain 'recurrent_out' but has a memory_size.",
    ]


def test_sensors_and_actions_of_another_agent(check: Callable[..., list[str]]) -> None:
    sensors = (ObservationSpec("a", (6,)), ObservationSpec("b", (3, 5, 5)), ObservationSpec("c", (1,)))
    problems = check(spec=BehaviorSpec("B", sensors, ActionSpec(2, (3, 2))))
    assert problems == [
        "Input 'obs_0' has shape (4,); sensor 'a' has (6,).",
        "The model does not contain an input 'obs_2' for sensor 'c'.",
    ]
    (problem,) = check(spec=BehaviorSpec("B", sensors[:1], ActionSpec(2, (3, 2))))[1:]
    assert problem == "The model contains an unexpected input 'obs_1'."


def test_deterministic_inference_needs_its_outputs(check: Callable[..., list[str]]) -> None:
    problems = check(_without("deterministic_continuous_actions"), deterministic=True)
    assert "'deterministic_continuous_actions'" in problems[0]
    assert check(_without("deterministic_continuous_actions")) == []
