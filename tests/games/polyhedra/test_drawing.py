"""Pictures of trees."""

from __future__ import annotations

from pathlib import Path

from tau_trainer.games.polyhedra.drawing import as_text, draw
from tau_trainer.games.polyhedra.search import position_of, search_tree


def test_a_tree_as_text() -> None:
    tree = search_tree(position_of([(0, 2), (1, 0)]), "all_coord")
    assert as_text(tree).splitlines() == [
        "(0,2) (1,0) {0,1}",
        "├── 0: (1,0)",
        "└── 1: (0,2) (1,1) {0,1}",
        "    ├── 0: (2,1)",
        "    └── 1: (0,2)",
    ]


def test_a_tree_as_a_picture(tmp_path: Path) -> None:
    tree = search_tree(position_of([(0, 2), (1, 0)]), "all_coord")
    for name, head in (("tree.png", b"\x89PNG"), ("tree.svg", b"<?xml")):
        assert draw(tree, tmp_path / name).read_bytes().startswith(head)
