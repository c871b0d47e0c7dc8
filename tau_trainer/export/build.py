"""Writes a network as an ONNX model, block by block.

Operators are those found in files of mlagents 1.1.0, plus LogSoftmax (known to Barracuda and Sentis).
"""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from tau_trainer import __version__
from tau_trainer.errors import ExportError
from tau_trainer.models import ActorCritic
from tau_trainer.models import tensor_names as names
from tau_trainer.models.graph import GraphWriter
from tau_trainer.specs import BehaviorSpec

Shape = list[str | int]
Values = dict[str, tuple[int, Shape]]
"""Element type and shape of inputs or outputs by name, in file order."""
_REAL = int(TensorProto.FLOAT)


def build_model(network: ActorCritic, spec: BehaviorSpec) -> onnx.ModelProto:
    """The ONNX model of a network, with inputs and outputs as in :mod:`tau_trainer.models.tensor_names`.

    Unity feeds all sensors of an agent and warns about every one that the model does not take, so there is an input for
    every sensor of ``spec``, including those that the policy does not see. Only sensors of size 0 have none, because
    Unity does not accept a model with an empty input.

    Args:
        network: the policy's network.
        spec: the behavior with all its sensors, in wire order.

    Raises:
        ExportError: the policy does not fit the behavior.
        NonFiniteError: a weight is NaN or infinite.
    """
    visible, memory = visible_sensors(network.spec, spec), memory_size(network)
    graph = GraphWriter()
    inputs = [names.observation_name(i) for i in visible]
    read = [place for place, sensor in enumerate(network.spec.observations) if sensor.size and not sensor.hidden]
    first = read[0]
    fed = {place for place, sensor in enumerate(spec.observations) if sensor.size}
    for hidden in sorted(fed - {visible[place] for place in read}):
        inputs[first] = _without_effect(graph, spec, hidden, visible[first], inputs[first])
    graph.output_constant(names.VERSION_NUMBER, [names.MODEL_VERSION])
    graph.output_constant(names.MEMORY_SIZE, [memory])
    state = graph.reshape(names.RECURRENT_IN, "memory", [-1, memory]) if memory else None
    state = network.write(graph, inputs, state)
    if state is not None:
        graph.reshape(state, names.RECURRENT_OUT, [-1, 1, memory])
    inputs_and_outputs = _infos(expected_inputs(network, spec)), _infos(expected_outputs(network, spec))
    return model_of(helper.make_graph(graph.nodes, "policy", *inputs_and_outputs, graph.initializers))


def memory_size(network: ActorCritic) -> int:
    """Number of floats in one agent's recurrent state; 0 without memory."""
    return int(network.state_columns[0].shape[-1]) if network.state_columns else 0


def visible_sensors(policy: BehaviorSpec, spec: BehaviorSpec) -> tuple[int, ...]:
    """Indices in ``spec`` of the sensors that the policy sees, matched by name and shape, in order.

    Raises:
        ExportError: the policy sees a sensor that the behavior lacks, or acts differently.
    """
    if policy.actions != spec.actions:
        raise ExportError(
            f"Cannot export '{spec.name}': the policy has the actions {policy.actions}, but the behavior has "
            f"{spec.actions}; export it with the behavior that it was trained on."
        )
    free = list(range(len(spec.observations)))
    found: list[int] = []
    for wanted in policy.observations:
        sensor = wanted.name, wanted.shape
        same = [i for i in free if (spec.observations[i].name, spec.observations[i].shape) == sensor]
        if not same:
            raise ExportError(
                f"Cannot export '{spec.name}': the policy sees a sensor '{wanted.name}' of shape {wanted.shape} "
                "that the behavior does not have; export it with the behavior that it was trained on."
            )
        free.remove(same[0])
        found.append(same[0])
    return tuple(found)


def _without_effect(graph: GraphWriter, spec: BehaviorSpec, hidden: int, seen: int, x: str) -> str:
    """``x`` plus 0, where the 0 is computed from a hidden sensor.

    Optimizers remove unused inputs, and Unity then rejects the model. Clipping to [0, 0] gives 0 for every number,
    even for infinity, unlike a product with 0.
    """
    name = names.observation_name(hidden)
    if len(spec.observations[hidden].shape) > 1:
        name = graph.reshape(name, f"hidden_{hidden}.flat", [-1, spec.observations[hidden].size])
    zero = graph.total(graph.clip(name, f"hidden_{hidden}.zeros", 0.0, 0.0), f"hidden_{hidden}.zero")
    if len(spec.observations[seen].shape) > 1:
        zero = graph.reshape(zero, f"hidden_{hidden}.shaped", [-1] + [1] * len(spec.observations[seen].shape))
    return graph.add("Add", [x, zero], f"hidden_{hidden}.observation")


def expected_inputs(network: ActorCritic, spec: BehaviorSpec) -> Values:
    """All inputs of the exported model; masks only with discrete actions, state only with memory."""
    memory = memory_size(network)
    shapes: dict[str, Shape] = {
        names.observation_name(i): [names.BATCH, *sensor.shape]
        for i, sensor in enumerate(spec.observations)
        if sensor.size
    }
    if spec.actions.discrete_size:
        shapes[names.ACTION_MASKS] = [names.BATCH, spec.actions.mask_size]
    if memory:
        shapes[names.RECURRENT_IN] = [names.BATCH, 1, memory]
    return {name: (_REAL, shape) for name, shape in shapes.items()}


def expected_outputs(network: ActorCritic, spec: BehaviorSpec) -> Values:
    """All outputs, in the order of files written by ML-Agents."""
    memory = memory_size(network)
    continuous = spec.actions.continuous_size
    discrete = spec.actions.discrete_size
    values: Values = {names.VERSION_NUMBER: (_REAL, [1]), names.MEMORY_SIZE: (_REAL, [1])}
    if continuous:
        values[names.CONTINUOUS] = _REAL, [names.BATCH, continuous]
        values[names.CONTINUOUS_SHAPE] = _REAL, [1]
        values[names.DETERMINISTIC_CONTINUOUS] = values[names.CONTINUOUS]
    if discrete:
        values[names.DISCRETE] = int(TensorProto.INT64), [names.BATCH, discrete]
        values[names.DISCRETE_SHAPE] = _REAL, [1, discrete]
        values[names.DETERMINISTIC_DISCRETE] = values[names.DISCRETE]
    if memory:
        values[names.RECURRENT_OUT] = _REAL, [names.BATCH, 1, memory]
    return values


def _infos(values: Values) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, *value) for name, value in values.items()]


def model_of(body: onnx.GraphProto) -> onnx.ModelProto:
    """A file's content, with the versions that we write."""
    return helper.make_model(
        body,
        ir_version=names.IR_VERSION,
        opset_imports=[helper.make_opsetid("", names.OPSET)],
        producer_name="tau-trainer",
        producer_version=__version__,
    )
