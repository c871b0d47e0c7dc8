from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tau_trainer.errors import ExportError
from tau_trainer.export import Linear, PolicyGraph
from tau_trainer.export.build import build_model
from tau_trainer.export.distribution import check_distribution, clipped_gaussian
from tau_trainer.export.session import session_of

MakeGraph = Callable[..., PolicyGraph]


def test_moments_of_the_clipped_gaussian() -> None:
    mu, sigma = np.array([0.0, 2.5, -4.0, 1.0, 50.0]), np.array([1.0, 1.5, 2.0, 0.01, 1.0])
    draws = np.clip(np.random.default_rng(0).normal(mu, sigma, (400_000, 5)), -3, 3) / 3
    mean, std = clipped_gaussian(mu, sigma)
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(std, draws.std(axis=0), atol=2e-3)


def _check(model_of: PolicyGraph, truth: PolicyGraph) -> None:
    check_distribution(session_of(build_model(model_of).SerializeToString()), truth, np.random.default_rng(0))


def test_right_models_pass_with_any_seed(make_graph: MakeGraph) -> None:
    for seed in range(5):
        graph = make_graph(continuous=2, branches=(3, 5), normalize=True, seed=seed)
        _check(graph, graph)


def test_a_wrong_width_is_found(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=2)
    assert graph.log_sigma is not None
    with pytest.raises(ExportError, match="'continuous_actions' is off"):
        _check(replace(graph, log_sigma=graph.log_sigma + 0.5), graph)


def test_a_wrong_mean_is_found(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=2)
    assert graph.mu is not None
    with pytest.raises(ExportError, match="mean of 'continuous_actions' is off"):
        _check(replace(graph, mu=Linear(graph.mu.weight, graph.mu.bias + 0.3)), graph)


def test_wrong_frequencies_are_found(make_graph: MakeGraph) -> None:
    graph = make_graph(branches=(4,))
    other = Linear(graph.branches[0].weight, graph.branches[0].bias + np.array([0.6, 0, 0, -0.6], np.float32))
    with pytest.raises(ExportError, match="'discrete_actions' branch 0"):
        _check(replace(graph, branches=[other]), graph)
