"""The page of runs, and its words."""

from __future__ import annotations

import re
from pathlib import Path

from tau_trainer.report import RunRecord, render
from tests.report.test_html import Reader


def page(*folders: Path) -> str:
    return render([RunRecord.load(folder) for folder in folders])


def words(text: str) -> str:
    return " ".join(" ".join(Reader(text).words).split())


def section(text: str, name: str) -> str:
    """The words of one section."""
    [found] = re.findall(rf'<section id="{name}">.*?</section>', text, re.DOTALL)
    return words(found)
