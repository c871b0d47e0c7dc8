from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tau_trainer.export import Linear, Normalization, PolicyGraph
from tau_trainer.export.reference import forward

MakeGraph = Callable[..., PolicyGraph]


def test_by_hand(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=1, branches=(2,), shapes=((1,),), hidden=(1,), normalize=True)
    one = Linear(np.array([[2.0]], np.float32), np.array([1.0], np.float32))
    graph = replace(
        graph,
        body=[one],
        mu=one,
        branches=[Linear(np.array([[1.0, -1.0]], np.float32), np.array([0.0, 0.5], np.float32))],
        normalization=Normalization(np.array([1.0], np.float32), np.array([0.5], np.float32)),
    )
    out = forward(graph, (np.array([[1.25], [100.0]], np.float32),), np.array([[True, False], [False, False]]))
    # (1.25 - 1) / 0.5 = 0.5 and (100 - 1) / 0.5 clipped to 5; 2x + 1 = 2 and 11; swish
    h = np.array([2 / (1 + np.exp(-2.0)), 11 / (1 + np.exp(-11.0))])
    np.testing.assert_allclose(out.mu.value[:, 0], 2 * h + 1, rtol=1e-12)
    np.testing.assert_allclose(out.continuous.value[:, 0], [1.0, 1.0])
    np.testing.assert_allclose(out.branches[0].value, [[-1e8, 0.5 - h[0]], [h[1], 0.5 - h[1]]], rtol=1e-12)
    assert out.best().tolist() == [[1], [0]]
    np.testing.assert_allclose(out.probabilities(0)[0], [0.0, 1.0])


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e5])
def test_float32_stays_within_the_bound(make_graph: MakeGraph, scale: float) -> None:
    for seed in range(5):
        graph = make_graph(continuous=3, shapes=((64,),), hidden=(64, 64), seed=seed)
        obs = (scale * np.random.default_rng(seed).standard_normal((32, 64))).astype(np.float32)
        x = obs
        for layer in graph.body:
            x = x @ layer.weight + layer.bias
            x = x * (np.float32(0.5) * (1 + np.tanh(np.float32(0.5) * x)))
        assert graph.mu is not None
        expected = forward(graph, (obs,)).mu
        assert (np.abs(x @ graph.mu.weight + graph.mu.bias - expected.value) <= expected.error).all()
        assert expected.error.max() < 1e-3 * scale  # tight enough to see a wrong weight


def test_without_discrete_actions_there_is_no_choice(make_graph: MakeGraph) -> None:
    out = forward(make_graph(continuous=2), (np.zeros((4, 5), np.float32),))
    assert out.best().shape == (4, 0)
    assert out.branches == ()
