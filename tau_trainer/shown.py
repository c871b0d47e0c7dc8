"""Safe output of foreign text (from engines, nodes, files): control characters are escaped for the terminal."""

from __future__ import annotations

import logging
import re
from types import TracebackType

_STEERING = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # ASCII control characters, including escape, and the 8-bit ones
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # Unicode line ends, and direction marks
    "\ud800-\udfff"  # unpaired surrogates, which cannot be encoded
    "]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(text: str, *, lines: bool = False) -> str:
    r"""``text`` as one line that cannot control the terminal: escape becomes ``\u001b``, a line break ``\n``.

    JSON stays JSON of the same data. ``lines``: keep line breaks, for this program's own text of several lines.
    """
    if lines:
        return "\n".join(map(shown, text.replace("\r\n", "\n").split("\n")))
    return _STEERING.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


class ShownFormatter(logging.Formatter):
    """Formats a record as one line that cannot control the terminal, with its traceback below."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 logging's name
        """The record's line, escaped."""
        return shown(super().formatMessage(record))

    def formatException(  # noqa: N802 logging's name
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        """The record's traceback, escaped line by line."""
        return shown(super().formatException(ei), lines=True)
