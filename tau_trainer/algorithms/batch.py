"""The learner's view of a rollout: tensors on its device, and shuffled copies of them for an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch


class Samples(NamedTuple):
    """``N`` transitions in the form that an update needs. Missing parts have length 0."""

    inputs: list[torch.Tensor]
    """Observations from :meth:`ActorCritic.prepare`; the first is float32 [N, D], normalised."""
    state: torch.Tensor
    """float32 [N, towers, M]: recurrent state at the time of the decision."""
    continuous: torch.Tensor
    """float32 [N, c], raw samples."""
    discrete: torch.Tensor
    """int64 [N, b]."""
    mask: torch.Tensor
    """bool [N, sum of branches], True = forbidden."""
    log_prob: torch.Tensor
    """float32 [N, K] at the time of acting, for each action component."""
    advantage: torch.Tensor
    """float32 [N, K], or [N, 1] if one advantage counts for all components."""
    returns: torch.Tensor
    """float32 [N, R], of all reward streams side by side."""
    begins: torch.Tensor
    """bool [N], for recurrent networks: where a sequence starts; sequences follow one another without gaps."""

    @property
    def past(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """State and sequence starts, in the form that a network takes."""
        return (self.state, self.begins) if len(self.state) else (None, None)

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Samples:
        """The same with ``change`` applied to all parts that are present."""
        inputs, *others = self
        return Samples([change(rows) for rows in inputs], *(change(rows) if len(rows) else rows for rows in others))


class Numbers(NamedTuple):
    """Hyperparameters of one update; TorchScript understands it."""

    continuous: int  # c
    branches: list[int]  # values of each branch
    epsilon: float  # half width of the ratio's clip range
    beta: float  # weight of the entropy
    learning_rate: float
    max_grad_norm: float
    """0 = no clipping."""


class EpochStatistics(NamedTuple):
    """Statistics of an epoch, one row per sample or per minibatch; read once per update."""

    log_ratio: torch.Tensor
    """float32 [N, K]: log of new over old probability, at the time of learning from the minibatch."""
    values: torch.Tensor
    """float32 [N, R]."""
    entropy: torch.Tensor
    """float32 [minibatches], or [minibatches, P] for members of a population."""
    gradient_norm: torch.Tensor
    """The same, before clipping."""


def new_statistics(samples: Samples, rows: int, minibatches: int, members: tuple[int, ...] = ()) -> EpochStatistics:
    """Empty statistics of an epoch over ``rows`` samples in ``minibatches``; ``members``: (P,) of a population."""
    device = samples.returns.device
    return EpochStatistics(
        log_ratio=torch.empty(rows, samples.log_prob.shape[1], device=device),
        values=torch.empty(rows, samples.returns.shape[1], device=device),
        entropy=torch.empty(minibatches, *members, device=device),
        gradient_norm=torch.empty(minibatches, *members, device=device),
    )


def shuffled(samples: Samples, order: torch.Tensor) -> Samples:
    """Copy of the samples in this order (int64 [n]): minibatches are then views."""
    return samples.map(lambda values: values.index_select(0, order))


def shuffled_order(begins: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """A random order of ``count`` samples, int64 [count]. If there are sequences, they stay whole."""
    sequences = int(begins.count_nonzero()) if len(begins) else count  # without sequences, each row counts as one
    drawn = torch.randperm(sequences, generator=generator, device=generator.device)  # int64 [sequences]
    if not len(begins):
        return drawn
    # Row -> its sequence's drawn place; stable, so that a sequence keeps its order.
    return torch.argsort(drawn[begins.cpu().cumsum(0) - 1], stable=True)


def in_parts(
    samples: Samples, statistics: EpochStatistics, sizes: Sequence[int], parts: int
) -> Iterator[tuple[Samples, EpochStatistics, Sequence[int]]]:
    """Views of an epoch in up to ``parts`` stretches of whole minibatches, in order, with statistics and ``sizes``."""
    stretch, end = -(-len(sizes) // parts), 0  # minibatches of a part, rounded up
    for begin in range(0, len(sizes), stretch):
        some = slice(begin, begin + stretch)
        rows = slice(end, end + sum(sizes[some]))
        end = rows.stop  # where the next part's rows begin
        log_ratio, values, entropy, norm = statistics
        yield (
            samples.map(lambda values, rows=rows: values[rows]),  # type: ignore[misc]
            EpochStatistics(log_ratio[rows], values[rows], entropy[some], norm[some]),
            sizes[some],
        )


def sigma_of(log_sigma: torch.Tensor, rows: int) -> torch.Tensor:
    """The log sigma [c] of a network as it is; for members' [P, c], repeated for all ``rows``, member after member."""
    if log_sigma.dim() == 1:
        return log_sigma
    return log_sigma.unsqueeze(1).expand(-1, rows // len(log_sigma), -1).flatten(0, 1)


def exact(values: torch.Tensor) -> torch.Tensor:
    """The values in float64, if the device supports it: Apple's GPUs do not."""
    return values if values.device.type == "mps" else values.double()


def normalized(advantage: torch.Tensor) -> torch.Tensor:
    """Shift and scale to mean 0 and deviation 1 (biased) over the last dimension but one, each column separately."""
    deviation, mean = torch.std_mean(advantage, dim=-2, correction=0, keepdim=True)  # biased, as numpy's
    return (advantage - mean) / (deviation + 1e-8)  # 1e-8: all may be equal
