"""The learner's view of a rollout: tensors on its device, and shuffled copies of them for an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch


class Samples(NamedTuple):
    """``N`` transitions as an update needs them. What does not exist has length 0."""

    inputs: list[torch.Tensor]
    """What :meth:`ActorCritic.prepare` made of the observations; the first is float32 [N, D], normalised."""
    state: torch.Tensor
    """float32 [N, towers, M]: recurrent state when the decision was made."""
    continuous: torch.Tensor
    """float32 [N, c], raw samples."""
    discrete: torch.Tensor
    """int64 [N, b]."""
    mask: torch.Tensor
    """bool [N, sum of branches], True = forbidden."""
    log_prob: torch.Tensor
    """float32 [N, K] when acting, of each action component."""
    advantage: torch.Tensor
    """float32 [N, K], or [N, 1] where one advantage counts for all components."""
    returns: torch.Tensor
    """float32 [N, R], of all reward streams side by side."""
    begins: torch.Tensor
    """bool [N], of recurrent networks: where a sequence begins; the rows are sequences that lie end to end."""

    @property
    def past(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """State and beginnings as a network takes them."""
        return (self.state, self.begins) if len(self.state) else (None, None)

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Samples:
        """The same with ``change`` made to everything that exists."""
        inputs, *others = self
        return Samples([change(one) for one in inputs], *(change(one) if len(one) else one for one in others))


class EpochStatistics(NamedTuple):
    """What an epoch leaves behind, one row a sample or a minibatch; read once an update."""

    log_ratio: torch.Tensor
    """float32 [N, K]: log of new over old probability, when the minibatch was learned from."""
    values: torch.Tensor
    """float32 [N, R]."""
    entropy: torch.Tensor
    """float32 [minibatches]."""
    gradient_norm: torch.Tensor
    """float32 [minibatches], before clipping."""


def new_statistics(samples: Samples, rows: int, minibatches: int) -> EpochStatistics:
    """Empty statistics of an epoch over ``rows`` samples in ``minibatches``."""
    device = samples.returns.device
    return EpochStatistics(
        log_ratio=torch.empty(rows, samples.log_prob.shape[1], device=device),
        values=torch.empty(rows, samples.returns.shape[1], device=device),
        entropy=torch.empty(minibatches, device=device),
        gradient_norm=torch.empty(minibatches, device=device),
    )


def shuffled(samples: Samples, order: torch.Tensor) -> Samples:
    """Copy of the samples in this order (int64 [n]): minibatches are then views."""
    return samples.map(lambda values: values.index_select(0, order))


def shuffled_order(begins: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """An order of ``count`` samples, drawn anew, int64 [count]: of sequences as wholes where there are any."""
    sequences = int(begins.count_nonzero()) if len(begins) else count
    drawn = torch.randperm(sequences, generator=generator)
    if not len(begins):
        return drawn
    return torch.argsort(drawn[begins.cpu().cumsum(0) - 1], stable=True)


def in_parts(samples: Samples, statistics: EpochStatistics, parts: int) -> Iterator[tuple[Samples, EpochStatistics]]:
    """Views of an epoch in up to ``parts`` stretches of whole minibatches, in order, with their statistics."""
    minibatches = len(statistics.entropy)
    batch, stretch = len(statistics.values) // minibatches, -(-minibatches // parts)
    for begin in range(0, minibatches, stretch):
        some = slice(begin, begin + stretch)
        rows = slice(begin * batch, (begin + stretch) * batch)
        yield (
            samples.map(lambda values, rows=rows: values[rows]),  # type: ignore[misc]
            EpochStatistics(
                statistics.log_ratio[rows],
                statistics.values[rows],
                statistics.entropy[some],
                statistics.gradient_norm[some],
            ),
        )


def normalized(advantage: torch.Tensor) -> torch.Tensor:
    """Shift and scale to mean 0 and deviation 1 (biased) over the last dimension but one: each column for itself."""
    deviation, mean = torch.std_mean(advantage, dim=-2, correction=0, keepdim=True)
    return (advantage - mean) / (deviation + 1e-8)
