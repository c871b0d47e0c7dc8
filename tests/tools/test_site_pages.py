"""The site: it builds without a warning, and Markdown that only GitHub understands is rewritten."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from tools import site_pages
from tools.pages import ROOT

DOCS = ROOT / "docs"
GUIDE = DOCS / "guides" / "unity.md"


def build_site(folder: Path, **changed: Any) -> None:
    """`mkdocs build --strict`, with other values for some keys of `mkdocs.yml`."""
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True, **changed))


def test_the_site_builds_without_a_warning_and_has_every_page(tmp_path: Path) -> None:
    build_site(tmp_path)
    built = {page.relative_to(tmp_path).as_posix() for page in tmp_path.rglob("index.html")}
    names = (page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md"))
    assert built == {"index.html" if name == "README" else f"{name}/index.html" for name in names}
    assert "in the repository)" in (tmp_path / "guides" / "unity" / "index.html").read_text("utf-8"), "the hook ran"


@pytest.mark.parametrize(
    ("text", "pages", "said"),
    [
        ("[gone](gone.md)", ["README.md"], "contains a link 'gone.md', but the target is not found"),
        ("[gone](#gone)", ["README.md"], "contains a link '#gone', but there is no such anchor"),
        ("[there](other.md)", ["README.md", "other.md"], 'not included in the "nav" configuration'),
    ],
)
def test_a_broken_link_and_a_page_outside_the_menu_fail(
    text: str, pages: list[str], said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for page in pages:
        (docs / page).write_text(f"# A page\n\n{text}\n", "utf-8")
    with caplog.at_level("INFO", "mkdocs"), pytest.raises(Abort):
        build_site(tmp_path / "site", docs_dir=str(docs), nav=[{"Home": "README.md"}])
    assert said in caplog.text


def test_menu_and_index_have_the_same_pages_in_the_same_order() -> None:
    named = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    index = re.findall(r"^- \[[^]]*\]\(([\w/-]+\.md)\)", (DOCS / "README.md").read_text("utf-8"), re.MULTILINE)
    assert named == ["README.md", *index]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[its page](../../unity_project/README.md#builds)", "its page (`unity_project/README.md` in the repository)"),
        ("[scenes](../scenes.md)", "[scenes](../scenes.md)"),
        ("[not there](../../nothing.md)", "[not there](../../nothing.md)"),
        ("```python a2c.py\nx = 1\n```", '```python title="a2c.py"\nx = 1\n```'),
        ("```python\nx = 1\n```", "```python\nx = 1\n```"),
        (r"| `find lr \| agent` | a \| b |", r"| `find lr | agent` | a \| b |"),
        (r"`grep 'a\|b'`", r"`grep 'a\|b'`"),
    ],
)
def test_what_github_alone_understands_is_rewritten(text: str, shown: str) -> None:
    assert site_pages.for_site(text, GUIDE) == shown
