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
from tests.networks import IMAGE, LIST, policy_of

MEMORY = MemorySettings(memory_size=6)


def _bytes(network: ActorCritic) -> bytes:
    return build_model(network, network.spec).SerializeToString()


def test_a_mean_that_is_not_squashed_is_found(network_of: MakeNetwork) -> None:
    """ML-Agents' files say the mean itself, which can leave [-1, 1]."""
    network = network_of(2, squashed=True)
    model = build_model(network, network.spec)
    (node,) = [node for node in model.graph.node if node.output[0] == "deterministic_continuous_actions"]
    node.op_type = "Identity"
    with pytest.raises(ExportError, match="'deterministic_continuous_actions' differs from the network"):
        verify(model.SerializeToString(), network, network.spec)


def test_a_wrong_level_is_found(network_of: MakeNetwork) -> None:
    network = network_of(2, (3,), action_levels=5)
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.action.weight[:, 5:10] = other.action.weight[:, :5]
    with pytest.raises(ExportError, match="'deterministic_continuous_actions' chooses an action of branch 1"):
        verify(_bytes(other), network, network.spec)


def test_values_between_the_levels_are_found(network_of: MakeNetwork) -> None:
    network = network_of(2, action_levels=5)
    model = build_model(network, network.spec)
    (step,) = [constant for constant in model.graph.initializer if constant.name == "level_step"]
    step.CopyFrom(numpy_helper.from_array(np.array(0.49, np.float32), "level_step"))
    with pytest.raises(ExportError, match=r"'deterministic_continuous_actions' differs from its 5 levels by 0\.0"):
        verify(model.SerializeToString(), network, network.spec)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("shape", [{"memory": MEMORY}, {"sensors": ((4,), IMAGE, LIST), "shared_critic": True}])
def test_every_kind_of_block_passes(network_of: MakeNetwork, shape: dict[str, Any]) -> None:
    network = network_of(2, (3,), **shape)
    verify(_bytes(network), network, network.spec, policy_of(network))


CAMERA = ObservationSpec("camera", (3, 36, 40), dtype=np.uint8)
GRID = ObservationSpec("grid", (5, 37, 36))
GOAL = ObservationSpec("goal", (3,), (), ObservationType.GOAL_SIGNAL)
TARGET = ObservationSpec("target", (1, 36, 36), (), ObservationType.GOAL_SIGNAL, np.uint8)
COMBINATIONS: dict[str, tuple[Any, ...]] = {
    "image": (CAMERA,),
    "image, vector": (CAMERA, (4,)),
    "list": (LIST,),
    "list, vector": ((4,), LIST),
    "goal": (GOAL,),
    "goal, vector": (GOAL, (4,)),
    "image, goal": (GOAL, CAMERA),
    "image, list": (LIST, CAMERA),
    "list, goal": (GOAL, LIST),
    "goal that is an image": ((4,), TARGET),
    "several of each": (CAMERA, GOAL, LIST, (4,), TARGET, GRID, LIST, (2,)),
}


