"""Tests that measure time run before the others, with nothing beside them: which files have such tests."""

from __future__ import annotations

from pathlib import Path

MARK = "mark.alone"


def alone_files(root: Path) -> list[Path]:
    """The test files that carry the marker `alone`, found by their text: nothing is imported for it."""
    return sorted(path for path in (root / "tests").rglob("test_*.py") if MARK in path.read_text("utf-8"))
