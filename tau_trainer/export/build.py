"""Writes a :class:`PolicyGraph` as an ONNX model, node by node.

Nothing is traced and no exporter of a framework takes part, so the file depends on this page alone: its names,
operators and versions cannot change with a torch release. Operators are those found in files of mlagents 1.1.0,
plus LogSoftmax (known to Barracuda and Sentis) in place of Log(Softmax), which gives minus infinity when masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tau_trainer.errors import ExportError
from tau_trainer.export import names
from tau_trainer.export.graph import ACTION_LIMIT, MASKED_LOGIT, NORMALIZED_LIMIT, Linear, PolicyGraph
from tau_trainer.specs import ObservationSpec


def build_model(graph: PolicyGraph, opset: int = names.DEFAULT_OPSET) -> onnx.ModelProto:
    """The ONNX model of ``graph``: inputs ``obs_i`` (and ``action_masks``), outputs as in :mod:`.names`.

    Args:
        graph: the policy.
        opset: operator set to write, 9 to 15.

    Raises:
        ExportError: ``opset`` is outside what Unity's runtimes read.
    """
    if not names.MIN_OPSET <= opset <= names.MAX_OPSET:
        raise ExportError(
            f"Opset {opset} cannot be exported: Unity reads {names.MIN_OPSET} to {names.MAX_OPSET}; choose one of them."
        )
    writer = _Writer(opset)
    features = _write_body(writer, graph, _write_input(writer, graph))
    writer.output_constant(names.VERSION_NUMBER, np.array([names.MODEL_VERSION], np.float32))
    writer.output_constant(names.MEMORY_SIZE, np.zeros(1, np.float32))
    if graph.mu is not None:
        _write_continuous(writer, graph, graph.mu, features)
    if graph.branches:
        _write_discrete(writer, graph, features)
    return _finish(writer, graph, opset)


class _Writer:
    """Collects nodes and constants; hides what differs between operator sets 9 and 15."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def add(self, kind: str, inputs: Sequence[str], output: str, **attributes: int | float | list[int]) -> str:
        """Appends a node and returns the name of its one output."""
        node = helper.make_node(kind, list(inputs), [output], name=f"{output}.{kind}")
        node.attribute.extend(helper.make_attribute(key, value) for key, value in sorted(attributes.items()))
        self.nodes.append(node)
        return output

    def constant(self, name: str, values: NDArray[np.generic]) -> str:
        """Stores ``values`` in the file and returns their name."""
        self.initializers.append(numpy_helper.from_array(np.array(values, order="C"), name))
        return name

    def scalar(self, name: str, value: float) -> str:
        """A float constant without dimensions."""
        return self.constant(name, np.array(value, np.float32))

    def output_constant(self, name: str, values: NDArray[np.float32]) -> None:
        """A constant output: stored, then passed through Identity as in ML-Agents' own files."""
        self.add("Identity", [self.constant(f"{name}.value", values)], name)

    def linear(self, layer: Linear, x: str, output: str) -> str:
        """``x @ weight + bias``."""
        weight = self.constant(f"{output}.weight", layer.weight.T)
        bias = self.constant(f"{output}.bias", layer.bias)
        return self.add("Gemm", [x, weight, bias], output, alpha=1.0, beta=1.0, transB=1)

    def clip(self, x: str, output: str, low: float, high: float) -> str:
        """Limits to ``[low, high]``: attributes before opset 11, inputs from then on."""
        if self.opset < 11:
            return self.add("Clip", [x], output, min=low, max=high)
        return self.add("Clip", [x, self.scalar(f"{output}.min", low), self.scalar(f"{output}.max", high)], output)

    def sum_columns(self, x: str, output: str) -> str:
        """Sum over axis 1, kept as a dimension: attribute before opset 13, input from then on."""
        if self.opset < 13:
            return self.add("ReduceSum", [x], output, axes=[1], keepdims=1)
        return self.add("ReduceSum", [x, self.constant(f"{output}.axes", np.array([1], np.int64))], output, keepdims=1)

    def columns(self, x: str, output: str, part: slice) -> str:
        """``x[:, part]``: attributes before opset 10, inputs from then on."""
        start, stop = int(part.start), int(part.stop)
        if self.opset < 10:
            return self.add("Slice", [x], output, axes=[1], starts=[start], ends=[stop])
        limits = {"starts": start, "ends": stop, "axes": 1}
        inputs = [self.constant(f"{output}.{key}", np.array([value], np.int64)) for key, value in limits.items()]
        return self.add("Slice", [x, *inputs], output)

    def concat(self, parts: Sequence[str], output: str) -> str:
        """The parts side by side along axis 1."""
        return self.add("Concat", parts, output, axis=1) if len(parts) > 1 else self.add("Identity", parts, output)