ACTIONS: list[tuple[int, tuple[int, ...]]] = [(2, ()), (0, (3,)), (0, (2, 4, 3)), (2, (3,)), (1, (2, 4, 3))]
LEVELS: list[tuple[int, tuple[int, ...]]] = [(2, ()), (41, ()), (7, (3,)), (7, (2, 4))]
SETTINGS: dict[str, dict[str, Any]] = {
    "normalized": {"normalize": True, "seed": 0},
    "plain": {"normalize": False, "seed": 1},
    "squashed": {"squashed": True},
    "deterministic": {"deterministic": True},
}
NETWORKS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **{
        f"{continuous} and {branches}, {kind}": ((continuous, branches, ((5,), (3,))), given)
        for continuous, branches in ACTIONS
        for kind, given in SETTINGS.items()
    },
    **{f"{levels} levels and {branches}": ((3, branches), {"action_levels": levels}) for levels, branches in LEVELS},
    **{f"lstm, {shared}": ((2, (3,)), {"memory": MEMORY, "shared_critic": shared}) for shared in (False, True)},
    **{f"{kind}, discrete": ((2, (3,), sensors), {}) for kind, sensors in COMBINATIONS.items()},
    **{f"{kind}, squashed": ((2, (3, 2), sensors), {"squashed": True}) for kind, sensors in COMBINATIONS.items()},
    **{
        encoder: ((1, (2,), (CAMERA, GOAL, (2,))), {"vis_encode_type": encoder, "num_layers": 1})
        for encoder in ("nature_cnn", "resnet", "match3", "fully_connected")
    },
    "a goal beside the rest": ((1, (2,), (LIST, TARGET, GOAL)), {"goal_conditioning_type": "none"}),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_network_passes(network_of: MakeNetwork, kind: str) -> None:
    arguments, given = NETWORKS[kind]
    network = network_of(*arguments, **given)
    sensors = arguments[2] if len(arguments) > 2 else ()
    hyper = (GOAL in sensors or TARGET in sensors) and "goal_conditioning_type" not in given
    assert (network.hyper is not None) == hyper
    verify(_bytes(network), network, network.spec, policy_of(network), seed=given.get("seed", 0))


@pytest.mark.parametrize(
    "name",
    [
        "encoders.0.images.0.convolutions.1.weight",
        "encoders.0.images.1.dense.bias",
        "encoders.0.lists.own.weight",
        "encoders.0.lists.embeddings.0.weight",
        "encoders.0.lists.value.weight",
        "encoders.0.lists.out.bias",
        "hyper.first.weight",
        "hyper.made.weight",
        "hyper.bias",
    ],
)
def test_a_wrong_weight_of_a_block_is_found(network_of: MakeNetwork, name: str) -> None:
    network = network_of(2, (), COMBINATIONS["several of each"])
    with pytest.raises(ExportError, match="'deterministic_continuous_actions' differs from the network"):
        verify(_wrong(network, name), network, network.spec)


def _wrong(network: ActorCritic, name: str) -> bytes:
    """A model of which one weight is a little off."""
    other = copy.deepcopy(network)
    weight = other.state_dict()[name]
    weight.view(-1)[torch.arange(weight.numel()) % 7 == 3] += 0.01
    return _bytes(other)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("body.1.weight", "deterministic_continuous_actions"),
        ("encoders.0.images.0.layer.weight", "deterministic_continuous_actions"),
        ("memories.0.kept.weight", "(deterministic_continuous_actions|recurrent_out)"),
    ],
)
def test_a_wrong_weight_is_found(network_of: MakeNetwork, name: str, tensor: str) -> None:
    network = network_of(2, sensors=((5,), IMAGE), memory=MEMORY)
    with pytest.raises(ExportError, match=rf"'{tensor}' differs from the network by \d"):
        verify(_wrong(network, name), network, network.spec)


@pytest.mark.usefixtures("toys")
def test_a_wrong_state_is_found(network_of: MakeNetwork) -> None:
    network = network_of(2, memory=MEMORY)
    model = build_model(network, network.spec)
    (node,) = [node for node in model.graph.node if node.output[0] == "recurrent_out"]
    node.input[0] = "memory"  # what came in
    with pytest.raises(ExportError, match=r"'recurrent_out' differs from the network by \d"):
        verify(model.SerializeToString(), network, network.spec)


def test_a_wrong_choice_is_found(network_of: MakeNetwork) -> None:
    network = network_of(branches=(3, 3))
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.action.weight[:, 3:] = other.action.weight[:, :3]
    with pytest.raises(ExportError, match="'deterministic_discrete_actions' chooses an action of branch 1"):
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


def _edited(network: ActorCritic, edit: Callable[[onnx.ModelProto], object]) -> bytes:
    model = build_model(network, network.spec)
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
        (_set_version, r"'version_number' is \[2.0\]; expected \[3\]"),
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
    with pytest.raises(ExportError, match=text):
        verify(_edited(network, edit), network, network.spec)


def test_bytes_that_are_no_model(network_of: MakeNetwork) -> None:
    network = network_of(continuous=1)
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
