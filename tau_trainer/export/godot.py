"""Writes a network as the ONNX model that the Godot RL Agents plugin loads, and checks it with onnxruntime.

Source: ``ONNXInference.cs``, ``ONNX_wrapper.gd`` and ``sync.gd`` of version 0.7 of the plugin. Inputs: one float
[batch, size] for each observation, by its name, and ``state_ins`` [batch], which the plugin asks for and does not use.
Outputs: ``output`` [batch, sum] and ``state_outs``. ``output`` holds the actions in the game's order: the logits of a
discrete one, the means of a continuous one. If any action is discrete, the plugin skips as many values again after the
means, for log deviations; they are 0 here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper

from tau_trainer.errors import ExportError
from tau_trainer.export.build import memory_size, model_of, visible_sensors
from tau_trainer.export.cases import cases
from tau_trainer.export.reference import Reference, ReferenceOutput, Value
from tau_trainer.export.session import run_feed, session_of
from tau_trainer.export.verify import check_valid, compare
from tau_trainer.models import ActorCritic
from tau_trainer.models import tensor_names as names
from tau_trainer.models.graph import GraphWriter
from tau_trainer.specs import ActionSpec, BehaviorSpec, NamedAction

_STATE_IN: Final = "state_ins"
_STATE_OUT: Final = "state_outs"
_OUTPUT: Final = "output"
_INNER: Final = "policy/"
"""Prefix of the tensors inside the model: an observation can have any name."""


def obstacle(network: ActorCritic, spec: BehaviorSpec) -> str | None:
    """Why the plugin cannot run this policy, as a part of a sentence; None: it can."""
    if memory_size(network):
        return "the plugin keeps no memory between decisions, and this policy has one"
    others = [sensor.name for sensor in spec.observations if len(sensor.shape) != 1]
    return (
        f"the plugin's models take lists of numbers only, and the observation '{others[0]}' is none" if others else None
    )


def build_godot_model(network: ActorCritic, spec: BehaviorSpec) -> onnx.ModelProto:
    """The model; ``spec``: the behavior with all its sensors. Raises ExportError, NonFiniteError."""
    why = obstacle(network, spec)
    if why is not None:
        raise ExportError(f"cannot export '{spec.short_name}' for Godot: {why}")
    graph = GraphWriter()
    if spec.actions.discrete_size:
        graph.constant(names.ACTION_MASKS, np.ones((1, spec.actions.mask_size), np.float32))
    network.write(graph, [names.observation_name(i) for i in visible_sensors(network.spec, spec)], None)
    graph.concat(list(_parts(graph, spec.actions)), _OUTPUT)
    graph.add("Identity", [_STATE_IN], _STATE_OUT)
    shapes: dict[str, list[str | int]] = {s.name: [names.BATCH, s.size] for s in spec.observations if s.size}
    shapes |= {_STATE_IN: [names.BATCH], _OUTPUT: [names.BATCH, _width(spec.actions)], _STATE_OUT: [names.BATCH]}
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outside = {names.observation_name(i): sensor.name for i, sensor in enumerate(spec.observations)}
    outside |= {name: name for name in (_STATE_IN, _OUTPUT, _STATE_OUT)}
    nodes, constants = _used(graph, outside)
    return model_of(helper.make_graph(nodes, "policy", infos[:-2], infos[-2:], constants))


def _order(actions: ActionSpec) -> tuple[NamedAction, ...]:
    """The game's order; for policies of other engines, all continuous values, then the branches."""
    if actions.named:
        return actions.named
    values = (NamedAction("continuous", actions.continuous_size, False),) if actions.continuous_size else ()
    return (*values, *(NamedAction(f"branch {i}", size, True) for i, size in enumerate(actions.discrete_branches)))


def _padded(actions: ActionSpec) -> bool:
    """Whether log deviations follow the means."""
    return bool(actions.continuous_size and actions.discrete_size)


def _width(actions: ActionSpec) -> int:
    """Number of values of ``output``."""
    return actions.mask_size + actions.continuous_size * (1 + _padded(actions))


def _parts(graph: GraphWriter, actions: ActionSpec) -> Iterator[str]:
    """The parts of ``output``, in order."""
    start = branch = 0
    for action in _order(actions):
        if action.discrete:
            yield f"branch_{branch}.logits"
            branch += 1
            continue
        mean = graph.columns(names.DETERMINISTIC_CONTINUOUS, f"mean_{start}", slice(start, start + action.size))
        yield mean
        if _padded(actions):
            yield graph.clip(mean, f"deviation_{start}", 0.0, 0.0)
        start += action.size


def _used(graph: GraphWriter, outside: Mapping[str, str]) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """The nodes and constants that the outputs need; ``outside``: names of inputs and outputs, others get a prefix."""
    wanted, nodes = {_OUTPUT, _STATE_OUT}, []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            nodes.append(node)

    def renamed(name: str) -> str:
        return outside.get(name, f"{_INNER}{name}" if name else "")

    for node in nodes:
        node.input[:], node.output[:] = map(renamed, node.input), map(renamed, node.output)
    constants = [constant for constant in graph.initializers if constant.name in wanted]
    for constant in constants:
        constant.name = renamed(constant.name)
    return nodes[::-1], constants


def verify_godot(data: bytes, network: ActorCritic, spec: BehaviorSpec) -> None:
    """Check the content of a model file against the network that it was written from. Raises ExportError."""
    check_valid(data)
    session, reference = session_of(data), Reference(network)
    visible = visible_sensors(network.spec, spec)
    for case in cases(spec, 0, np.random.default_rng(0)):
        if case.forbidden is not None and case.forbidden.any():
            continue  # Godot has no masks
        feed = {s.name: obs for s, obs in zip(spec.observations, case.obs, strict=True) if s.size}
        state = np.ones(len(case.obs[0]), np.float32)
        outputs = run_feed(session, {**feed, _STATE_IN: state})
        expected = _expected(reference(tuple(case.obs[i] for i in visible)), network, spec.actions)
        compare(case, _OUTPUT, outputs[_OUTPUT], expected, "the network")
        compare(
            case, _STATE_OUT, outputs[_STATE_OUT], Value(state.astype(np.float64), np.zeros(len(state))), "its input"
        )


def _expected(found: ReferenceOutput, network: ActorCritic, actions: ActionSpec) -> Value:
    """What ``output`` must hold, [n, sum]."""
    head, start, branch = network.action, 0, network.action.leveled
    continuous = found.continuous
    if head.levels is not None and head.leveled:
        best = np.stack([logits.value.argmax(axis=1) for logits in found.branches[: head.leveled]], axis=1)
        continuous = Value(2.0 * best / (head.levels - 1) - 1.0, np.full(best.shape, 1e-5))
    values: list[Value] = []
    for action in _order(actions):
        if action.discrete:
            values.append(found.branches[branch])
            branch += 1
            continue
        part = slice(start, start + action.size)
        values.append(Value(continuous.value[:, part], continuous.error[:, part]))
        if _padded(actions):
            values.append(Value(np.zeros_like(values[-1].value), np.zeros_like(values[-1].value)))
        start += action.size
    return Value(*(np.concatenate(columns, axis=1) for columns in zip(*values, strict=True)))
