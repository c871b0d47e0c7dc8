"""Phrases that confuse newcomers: `python3 -m tools.phrases` counts them, `--where` lists each with its place.

Three kinds of text are counted: strings (messages, help), docs (README, CONTRIBUTING, `docs/`; code blocks and the
changelog are left out), and docstrings with comments. Names of interfaces (`begin`) are not on the list.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PHRASES = {
    r"begin(s)? with:": "start with:",
    r"(goes|go|going|went|gone) on elsewhere": "runs in another process or on another machine",
    r"(go|goes|going|went|gone) on with": "resume, continue, keep",
    r"\bthe parts alone": "tools",
    r"which is clear text without": "unencrypted if omitted",
    r"seed of everything random": "random seed",
    r"from zero": "from scratch",
    r"has had all its decisions": "has already reached max_steps",
    r"\b(learn|train)(s|ed)? no more\b": "stops training",
    r"(is|are) nothing that": "is not supported by",
    r"\b(stands?|stood) for\b": "means, represents, is",
    r"\b(stands?|stood) twice": "is defined twice",
    r"of today's form": "already up to date",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\btakes? not\b": "does not accept",
    r"\b(tell|tells|told|telling) of\b": "reports",
    r"told nothing of itself": "has no status",
    r"(is|are|be) no known": "unknown",
    r"is shown no longer": "is no longer shown",
    r"\ball the same\b": "still",
    r"\banew\b": "again, from scratch",
    r"\bwhoever\b": "anyone who, the user, the caller",
    r"\bnobody\b": "no one, nothing; or the noun",
    r"\bsomebody\b": "someone; or the noun",
    r"\bwhere (there (is|are|was|were)|none|nothing)\b": "if",
    r"\bfor want of\b": "because there is no, without",
    r"\bso (many|much)\b(?! (as|that))": "the number",
    r"\bbeside(s)? (each other|one another)\b": "side by side",
}
"""Pattern (case-insensitive): what to write instead."""

KINDS = ("strings", "docs", "docstrings and comments")


@dataclass(frozen=True)
class Found:
    """An occurrence of a phrase. ``path`` is relative to the repository, ``line`` counts from 1."""

    kind: str
    path: str
    line: int
    words: str
    instead: str


def found(root: Path = ROOT) -> list[Found]:
    """Every phrase in the texts below a folder, file by file."""
    texts = [
        *((path, of_module(path.read_text("utf-8"))) for path in sorted((root / "tau_trainer").rglob("*.py"))),
        *((path, of_page(path.read_text("utf-8"))) for path in _pages(root)),
    ]
    return [
        Found(kind, path.relative_to(root).as_posix(), line + text[: match.start()].count("\n"), match[0], instead)
        for path, pieces in texts
        for kind, line, text in pieces
        for pattern, instead in _PATTERNS
        for match in pattern.finditer(text)
    ]


_PATTERNS = [(re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), instead) for pattern, instead in PHRASES.items()]


def _pages(root: Path) -> list[Path]:
    top = [root / name for name in ("README.md", "CONTRIBUTING.md")]
    return [page for page in [*top, *sorted((root / "docs").rglob("*.md"))] if page.exists()]


def of_page(text: str) -> Iterator[tuple[str, int, str]]:
    """The prose of a page: kind, line and text of each piece."""
    line = 1
    for index, piece in enumerate(text.split("```")):
        if not index % 2:
            yield KINDS[1], line, piece
        line += piece.count("\n")


def of_module(text: str) -> Iterator[tuple[str, int, str]]:
    """Strings, docstrings and comments of a module: kind, line and text of each."""
    tree = ast.parse(text)
    quoted = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield KINDS[2 if id(node) in quoted else 0], node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield KINDS[2], token.start[0], token.string


def main() -> None:
    """Print the counts, or each phrase with its place."""
    parser = argparse.ArgumentParser(description="Count the phrases that confuse newcomers.")
    parser.add_argument("--where", action="store_true", help="list each phrase with its place and a replacement")
    parser.add_argument("--kind", choices=KINDS, help="only this kind of text")
    arguments = parser.parse_args()
    every = [phrase for phrase in found() if arguments.kind in (None, phrase.kind)]
    if arguments.where:
        for phrase in every:
            print(f"{phrase.path}:{phrase.line}: {' '.join(phrase.words.split())!r}; say: {phrase.instead}")
    for kind, count in Counter(phrase.kind for phrase in every).items():
        print(f"{kind:<40} {count:>6,}")


if __name__ == "__main__":
    main()
