"""What is special in the hand-written step of sac_ln; test_fused_sac.py holds what both have."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tau_trainer.specs import ActionSpec
from tests.algorithms.accelerators.test_fused_sac import assert_same, pair
from tests.algorithms.experience import TWO_STREAMS
from tests.algorithms.off_policy.test_sac import KINDS
from tests.algorithms.replayed import random_batch, sac_ln, sac_ln_settings


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_three_steps_are_the_same(kind: str, layers: int, weighted: bool) -> None:
    ours, theirs = pair(KINDS[kind], sac_ln_settings({"num_layers": layers}, TWO_STREAMS, tau=0.2), sac_ln)
    batch, _ = random_batch(ours, rows=30, weighted=weighted)
    other = batch._replace(errors=batch.errors.clone())
    with torch.no_grad():
        for one in (ours, theirs):
            one.module.rescale(3.0)
            one._returns.meet(15.0)
        found, wanted = (one.learn(rows, 3, 1e-3) for one, rows in ((ours, batch), (theirs, other)))
    np.testing.assert_allclose(batch.errors.numpy(), other.errors.numpy(), rtol=1e-4, atol=1e-5)
    assert (batch.errors > 0).all()
    assert found.shape == (3, 6)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    assert_same(ours, theirs, rtol=1e-4)
    assert int(ours.parameters.optimizer.step) == 3


def test_log_sigmas_beyond_their_limits_get_no_gradient() -> None:
    ours, theirs = pair(ActionSpec(4), sac_ln_settings(), sac_ln, wide=25.0)
    batch, _ = random_batch(ours, rows=40)
    with torch.no_grad():
        for one in (ours, theirs):
            one._returns.meet(5.0)
            one.learn(batch, 1, 1e-3)
    gradient = ours.parameters.views(ours.parameters.optimizer.gradient)["network.action.bias"]
    assert gradient[4:8].ne(0).tolist() == [False, True, False, False]
    assert_same(ours, theirs, rtol=1e-4)
