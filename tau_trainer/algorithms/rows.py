"""Which rows of a rollout a minibatch is made of, and what counts as all of them.

Rows are a rollout's decisions in the order in which a reader lays them out. One process has all of them. Of ranks that
learn together each has those of its own copies, [T, E, A] without agents that had left; or, of a rollout of engines,
all. Which rows make a minibatch is drawn for all rows, alike on every rank; each takes its own of them, so a minibatch
has the same rows as in one process, and sums over it are sums over ranks. Of members of a population that learn by the
same products each has as many rows as the others, and draws, normalises and counts for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from typing_extensions import override

from tau_trainer.algorithms.batch import Samples, exact, normalized, shuffled, shuffled_order
from tau_trainer.algorithms.ranks import Ranks


class Rows:
    """A process's rows of a rollout, which are all there are.

    Attributes:
        count: of all ranks; of one member.
        members: ``(P,)`` where rows are those of ``P`` members, else nothing.
        wholes: bool [count], where rows begin that are drawn as one; None: sequences are.

    Args:
        generator: what minibatches are drawn from.
    """

    members: tuple[int, ...] = ()
    wholes: torch.Tensor | None = None

    def __init__(self, count: int, generator: torch.Generator) -> None:
        self.count, self._generator = count, generator

    def order(self, begins: torch.Tensor) -> torch.Tensor:
        """All rows, drawn anew, int64 [count]; sequences as wholes, see :func:`shuffled_order`."""
        return shuffled_order(begins if self.wholes is None else self.wholes, self.count, self._generator)

    def minibatches(self, samples: Samples, order: torch.Tensor, batch: int) -> tuple[Samples, list[int]]:
        """Of an order of all rows (int64 [m * batch]) those that are here, and how many of each minibatch."""
        return shuffled(samples, order.to(samples.returns.device)), [batch] * (len(order) // batch)

    def normalized(self, values: torch.Tensor, sizes: Sequence[int] = (0,), batch: int | None = None) -> torch.Tensor:
        """[n, k] shifted and scaled to mean 0 and deviation 1 (biased) over all ranks' rows, each column for itself.

        Args:
            values: those that are here.
            sizes: how many of them belong to each minibatch, which then counts for itself; as it is: all to one.
            batch: rows of a minibatch, over all ranks.
        """
        parts = len(sizes) * (self.members[0] if self.members else 1)  # minibatches, of each member apart
        return normalized(values.view(parts, -1, values.shape[1])).view(values.shape)

    def variance(self, values: torch.Tensor) -> torch.Tensor:
        """Biased, of numbers [n, k] over all ranks' rows: [k], or [P, k]."""
        return exact(values).view(*self.members, -1, values.shape[1]).var(dim=-2, correction=0)

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Of numbers [n, k] over all ranks' rows: [k], or [P, k]."""
        return exact(values).view(*self.members, -1, values.shape[1]).mean(dim=-2)

    def summed(self, row: torch.Tensor, here: int, of: int) -> torch.Tensor:
        """A row of :func:`~.losses.summarize_epoch` about ``here`` rows as one about all ``of`` them."""
        return row


class SharedRows(Rows):
    """A rank's rows among all.

    Attributes:
        places: int64 [n], rising: where the rank's own rows stand among all.

    Args:
        ranks: who has them.
        present: bool [T, e, A]: which decisions of the rank's own copies count.
        generator: stands alike on every rank.
    """

    def __init__(self, ranks: Ranks, present: torch.Tensor, generator: torch.Generator) -> None:
        self._ranks = ranks
        # int64 [T, ranks]: decisions that count.
        each = torch.zeros(len(present), ranks.count, dtype=torch.int64, device=present.device)
        each[:, ranks.rank] = present.sum(dim=(1, 2))
        # [T, ranks]: rows that stand before a rank's of a step. `add` is in place: now `each` is of all ranks.
        before = ranks.add(each).flatten().cumsum(0).view_as(each) - each
        flat = present.flatten(1)  # bool [T, e A]
        within = flat.cumsum(1)[flat] - 1  # int64 [n]: which of its step's rows here
        # By time, then by rank: as one process lays out all copies.
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
        # float64 [parts, k]: the order of ranks' sums hardly shows.
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
        # The entropy of a minibatch is its share already, and its gradient's norm the same on every rank.
        weight[2], weight[5] = 1.0, 1.0 / self._ranks.count
        # Where, not a product: means of a rank without rows are NaN.
        return self._ranks.add(torch.where(weight > 0.0, row * weight, 0.0))

    def _mean(self, values: torch.Tensor, part: torch.Tensor, parts: int, batch: int) -> torch.Tensor:
        """float64 [parts, k]."""
        sums = values.new_zeros(parts, values.shape[1]).index_add_(0, part, values)
        return self._ranks.add(sums) / batch


class SplitRows(SharedRows):
    """All rows, which every rank has; of each minibatch a rank learns from a part.

    Args:
        ranks: who learns together.
        count: of rows.
        generator: stands alike on every rank.
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
        if batch is None:  # of all rows, which are here
            return Rows.normalized(self, values)
        return super().normalized(values, sizes, batch)

    @override
    def variance(self, values: torch.Tensor) -> torch.Tensor:
        return Rows.variance(self, values)

    @override
    def mean(self, values: torch.Tensor) -> torch.Tensor:
        return Rows.mean(self, values)


class MemberRows(Rows):
    """Rows of ``P`` members: one member behind the other [P, count], in an epoch by minibatches [m, P, batch].

    Args:
        count: of each member.
        generators: of each member.
    """

    def __init__(self, count: int, generators: Sequence[torch.Generator]) -> None:
        super().__init__(count, generators[0])
        self.members = (len(generators),)
        self._generators = generators

    @override
    def order(self, begins: torch.Tensor) -> torch.Tensor:
        """Of each member, by its own rows' numbers: int64 [P, count]."""
        return torch.stack([shuffled_order(begins, self.count, each) for each in self._generators])

    @override
    def minibatches(self, samples: Samples, order: torch.Tensor, batch: int) -> tuple[Samples, list[int]]:
        count = len(order)
        rows = order + self.count * torch.arange(count)[:, None]  # [P, m * batch], among the rows of all members
        rows = rows.view(count, -1, batch).transpose(0, 1)  # [m, P, batch]
        return shuffled(samples, rows.flatten().to(samples.returns.device)), [count * batch] * len(rows)
