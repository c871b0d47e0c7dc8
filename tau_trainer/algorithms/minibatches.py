"""Samples of a rollout, and the minibatches that are drawn from them.

Rows are a rollout's decisions in the order in which a reader lays them out. A single process has all of them. Ranks
that learn together have either those of their own copies, [T, E, A] without agents that had left, or, for a rollout of
engines, all of them. The rows of a minibatch are drawn from all rows, alike on every rank; each takes its own of them,
so a minibatch has the same rows as in a single process, and sums over it are sums over ranks. Members of a population
that share their matrix products have equal numbers of rows, and each draws, normalises and counts separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from typing_extensions import override

from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.models.blocks import NO_PAST, Past


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
    def past(self) -> Past:
        """State and sequence starts, in the form that a network takes."""
        return Past(self.state, self.begins) if len(self.state) else NO_PAST

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Samples:
        """The same with ``change`` applied to all parts that are present."""
        inputs, *others = self
        return Samples([change(rows) for rows in inputs], *(change(rows) if len(rows) else rows for rows in others))


class Coefficients(NamedTuple):
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


class Rows:
    """The rows of a process that has all of them.

    Attributes:
        count: number of rows over all ranks; of one member.
        members: ``(P,)`` if rows belong to ``P`` members, otherwise empty.
        wholes: bool [count], starts of row blocks that are drawn as one; None: sequences are.

    Args:
        generator: draws the minibatches.
    """

    members: tuple[int, ...] = ()
    wholes: torch.Tensor | None = None

    def __init__(self, count: int, generator: torch.Generator) -> None:
        self.count, self._generator = count, generator

    def order(self, begins: torch.Tensor) -> torch.Tensor:
        """All rows in a new random order, int64 [count]; sequences stay whole, see :func:`shuffled_order`."""
        return shuffled_order(begins if self.wholes is None else self.wholes, self.count, self._generator)

    def minibatches(self, samples: Samples, order: torch.Tensor, batch: int) -> tuple[Samples, list[int]]:
        """The local samples of an order of all rows (int64 [m * batch]), and their number in each minibatch."""
        return shuffled(samples, order.to(samples.returns.device)), [batch] * (len(order) // batch)

    def normalized(self, values: torch.Tensor, sizes: Sequence[int] = (0,), batch: int | None = None) -> torch.Tensor:
        """[n, k] shifted and scaled to mean 0 and deviation 1 (biased) over all ranks' rows, each column separately.

        Args:
            values: the local ones.
            sizes: local number of rows of each minibatch, which is then normalised separately; by default all form one.
            batch: rows of a minibatch, over all ranks.
        """
        parts = len(sizes) * (self.members[0] if self.members else 1)  # minibatches of each member
        return normalized(values.view(parts, -1, values.shape[1])).view(values.shape)

    def variance(self, values: torch.Tensor) -> torch.Tensor:
        """Biased variance of numbers [n, k] over all ranks' rows: [k], or [P, k]."""
        return exact(values).view(*self.members, -1, values.shape[1]).var(dim=-2, correction=0)

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Mean of numbers [n, k] over all ranks' rows: [k], or [P, k]."""
        return exact(values).view(*self.members, -1, values.shape[1]).mean(dim=-2)

    def summed(self, row: torch.Tensor, here: int, of: int) -> torch.Tensor:
        """Turn a row of :func:`~.losses.summarize_epoch` about ``here`` local rows into one about all ``of``."""
        return row


