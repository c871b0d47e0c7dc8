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
from tau_trainer.export.cases import Case
from tau_trainer.export.session import run_case, run_feed, session_of
from tau_trainer.models.blocks import Past
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.export.conftest import MakeNetwork
from tests.networks import IMAGE, LIST, observations

KNOWN_OPERATORS = {
    "Add", "ArgMax", "Clip", "Concat", "Div", "Gemm", "Identity", "LogSoftmax", "Mul", "Multinomial",
    "RandomNormalLike", "ReduceSum", "Reshape", "Sigmoid", "Slice", "Sub",
}  # fmt: skip
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
    assert model.ir_version == 4
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 9)]
    assert not model.metadata_props


def test_a_continuous_policy_has_no_masks_and_no_discrete_outputs(network_of: MakeNetwork) -> None:
    network = network_of(continuous=2)
    model = build_model(network, network.spec)
    assert [v.name for v in model.graph.input] == ["obs_0"]
    assert not any("discrete" in v.name or "recurrent" in v.name for v in model.graph.output)


def test_a_discrete_policy_has_no_continuous_outputs(network_of: MakeNetwork) -> None:
    network = network_of(branches=(3,))
    model = build_model(network, network.spec)
    assert [v.name for v in model.graph.input] == ["obs_0", "action_masks"]
    assert not any("continuous" in v.name for v in model.graph.output)


@pytest.mark.usefixtures("toys")
def test_constants_are_floats_behind_identity(network_of: MakeNetwork) -> None:
    network = network_of(continuous=2, branches=(3, 4), memory=MEMORY)
    model = build_model(network, network.spec)
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    expected: dict[str, object] = {
        "version_number": [3.0],
        "memory_size": [6.0],
        "continuous_action_output_shape": [2.0],
        "discrete_action_output_shape": [[3.0, 4.0]],
    }
    for name, value in expected.items():
        (node,) = [node for node in model.graph.node if node.output[0] == name]
        assert node.op_type == "Identity"
        assert stored[node.input[0]].dtype == np.float32
        assert stored[node.input[0]].tolist() == value


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (((4,), (3,)), {}),
    "shared critic": (((4,),), {"shared_critic": True, "num_layers": 1, "normalize": False}),
    "no layers": (((4,), (3,)), {"num_layers": 0}),
    "image": (((4,), IMAGE), {}),
    "image alone": ((IMAGE,), {}),
    "everything": ((IMAGE, (4,), LIST, (3,), IMAGE), {"memory": MEMORY}),
    "memory": (((4,),), {"memory": MEMORY}),
}


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_says_what_the_module_says(network_of: MakeNetwork, kind: str) -> None:
    sensors, shape = KINDS[kind]
    network = network_of(2, (3, 2), sensors, **shape)
    spec = widened(network.spec, HIDDEN, *network.spec.observations)
    model = build_model(network, spec)
    onnx.checker.check_model(model, full_check=True)
    assert {node.op_type for node in model.graph.node} <= KNOWN_OPERATORS | ({"Tanh"} if "memory" in shape else set())
    rng, memory = np.random.default_rng(1), 6 if "memory" in shape else 0
    state = rng.uniform(-1, 1, (9, memory)).astype(np.float32) if memory else None
    case = Case("any", observations(spec, 9, scale=1.0), None, state)
    found = run_case(session_of(model.SerializeToString()), spec, case)
    with torch.no_grad():
        towers = None if state is None else torch.from_numpy(state)[:, None].repeat(1, network.towers, 1)
        answer = network(network.prepare(case.obs[1:]), Past(towers))
    outputs = answer.outputs.numpy()
    expected = np.clip(outputs[:, :2], -3, 3) / 3
    np.testing.assert_allclose(found["deterministic_continuous_actions"], expected, atol=1e-5)
    best = np.stack((outputs[:, 2:5].argmax(axis=1), outputs[:, 5:].argmax(axis=1)), axis=1)
    np.testing.assert_array_equal(found["deterministic_discrete_actions"], best)
    if memory:
        np.testing.assert_allclose(found["recurrent_out"], answer.state.numpy()[:, :1], atol=1e-5)


@pytest.mark.usefixtures("toys")
def test_state_runs_through_an_episode(network_of: MakeNetwork) -> None:
    """recurrent_out of one decision is recurrent_in of the next, as Unity does it."""
    network = network_of(2, sensors=((4,), IMAGE), memory=MEMORY)
    session = session_of(build_model(network, network.spec).SerializeToString())
    model_state, state = np.zeros((5, 6), np.float32), torch.zeros(5, 2, 6)
    for step in range(6):
        obs = observations(network.spec, 5, seed=step, scale=1.0)
        found = run_case(session, network.spec, Case("step", obs, None, model_state))
        with torch.no_grad():
            answer = network(network.prepare(obs), Past(state))
        model_state, state = found["recurrent_out"][:, 0], answer.state
        expected = (answer.outputs.clamp(-3, 3) / 3).numpy()
        np.testing.assert_allclose(found["deterministic_continuous_actions"], expected, atol=1e-5)


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