def _write_input(writer: _Writer, graph: PolicyGraph) -> str:
    """Visible sensors flattened, side by side and normalised: [batch, input_size]."""
    flat = [_flatten(writer, graph.observations[i], names.observation_name(i)) for i in range(len(graph.observations))]
    x = writer.concat([flat[i] for i in graph.sensors], "observation")
    for index in sorted(set(range(len(flat))) - set(graph.sensors)):
        # Optimisers drop inputs that nothing reads, and Unity then rejects the model. Clip to [0, 0] gives 0 for
        # every number, also for infinity, where a product with 0 would not.
        zeros = writer.clip(flat[index], f"hidden_{index}.zeros", 0.0, 0.0)
        x = writer.add("Add", [x, writer.sum_columns(zeros, f"hidden_{index}.zero")], f"hidden_{index}.observation")
    if graph.normalization is None:
        return x
    centred = writer.add("Sub", [x, writer.constant("normalizer.mean", graph.normalization.mean[None])], "centred")
    scaled = writer.add("Div", [centred, writer.constant("normalizer.std", graph.normalization.std[None])], "scaled")
    return writer.clip(scaled, "normalized", -NORMALIZED_LIMIT, NORMALIZED_LIMIT)


def _flatten(writer: _Writer, sensor: ObservationSpec, name: str) -> str:
    if len(sensor.shape) == 1:
        return name
    shape = writer.constant(f"{name}.shape", np.array([-1, sensor.size], np.int64))
    return writer.add("Reshape", [name, shape], f"{name}.flat")


def _write_body(writer: _Writer, graph: PolicyGraph, x: str) -> str:
    """Hidden layers with swish."""
    for i, layer in enumerate(graph.body):
        linear = writer.linear(layer, x, f"body_{i}.linear")
        x = writer.add("Mul", [linear, writer.add("Sigmoid", [linear], f"body_{i}.sigmoid")], f"body_{i}")
    return x


def _write_continuous(writer: _Writer, graph: PolicyGraph, head: Linear, features: str) -> None:
    """``clip(mu + sigma * epsilon, -3, 3) / 3``, and the same without noise."""
    assert graph.log_sigma is not None
    mu = writer.linear(head, features, "mu")
    epsilon = writer.add("RandomNormalLike", [mu], "epsilon_sample")
    sigma = writer.constant("sigma", np.exp(graph.log_sigma)[None])
    sample = writer.add("Add", [mu, writer.add("Mul", [epsilon, sigma], "noise")], "sample")
    limit = writer.scalar("action_limit", ACTION_LIMIT)
    clipped = writer.clip(sample, "sample_clipped", -ACTION_LIMIT, ACTION_LIMIT)
    writer.add("Div", [clipped, limit], names.CONTINUOUS)
    writer.output_constant(names.CONTINUOUS_SHAPE, np.array([graph.actions.continuous_size], np.float32))
    clipped = writer.clip(mu, "mu_clipped", -ACTION_LIMIT, ACTION_LIMIT)
    writer.add("Div", [clipped, limit], names.DETERMINISTIC_CONTINUOUS)


