"""Points of games as padded tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

A = [[1, 2, 3, 4], [2, 3, 4, 5], [4, 1, 2, 3], [1, 6, 7, 3]]


B = [[0, 1, 3, 5], [1, 1, 1, 1], [9, 8, 2, 1]]


def padded(
    *games: Sequence[Sequence[float]], rows: int | None = None, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    n = rows or max(len(game) for game in games)
    d = len(games[0][0])
    return torch.tensor([[*game, *[[-1.0] * d] * (n - len(game))] for game in games], dtype=dtype)


def left(points: torch.Tensor) -> list[list[list[float]]]:
    """The points of each game, without rows that hold none."""
    return [[row for row in game if row[0] >= 0] for game in points.tolist()]


def coords(*rows: set[int], d: int = 4) -> torch.Tensor:
    return torch.tensor([[k in row for k in range(d)] for row in rows])
