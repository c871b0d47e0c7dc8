"""Guides that name tests name tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDES = ROOT / "docs" / "guides"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
FEATURES = 50
"""Of mlagents-learn 1.1.0, numbered from 1."""


@cache
def functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def rows() -> list[list[str]]:
    lines = (GUIDES / "from-ml-agents.md").read_text("utf-8").splitlines()
    table = [line for line in lines if re.match(r"\| \d+ \|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_every_feature_of_mlagents_learn_has_a_row() -> None:
    assert [int(row[0]) for row in rows()] == list(range(1, FEATURES + 1))
    assert {len(row) for row in rows()} == {4}
    assert all(row[1] for row in rows())


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]} {row[1]}")
def test_what_works_is_shown_and_what_differs_says_why(row: list[str]) -> None:
    _, _, status, shown = row
    assert status in {"works", "differs", "later"}
    if status == "works":
        assert TEST.search(shown), "a test that shows it"
    if status == "differs":
        assert TEST.sub("", shown).strip(" ,.:"), "why"


@pytest.mark.parametrize("guide", sorted(GUIDES.glob("*.md")), ids=lambda path: path.name)
def test_tests_that_a_guide_names_exist(guide: Path) -> None:
    for file, name in TEST.findall(guide.read_text("utf-8")):
        assert name in functions(ROOT / file), f"{file}::{name}"
    assert "::" not in TEST.sub("", guide.read_text("utf-8")), "a test that is named in another form"
