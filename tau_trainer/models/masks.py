"""Action masks of discrete branches. ``True`` means forbidden."""

from __future__ import annotations

import numpy as np

from tau_trainer.specs import BoolArray

MASKED_LOGIT = -1e8
"""Logit of a forbidden action (ML-Agents' number); its probability is exactly 0 in float32."""


def branch_bounds(branches: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """First column and end of each branch in a flat row of logits or masks."""
    ends = np.cumsum(branches, dtype=np.int64).tolist()
    return tuple((end - size, end) for end, size in zip(ends, branches, strict=True))


def effective_mask(mask: BoolArray, branches: tuple[int, ...]) -> BoolArray:
    """The mask that acting and learning use: a branch with every action forbidden counts as free of masks.

    A game that forbids everything in a branch does not care what is chosen there, and ML-Agents' engine side takes
    any index then; a distribution over nothing does not exist.

    Args:
        mask: bool [n, sum of branches].
        branches: size of each branch.

    Returns:
        ``mask`` itself where no branch is forbidden as a whole, else a corrected copy.
    """
    for begin, end in branch_bounds(branches):
        blocked = mask[:, begin:end].all(axis=1)
        if blocked.any():
            mask = mask.copy()
            mask[blocked, begin:end] = False
    return mask
