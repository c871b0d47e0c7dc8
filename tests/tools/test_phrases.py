"""Words that newcomers stumble over do not come back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tools import phrases

CEILINGS = {"strings": 3, "docs": 0, "docstrings and comments": 0}
"""Never raised. The three strings are names in files and models."""


def test_phrases_that_newcomers_stumble_over_do_not_come_back() -> None:
    counted = Counter(phrase.kind for phrase in phrases.found())
    over = {kind: counted[kind] for kind, ceiling in CEILINGS.items() if counted[kind] > ceiling}
    assert not over, "python -m tools.phrases --where lists them and says what to write instead"


def test_each_kind_of_text_is_read_and_code_is_not(tmp_path: Path) -> None:
    (tmp_path / "tau_trainer").mkdir()
    module = '"""Mended\nby\nnobody."""\nmend = 1  # begun anew\nprint(f"{mend} stands\\ntwice", mend.anew)\n'
    (tmp_path / "tau_trainer" / "module.py").write_text(module, "utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("Goes on\nwith it.\n```\nanew\n```\nNobody.\n", "utf-8")
    assert [(each.kind, each.path, each.line, each.words) for each in phrases.found(tmp_path)] == [
        ("docstrings and comments", "tau_trainer/module.py", 1, "Mended"),
        ("docstrings and comments", "tau_trainer/module.py", 3, "nobody"),
        ("strings", "tau_trainer/module.py", 5, "stands\ntwice"),
        ("docstrings and comments", "tau_trainer/module.py", 4, "anew"),
        ("docs", "docs/page.md", 1, "Goes on\nwith"),
        ("docs", "docs/page.md", 6, "Nobody"),
    ]


def test_the_list_names_what_to_say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["phrases", "--where", "--kind", "docs"])
    each = phrases.Found("docs", "docs/page.md", 7, "goes\non with", "resume")
    monkeypatch.setattr(phrases, "found", lambda: [each, phrases.Found("strings", "a.py", 1, "anew", "again")])
    phrases.main()
    assert capsys.readouterr().out.split("\n")[0] == "docs/page.md:7: 'goes on with'; say: resume"
