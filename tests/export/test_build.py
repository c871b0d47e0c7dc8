from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from tau_trainer.errors import ExportError, NonFiniteError
from tau_trainer.export.build import build_model, visible_sensors
from tau_trainer.export.session import run_feed, session_of
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.export.conftest import MakeNetwork
from tests.networks import IMAGE, LIST, observations

MEMORY = MemorySettings(memory_size=6)
HIDDEN = ObservationSpec("target", (3,))


def widened(spec: BehaviorSpec, *sensors: ObservationSpec) -> BehaviorSpec:
    """The behavior with these sensors in place of those of ``spec``."""
    return replace(spec, observations=sensors)


def _signature(values: Sequence[onnx.ValueInfoProto]) -> list[tuple[str, int, list[str | int]]]:
    return [
        (v.name, v.type.tensor_type.elem_type, [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim])
        for v in values
    ]


@pytest.mark.usefixtures("toys")
def test_the_contract_of_a_hybrid_policy_with_memory(network_of: MakeNetwork) -> None:
    network = network_of(2, (3, 2), ((4,), LIST), memory=MEMORY)
    first, entities = network.spec.observations
    model = build_model(network, widened(network.spec, first, IMAGE, entities))
    real, integer = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    assert _signature(model.graph.input) == [
        ("obs_0", real, ["batch", 4]),
        ("obs_1", real, ["batch", 2, 4, 3]),
        ("obs_2", real, ["batch", 3, 4]),
        ("action_masks", real, ["batch", 5]),
        ("recurrent_in", real, ["batch", 1, 6]),
    ]
    assert _signature(model.graph.output) == [
        ("version_number", real, [1]),
        ("memory_size", real, [1]),
        ("continuous_actions", real, ["batch", 2]),
        ("continuous_action_output_shape", real, [1]),
        ("deterministic_continuous_actions", real, ["batch", 2]),
        ("discrete_actions", integer, ["batch", 2]),
        ("discrete_action_output_shape", real, [1, 2]),
        ("deterministic_discrete_actions", integer, ["batch", 2]),
        ("recurrent_out", real, ["batch", 1, 6]),
    ]
    constants = "version_number", "memory_size", "continuous_action_output_shape", "discrete_action_output_shape"
    assert {node.op_type for node in model.graph.node if node.output[0] in constants} == {"Identity"}, "Unity's nodes"
    assert model.ir_version == 4
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 9)]
    assert not model.metadata_props


@pytest.mark.parametrize(
    ("actions", "inputs", "missing"),
    [((2, ()), ["obs_0"], ("discrete", "recurrent")), ((0, (3,)), ["obs_0", "action_masks"], ("continuous",))],
)
def test_what_a_policy_lacks_is_not_in_the_file(
    network_of: MakeNetwork, actions: Any, inputs: list[str], missing: tuple[str, ...]
) -> None:
    network = network_of(*actions)
    model = build_model(network, network.spec)
    assert [value.name for value in model.graph.input] == inputs
    assert not any(word in value.name for value in model.graph.output for word in missing)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("first", [(4,), IMAGE])
def test_hidden_sensors_are_read_and_never_matter(network_of: MakeNetwork, first: Any) -> None:
    network = network_of(continuous=2, sensors=(first,))
    spec = widened(network.spec, *network.spec.observations, HIDDEN, ObservationSpec("map", (2, 2, 2)))
    model = build_model(network, spec)
    session, feed = session_of(model.SerializeToString()), {"obs_0": observations(network.spec, 3)[0] / np.float32(9)}
    answers = [
        run_feed(
            session,
            {**feed, "obs_1": np.full((3, 3), x, np.float32), "obs_2": np.full((3, 2, 2, 2), x, np.float32)},
        )["deterministic_continuous_actions"]
        for x in (0.0, -1e30, np.inf)
    ]
    assert all(np.array_equal(answer, answers[0]) for answer in answers)
    assert {"obs_0", "obs_1", "obs_2"} <= {name for node in model.graph.node for name in node.input}


def test_the_same_policy_gives_the_same_bytes(network_of: MakeNetwork) -> None:
    networks = [network_of(continuous=2, branches=(3,)) for _ in range(2)]
    first, second = (build_model(network, network.spec).SerializeToString() for network in networks)
    assert first == second


@pytest.mark.parametrize(
    ("tensor", "named"),
    [
        ("body.0.weight", r"body_0\.linear\.weight"),
        ("action.weight", r"mu\.weight"),
        ("action.bias", r"mu\.bias"),
        ("normalizer.mean", r"normalizer\.mean"),
    ],
)
def test_non_finite_weights_are_named(network_of: MakeNetwork, tensor: str, named: str) -> None:
    network = network_of(continuous=1, branches=(3,))
    network.state_dict()[tensor].view(-1)[0] = torch.nan
    with pytest.raises(NonFiniteError, match=f"policy's {named} contains NaN or infinity"):
        build_model(network, network.spec)


def test_sensors_are_found_by_name_and_shape_in_order(network_of: MakeNetwork) -> None:
    spec = network_of(1, sensors=((5,), (2,))).spec
    first, second = spec.observations
    assert visible_sensors(spec, widened(spec, second, HIDDEN, first)) == (2, 0)
    assert visible_sensors(spec, widened(spec, replace(first, shape=(9,)), first, second)) == (1, 2)
    same = widened(spec, first, first)
    assert visible_sensors(same, widened(spec, second, first, first, first)) == (1, 2)


def test_another_behavior_is_refused(network_of: MakeNetwork) -> None:
    spec = network_of(1).spec
    with pytest.raises(ExportError, match=r"sees a sensor 'sensor 0' of shape \(5,\) that the behavior does not have"):
        visible_sensors(spec, widened(spec, ObservationSpec("sensor 0", (6,))))
    with pytest.raises(ExportError, match="but the behavior has"):
        visible_sensors(spec, replace(spec, actions=ActionSpec(2)))
