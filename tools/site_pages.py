"""A hook of MkDocs (`mkdocs.yml`): pages that are written for GitHub become pages of the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page's text, for Python-Markdown instead of GitHub. MkDocs calls this."""
    return for_site(markdown, Path(page.file.abs_src_path))


def for_site(markdown: str, path: Path) -> str:
    """The text of the page at ``path``.

    Fences with a file name get a title, links out of `docs` become that path, and the bars of code in tables, which
    GitHub wants with a backslash, lose it.
    """
    markdown = re.sub(r"^\|.*", lambda row: re.sub(r"`[^`]*`", _bars, row[0]), markdown, flags=re.MULTILINE)
    markdown = re.sub(r"^```(\w+) (.+)$", r'```\1 title="\2"', markdown, flags=re.MULTILINE)

    def inside(link: re.Match[str]) -> str:
        target = (path.parent / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs") or not target.exists():
            return link[0]
        return f"{link[1]} (`{target.relative_to(ROOT).as_posix()}` in the repository)"

    return re.sub(r"\[([^]]*)\]\((\.\./[^)#]*)[^)]*\)", inside, markdown)


def _bars(code: re.Match[str]) -> str:
    return code[0].replace(r"\|", "|")
