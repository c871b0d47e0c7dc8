"""Text of others (engines, nodes, files) on a terminal: what would steer the terminal is written out instead."""

from __future__ import annotations

import logging
import re
from types import TracebackType

_STEERING = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # ASCII's control characters, escape among them, and those of eight bits
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line ends of Unicode, and what changes the direction of writing
    "\ud800-\udfff"  # halves of pairs, which cannot be written at all
    "]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(text: str, *, lines: bool = False) -> str:
    r"""``text`` as one line that a terminal only shows: an escape is written as ``\u001b``, a line break as ``\n``.

    JSON stays JSON of the same data. ``lines``: line breaks stay, for text of ours that has several.
    """
    if lines:
        return "\n".join(map(shown, text.replace("\r\n", "\n").split("\n")))
    return _STEERING.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


class ShownFormatter(logging.Formatter):
    """Writes a record as one line that a terminal only shows, and its traceback below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 logging's name
        """The line."""
        return shown(super().formatMessage(record))

    def formatException(  # noqa: N802 logging's name
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        """The traceback."""
        return shown(super().formatException(ei), lines=True)
