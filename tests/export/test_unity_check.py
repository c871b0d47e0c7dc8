from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from tau_trainer.export.build import build_model
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.export.conftest import MakeNetwork
from tests.export.unity_check import unity_check


@pytest.mark.usefixtures("toys")
def test_unity_complains_of_what_is_missing_or_of_another_agent(tmp_path: Path, network_of: MakeNetwork) -> None:
    network = network_of(2, (3, 2), ((4,), (3, 5, 5)), memory=MemorySettings(memory_size=6))
    path = tmp_path / "model.onnx"
    for name, said in [
        ("version_number", "'version_number' was not found"),
        ("memory_size", "'memory_size' was not found"),
        ("continuous_action_output_shape", "no 'continuous_action_output_shape'"),
        ("discrete_action_output_shape", "no 'discrete_action_output_shape'"),
        ("discrete_actions", "which only a longer name contains"),
        ("recurrent_out", "'recurrent_out' but has a memory_size"),
        ("deterministic_continuous_actions", ""),
    ]:
        model = build_model(network, network.spec)
        (value,) = [output for output in model.graph.output if output.name == name]
        model.graph.output.remove(value)
        onnx.save(model, path)
        assert re.search(said, " ".join(unity_check(path, network.spec)))
    assert unity_check(path, network.spec) == []
    assert "'deterministic_continuous_actions'" in unity_check(path, network.spec, deterministic=True)[0]
    sensors = ObservationSpec("a", (6,)), ObservationSpec("b", (3, 5, 5)), ObservationSpec("c", (1,))
    assert unity_check(path, BehaviorSpec("B", sensors, ActionSpec(5, (3, 9)))) == [
        "Input 'obs_0' has shape (4,); sensor 'a' has (6,).",
        "The model does not contain an input 'obs_2' for sensor 'c'.",
        "The model has 2 continuous actions, the behavior 5.",
        "The model has the branches (3, 2), the behavior (3, 9).",
    ]
    others = BehaviorSpec("B", (ObservationSpec("a", (4,)),), network.spec.actions)
    assert unity_check(path, others) == ["The model contains an unexpected input 'obs_1'."]
