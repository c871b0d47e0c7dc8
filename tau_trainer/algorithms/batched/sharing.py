"""What one learner of all copies would do, done by ranks that have a share of them each.

Rows are a rollout's decisions as one process lays them out: [T, E, A], those of agents that had left taken out. A rank
has those of its own copies. Which rows make a minibatch is drawn for all rows, alike on every rank; each takes its own
of them, so a minibatch has the same rows as in one process, and sums over it are sums over ranks.
"""

from __future__ import annotations

import torch
from typing_extensions import override

from tau_trainer.algorithms.batch import Samples, normalized, shuffled
from tau_trainer.algorithms.ranks import Ranks


class Rows:
    """A process's rows of a rollout, which are all there are.

    Attributes:
        count: of all ranks.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def minibatches(self, samples: Samples, order: torch.Tensor, batch: int) -> tuple[Samples, list[int]]:
        """Of an order of all rows (int64 [m * batch]) those that are here, and how many of each minibatch."""
        return shuffled(samples, order), [batch] * (len(order) // batch)

    def normalized(
        self, values: torch.Tensor, sizes: list[int] | None = None, batch: int | None = None
    ) -> torch.Tensor:
        """[n, k] shifted and scaled to mean 0 and deviation 1 (biased) over all ranks' rows, each column for itself.

        Args:
            values: those that are here.
            sizes: how many of them belong to each minibatch, which then counts for itself; None: all to one.
            batch: rows of a minibatch, over all ranks.
        """
        return normalized(values.view(len(sizes or [0]), -1, values.shape[1])).view(values.shape)

    def variance(self, values: torch.Tensor) -> torch.Tensor:
        """Biased, of all numbers [n, k] of all ranks: []."""
        return values.var(correction=0)

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Of all numbers [n, k] of all ranks: []."""
        return values.mean()

    def summed(self, row: torch.Tensor, here: int, of: int) -> torch.Tensor:
        """A row of :func:`summarize_epoch` about ``here`` rows as one about all ``of`` them."""
        return row


class SharedRows(Rows):
    """A rank's rows among all.

    Attributes:
        places: int64 [n], rising: where the rank's own rows stand among all.

    Args:
        ranks: who has them.
        present: bool [T, e, A]: which decisions of the rank's own copies count.
    """

    def __init__(self, ranks: Ranks, present: torch.Tensor) -> None:
        self._ranks = ranks
        each = torch.zeros(len(present), ranks.count, dtype=torch.int64, device=present.device)
        each[:, ranks.rank] = present.sum(dim=(1, 2))
        before = ranks.add(each).flatten().cumsum(0).view_as(each) - each
        flat = present.flatten(1)
        within = flat.cumsum(1)[flat] - 1
        self.places = before[flat.nonzero()[:, 0], ranks.rank] + within
        super().__init__(int(each.sum()))

    @override
    def minibatches(self, samples: Samples, order: torch.Tensor, batch: int) -> tuple[Samples, list[int]]:
        row = torch.full((self.count,), -1, dtype=torch.int64, device=order.device)
        row[self.places] = torch.arange(len(self.places), device=order.device)
        chosen = row[order]
        sizes: list[int] = (chosen >= 0).view(-1, batch).sum(dim=1).tolist()
        return shuffled(samples, chosen[chosen >= 0]), sizes

    @override
    def normalized(
        self, values: torch.Tensor, sizes: list[int] | None = None, batch: int | None = None
    ) -> torch.Tensor:
        sizes, batch = sizes or [len(values)], batch or self.count
        part = torch.arange(len(sizes), device=values.device).repeat_interleave(
            torch.tensor(sizes, device=values.device), output_size=len(values)
        )
        mean = self._mean(values.to(torch.float64), part, len(sizes), batch)
        apart = values - mean[part]
        deviation = self._mean(apart.square(), part, len(sizes), batch).sqrt()
        return (apart / (deviation[part] + 1e-8)).to(values.dtype)

    @override
    def variance(self, values: torch.Tensor) -> torch.Tensor:
        apart = values.to(torch.float64) - self.mean(values)
        return self.mean(apart.square()).to(values.dtype)

    @override
    def mean(self, values: torch.Tensor) -> torch.Tensor:
        total = self._ranks.add(values.to(torch.float64).sum())
        return (total / (self.count * values.shape[1])).to(values.dtype)

    @override
    def summed(self, row: torch.Tensor, here: int, of: int) -> torch.Tensor:
        share = here / of
        # The entropy of a minibatch is its share already, and its gradient's norm the same on every rank.
        weight = torch.tensor([share, share, 1.0, share, share, 1.0 / self._ranks.count], device=row.device)
        return self._ranks.add(torch.where(weight > 0.0, row * weight, 0.0))

    def _mean(self, values: torch.Tensor, part: torch.Tensor, parts: int, batch: int) -> torch.Tensor:
        """float64 [parts, k]."""
        sums = values.new_zeros(parts, values.shape[1]).index_add_(0, part, values)
        return self._ranks.add(sums) / batch
