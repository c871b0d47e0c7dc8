"""Collects the nodes of an ONNX graph, of operator set 9.

Nothing is traced and no framework's exporter is used, so a file depends only on the blocks' own code: its names,
operators and versions cannot change with a torch release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import helper, numpy_helper

from tau_trainer.errors import NonFiniteError

if TYPE_CHECKING:
    import torch

NORM_EPSILON = 1e-5
"""Epsilon that layer normalisation adds to a variance."""


class GraphWriter:
    """Nodes and constants of one graph. Every method that adds a node returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def add(self, kind: str, inputs: Sequence[str], output: str, **attributes: int | float | list[int]) -> str:
        """Append a node with one output."""
        return self.add_many(kind, inputs, [output], **attributes)[0]

    def add_many(
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: int | float | list[int]
    ) -> list[str]:
        """Append a node; give an output that is not needed an empty name."""
        name = next(output for output in outputs if output)
        node = helper.make_node(kind, list(inputs), list(outputs), name=f"{name}.{kind}")
        node.attribute.extend(helper.make_attribute(key, value) for key, value in sorted(attributes.items()))
        self.nodes.append(node)
        return list(outputs)

    def constant(self, name: str, values: NDArray[np.generic]) -> str:
        """Store ``values`` in the file. Raises NonFiniteError if they contain NaN or infinity."""
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise NonFiniteError(
                f"The policy's {name} contains NaN or infinity and cannot be exported; use an earlier checkpoint."
            )
        self.initializers.append(numpy_helper.from_array(np.array(values, order="C"), name))
        return name

    def scalar(self, name: str, value: float) -> str:
        """A float constant without dimensions."""
        return self.constant(name, np.array(value, np.float32))

    def output_constant(self, name: str, values: ArrayLike) -> str:
        """A constant float output: stored, then passed through Identity as in ML-Agents' own files."""
        return self.add("Identity", [self.constant(f"{name}.value", np.asarray(values, np.float32))], name)

    def linear(self, weight: NDArray[np.float32], bias: NDArray[np.float32], x: str, output: str) -> str:
        """``x @ weight + bias``; weight [inputs, outputs], bias [outputs]."""
        inputs = [x, self.constant(f"{output}.weight", weight.T), self.constant(f"{output}.bias", bias)]
        return self.add("Gemm", inputs, output, alpha=1.0, beta=1.0, transB=1)

    def dense(self, layer: torch.nn.Linear, x: str, output: str) -> str:
        """A layer over features [batch, inputs]."""
        weight, bias = (values.detach().cpu().numpy() for values in (layer.weight.T, layer.bias))
        return self.linear(weight, bias, x, output)

    def convolution(self, layer: torch.nn.Conv2d, x: str, output: str) -> str:
        """A convolution over maps [batch, C, H, W], as wide as high."""
        values = {name: tensor.detach().cpu().numpy() for name, tensor in layer.named_parameters()}
        inputs = [x, *(self.constant(f"{output}.{name}", values[name]) for name in ("weight", "bias"))]
        (kernel, _), (stride, _), (padding, _) = layer.kernel_size, layer.stride, map(int, layer.padding)
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return self.add("Conv", inputs, output, **sizes)

    def swish(self, x: str, output: str) -> str:
        """``x * sigmoid(x)``."""
        return self.add("Mul", [x, self.add("Sigmoid", [x], f"{output}.sigmoid")], output)

    def layer_norm(self, x: str, output: str, axis: int) -> str:
        """Shift and scale to mean 0 and variance 1 along ``axis``, nothing learned (Ba et al. 2016)."""
        mean = self.add("ReduceMean", [x], f"{output}.mean", axes=[axis], keepdims=1)
        centred = self.add("Sub", [x, mean], f"{output}.centred")
        square = self.add("Mul", [centred, centred], f"{output}.square")
        variance = self.add("ReduceMean", [square], f"{output}.variance", axes=[axis], keepdims=1)
        sure = self.add("Add", [variance, self.scalar(f"{output}.epsilon", NORM_EPSILON)], f"{output}.sure")
        return self.add("Div", [centred, self.add("Sqrt", [sure], f"{output}.deviation")], output)

    def clip(self, x: str, output: str, low: float, high: float) -> str:
        """Limits to ``[low, high]``."""
        return self.add("Clip", [x], output, min=float(low), max=float(high))

    def total(self, x: str, output: str, axis: int = 1) -> str:
        """Sum over an axis, kept as a dimension."""
        return self.add("ReduceSum", [x], output, axes=[axis], keepdims=1)

    def columns(self, x: str, output: str, part: slice) -> str:
        """``x[:, part]``."""
        return self.add("Slice", [x], output, axes=[1], starts=[int(part.start)], ends=[int(part.stop)])

    def concat(self, parts: Sequence[str], output: str) -> str:
        """The parts side by side along axis 1."""
        return self.add("Concat", parts, output, axis=1) if len(parts) > 1 else self.add("Identity", parts, output)

    def reshape(self, x: str, output: str, shape: Sequence[int]) -> str:
        """``x`` in another shape; -1 = the remaining size, 0 = unchanged."""
        return self.add("Reshape", [x, self.constant(f"{output}.shape", np.array(shape, np.int64))], output)
