from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import ExportError, NonFiniteError
from tau_trainer.export import Linear, Normalization, PolicyGraph
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec

MakeGraph = Callable[..., PolicyGraph]


def test_sizes_and_slices(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=2, branches=(3, 2), shapes=((4,), (2, 3), (7,)), visible=(2, 0))
    assert graph.input_size == 11
    assert graph.sensors == (2, 0)
    assert graph.branch_slices == (slice(0, 3), slice(3, 5))


def test_arrays_are_copied_and_read_only(make_graph: MakeGraph) -> None:
    weight = np.ones((5, 2), np.float32)
    graph = replace(make_graph(continuous=2, hidden=()), mu=Linear(weight, np.zeros(2, np.float32)))
    weight[:] = 7
    assert graph.mu is not None
    assert (graph.mu.weight == 1).all()
    with pytest.raises(ValueError, match="read-only"):
        graph.mu.weight[0, 0] = 3


@pytest.mark.parametrize("tensor", ["body", "mu", "log_sigma", "normalization"])
def test_non_finite_weights_are_named(make_graph: MakeGraph, tensor: str) -> None:
    graph = make_graph(continuous=1, normalize=True)
    broken: dict[str, Any] = {
        "body": [Linear(np.full((5, 16), np.nan, np.float32), np.zeros(16, np.float32)), graph.body[1]],
        "mu": Linear(np.full((16, 1), np.inf, np.float32), np.zeros(1, np.float32)),
        "log_sigma": np.array([np.nan], np.float32),
        "normalization": Normalization(np.full(5, np.nan, np.float32), np.ones(5, np.float32)),
    }
    named = {"body": "body layer 0 weight", "mu": "mu head weight", "log_sigma": "log_sigma", "normalization": "mean"}
    with pytest.raises(NonFiniteError, match=named[tensor]):
        replace(graph, **{tensor: broken[tensor]})


def test_an_infinite_width_is_refused(make_graph: MakeGraph) -> None:
    with pytest.raises(NonFiniteError, match="log_sigma reaches 100"):
        replace(make_graph(continuous=1), log_sigma=np.array([100.0], np.float32))


def test_shapes_that_do_not_fit_are_refused(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=2, branches=(3,), normalize=True)
    short = Normalization(np.zeros(4, np.float32), np.ones(4, np.float32))
    flat = Normalization(np.zeros(5, np.float32), np.zeros(5, np.float32))
    for change, text in (
        ({"body": graph.body[:0]}, "mu head has weight"),
        ({"mu": None}, "mu head and a log_sigma"),
        ({"log_sigma": np.zeros(3, np.float32)}, "log_sigma has shape"),
        ({"branches": ()}, "0 discrete heads for 1"),
        ({"normalization": short}, "mean has shape"),
        ({"normalization": flat}, "not positive"),
        ({"visible": ()}, "at least one"),
        ({"visible": (1,)}, "at least one that exists"),
        ({"log_sigma": np.zeros((1, 2), np.float32)}, "2 dimensions"),
    ):
        with pytest.raises(ExportError, match=text):
            replace(graph, **change)


def test_a_policy_without_actions_is_refused(make_graph: MakeGraph) -> None:
    with pytest.raises(ExportError, match="nothing to export"):
        make_graph()


def test_for_behavior_finds_the_visible_sensors_and_adds_the_hidden(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=1, shapes=((5,), (2,)))
    target, first, second = ObservationSpec("target", (3,)), *graph.observations
    spec = BehaviorSpec("B", (second, target, first), graph.actions)
    widened = graph.for_behavior(spec)
    assert widened.observations == spec.observations
    assert widened.sensors == (2, 0)
    assert widened.input_size == 7


def test_for_behavior_takes_sensors_of_one_name_in_order(make_graph: MakeGraph) -> None:
    same = ObservationSpec("ray", (2,))
    graph = replace(make_graph(continuous=1, shapes=((2,), (2,))), observations=(same, same))
    assert graph.for_behavior(BehaviorSpec("B", (same, same, same), graph.actions)).sensors == (0, 1)


def test_for_behavior_refuses_another_behavior(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=1)
    with pytest.raises(ExportError, match="sees a sensor 'sensor 0'"):
        graph.for_behavior(BehaviorSpec("B", (ObservationSpec("sensor 0", (6,)),), graph.actions))
    with pytest.raises(ExportError, match="the behavior wants"):
        graph.for_behavior(BehaviorSpec("B", graph.observations, ActionSpec(2)))
