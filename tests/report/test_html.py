from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.report.html import Markup, cell, element, escaped, table


class Reader(HTMLParser):
    """What a browser would read: tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@given(st.text())
def test_whatever_a_text_holds_it_stays_one_text(text: str) -> None:
    read = Reader(element("p", text, title=text))
    [(tag, attributes)] = read.seen
    shown = str(escaped(text).encode("utf-8"), "utf-8")
    assert tag == "p"
    assert set(attributes) == {"title"}
    assert "<" not in shown
    assert '"' not in shown
    assert "".join(read.words) == attributes["title"]


def test_what_html_cannot_hold_is_replaced() -> None:
    assert escaped("a\x00b\ud800c\x1bd") == "a\ufffdb\ufffdc\ufffdd"


def test_attributes() -> None:
    assert element("a", class_="x y", stroke_width=2, hidden=None, open=False, cx=0.123456) == (
        '<a class="x y" stroke-width="2" cx="0.12346"></a>'
    )
    assert element("meta", name="x") == '<meta name="x">'


def test_cells_are_made_where_there_are_none() -> None:
    assert cell("<td>") == "<td>&lt;td&gt;</td>", "text of a user is no markup, whatever it begins with"
    assert cell(element("th", "x")) == "<th>x</th>"
    assert cell(Markup("<b>x</b>")) == "<td><b>x</b></td>"
    assert table(["a", "b"], [["<i>", "<b>"]], class_="t") == (
        '<div class="scroll"><table class="t"><thead><tr><th scope="col">a</th><th scope="col">b</th></tr></thead>'
        '<tbody><tr><th scope="row">&lt;i&gt;</th><td>&lt;b&gt;</td></tr></tbody></table></div>'
    )
