"""The longest game, and trees of all games."""

from __future__ import annotations

import pytest
import torch

from tau_trainer.errors import TauError
from tau_trainer.games.polyhedra.drawing import as_text
from tau_trainer.games.polyhedra.search import TreeNode, position_of, search_depth, search_tree
from tests.games.polyhedra.trees import thom_tree

SMALL = [(0, 1, 0, 1), (0, 2, 0, 0), (1, 0, 0, 1), (1, 0, 1, 0), (1, 1, 0, 0), (2, 0, 0, 0)]
"""Exponents of the ideal of Thom polynomials of Morin singularities for 4-jets (Berczi and Szenes 2012)."""


def test_the_longest_game_has_so_many_turns() -> None:
    assert search_depth(position_of(SMALL), "zeillinger") == 6
    assert search_depth(position_of([(1, 2)]), "zeillinger") == 0
    assert search_depth(position_of([(0, 1), (1, 0)]), "all_coord") == 1


def test_a_tree_is_as_deep_as_its_longest_game() -> None:
    def depth(node: TreeNode) -> int:
        return max((1 + depth(child) for child in node.children), default=0)

    tree = search_tree(position_of(SMALL), "zeillinger")
    assert depth(tree) == 6
    assert all(len(node.children) == len(node.coords) for node in tree.walk())
    assert all(node.over == (len(node.points) == 1) for node in tree.walk())


def test_who_can_go_on_for_ever_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau_trainer.games.polyhedra.search._DEEPEST", 10)
    with pytest.raises(TauError, match="an agent can last 10 turns; name another host"):
        search_depth(position_of([(0, 0, 1), (1, 0, 0)]), lambda view: torch.zeros(len(view.points), dtype=torch.int64))
    monkeypatch.setattr("tau_trainer.games.polyhedra.search._WIDEST", 100)
    with pytest.raises(TauError, match="turns there are over 100 positions; name another host"):
        search_depth(position_of([(0, 3, 1), (3, 0, 2), (1, 1, 5)]), "all_coord")


def test_thoms_tree_has_37_nodes() -> None:
    nodes = list(thom_tree().walk())
    assert len(nodes) == 37
    assert nodes[0].weights == [1, 1, 2, 3, 2, 3, 3]
    for node in nodes:
        assert node.over == (len(node.points) == 1 or node.distinguished is None)
        for child in node.children:
            assert node.weights is not None
            assert child.weights is not None
            assert child.axis is not None
            least = min(node.weights[k] for k in node.coords)
            assert node.weights[child.axis] == least
            others = [k for k in node.coords if k != child.axis]
            assert all(child.weights[k] == node.weights[k] - least for k in others)


def test_a_large_tree_is_cut() -> None:
    nodes = list(thom_tree(max_size=10).walk())
    assert 10 <= len(nodes) < 37
    assert any(node.cut for node in nodes)
    assert "cut here" in as_text(nodes[0])
