"""Runs what a block writes, without the rest of a model around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tau_trainer.export.session import run_feed, session_of
from tau_trainer.models.graph import GraphWriter
from tau_trainer.models.tensor_names import IR_VERSION, OPSET

Write = Callable[[GraphWriter], Sequence[str]]
"""Writes nodes and returns the names of the outputs."""


def run_graph(write: Write, feed: Mapping[str, Any], *, kind: int = TensorProto.FLOAT) -> list[Any]:
    """The outputs, all of element type ``kind``, for float32 inputs by name."""
    graph = GraphWriter()
    outputs = write(graph)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * np.ndim(feed[name])) for name in feed]
    infos = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
    body = helper.make_graph(graph.nodes, "block", inputs, infos, graph.initializers)
    imports = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(body, ir_version=IR_VERSION, opset_imports=imports)
    found = run_feed(session_of(model.SerializeToString()), dict(feed))
    return [found[name] for name in outputs]
