"""Trees of known games."""

from __future__ import annotations

from tau_trainer.games.polyhedra.rules import Rules
from tau_trainer.games.polyhedra.search import TreeNode, position_of, search_tree

FOUR_JETS = [
    (2, 1, 0, 1, 0, 0, 0),
    (2, 1, 0, 0, 0, 1, 0),
    (2, 1, 0, 0, 0, 0, 1),
    (2, 0, 2, 0, 0, 0, 0),
    (2, 0, 1, 0, 1, 0, 0),
    (2, 0, 0, 0, 2, 0, 0),
    (2, 2, 1, 0, 0, 0, 0),
    (2, 2, 0, 0, 1, 0, 0),
    (1, 0, 1, 0, 0, 1, 0),
    (1, 0, 1, 0, 0, 0, 1),
    (1, 0, 0, 1, 1, 0, 0),
    (1, 0, 0, 0, 1, 0, 1),
    (2, 4, 0, 0, 0, 0, 0),
    (1, 2, 0, 0, 0, 1, 0),
    (1, 2, 0, 0, 0, 0, 1),
    (1, 1, 1, 0, 1, 0, 0),
    (1, 1, 0, 0, 2, 0, 0),
    (1, 3, 0, 0, 1, 0, 0),
    (0, 1, 0, 0, 1, 0, 1),
]


THOM = Rules(variant="thom", reposition=True)


def thom_tree(max_size: int = 10_000) -> TreeNode:
    position = position_of(FOUR_JETS, weights=(1, 1, 2, 3, 2, 3, 3), distinguished=len(FOUR_JETS) - 1)
    return search_tree(position, "weak_spivakovsky", THOM, max_size)
