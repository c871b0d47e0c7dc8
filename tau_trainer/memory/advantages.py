"""Advantages and returns over several steps, in one place for every layout of experience.

The arithmetic is the same for arrays and for tensors, so this module knows neither torch nor a device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    Numbers = TypeVar("Numbers", NDArray[Any], torch.Tensor)


def gae(rewards: Numbers, values: Numbers, after: Numbers, decay: Numbers, gamma: float, following: Any) -> Numbers:
    """Advantages ``A_t = d_t + gamma lambda A_t+1`` with ``d_t = r_t + gamma V'_t - V_t``.

    Generalised advantage estimation (Schulman et al. 2016, equations 11 to 16).

    All are arrays or all tensors, of one float type; ``N`` transitions, ``R`` numbers in a reward.

    Args:
        rewards: [N, R] of one stream; if time is the first dimension, [T, ..., R].
        values: the same shape: ``V``, of the observations.
        after: the same shape: ``V'``, of the next observations; 0 after a real end.
        decay: [N] or [T, ...], gamma lambda if later rewards of the same trace count, 0 at its end.
        gamma: discount.
        following: int [N], the agent's next transition, any valid one at the end of a trace; None: transitions are
            ordered by time, and the next ones are those of the next step.

    Returns:
        The same shape and type, in new memory.
    """
    advantages: Numbers = rewards + gamma * after - values  # d_t of every row
    if following is not None:
        return accumulate(advantages, decay, following)
    steps: Any = advantages  # only tensors have time first, and they multiply and add in one operation
    for t in range(len(rewards) - 2, -1, -1):  # the last step's advantage is its d_t
        steps[t].addcmul_(decay[t][..., None], steps[t + 1])  # A_t += decay_t A_t+1, all copies at once
    return advantages


def lambda_returns(rewards: Numbers, after: Numbers, trace: Numbers, gamma: float, following: Any) -> Numbers:
    """Returns of TD(lambda): ``G_t = r_t + gamma ((1 - l_t) V'_t + l_t G_t+1)`` (Sutton and Barto 2018, 12.18).

    Args:
        rewards: [N, R].
        after: [N, R]: ``V'``, of the next observations; 0 after a real end.
        trace: [N]: ``l_t``, lambda if the return of ``following`` is known and belongs to this one, otherwise 0.
        gamma: discount.
        following: int [N], any valid row if the trace is 0.

    Returns:
        [N, R], in new memory.
    """
    return accumulate(rewards + (gamma * (1.0 - trace))[:, None] * after, gamma * trace, following)


def accumulate(delta: Numbers, factor: Numbers, following: Any) -> Numbers:
    """Solve ``A[i] = delta[i] + factor[i] * A[following[i]]`` for all rows at once by pointer jumping.

    Every pass doubles the stretch that each row has summed, so the longest chain of ``T`` rows takes ``log2(T)`` passes
    and no Python loop over time (Wyllie's list ranking; Blelloch 1990, section 1.4).

    Args:
        delta: [N, R]; overwritten with the result.
        factor: [N]; 0 ends a chain.
        following: [N], any valid row if the factor is 0. Chains must not close to a ring.

    Returns:
        [N, R].
    """
    factor = factor[:, None]  # [N, 1]
    while factor.any():  # numpy's and torch's any(); waits for the device
        delta += factor * delta[following]  # reads the previous A: all rows change at once
        factor = factor * factor[following]  # the product of factors along the doubled stretch
        following = following[following]
    return delta
