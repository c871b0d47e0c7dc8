"""Ranks as threads of one process: what they compute, without what it takes to start them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from typing_extensions import override

from tau_trainer.algorithms.ranks import Ranks
from tests.waiting import HANG_S

T = TypeVar("T")


class Threads(Ranks):
    def __init__(self, rank: int, count: int, room: dict[int, torch.Tensor], barrier: threading.Barrier) -> None:
        super().__init__(rank, count)
        self._room, self._barrier = room, barrier

    @override
    def _reduced(self, values: torch.Tensor, how: Any) -> torch.Tensor:
        self._room[self.rank] = values.clone()
        self._barrier.wait(HANG_S)
        every = torch.stack([self._room[rank] for rank in range(self.count)])
        self._barrier.wait(HANG_S)
        return values.copy_(every.sum(dim=0) if how == dist.ReduceOp.SUM else every.amin(dim=0))

    @override
    def copied(self, values: torch.Tensor) -> torch.Tensor:
        if self.first:
            self._room[0] = values.clone()
        self._barrier.wait(HANG_S)
        values.copy_(self._room[0])
        self._barrier.wait(HANG_S)
        return values

    def over(self) -> None:
        """Let the others' next sum fail: nobody leads any more."""
        self._barrier.abort()


def together(count: int, work: Callable[[Threads], T]) -> list[T]:
    """What each of so many ranks comes to."""
    room: dict[int, torch.Tensor] = {}
    barrier = threading.Barrier(count)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda rank: work(Threads(rank, count, room, barrier)), range(count)))
