from __future__ import annotations

import numpy as np

from tau_trainer.models.masks import branch_bounds, effective_mask


def test_bounds_of_branches() -> None:
    assert branch_bounds((3, 1, 2)) == ((0, 3), (3, 4), (4, 6))
    assert branch_bounds(()) == ()


def test_branch_that_forbids_everything_is_freed() -> None:
    mask = np.array([[True, True, True, False, True], [False, True, True, True, True]])
    result = effective_mask(mask, (3, 2))
    assert result.tolist() == [[False, False, False, False, True], [False, True, True, False, False]]
    assert mask[0].all() == np.False_
    assert mask[0, :3].all(), "the caller's mask is not written to"


def test_ordinary_mask_is_returned_as_it_is() -> None:
    mask = np.array([[True, False, False, True]])
    assert effective_mask(mask, (2, 2)) is mask
