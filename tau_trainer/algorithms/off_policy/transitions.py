"""Transitions in the form that gradient steps of all algorithms use."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.models.blocks import NO_PAST, Past
from tau_trainer.models.observation_encoder import Inputs


class Transitions(NamedTuple):
    """``n`` transitions in the form that a gradient step needs."""

    inputs: list[torch.Tensor]
    """Observations from :meth:`ActorCritic.prepare`."""
    following: list[torch.Tensor]
    """The same for the next observations."""
    continuous: torch.Tensor
    """float32 [n, c], as in the memory."""
    discrete: torch.Tensor
    """int64 [n, b]."""
    forbidden: torch.Tensor
    """bool [n, sum of branches]: values that were forbidden at the decision."""
    rewards: torch.Tensor
    """float32 [n, S], of all streams, times their strength; the discounted sum of up to ``n_step`` of them."""
    goes_on: torch.Tensor
    """float32 [n, 1]: 0 after a real end, otherwise 1. The value of an episode that a limit cut continues.

    [n, S] if a stream's returns continue after a real end. With ``n_step``, it includes the discount of all steps but
    the first, so gamma times it is the weight of the value of :attr:`following`.
    """
    state: torch.Tensor
    """float32 [n, towers, M], for recurrent networks: their state at the decision; otherwise of length 0."""
    begins: torch.Tensor
    """bool [n], for recurrent networks: where a sequence starts; sequences follow one another without gaps."""
    forbidden_after: torch.Tensor
    """bool [n, sum of branches]: values that were forbidden at the next decision.

    Of length 0 unless :attr:`OffPolicy.masks_after`.
    """
    weights: torch.Tensor
    """float32 [n]: for prioritized memories, the weight of each transition in the loss of values.

    Otherwise of length 0.
    """
    errors: torch.Tensor
    """float32 [n]: for prioritized memories, a gradient step writes the errors of values here, >= 0."""

    @property
    def past(self) -> Past:
        """State and sequence starts, in the form that a network takes."""
        return Past(self.state, self.begins) if len(self.begins) else NO_PAST


def minibatch(drawn: Transitions, begin: int, end: int) -> Transitions:
    """Views of some of them; TorchScript understands it."""
    return Transitions(
        [values[begin:end] for values in drawn.inputs],
        [values[begin:end] for values in drawn.following],
        drawn.continuous[begin:end],
        drawn.discrete[begin:end],
        drawn.forbidden[begin:end],
        drawn.rewards[begin:end],
        drawn.goes_on[begin:end],
        drawn.state[begin:end],
        drawn.begins[begin:end],
        drawn.forbidden_after[begin:end],
        drawn.weights[begin:end],
        drawn.errors[begin:end],
    )


def minibatches(drawn: Transitions, steps: int, ranks: Ranks | None = None) -> list[Transitions]:
    """``steps`` consecutive minibatches of one size; with ``ranks`` that learn together, this one's part of each."""
    size = len(drawn.rewards) // steps  # rows of each minibatch
    part = slice(0, size) if ranks is None else ranks.part(size)
    return [minibatch(drawn, begin + part.start, begin + part.stop) for begin in range(0, steps * size, size)]


def values_after(ask: Callable[[Inputs, Past], torch.Tensor], batch: Transitions) -> torch.Tensor:
    """A network's outputs [n, ...] for the next observations; of a recurrent one, after each transition's past.

    Args:
        ask: maps inputs and their past to outputs.
        batch: transitions; with a memory, sequences of them.
    """
    if not len(batch.begins):
        return ask(batch.following, NO_PAST)
    inputs = [in_order(now, later, batch) for now, later in zip(batch.inputs, batch.following, strict=True)]
    state = in_order(batch.state, batch.state, batch)
    begins = in_order(batch.begins, torch.zeros_like(batch.begins), batch)  # next observations start no sequence
    places = _order(batch).argsort()[: len(batch.begins)]  # int64 [n]: place of each transition in that order
    return ask(inputs, Past(state, begins))[places + 1]  # the next observation follows its transition


def targets(batch: Transitions, gammas: torch.Tensor | float, after: torch.Tensor, n_step: int = 1) -> torch.Tensor:
    """``r + gamma V(s')`` of each transition, float32 [n, S].

    Args:
        batch: ``n`` transitions.
        gammas: discounts, float32 [S] or one number.
        after: float32 [n, S], values of the next observations.
        n_step: number of rewards to sum before the value, within a sequence; without a memory, they are summed already.
    """
    weights = batch.goes_on * gammas
    said = torch.addcmul(batch.rewards, weights, after)
    if not len(batch.begins):
        return said
    lasts = _lasts(batch)[:, None]
    for _ in range(n_step - 1):
        # What follows is the next transition's own target, of one reward less; after the last one, it is its value.
        said = torch.addcmul(batch.rewards, weights, torch.where(lasts, after, said.roll(-1, 0)))
    return said


def in_order(now: torch.Tensor, after: torch.Tensor, batch: Transitions) -> torch.Tensor:
    """Arrange values [n, ...] of transitions in the rows that :func:`values_after` passes to a network.

    Args:
        now: values of each observation.
        after: values of each next observation.
        batch: ``n`` transitions. Without a memory, the rows are the next observations; otherwise every sequence,
        followed
            by the next observation of its last transition.
    """
    if not len(batch.begins):
        return after
    return torch.cat((now, after[_lasts(batch)]))[_order(batch)]


def _lasts(batch: Transitions) -> torch.Tensor:
    """Whether each transition is the last one of its sequence, bool [n]."""
    return torch.cat((batch.begins[1:], batch.begins.new_ones(1)))


def _order(batch: Transitions) -> torch.Tensor:
    """Order of the transitions and the next observations of the last ones: int64 [n + sequences]."""
    rows = torch.arange(len(batch.begins), device=batch.begins.device)
    return torch.cat((2 * rows, 2 * rows[_lasts(batch)] + 1)).argsort()


def half_squares(error: torch.Tensor, batch: Transitions) -> torch.Tensor:
    """Half the mean square [E] of errors [E, n, S], weighted by transition; a prioritized memory learns the errors."""
    squares = error.square()  # [E, n, S]
    if len(batch.weights):
        batch.errors.copy_(error.detach().abs().mean(dim=(0, 2)))
        squares = squares * batch.weights[None, :, None]
    return 0.5 * squares.mean(dim=(1, 2))
