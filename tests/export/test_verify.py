from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from tau_trainer.errors import ExportError
from tau_trainer.export import verify
from tau_trainer.export.build import build_model
from tau_trainer.models import ActorCritic, Decision
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import BoolArray, ObservationSpec, ObservationType
from tests.export.conftest import MakeNetwork
from tests.export.policies import OtherPolicy, shifted
from tests.networks import LIST, policy_of

MEMORY = MemorySettings(memory_size=6)


def _bytes(network: ActorCritic) -> bytes:
    return build_model(network, network.spec).SerializeToString()


CAMERA = ObservationSpec("camera", (3, 36, 40), dtype=np.uint8)
GRID = ObservationSpec("grid", (5, 37, 36))
GOAL = ObservationSpec("goal", (3,), (), ObservationType.GOAL_SIGNAL)
TARGET = ObservationSpec("target", (1, 36, 36), (), ObservationType.GOAL_SIGNAL, np.uint8)


SEVERAL = (CAMERA, GOAL, LIST, (4,), TARGET, GRID, LIST, (2,))
SENSORS: dict[str, tuple[Any, ...]] = {
    "image": (CAMERA,),
    "list": (LIST,),
    "goal": (GOAL,),
    "image, list": (LIST, CAMERA),
    "list, goal": (GOAL, LIST),
    "goal that is an image": ((4,), TARGET),
    "several of each": SEVERAL,
}
NETWORKS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "continuous, normalized": ((2, (), ((5,), (3,))), {"normalize": True}),
    "continuous, deterministic": ((2, ()), {"deterministic": True}),
    "one branch": ((0, (3,)), {"normalize": False, "seed": 1}),
    "branches": ((0, (2, 4, 3), ((5,), (3,))), {"normalize": True}),
    "both, plain": ((1, (2, 4, 3)), {"normalize": False, "seed": 1}),
    "both, squashed": ((2, (3,)), {"squashed": True}),
    "levels alone": ((3, ()), {"action_levels": 2}),
    "many levels": ((3, ()), {"action_levels": 41}),
    "levels and branches": ((3, (2, 4)), {"action_levels": 7}),
    **{f"lstm, {shared}": ((2, (3,)), {"memory": MEMORY, "shared_critic": shared}) for shared in (False, True)},
    **{f"{kind}, squashed": ((2, (3, 2), sensors), {"squashed": True}) for kind, sensors in SENSORS.items()},
    **{
        encoder: ((1, (2,), (CAMERA, GOAL, (2,))), {"vis_encode_type": encoder, "num_layers": 1})
        for encoder in ("nature_cnn", "resnet", "match3", "fully_connected")
    },
    "a goal beside the rest": ((1, (2,), (LIST, TARGET, GOAL)), {"goal_conditioning_type": "none"}),
}


KNOWN_OPERATORS = {
    "Add", "ArgMax", "Cast", "Clip", "Concat", "Conv", "Div", "Exp", "Gemm", "Identity", "LSTM", "LeakyRelu", "Less",
    "LogSoftmax", "MatMul", "MaxPool", "Mul", "Multinomial", "RandomNormalLike", "ReduceMean", "ReduceSum", "Relu",
    "Reshape", "Sigmoid", "Slice", "Softmax", "Sqrt", "Sub", "Tanh", "Transpose",
}  # fmt: skip


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_network_passes(network_of: MakeNetwork, kind: str) -> None:
    arguments, given = NETWORKS[kind]
    network = network_of(*arguments, **given)
    sensors = arguments[2] if len(arguments) > 2 else ()
    hyper = (GOAL in sensors or TARGET in sensors) and "goal_conditioning_type" not in given
    assert (network.hyper is not None) == hyper
    model = build_model(network, network.spec)
    assert {node.op_type for node in model.graph.node} <= KNOWN_OPERATORS
    verify(model.SerializeToString(), network, network.spec, policy_of(network), seed=given.get("seed", 0))


@pytest.mark.parametrize(
    ("name", "shape", "tensor"),
    [
        ("body.1.weight", {"memory": MEMORY}, "deterministic_continuous_actions"),
        ("memories.0.hidden.weight", {"memory": MEMORY}, "(deterministic_continuous_actions|recurrent_out)"),
        ("encoders.0.images.1.dense.bias", {"sensors": SEVERAL}, "deterministic_continuous_actions"),
        ("encoders.0.lists.value.weight", {"sensors": SEVERAL}, "deterministic_continuous_actions"),
        ("hyper.made.weight", {"sensors": SEVERAL}, "deterministic_continuous_actions"),
    ],
)
def test_a_wrong_weight_is_found(network_of: MakeNetwork, name: str, shape: dict[str, Any], tensor: str) -> None:
    """A weight that is a little off."""
    network = network_of(2, **shape)
    other = copy.deepcopy(network)
    weight = other.state_dict()[name]
    weight.view(-1)[torch.arange(weight.numel()) % 7 == 3] += 0.01
    with pytest.raises(ExportError, match=rf"'{tensor}' differs from the network by \d"):
        verify(_bytes(other), network, network.spec)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("shape", [{}, {"memory": MEMORY}])
def test_a_policy_that_acts_otherwise_is_found(network_of: MakeNetwork, shape: dict[str, Any]) -> None:
    network = network_of(2, (3,), **shape)
    with torch.no_grad():
        network.action.weight.div_(20.0)  # actions far from the limit
    verify(_bytes(network), network, network.spec, shifted(network, 0.0))
    with pytest.raises(ExportError, match=r"continuous actions of the policy' differs .* by 0\.01"):
        verify(_bytes(network), network, network.spec, shifted(network, 0.03))