class SharedRows(Rows):
    """A rank's rows among all.

    Attributes:
        places: int64 [n], ascending: places of the rank's own rows among all.

    Args:
        ranks: the ranks that share the rows.
        present: bool [T, e, A]: which decisions of the rank's own copies count.
        generator: must be in the same state on every rank.
    """

    def __init__(self, ranks: Ranks, present: torch.Tensor, generator: torch.Generator) -> None:
        self._ranks = ranks
        # int64 [T, ranks]: decisions that count.
        each = torch.zeros(len(present), ranks.count, dtype=torch.int64, device=present.device)
        each[:, ranks.rank] = present.sum(dim=(1, 2))
        # [T, ranks]: rows before a rank's in a step. `add` works in place: now `each` is over all ranks.
        before = ranks.add(each).flatten().cumsum(0).view_as(each) - each
        flat = present.flatten(1)  # bool [T, e A]
        within = flat.cumsum(1)[flat] - 1  # int64 [n]: index among the local rows of its step
        # By time, then by rank: the order in which a single process lays out all copies.
        self.places = before[flat.nonzero()[:, 0], ranks.rank] + within
        super().__init__(int(each.sum()), generator)

    @override
    def minibatches(self, samples: Samples, order: torch.Tensor, batch: int) -> tuple[Samples, list[int]]:
        # int64 [count]: place among all -> row here; -1: on another rank.
        row = torch.full((self.count,), -1, dtype=torch.int64, device=order.device)
        row[self.places] = torch.arange(len(self.places), device=order.device)
        chosen = row[order]  # int64 [m * batch]
        sizes: list[int] = (chosen >= 0).view(-1, batch).sum(dim=1).tolist()  # waits for the device
        return shuffled(samples, chosen[chosen >= 0]), sizes

    @override
    def normalized(self, values: torch.Tensor, sizes: Sequence[int] = (0,), batch: int | None = None) -> torch.Tensor:
        sizes, batch = ([len(values)], self.count) if batch is None else (sizes, batch)
        part = torch.arange(len(sizes), device=values.device).repeat_interleave(  # int64 [n]: minibatch of each row
            torch.tensor(sizes, device=values.device), output_size=len(values)
        )
        # float64 [parts, k], so that the order of ranks' sums hardly matters.
        mean = self._mean(values.to(torch.float64), part, len(sizes), batch)
        apart = values - mean[part]
        deviation = self._mean(apart.square(), part, len(sizes), batch).sqrt()
        return (apart / (deviation[part] + 1e-8)).to(values.dtype)  # 1e-8: all may be equal

    @override
    def variance(self, values: torch.Tensor) -> torch.Tensor:
        # Two passes: a difference of large squares would lose digits.
        return self.mean((exact(values) - self.mean(values)).square())

    @override
    def mean(self, values: torch.Tensor) -> torch.Tensor:
        return self._ranks.add(exact(values).sum(dim=0)) / self.count

    @override
    def summed(self, row: torch.Tensor, here: int, of: int) -> torch.Tensor:
        weight = torch.full_like(row, here / of)
        # The entropy of a minibatch is a share already, and its gradient's norm is the same on every rank.
        weight[2], weight[5] = 1.0, 1.0 / self._ranks.count
        # `where` instead of a product: means of a rank without rows are NaN.
        return self._ranks.add(torch.where(weight > 0.0, row * weight, 0.0))

    def _mean(self, values: torch.Tensor, part: torch.Tensor, parts: int, batch: int) -> torch.Tensor:
        """float64 [parts, k]."""
        sums = values.new_zeros(parts, values.shape[1]).index_add_(0, part, values)
        return self._ranks.add(sums) / batch


class SplitRows(SharedRows):
    """All rows, on every rank; a rank learns from a part of each minibatch.

    Args:
        ranks: the processes that learn together.
        count: number of rows.
        generator: must be in the same state on every rank.
    """

    def __init__(self, ranks: Ranks, count: int, generator: torch.Generator) -> None:
        Rows.__init__(self, count, generator)
        self._ranks = ranks

    @override
    def minibatches(self, samples: Samples, order: torch.Tensor, batch: int) -> tuple[Samples, list[int]]:
        part = self._ranks.part(batch)
        chosen = order.view(-1, batch)[:, part]  # int64 [m, rows of a minibatch here]
        return shuffled(samples, chosen.flatten().to(samples.returns.device)), [chosen.shape[1]] * len(chosen)

    @override
    def normalized(self, values: torch.Tensor, sizes: Sequence[int] = (0,), batch: int | None = None) -> torch.Tensor:
        if batch is None:  # over all rows, which are local
            return Rows.normalized(self, values)
        return super().normalized(values, sizes, batch)

    variance, mean = Rows.variance, Rows.mean  # over all rows, which are local


class MemberRows(Rows):
    """Rows of ``P`` members: member after member [P, count]; in an epoch by minibatches [m, P, batch].

    Args:
        count: rows of each member.
        generators: one for each member.
    """

    def __init__(self, count: int, generators: Sequence[torch.Generator]) -> None:
        super().__init__(count, generators[0])
        self.members = (len(generators),)
        self._generators = generators

    @override
    def order(self, begins: torch.Tensor) -> torch.Tensor:
        """A random order for each member, with its own row numbers: int64 [P, count]."""
        return torch.stack([shuffled_order(begins, self.count, each) for each in self._generators])

    @override
    def minibatches(self, samples: Samples, order: torch.Tensor, batch: int) -> tuple[Samples, list[int]]:
        count = len(order)
        rows = order + self.count * torch.arange(count)[:, None]  # [P, m * batch], among the rows of all members
        rows = rows.view(count, -1, batch).transpose(0, 1)  # [m, P, batch]
        return shuffled(samples, rows.flatten().to(samples.returns.device)), [count * batch] * len(rows)
