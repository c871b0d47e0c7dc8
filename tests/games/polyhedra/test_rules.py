"""A turn by the rules."""

from __future__ import annotations

import torch

from tau_trainer.games.polyhedra.points import moved, reduced
from tau_trainer.games.polyhedra.rules import Position, Rules, ordered, over, played
from tests.games.polyhedra.padding import A, B, coords, left, padded


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
