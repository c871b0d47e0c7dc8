"""Texts of others never steer a terminal, and stay readable."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tau_trainer.console import Console
from tau_trainer.shown import ShownFormatter, shown

EVIL = "a\x1b]0;owned\x07\x1b[2J\x9b31mb\nc\r\t\x00\u202ed\u2028[red]e[/red]\udc80"
PLAIN = "a\\u001b]0;owned\\u0007\\u001b[2J\\u009b31mb\\nc\\r\\t\\u0000\\u202ed\\u2028[red]e[/red]\\udc80"


def test_what_steers_is_written_out_and_all_else_stays() -> None:
    assert shown(EVIL) == PLAIN
    assert shown(PLAIN) == PLAIN, "once is enough"
    assert shown("a\nb\r\nc\x0bd\x85e\u2028f\n", lines=True) == "a\nb\nc\\u000bd\\u0085e\\u2028f\n", (
        "but our line breaks"
    )
    for text in ("Würfel", "エージェント", "عامل", "סוכן", "🤖👩‍🚀", "a b [c] {d} \\n"):
        assert shown(text) == text, "names of people stay as they are"


STEERING = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(st.characters(codec=None)))
def test_nothing_that_steers_is_left_of_any_text(text: str) -> None:
    for character in shown(text):
        assert unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(character) not in STEERING


@given(st.text(st.characters(codec=None)))
def test_json_stays_json_of_the_same(text: str) -> None:
    for ascii_only in (True, False):
        assert json.loads(shown(json.dumps({text: [text]}, ensure_ascii=ascii_only))) == {text: [text]}


def test_a_record_is_a_line_and_its_traceback_lines() -> None:
    try:
        raise ValueError(EVIL)
    except ValueError:
        told = {"msg": "%s", "args": (EVIL,), "levelname": "ERROR", "exc_info": sys.exc_info()}
        record = logging.makeLogRecord(told)
    lines = ShownFormatter("%(levelname)s: %(message)s").format(record).split("\n")
    assert lines[0] == f"ERROR: {PLAIN}"
    assert lines[1] == "Traceback (most recent call last):"
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(lines))


def drawn(*things: object, colours: bool = True) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=colours, color_system="standard" if colours else None, width=100)
    for thing in things:
        console.print(thing)
    return file.getvalue()


SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("colours", [True, False])
def test_the_console_draws_texts_of_others_and_its_own_colours(colours: bool) -> None:
    evil = EVIL.replace("\udc80", "")
    table = Table(title=evil, caption=evil)
    table.add_column(evil)
    table.add_row(evil)
    table.add_row(Text(evil))
    text = drawn(evil, Text(evil, style="red"), Panel(evil, title=evil), table, colours=colours)
    assert ("\x1b[31m" in text) == colours, "our red, once"
    left = SGR.sub("", text) if colours else text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", left)
    assert "[red]e" in left, "markup of others is text"


def test_emoji_names_and_links_of_others_are_text() -> None:
    assert drawn(":smile: [link=http://evil]x[/link]", colours=False) == ":smile: [link=http://evil]x[/link]\n"
