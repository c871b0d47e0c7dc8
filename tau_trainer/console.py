"""The one console that this package draws on. Imports rich, so only what draws imports it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from typing_extensions import override

from tau_trainer.shown import shown


class Console(RichConsole):
    """Draws texts as they are: no markup, no emoji names, nothing that steers the terminal but its own colours."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    @override
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or (segment.text.isascii() and segment.text.isprintable()):
                yield segment
            else:
                broken = segment.text.split("\n")  # rich has cut what is wide into lines
                yield segment._replace(text="\n".join(map(shown, broken)))
