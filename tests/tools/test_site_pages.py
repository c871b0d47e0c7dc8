"""The site: every page of docs is in its menu, and what GitHub alone understands is rewritten."""

from __future__ import annotations

import re

import pytest

from tools import site_pages
from tools.pages import ROOT

GUIDE = ROOT / "docs" / "guides" / "unity.md"


def test_the_menu_has_every_page_once() -> None:
    named = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    docs = ROOT / "docs"
    assert sorted(named) == sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[its page](../../unity_project/README.md#builds)", "its page (`unity_project/README.md` in the repository)"),
        ("[scenes](../scenes.md)", "[scenes](../scenes.md)"),
        ("[not there](../../nothing.md)", "[not there](../../nothing.md)"),
        ("```python a2c.py\nx = 1\n```", '```python title="a2c.py"\nx = 1\n```'),
        ("```python\nx = 1\n```", "```python\nx = 1\n```"),
    ],
)
def test_what_github_alone_understands_is_rewritten(text: str, shown: str) -> None:
    assert site_pages.for_site(text, GUIDE) == shown
