"""What the person at the terminal sees: a live table, plain lines, little, or JSON lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Literal, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tau_trainer.metrics.jsonl import JsonStream
from tau_trainer.metrics.plain import PlainLines, QuietLines, print_line
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.report import ResultView
from tau_trainer.metrics.snapshot import RunReport, RunSnapshot
from tau_trainer.metrics.summary import Event, Summary
from tau_trainer.metrics.table import RunView
from tau_trainer.metrics.timing import Clock
from tau_trainer.metrics.trend import Trend

TerminalMode = Literal["auto", "live", "plain", "quiet", "json"]

REDRAW_SECONDS = 0.25
MAX_SHARE = 0.01
"""Share of one core that drawing may cost."""

EVENT_STYLES = {"warning": "yellow", "error": "bold red"}


def terminal_recorder(
    mode: TerminalMode = "auto", *, console: Console | None = None, stream: TextIO | None = None
) -> Recorder:
    """The recorder for a terminal.

    :param mode: ``auto`` is ``live`` on a terminal and ``plain`` when piped.
    :param console: where lines and tables go; default: standard output, and standard error for ``quiet``.
    :param stream: where ``json`` goes; default: standard output.
    """
    console = console if console is not None else Console(stderr=mode == "quiet")
    match mode:
        case "json":
            return JsonStream(stream if stream is not None else sys.stdout)
        case "quiet":
            return QuietLines(console)
        case "live":
            return LiveTable(console)
        case "plain":
            return PlainLines(console)
        case "auto":
            can_redraw = console.is_terminal and not console.is_dumb_terminal
            return LiveTable(console) if can_redraw else PlainLines(console)


class Throttle:
    """Says when to draw again: at most every ``seconds``, and so rarely that it costs under ``share`` of a core."""

    def __init__(
        self,
        seconds: float = REDRAW_SECONDS,
        share: float = MAX_SHARE,
        clock: Clock = time.monotonic,
        cpu_clock: Clock = time.thread_time,
    ) -> None:
        self._seconds = seconds
        self._share = share
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._next = -float("inf")

    def ready(self) -> bool:
        """Whether it is time."""
        return self._clock() >= self._next

    def run(self, draw: Callable[[], None]) -> None:
        """Draw, and put off the next time by what it cost."""
        before = self._cpu_clock()
        draw()
        cost = self._cpu_clock() - before
        self._next = self._clock() + max(self._seconds, cost / self._share)


class LiveTable(Recorder):
    """The table, redrawn in place; messages scroll by above it; the last panel below."""

    def __init__(self, console: Console, throttle: Throttle | None = None) -> None:
        self._console = console
        self._throttle = throttle if throttle is not None else Throttle()
        self._live: Live | None = None
        self._pending: RunSnapshot | None = None
        self._trends: dict[str, Trend] = {}
        self._task_reward: str | None = None

    def on_summary(self, summary: Summary) -> None:
        """Keep what it says of reward and losses for the next drawing."""
        self._trends.setdefault(summary.behavior, Trend()).add(summary, self._task_reward)

    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        """Draw it, unless the last drawing was too recent: then it is drawn by the next call, or at the end."""
        self._pending = snapshot
        if self._throttle.ready():
            self._throttle.run(self._draw)

    def on_event(self, event: Event) -> None:
        """Print the event's message above the table, if it has one; remember what a task calls its reward."""
        if event.kind == "task":
            self._task_reward = str(event.fields["reward"])
        if event.message is not None:
            self._console.print(Text(event.message, style=EVENT_STYLES.get(event.kind, "")))

    def on_result(self, result: RunReport) -> None:
        """Draw the table for the last time, then how the run ended."""
        self.close()
        self._console.print(ResultView(result))

    def close(self) -> None:
        """Draw what is pending and give the cursor back."""
        self._draw()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        if self._pending is None:
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="ellipsis")
            self._live.start()
        # The empty line is for what a terminal echoes (^C): beside the table it would move all that is above.
        self._live.update(Group(RunView(self._pending, self._trends), Text()), refresh=True)
        self._pending = None


__all__ = ["LiveTable", "PlainLines", "QuietLines", "TerminalMode", "Throttle", "print_line", "terminal_recorder"]
