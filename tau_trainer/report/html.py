"""HTML and SVG from Python, with everything that is not markup escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_UNSHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML cannot contain or that would change the text's direction: control characters, surrogates."""
_VOID = {"meta", "br"}


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def escaped(value: object) -> Markup:
    """``value`` as text in a document, or in an attribute between double quotes; markup is not changed."""
    return value if isinstance(value, Markup) else Markup(html.escape(_UNSHOWN.sub("\ufffd", str(value))))


def join(children: Iterable[object]) -> Markup:
    """Join the parts; None is left out."""
    return Markup("".join(escaped(child) for child in children if child is not None))


def element(tag: str, /, *children: object, **attributes: object) -> Markup:
    """``<tag attributes>children</tag>``.

    ``class_`` is ``class``, other underscores are hyphens; attributes that are None or False are left out, numbers
    are written with four digits that count.
    """
    words = [tag]
    for key, value in attributes.items():
        if value is not None and value is not False:
            text = f"{value:.5g}" if isinstance(value, float) else value
            words.append(f'{key.rstrip("_").replace("_", "-")}="{escaped(text)}"')
    end = "" if tag in _VOID else f"</{tag}>"
    return Markup(f"<{' '.join(words)}>{join(children)}{end}")


def note(*children: object) -> Markup:
    """A remark below or beside something."""
    return element("p", *children, class_="note")


def row_of(cells: Iterable[object], **attributes: object) -> Markup:
    """A row of a table, whose first cell is its heading."""
    first, *others = cells
    return element("tr", element("th", first, scope="row"), *map(cell, others), **attributes)


def table(head: Iterable[object], rows: Iterable[Iterable[object]], **attributes: object) -> Markup:
    """A table that scrolls if it is too wide. A row may be a ready ``<tr>``."""
    top = element("thead", element("tr", *(element("th", heading, scope="col") for heading in head)))
    body = [row if isinstance(row, Markup) else row_of(row) for row in rows]
    return element("div", element("table", top, element("tbody", *body), **attributes), class_="scroll")


def cell(value: object) -> Markup:
    """A cell; ready ones are not changed."""
    return value if isinstance(value, Markup) and value.startswith(("<td", "<th")) else element("td", value)
