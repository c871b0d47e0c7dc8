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
from tests.games.polyhedra.padding import A, B, coords, left, padded

Game = Sequence[Sequence[float]]
CPU = torch.device("cpu")


def test_a_turn_of_two_games() -> None:
    assert reduced(padded([[0, 0, 0], [0, 0, 0]])).tolist() == [[[0, 0, 0], [-1, -1, -1]]], "the first of equal points"
    points = reduced(padded(A, B))
    assert left(points) == [[A[0], A[2], A[3]], [B[0], B[1]]]
    assert (points[0, 1] == -1).all()
    points = reduced(moved(points, coords({1, 2}, {0, 2, 3}), torch.tensor([1, 3])))
    assert left(points) == [[[1, 5, 3, 4], [4, 3, 2, 3], [1, 13, 7, 3]], [[0, 1, 3, 8], [1, 1, 1, 3]]]
    points = repositioned(points)
    assert left(points) == [[[0, 2, 1, 1], [3, 0, 0, 0], [0, 10, 5, 0]], [[0, 0, 2, 5], [1, 0, 0, 0]]]
    scales = torch.tensor([10.0, 5.0])[:, None, None]
    assert torch.equal(rescaled(points), torch.where(points < 0, -1.0, points / scales))


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