def _write_discrete(writer: _Writer, graph: PolicyGraph, features: str) -> None:
    """Per branch: masked logits, a draw from their softmax, and the most likely action."""
    one, masked = writer.scalar("one", 1.0), writer.scalar("masked_logit", -MASKED_LOGIT)
    samples, best = [], []
    for i, (head, part) in enumerate(zip(graph.branches, graph.branch_slices, strict=True)):
        logits = writer.linear(head, features, f"branch_{i}.logits")
        whole = len(graph.branches) == 1
        mask = names.ACTION_MASKS if whole else writer.columns(names.ACTION_MASKS, f"branch_{i}.mask", part)
        allowed = writer.add("Mul", [logits, mask], f"branch_{i}.allowed")
        forbidden = writer.add("Sub", [one, mask], f"branch_{i}.forbidden")
        penalty = writer.add("Mul", [forbidden, masked], f"branch_{i}.penalty")
        logits = writer.add("Sub", [allowed, penalty], f"branch_{i}.masked")
        log_probs = writer.add("LogSoftmax", [logits], f"branch_{i}.log_probs", axis=1)
        draw = {"dtype": int(TensorProto.INT64), "sample_size": 1}
        samples.append(writer.add("Multinomial", [log_probs], f"branch_{i}.sample", **draw))
        best.append(writer.add("ArgMax", [logits], f"branch_{i}.best", axis=1, keepdims=1))
    writer.concat(samples, names.DISCRETE)
    writer.output_constant(names.DISCRETE_SHAPE, np.array([graph.actions.discrete_branches], np.float32))
    writer.concat(best, names.DETERMINISTIC_DISCRETE)


def expected_shapes(graph: PolicyGraph) -> dict[str, tuple[int, list[str | int]]]:
    """Element type and shape of every input and output of the exported model, by name, in file order."""
    actions, real, integer = graph.actions, int(TensorProto.FLOAT), int(TensorProto.INT64)
    shapes: dict[str, tuple[int, list[str | int]]] = {
        names.observation_name(i): (real, [names.BATCH, *sensor.shape]) for i, sensor in enumerate(graph.observations)
    }
    shapes |= {
        names.ACTION_MASKS: (real, [names.BATCH, actions.mask_size]),
        names.VERSION_NUMBER: (real, [1]),
        names.MEMORY_SIZE: (real, [1]),
        names.CONTINUOUS: (real, [names.BATCH, actions.continuous_size]),
        names.CONTINUOUS_SHAPE: (real, [1]),
        names.DETERMINISTIC_CONTINUOUS: (real, [names.BATCH, actions.continuous_size]),
        names.DISCRETE: (integer, [names.BATCH, actions.discrete_size]),
        names.DISCRETE_SHAPE: (real, [1, actions.discrete_size]),
        names.DETERMINISTIC_DISCRETE: (integer, [names.BATCH, actions.discrete_size]),
    }
    present = (*names.input_names(len(graph.observations), actions), *names.output_names(actions))
    return {name: shapes[name] for name in present}


def _finish(writer: _Writer, graph: PolicyGraph, opset: int) -> onnx.ModelProto:
    infos = {
        name: helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in expected_shapes(graph).items()
    }
    body = helper.make_graph(
        writer.nodes,
        "policy",
        [infos[name] for name in names.input_names(len(graph.observations), graph.actions)],
        [infos[name] for name in names.output_names(graph.actions)],
        writer.initializers,
    )
    return helper.make_model(
        body,
        ir_version=names.IR_VERSION,
        opset_imports=[helper.make_opsetid("", opset)],
        producer_name="tau-trainer",
        producer_version=_version(),
    )


def _version() -> str:
    try:
        return metadata.version("tau-trainer")
    except metadata.PackageNotFoundError:
        return "unknown"
