from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tau_trainer.export import PolicyGraph
from tau_trainer.export.cases import cases, random_mask

MakeGraph = Callable[..., PolicyGraph]


def test_masks_leave_one_action_of_every_branch(make_graph: MakeGraph) -> None:
    graph = make_graph(branches=(4, 1, 3))
    rng = np.random.default_rng(0)
    for allowed in (0.0, 0.3, 1.0):
        forbidden = random_mask(graph, 500, allowed, rng)
        left = [(~forbidden[:, part]).sum(axis=1) for part in graph.branch_slices]
        assert all((count >= 1).all() for count in left)
        if allowed == 0.0:
            assert all((count == 1).all() for count in left)
        if allowed == 1.0:
            assert not forbidden.any()


def test_cases_cover_the_edges(make_graph: MakeGraph) -> None:
    found = list(cases(make_graph(branches=(3,), shapes=((5,), (2, 2))), np.random.default_rng(0)))
    assert {len(case.obs[0]) for case in found} == {1, 7}
    assert any(not case.obs[0].any() for case in found)
    assert max(np.abs(case.obs[0]).max() for case in found) > 100
    assert all(case.obs[1].shape[1:] == (2, 2) and case.obs[1].dtype == np.float32 for case in found)
    assert any(case.forbidden is not None and case.forbidden.sum() == 2 * len(case.forbidden) for case in found)