@pytest.mark.usefixtures("toys")
def test_a_policy_that_forgets_is_found(network_of: MakeNetwork) -> None:
    network = network_of(2, memory=MEMORY)
    real = policy_of(network)

    class Forgetful(OtherPolicy):
        def act(self, obs: Any, mask: Any, rng: Any, **options: Any) -> Decision:
            state = {"memory": np.zeros_like(options["state"]["memory"])}
            return real.act(obs, mask, rng, state=state, deterministic=True)

    with pytest.raises(ExportError, match="continuous actions of the policy"):
        verify(_bytes(network), network, network.spec, Forgetful(network, lambda decision, _: decision))


def test_a_policy_that_takes_forbidden_actions_is_found(network_of: MakeNetwork) -> None:
    network = network_of(branches=(3,))
    careless = OtherPolicy(network, lambda decision, _: decision, careless=True)
    with pytest.raises(ExportError, match="discrete actions of the policy"):
        verify(_bytes(network), network, network.spec, careless)


def _node(model: onnx.ModelProto, output: str) -> onnx.NodeProto:
    (found,) = [node for node in model.graph.node if node.output[0] == output]
    return found


def _constant(name: str, value: Any) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        (kept,) = [constant for constant in model.graph.initializer if constant.name == name]
        kept.CopyFrom(numpy_helper.from_array(np.array(value, np.float32), name))

    return edit


def _rename_output(model: onnx.ModelProto) -> None:
    _node(model, "memory_size").output[0] = "memory"
    model.graph.output[1].name = "memory"


def _rename_axis(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"


def _drop_masking(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type in ("LogSoftmax", "ArgMax"):
            node.input[0] = "branch_0.logits"


def _unclip(model: onnx.ModelProto) -> None:
    node = _node(model, "sample_clipped")
    node.attribute[0].f, node.attribute[1].f = 1e9, -1e9


def _do_not_squash(model: onnx.ModelProto) -> None:
    """ML-Agents' files say the mean itself, which can leave [-1, 1]."""
    _node(model, "deterministic_continuous_actions").op_type = "Identity"


def _forget(model: onnx.ModelProto) -> None:
    _node(model, "recurrent_out").input[0] = "memory"  # what came in


@pytest.mark.parametrize(
    ("shape", "edit", "text"),
    [
        ({"squashed": True}, _do_not_squash, "'deterministic_continuous_actions' differs from the network"),
        ({"action_levels": 5}, _constant("level_step", 0.49), r"actions' differs from its 5 levels by 0\.0"),
        ({"memory": MEMORY}, _forget, r"'recurrent_out' differs from the network by \d"),
    ],
)
def test_faults_of_some_networks_files_are_found(
    network_of: MakeNetwork, shape: dict[str, Any], edit: Callable[[onnx.ModelProto], object], text: str
) -> None:
    network = network_of(2, **shape)
    model = build_model(network, network.spec)
    edit(model)
    with pytest.raises(ExportError, match=text):
        verify(model.SerializeToString(), network, network.spec)


@pytest.mark.parametrize(
    ("actions", "begin", "size", "text"),
    [
        ((0, (3, 3)), 3, 3, "'deterministic_discrete_actions' chooses an action of branch 1"),
        ((2, (3,)), 5, 5, "'deterministic_continuous_actions' chooses an action of branch 1"),
    ],
)
def test_a_wrong_choice_is_found(network_of: MakeNetwork, actions: Any, begin: int, size: int, text: str) -> None:
    network = network_of(*actions, action_levels=5 if actions[0] else None)
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.action.weight[:, begin : begin + size] = other.action.weight[:, :size]
    with pytest.raises(ExportError, match=text):
        verify(_bytes(other), network, network.spec)


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (_rename_output, r"outputs \['version_number', 'memory'"),
        (_rename_axis, r"'obs_0' has element type 1 and shape \['n', 5\]"),
        (_constant("version_number.value", [2.0]), r"'version_number' is \[2.0\]; expected \[3\]"),
        (_drop_masking, "'deterministic_discrete_actions' chooses|'discrete_actions' takes a forbidden action"),
        (_unclip, r"'continuous_actions' leaves \[-1, 1\]"),
        (lambda model: setattr(model, "ir_version", 8), "IR version 8"),
        (lambda model: setattr(model.opset_import[0], "version", 18), "not valid ONNX|operator sets"),
        (lambda model: model.graph.node.pop(), "not valid ONNX"),
    ],
)
def test_faults_of_the_file_are_found(
    network_of: MakeNetwork, edit: Callable[[onnx.ModelProto], object], text: str
) -> None:
    network = network_of(continuous=2, branches=(3,))
    model = build_model(network, network.spec)
    edit(model)
    with pytest.raises(ExportError, match=text):
        verify(model.SerializeToString(), network, network.spec)
    with pytest.raises(ExportError, match="not valid ONNX"):
        verify(b"no model", network, network.spec)


def test_equal_logits_may_be_chosen_either_way(network_of: MakeNetwork) -> None:
    network = network_of(branches=(3,))
    with torch.no_grad():
        network.action.weight[:] = network.action.weight[:, :1].clone()
        network.action.bias.zero_()

    def last(decision: Decision, mask: BoolArray | None) -> Decision:
        assert mask is not None
        best = 2 - np.argmax(~mask[:, ::-1], axis=1)
        return replace(decision, discrete=best[:, None].astype(np.int32))

    verify(_bytes(network), network, network.spec, OtherPolicy(network, last))
