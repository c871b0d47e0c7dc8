from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tau_trainer.errors import ExportError
from tau_trainer.export import PolicyGraph
from tau_trainer.export.build import build_model
from tau_trainer.export.session import run, run_feed, session_of

MakeGraph = Callable[..., PolicyGraph]


def test_one_seed_gives_the_same_samples_and_another_does_not(make_graph: MakeGraph) -> None:
    graph = make_graph(continuous=2, branches=(5,))
    model, obs = build_model(graph).SerializeToString(), (np.ones((50, 5), np.float32),)
    first, again, other = (run(session_of(model, seed), graph, obs, None) for seed in (3, 3, 4))
    for name in ("continuous_actions", "discrete_actions"):
        assert np.array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])


def test_the_mask_is_turned_round_for_the_model(make_graph: MakeGraph) -> None:
    graph = make_graph(branches=(3,))
    forbidden = np.array([[True, False, True], [True, True, False]])
    session = session_of(build_model(graph).SerializeToString())
    outputs = run(session, graph, (np.zeros((2, 5), np.float32),), forbidden)
    assert outputs["discrete_actions"].tolist() == [[1], [2]]


def test_faults_are_told_as_export_errors(make_graph: MakeGraph) -> None:
    with pytest.raises(ExportError, match="cannot load the model"):
        session_of(b"no model")
    session = session_of(build_model(make_graph(continuous=1)).SerializeToString())
    with pytest.raises(ExportError, match="cannot run the model"):
        run_feed(session, {"obs_0": np.zeros((2, 9), np.float32)})
