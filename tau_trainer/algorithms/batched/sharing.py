"""What one learner of all copies would do, done by ranks that have a share of them each.

Rows are a rollout's decisions as one process lays them out: [T, E, A], those of agents that had left taken out. A rank
has those of its own copies. Which rows make a minibatch is drawn for all rows, alike on every rank; each takes its own
of them, so a minibatch has the same rows as in one process, and sums over it are sums over ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tau_trainer.algorithms.ranks import Ranks


@dataclass(frozen=True, slots=True)
class SharedRows:
    """A rank's rows among all."""

    ranks: Ranks
    count: int
    """Of all ranks."""
    places: torch.Tensor
    """int64 [n], rising: where the rank's own rows stand among all."""

    @classmethod
    def of(cls, ranks: Ranks, present: torch.Tensor) -> SharedRows:
        """Those of bool [T, e, A], the rank's own copies."""
        each = torch.zeros(len(present), ranks.count, dtype=torch.int64, device=present.device)
        each[:, ranks.rank] = present.sum(dim=(1, 2))
        before = ranks.add(each).flatten().cumsum(0).view_as(each) - each
        within = present.flatten(1).cumsum(1)[present.flatten(1)] - 1
        steps = present.flatten(1).nonzero()[:, 0]
        return cls(ranks, int(each.sum()), before[steps, ranks.rank] + within)

    def own(self, order: torch.Tensor, batch: int) -> tuple[torch.Tensor, list[int]]:
        """From an order of all rows (int64 [m * batch]): the rank's rows in it, and how many of each minibatch."""
        row = torch.full((self.count,), -1, dtype=torch.int64, device=order.device)
        row[self.places] = torch.arange(len(self.places), device=order.device)
        chosen = row[order]
        sizes: list[int] = (chosen >= 0).view(-1, batch).sum(dim=1).tolist()
        return chosen[chosen >= 0], sizes

    def normalized(
        self, values: torch.Tensor, sizes: list[int] | None = None, batch: int | None = None
    ) -> torch.Tensor:
        """[n, k] shifted and scaled to mean 0 and deviation 1 (biased) over all ranks' rows, each column for itself.

        Args:
            values: the rank's own.
            sizes: how many of them belong to each minibatch, which then counts for itself; None: all to one.
            batch: rows of a minibatch, over all ranks.
        """
        sizes, batch = sizes or [len(values)], batch or self.count
        part = torch.arange(len(sizes), device=values.device).repeat_interleave(
            torch.tensor(sizes, device=values.device), output_size=len(values)
        )
        mean = self._mean(values.to(torch.float64), part, len(sizes), batch)
        apart = values - mean[part]
        deviation = self._mean(apart.square(), part, len(sizes), batch).sqrt()
        return (apart / (deviation[part] + 1e-8)).to(values.dtype)

    def variance(self, values: torch.Tensor) -> torch.Tensor:
        """Biased, of all numbers [n, k] of all ranks: []."""
        width = values.shape[1]
        flat = values.to(torch.float64)
        mean = self.ranks.add(flat.sum()) / (self.count * width)
        return (self.ranks.add((flat - mean).square().sum()) / (self.count * width)).to(values.dtype)

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Of all numbers [n, k] of all ranks: []."""
        total = self.ranks.add(values.to(torch.float64).sum())
        return (total / (self.count * values.shape[1])).to(values.dtype)

    def _mean(self, values: torch.Tensor, part: torch.Tensor, parts: int, batch: int) -> torch.Tensor:
        """float64 [parts, k]."""
        sums = values.new_zeros(parts, values.shape[1]).index_add_(0, part, values)
        return self.ranks.add(sums) / batch
