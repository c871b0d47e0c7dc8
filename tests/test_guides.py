"""Documentation that names tests names tests that exist, and its links lead somewhere."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GUIDES = DOCS / "guides"
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")), *sorted((ROOT / "unity_project").rglob("*.md"))]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
FEATURES = 50
"""Of mlagents-learn 1.1.0, numbered from 1."""


@cache
def functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


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


def test_every_feature_of_the_five_systems_is_shown_or_said_to_be_missing() -> None:
    """A row of docs/features.md names a test or a page of figures; one that has neither says that it is not here."""
    lines = (DOCS / "features.md").read_text("utf-8").splitlines()
    table = [line.strip("|").split("|") for line in lines if line.startswith("| ") and not line.startswith("| ---")]
    found = [[cell.strip() for cell in row] for row in table if row[-1].strip() not in ("shown by", "rows")]
    assert len(found) > 100
    for row in found:
        assert len(row) == 3, row
        assert all(row[:2]), row
        assert TEST.search(row[2]) or "benchmarks.md" in row[2] or "not here" in row[1], row


@cache
def places(page: Path) -> frozenset[str]:
    """What may stand behind ``#`` in a link to a page: its headings, as GitHub names them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return frozenset(word.replace(" ", "-") for word in words)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_tests_that_a_page_names_exist_and_links_lead_somewhere(page: Path) -> None:
    whole = page.read_text("utf-8")
    for file, name in TEST.findall(whole):
        assert name in functions(ROOT / file), f"{file}::{name}"
    assert not re.search(r"tests/[\w/]+\.py::", TEST.sub("", whole)), "a test that is named in another form"
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", whole, flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"\w+:", link):
            name, _, place = link.partition("#")
            target = page.parent / name if name else page
            assert target.exists(), link
            assert not place or place in places(target), link
