from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tau_trainer.errors import ExportError
from tau_trainer.export import PolicyGraph
from tau_trainer.export.build import build_model
from tau_trainer.export.session import run_feed, session_of

MakeGraph = Callable[..., PolicyGraph]

KNOWN_OPERATORS = {
    "Add", "ArgMax", "Clip", "Concat", "Div", "Gemm", "Identity", "LogSoftmax", "Mul", "Multinomial",
    "RandomNormalLike", "ReduceSum", "Reshape", "Sigmoid", "Slice", "Sub",
}  # fmt: skip


def _signature(values: list[onnx.ValueInfoProto]) -> list[tuple[str, int, list[str | int]]]:
    return [
        (v.name, v.type.tensor_type.elem_type, [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim])
        for v in values
    ]


def test_the_contract_of_a_hybrid_policy(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=2, branches=(3, 2), shapes=((4,), (3, 8, 8), (5, 2)), visible=(0, 2), normalize=True)
    model = build_model(graph)
    real, integer = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    assert _signature(list(model.graph.input)) == [
        ("obs_0", real, ["batch", 4]),
        ("obs_1", real, ["batch", 3, 8, 8]),
        ("obs_2", real, ["batch", 5, 2]),
        ("action_masks", real, ["batch", 5]),
    ]
    assert _signature(list(model.graph.output)) == [
        ("version_number", real, [1]),
        ("memory_size", real, [1]),
        ("continuous_actions", real, ["batch", 2]),
        ("continuous_action_output_shape", real, [1]),
        ("deterministic_continuous_actions", real, ["batch", 2]),
        ("discrete_actions", integer, ["batch", 2]),
        ("discrete_action_output_shape", real, [1, 2]),
        ("deterministic_discrete_actions", integer, ["batch", 2]),
    ]
    assert model.ir_version == 4
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 9)]
    assert not model.metadata_props


def test_a_continuous_policy_has_no_masks_and_no_discrete_outputs(make_graph: MakeGraph) -> None:
    model = build_model(make_graph(continuous=2))
    assert [v.name for v in model.graph.input] == ["obs_0"]
    assert not any("discrete" in v.name for v in model.graph.output)


def test_a_discrete_policy_has_no_continuous_outputs(make_graph: MakeGraph) -> None:
    model = build_model(make_graph(branches=(3,)))
    assert [v.name for v in model.graph.input] == ["obs_0", "action_masks"]
    assert not any("continuous" in v.name for v in model.graph.output)


def test_constants_are_floats_behind_identity(make_graph: MakeGraph) -> None:
    model = build_model(make_graph(continuous=2, branches=(3, 4)))
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    expected: dict[str, object] = {
        "version_number": [3.0],
        "memory_size": [0.0],
        "continuous_action_output_shape": [2.0],
        "discrete_action_output_shape": [[3.0, 4.0]],
    }
    for name, value in expected.items():
        (node,) = [node for node in model.graph.node if node.output[0] == name]
        assert node.op_type == "Identity"
        assert stored[node.input[0]].dtype == np.float32
        assert stored[node.input[0]].tolist() == value


@pytest.mark.parametrize("opset", range(9, 16))
def test_every_operator_set_is_valid_and_says_the_same(make_graph: MakeGraph, opset: int) -> None:
    graph = make_graph(continuous=2, branches=(3, 2), shapes=((4,), (2, 3), (3,)), visible=(1, 0), normalize=True)
    rng = np.random.default_rng(1)
    feed = {f"obs_{i}": rng.standard_normal((6, *s.shape)).astype(np.float32) for i, s in enumerate(graph.observations)}
    feed["action_masks"] = np.ones((6, 5), np.float32)
    results = []
    for version in (9, opset):
        model = build_model(graph, version)
        onnx.checker.check_model(model, full_check=True)
        assert model.opset_import[0].version == version
        assert {node.op_type for node in model.graph.node} <= KNOWN_OPERATORS
        results.append(run_feed(session_of(model.SerializeToString()), feed))
    for name in ("deterministic_continuous_actions", "deterministic_discrete_actions"):
        np.testing.assert_allclose(results[0][name], results[1][name], atol=1e-6)


@pytest.mark.parametrize("opset", [8, 16, 18])
def test_operator_sets_that_unity_does_not_read_are_refused(make_graph: MakeGraph, opset: int) -> None:
    with pytest.raises(ExportError, match="Unity reads 9 to 15"):
        build_model(make_graph(continuous=1), opset)


def test_hidden_sensors_are_read_and_never_matter(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=2, shapes=((4,), (3,), (2, 2, 2)), visible=(0,))
    session = session_of(build_model(graph).SerializeToString())
    obs = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    answers = [
        run_feed(
            session,
            {"obs_0": obs, "obs_1": np.full((3, 3), x, np.float32), "obs_2": np.full((3, 2, 2, 2), x, np.float32)},
        )["deterministic_continuous_actions"]
        for x in (0.0, -1e30, np.inf)
    ]
    assert all(np.array_equal(answer, answers[0]) for answer in answers)
    assert {"obs_0", "obs_1", "obs_2"} <= {name for node in build_model(graph).graph.node for name in node.input}


def test_a_network_without_hidden_layers(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=1, hidden=(), shapes=((2,),))
    session = session_of(build_model(graph).SerializeToString())
    obs = np.array([[0.5, -0.25]], np.float32)
    assert graph.mu is not None
    expected = np.clip(obs @ graph.mu.weight + graph.mu.bias, -3, 3) / 3
    np.testing.assert_allclose(
        run_feed(session, {"obs_0": obs})["deterministic_continuous_actions"], expected, atol=1e-6
    )


def test_the_same_policy_gives_the_same_bytes(make_graph: MakeGraph) -> None:
    first, second = (build_model(make_graph(continuous=2, branches=(3,))).SerializeToString() for _ in range(2))
    assert first == second
