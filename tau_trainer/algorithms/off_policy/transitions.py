"""Transitions as gradient steps see them, whatever the algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.models.observation_encoder import Inputs


class Transitions(NamedTuple):
    """``n`` transitions as a gradient step needs them."""

    inputs: list[torch.Tensor]
    """What :meth:`ActorCritic.prepare` makes of the observations."""
    following: list[torch.Tensor]
    """The same of the observations that came after."""
    continuous: torch.Tensor
    """float32 [n, c], as the memory has them."""
    discrete: torch.Tensor
    """int64 [n, b]."""
    forbidden: torch.Tensor
    """bool [n, sum of branches]: what was forbidden when the decision was made."""
    rewards: torch.Tensor
    """float32 [n, S], of all streams, times their strength; the discounted sum of up to ``n_step`` of them."""
    goes_on: torch.Tensor
    """float32 [n, 1]: 0 after a real end, else 1. An episode that a limit cut goes on as far as its values are
    concerned. [n, S] where a stream's returns go on beyond a real end; and with ``n_step``: the discount of all steps
    but the first, so times gamma it is what the value of :attr:`following` counts."""
    state: torch.Tensor
    """float32 [n, towers, M], of recurrent networks: their state when the decision was made; else of length 0."""
    begins: torch.Tensor
    """bool [n], of recurrent networks: where a sequence begins; the rows are sequences that lie end to end."""
    forbidden_after: torch.Tensor
    """bool [n, sum of branches]: what was forbidden when the next decision was made; of length 0 unless
    :attr:`OffPolicy.masks_after`."""
    weights: torch.Tensor
    """float32 [n]: of prioritized memories, what each transition counts in the loss of values; else of length 0."""
    errors: torch.Tensor
    """float32 [n]: of prioritized memories, where a gradient step leaves how wrong values were, >= 0."""

    @property
    def past(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """State and beginnings as a network takes them."""
        return (self.state, self.begins) if len(self.begins) else (None, None)


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
    """So many consecutive ones, all of one size; of ``ranks`` that learn together, this one's part of each."""
    size = len(drawn.rewards) // steps  # rows of each minibatch
    part = slice(0, size) if ranks is None else ranks.part(size)
    return [minibatch(drawn, begin + part.start, begin + part.stop) for begin in range(0, steps * size, size)]


def values_after(
    ask: Callable[[Inputs, torch.Tensor | None, torch.Tensor | None], torch.Tensor], batch: Transitions
) -> torch.Tensor:
    """What a network says [n, ...] of the observations that came after; a recurrent one at the end of each one's past.

    Args:
        ask: from inputs, state and where sequences begin to what it says; None for the latter two without a memory.
        batch: transitions, with a memory sequences of them.
    """
    if not len(batch.begins):
        return ask(batch.following, None, None)
    inputs = [in_order(now, later, batch) for now, later in zip(batch.inputs, batch.following, strict=True)]
    state = in_order(batch.state, batch.state, batch)
    begins = in_order(batch.begins, torch.zeros_like(batch.begins), batch)  # what came after begins nothing
    places = _order(batch).argsort()[: len(batch.begins)]  # int64 [n]: where each transition lies in that order
    return ask(inputs, state, begins)[places + 1]  # the row behind a transition is what came after it


def in_order(now: torch.Tensor, after: torch.Tensor, batch: Transitions) -> torch.Tensor:
    """What belongs to the rows that :func:`values_after` asks about, of what belongs to transitions [n, ...].

    Args:
        now: of each observation.
        after: of each observation that came after.
        batch: ``n`` transitions. Without a memory the rows are those that came after; else every sequence, and behind
            it what came after its last transition.
    """
    if not len(batch.begins):
        return after
    return torch.cat((now, after[_lasts(batch)]))[_order(batch)]


def _lasts(batch: Transitions) -> torch.Tensor:
    """Where a sequence has its last transition, bool [n]."""
    return torch.cat((batch.begins[1:], batch.begins.new_ones(1)))


def _order(batch: Transitions) -> torch.Tensor:
    """Transitions and what came after the last ones, in order: int64 [n + sequences]."""
    rows = torch.arange(len(batch.begins), device=batch.begins.device)
    return torch.cat((2 * rows, 2 * rows[_lasts(batch)] + 1)).argsort()
