from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.errors import NonFiniteError
from tau_trainer.models.graph import GraphWriter
from tests.models.graphs import run_graph

X = np.arange(24, dtype=np.float32).reshape(4, 6) - 10


def _write(graph: GraphWriter) -> list[str]:
    weight, bias = np.arange(12, dtype=np.float32).reshape(6, 2), np.array([5, 6], np.float32)
    return [
        graph.clip("x", "clipped", -3, 4),
        graph.total("x", "sum"),
        graph.columns("x", "part", slice(1, 3)),
        graph.concat(["x", "part"], "both"),
        graph.concat(["x"], "alone"),
        graph.reshape("x", "cubes", [-1, 2, 3]),
        graph.linear(weight, bias, "x", "linear"),
        graph.add("Mul", ["x", graph.scalar("two", 2)], "twice"),
        graph.output_constant("constant", [[3, 4]]),
        *graph.add_many("Split", ["x"], ["left", "right"], axis=1, **({} if graph.opset >= 13 else {"split": [3, 3]})),
    ]


@pytest.mark.parametrize("opset", range(9, 16))
def test_every_operator_set_says_the_same(opset: int) -> None:
    expected = [
        X.clip(-3, 4),
        X.sum(axis=1, keepdims=True),
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
    for found, wanted in zip(run_graph(_write, {"x": X}, opset=opset), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_no_file_can_hold_are_named(bad: float) -> None:
    with pytest.raises(NonFiniteError, match=r"policy's body_0\.linear\.weight holds NaN or infinity"):
        GraphWriter(9).constant("body_0.linear.weight", np.array([0.0, bad], np.float32))
