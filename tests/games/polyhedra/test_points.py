"""Moves, reductions, shifts and scales: known cases, and the twin's words for the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from tau_trainer.games.polyhedra.points import (
    action_of,
    features,
    moved,
    reduced,
    reduced_exactly,
    repositioned,
    rescaled,
    subsets,
)
from tau_trainer.games.polyhedra.rules import Position, Rules, ordered, over, played

Game = Sequence[Sequence[float]]
CPU = torch.device("cpu")
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


def test_a_turn_of_two_games() -> None:
    points = reduced(padded(A, B))
    assert left(points) == [[A[0], A[2], A[3]], [B[0], B[1]]]
    assert (points[0, 1] == -1).all()
    points = reduced(moved(points, coords({1, 2}, {0, 2, 3}), torch.tensor([1, 3])))
    assert left(points) == [[[1, 5, 3, 4], [4, 3, 2, 3], [1, 13, 7, 3]], [[0, 1, 3, 8], [1, 1, 1, 3]]]
    points = repositioned(points)
    assert left(points) == [[[0, 2, 1, 1], [3, 0, 0, 0], [0, 10, 5, 0]], [[0, 0, 2, 5], [1, 0, 0, 0]]]
    scales = torch.tensor([10.0, 5.0])[:, None, None]
    assert torch.equal(rescaled(points), torch.where(points < 0, -1.0, points / scales))


def test_a_turn_that_is_not_allowed_changes_nothing() -> None:
    points = reduced(padded(A, B))
    assert torch.equal(moved(points, coords({1}, {0, 2, 3}), torch.tensor([0, 1])), points)
    after = played(Position(points), coords({1}, {0, 2, 3}), torch.tensor([1, 1]), Rules())
    assert torch.equal(after.points, points)


def test_a_game_that_is_over_is_frozen_unless_forced() -> None:
    position = Position(padded([[1, 0, 0, 1]], rows=3))
    assert over(position, Rules()).tolist() == [True]
    for freeze, wanted in ((True, [1, 0, 0, 1]), (False, [1, 1, 0, 1])):
        after = played(position, coords({0, 1}), torch.tensor([1]), Rules(freeze=freeze))
        assert left(after.points) == [[wanted]]


def test_one_of_equal_points_stays_and_it_is_the_first() -> None:
    assert reduced(padded([[0, 0, 0], [0, 0, 0]])).tolist() == [[[0, 0, 0], [-1, -1, -1]]]
    many = torch.randint(1, 9, (1, 20, 3), generator=torch.Generator().manual_seed(0)).float()
    many[0, [4, 11]] = 0.0
    assert left(reduced(many)) == [[[0, 0, 0]]]
    assert (reduced(many)[0, 4] == 0).all()


def test_of_six_points_one_goes() -> None:
    six = [[7, 5, 3, 8], [8, 9, 8, 18], [8, 3, 17, 8], [11, 11, 1, 19], [11, 12, 18, 6], [16, 11, 5, 6]]
    assert left(reduced(padded(six))) == [[point for point in six if point != [8, 9, 8, 18]]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exactly_reduced_there_are_vertices_alone(dtype: torch.dtype) -> None:
    points = padded([[0, 1], [1, 0], [0.9, 0.9]], [[0, 2], [1, 1], [2, 0]], [[0, 3], [1, 1], [3, 0]], dtype=dtype)
    assert len(left(reduced(points))[0]) == 3
    assert left(reduced_exactly(points)) == [[[0, 1], [1, 0]], [[0, 2], [2, 0]], [[0, 3], [1, 1], [3, 0]]]


def test_hosts_actions_are_numbers_of_coordinates() -> None:
    assert subsets(3, CPU).tolist() == coords({0, 1}, {0, 2}, {1, 2}, {0, 1, 2}, d=3).tolist()
    for dimension in (2, 3, 4, 7):
        table = subsets(dimension, CPU)
        assert len(table) == 2**dimension - dimension - 1
        assert (table.sum(dim=1) >= 2).all()
        assert action_of(table).tolist() == list(range(len(table)))


def test_rows_are_seen_by_their_first_coordinate() -> None:
    points, order = features(padded([[1, 9], [5, 0], [-1, -1], [3, 2], [5, 7]]))
    assert points.tolist() == [[[5, 0], [5, 7], [3, 2], [1, 9], [-1, -1]]]
    assert order.tolist() == [[1, 4, 3, 0, 2]]


def test_ordering_takes_the_distinguished_point_along() -> None:
    points = padded([[1, 9], [5, 0], [3, 2]], [[1, 1], [2, 0]])
    position = ordered(Position(points, distinguished=torch.tensor([2, -1])))
    assert left(position.points) == [[[5, 0], [3, 2], [1, 9]], [[2, 0], [1, 1]]]
    assert position.distinguished is not None
    assert position.distinguished.tolist() == [1, -1]


def test_the_distinguished_point_is_tracked_until_it_goes() -> None:
    six = [[7, 5, 3, 8], [8, 9, 8, 18], [8, 3, 17, 8], [11, 11, 1, 19], [11, 12, 18, 6], [16, 11, 5, 6]]
    position = Position(reduced(padded(six)), distinguished=torch.tensor([2]))
    position = played(position, coords({0, 1}), torch.tensor([0]), Rules())
    assert position.distinguished is not None
    assert position.points[0, int(position.distinguished)].tolist() == [11, 3, 17, 8]
    lost = Position(padded([[0, 2], [1, 1]]), distinguished=torch.tensor([1]))
    lost = played(lost, coords({0, 1}, d=2), torch.tensor([0]), Rules())
    assert left(lost.points) == [[[2, 1]]]
    assert lost.distinguished is not None
    assert lost.distinguished.tolist() == [1]
    lost = played(
        Position(padded([[0, 2], [1, 1]]), distinguished=torch.tensor([0])),
        coords({0, 1}, d=2),
        torch.tensor([0]),
        Rules(),
    )
    assert lost.distinguished is not None
    assert lost.distinguished.tolist() == [-1]
    assert over(lost, Rules()).tolist() == [True]
