from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest

from tau_trainer.errors import ExportError
from tau_trainer.export import Linear, PolicyGraph, verify
from tau_trainer.export.build import build_model
from tau_trainer.export.reference import forward
from tau_trainer.specs import Actions, BoolArray, FloatArray

MakeGraph = Callable[..., PolicyGraph]


def _bytes(graph: PolicyGraph) -> bytes:
    return build_model(graph).SerializeToString()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("continuous", "branches"), [(2, ()), (0, (3,)), (0, (2, 4, 3)), (2, (3,)), (1, (2, 4, 3))])
def test_every_kind_of_action_passes(
    make_graph: MakeGraph, continuous: int, branches: tuple[int, ...], seed: int
) -> None:
    graph = make_graph(continuous, branches, shapes=((5,), (2, 3)), normalize=seed % 2 == 0, seed=seed)
    result = verify(_bytes(graph), graph, seed=seed)
    assert result.rows == (24 if not branches else 72)
    assert result.max_difference < 1e-3


def test_a_wrong_weight_is_found(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=2)
    weight = graph.body[1].weight.copy()
    weight[3, 4] += 0.01
    wrong = replace(graph, body=[graph.body[0], Linear(weight, graph.body[1].bias)])
    with pytest.raises(ExportError, match=r"'deterministic_continuous_actions' differs from the reference by \d"):
        verify(_bytes(wrong), graph)


def test_a_wrong_choice_is_found(make_graph: MakeGraph) -> None:
    graph = make_graph(branches=(3, 3))
    wrong = replace(graph, branches=(graph.branches[0], graph.branches[0]))
    with pytest.raises(ExportError, match="'deterministic_discrete_actions' chooses an action of branch 1"):
        verify(_bytes(wrong), graph)


def test_a_policy_that_acts_otherwise_is_found(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=2, branches=(3,))

    def act(obs: tuple[FloatArray, ...], mask: BoolArray | None) -> Actions:
        answer = forward(graph, obs, mask)
        return Actions((answer.continuous.value + shift).astype(np.float32), answer.best().astype(np.int32))

    shift = 0.0
    verify(_bytes(graph), graph, act)
    shift = 0.01
    with pytest.raises(ExportError, match=r"continuous actions of the policy' differs .* by 0\.01"):
        verify(_bytes(graph), graph, act)


def test_a_policy_that_takes_forbidden_actions_is_found(make_graph: MakeGraph) -> None:
    graph = make_graph(branches=(3,))

    def careless(obs: tuple[FloatArray, ...], mask: BoolArray | None) -> Actions:
        return Actions(np.zeros((len(obs[0]), 0), np.float32), forward(graph, obs).best().astype(np.int32))

    with pytest.raises(ExportError, match="discrete actions of the policy"):
        verify(_bytes(graph), graph, careless)


def _edited(graph: PolicyGraph, edit: Callable[[onnx.ModelProto], object]) -> bytes:
    model = build_model(graph)
    edit(model)
    return model.SerializeToString()


def _rename_output(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.output[0] == "memory_size":
            node.output[0] = "memory"
    model.graph.output[1].name = "memory"


def _set_version(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        if tensor.name == "version_number.value":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array([2.0], np.float32), tensor.name))


def _rename_axis(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"


def _drop_masking(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type in ("LogSoftmax", "ArgMax"):
            node.input[0] = "branch_0.logits"


def _unclip(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.output[0] == "sample_clipped":
            node.attribute[0].f, node.attribute[1].f = 1e9, -1e9


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (_rename_output, r"outputs \['version_number', 'memory'"),
        (_rename_axis, r"'obs_0' has element type 1 and shape \['n', 5\]"),
        (_set_version, r"'version_number' is \[2.0\]; \[3\] is due"),
        (_drop_masking, "'deterministic_discrete_actions' chooses|'discrete_actions' takes a forbidden action"),
        (_unclip, r"'continuous_actions' leaves \[-1, 1\]"),
        (lambda model: setattr(model, "ir_version", 8), "IR version 8"),
        (lambda model: setattr(model.opset_import[0], "version", 18), "not valid ONNX|operator sets"),
        (lambda model: model.graph.node.pop(), "not valid ONNX"),
    ],
)
def test_faults_of_the_file_are_found(
    make_graph: MakeGraph, edit: Callable[[onnx.ModelProto], object], text: str
) -> None:
    graph = make_graph(continuous=2, branches=(3,))
    with pytest.raises(ExportError, match=text):
        verify(_edited(graph, edit), graph)


def test_bytes_that_are_no_model(make_graph: MakeGraph) -> None:
    with pytest.raises(ExportError, match="not valid ONNX"):
        verify(b"no model", make_graph(continuous=1))


def test_equal_logits_may_be_chosen_either_way(make_graph: MakeGraph) -> None:
    graph = make_graph(branches=(3,))
    tied = Linear(np.repeat(graph.branches[0].weight[:, :1], 3, axis=1), np.zeros(3, np.float32))
    graph = replace(graph, branches=[tied])

    def last(obs: tuple[FloatArray, ...], mask: BoolArray | None) -> Actions:
        assert mask is not None
        best = 2 - np.argmax(~mask[:, ::-1], axis=1)
        return Actions(np.zeros((len(best), 0), np.float32), best[:, None].astype(np.int32))

    verify(_bytes(graph), graph, last)
