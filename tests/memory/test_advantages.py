"""One formula for arrays in order of arrival and for tensors in order of time; the oracle is in `test_rollout.py`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tau_trainer.memory.advantages import accumulate, gae


def test_one_chain_sums_with_discount() -> None:
    delta = np.ones((4, 1))
    factor = np.array([0.5, 0.5, 0.5, 0.0])
    following = np.array([1, 2, 3, 0])
    assert accumulate(delta, factor, following)[:, 0].tolist() == [1.875, 1.75, 1.5, 1.0]


@pytest.mark.parametrize("lambd", [0.0, 1.0])
def test_without_a_trace_advantages_are_a_copy(lambd: float) -> None:
    rewards, nothing = np.arange(3.0)[:, None], np.zeros((3, 1))
    advantages = gae(rewards, nothing, nothing, nothing[:, 0] * lambd, 0.9, np.zeros(3, np.intp))
    assert not np.shares_memory(advantages, rewards)
    assert advantages.tolist() == rewards.tolist()


@pytest.mark.parametrize("length", [1, 2, 3, 63, 64, 65, 1000])
def test_any_length_equals_the_loop(length: int) -> None:
    rng = np.random.default_rng(length)
    delta, factor = rng.normal(size=(length, 2)), rng.uniform(0.5, 1.0, length)
    factor[-1] = 0.0
    expected = delta.copy()
    for row in reversed(range(length - 1)):
        expected[row] += factor[row] * expected[row + 1]
    following = np.minimum(np.arange(length) + 1, length - 1)
    np.testing.assert_allclose(accumulate(delta.copy(), factor, following), expected, rtol=1e-12, atol=1e-12)


def test_time_first_is_the_same_as_any_order() -> None:
    """Six agents for 20 steps, whose traces end now and then, once as [T, E, R] and once shuffled as [N, R]."""
    steps, copies = 20, 6
    drawn = torch.Generator().manual_seed(3)
    rewards, values, after = (torch.randn(steps, copies, 2, generator=drawn, dtype=torch.float64) for _ in range(3))
    goes_on = (torch.rand(steps, copies, generator=drawn) < 0.8).double()
    goes_on[-1] = 0.0
    dense = gae(rewards, values, after, 0.72 * goes_on, 0.9, None)
    order = torch.randperm(steps * copies, generator=drawn)
    place = torch.argsort(order)
    following = place[torch.clamp(order + copies, max=steps * copies - 1)]
    rewards, values, after = (found.flatten(0, 1)[order] for found in (rewards, values, after))
    goes_on = goes_on.flatten()[order]
    ragged = gae(rewards, values, after, 0.72 * goes_on, 0.9, following)
    torch.testing.assert_close(ragged, dense.flatten(0, 1)[order])
    arrays = gae(rewards.numpy(), values.numpy(), after.numpy(), 0.72 * goes_on.numpy(), 0.9, following.numpy())
    np.testing.assert_array_equal(arrays, ragged.numpy())
