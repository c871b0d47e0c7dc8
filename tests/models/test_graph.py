from __future__ import annotations

import numpy as np

from tau_trainer.models.graph import GraphWriter
from tests.models.graphs import run_graph

X = np.arange(24, dtype=np.float32).reshape(4, 6) - 10


def _write(graph: GraphWriter) -> list[str]:
    weight, bias = np.arange(12, dtype=np.float32).reshape(6, 2), np.array([5, 6], np.float32)
    return [
        graph.clip("x", "clipped", -3, 4),
        graph.total("x", "sum"),
        graph.total(graph.reshape("x", "threes", [-1, 2, 3]), "last", axis=2),
        graph.swish("x", "swish"),
        graph.layer_norm("x", "normed", axis=1),
        graph.columns("x", "part", slice(1, 3)),
        graph.concat(["x", "part"], "both"),
        graph.concat(["x"], "alone"),
        graph.reshape("x", "cubes", [-1, 2, 3]),
        graph.linear(weight, bias, "x", "linear"),
        graph.add("Mul", ["x", graph.scalar("two", 2)], "twice"),
        graph.output_constant("constant", [[3, 4]]),
        *graph.add_many("Split", ["x"], ["left", "right"], axis=1, split=[3, 3]),
    ]


def test_nodes_say_what_their_names_say() -> None:
    expected = [
        X.clip(-3, 4),
        X.sum(axis=1, keepdims=True),
        X.reshape(4, 2, 3).sum(axis=2, keepdims=True),
        X / (1 + np.exp(-X)),
        (X - X.mean(axis=1, keepdims=True)) / np.sqrt(X.var(axis=1, keepdims=True) + 1e-5),
        X[:, 1:3],
        np.concatenate((X, X[:, 1:3]), axis=1),
        X,
        X.reshape(4, 2, 3),
        X @ np.arange(12).reshape(6, 2) + [5, 6],
        2 * X,
        [[3, 4]],
        X[:, :3],
        X[:, 3:],
    ]
    for found, wanted in zip(run_graph(_write, {"x": X}), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
