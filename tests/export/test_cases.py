from __future__ import annotations

import numpy as np

from tau_trainer.export.cases import cases, random_mask
from tau_trainer.models.distributions import branch_bounds
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.networks import IMAGE, LIST


def behavior(branches: tuple[int, ...] = ()) -> BehaviorSpec:
    sensors = (ObservationSpec("a", (5,)), ObservationSpec("b", (2, 2)), IMAGE)
    return BehaviorSpec("Test", sensors, ActionSpec(1, branches))


def test_masks_leave_one_action_of_every_branch() -> None:
    spec, rng = behavior((4, 1, 3)), np.random.default_rng(0)
    for allowed in (0.0, 0.3, 1.0):
        forbidden = random_mask(spec, 500, allowed, rng)
        left = [(~forbidden[:, begin:end]).sum(axis=1) for begin, end in branch_bounds((4, 1, 3))]
        assert all((count >= 1).all() for count in left)
        if allowed == 0.0:
            assert all((count == 1).all() for count in left)
        if allowed == 1.0:
            assert not forbidden.any()


def test_cases_cover_the_edges() -> None:
    found = list(cases(behavior((3,)), 4, np.random.default_rng(0)))
    assert {len(case.obs[0]) for case in found} == {1, 7}
    assert any(not any(values.any() for values in case.obs) for case in found)
    assert max(np.abs(case.obs[0]).max() for case in found) > 100
    assert all(case.obs[1].shape[1:] == (2, 2) and case.obs[1].dtype == np.float32 for case in found)
    assert all(case.obs[2].dtype == np.uint8 for case in found)
    assert {0, 255} <= set(np.concatenate([case.obs[2].ravel() for case in found]).tolist())
    assert any(case.forbidden is not None and case.forbidden.sum() == 2 * len(case.forbidden) for case in found)
    assert all(case.state is not None and case.state.shape == (len(case.obs[0]), 4) for case in found)
    assert any(case.state is not None and (case.state < 0).any() and (case.state > 0).any() for case in found)


def test_lists_are_full_empty_and_in_between() -> None:
    found = list(cases(BehaviorSpec("Test", (LIST,), ActionSpec(1)), 0, np.random.default_rng(0)))
    there = [(case.obs[0] != 0).any(axis=2) for case in found if not case.name.startswith("zeros")]
    for rows in there:
        assert rows[0].all()
        assert len(rows) == 1 or not rows[1].any()
    counts = set(np.concatenate([rows.sum(axis=1) for rows in there]).tolist())
    assert {1, 2} & counts
    assert not all(case.obs[0].any() for case in found), "one agent alone sees nobody, too"


def test_what_a_policy_does_not_have_is_none() -> None:
    found = list(cases(behavior(), 0, np.random.default_rng(0)))
    assert len(found) == 6
    assert all(case.forbidden is None and case.state is None for case in found)
