"""The console class that all output of this package uses. It imports rich: import it only where you draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from typing_extensions import override

from tau_trainer.shown import shown


class Console(RichConsole):
    """Prints text literally: no markup, no emoji names, and no control characters except rich's own colors."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    @override
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or (segment.text.isascii() and segment.text.isprintable()):
                yield segment
            else:
                broken = segment.text.split("\n")  # rich has already wrapped wide text into lines
                yield segment._replace(text="\n".join(map(shown, broken)))
