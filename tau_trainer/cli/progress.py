"""Progress of a command."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tau_trainer.cli.messages import show_status
from tau_trainer.shown import shown

_TELL_S = 5.0
"""Seconds between progress lines if bars cannot be drawn."""


class ProgressBar:
    """Progress of a long task: bars on a terminal, otherwise a line every few seconds; nothing if silent."""

    def __init__(self, *, silent: bool = False, after_s: float = 1.0) -> None:
        """``after_s``: no line is written before this time, in seconds."""
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        from tau_trainer.console import Console

        console = Console(stderr=True)
        self._silent = silent
        self._lock = threading.Lock()
        self._first = time.monotonic() + after_s
        self._next: dict[str, float] = {}
        self._tasks: dict[str, Any] = {}
        self._counted: dict[str, tuple[float, int]] = {}
        self._bars = None
        if console.is_terminal and not console.is_dumb_terminal and not self._silent:
            name, text = (TextColumn(what, markup=False) for what in ("{task.description}", "{task.fields[text]}"))
            self._bars = Bars(name, BarColumn(), text, TimeElapsedColumn(), console=console, transient=True)

    def __enter__(self) -> ProgressBar:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def count(self, name: str, done: int, of: int, unit: str) -> None:
        """Report ``done`` of ``of`` units of ``name``, with speed and time left, both since its first report."""
        from tau_trainer.metrics.format import format_seconds, format_speed

        now = time.monotonic()
        begun, first = self._counted.setdefault(name, (now, done))
        text = f"{done:,} of {of:,} {unit}"
        if now > begun and done > first:
            rate = (done - first) / (now - begun)
            text += f", {format_speed(rate)} a second, {format_seconds((of - done) / rate)} left"
        self.tell(name, done / of, text)

    def tell(self, name: str, share: float, text: str) -> None:
        """Report that the share ``share`` of ``name`` is done; call from any thread."""
        if self._silent:
            return
        with self._lock:
            if self._bars is not None:
                if name not in self._tasks:
                    self._tasks[name] = self._bars.add_task(shown(name), total=1.0, text="")
                self._bars.update(self._tasks[name], completed=share, text=shown(text))
            elif time.monotonic() >= self._next.get(name, self._first):
                self._next[name] = time.monotonic() + _TELL_S
                show_status(f"{name} {min(share, 1.0):.0%}: {text}")


@contextmanager
def stoppable(stop: Callable[[], None], then: str) -> Iterator[None]:
    """The first Ctrl-C calls ``stop``, the second ends at once. ``then``: the fate of the result after the first."""
    from tau_trainer.runs.session import on_interrupt

    pressed = itertools.count(1)

    def interrupted() -> None:
        if next(pressed) > 1:
            raise KeyboardInterrupt
        stop()
        show_status(f"stopping; {then} (press Ctrl-C again to quit at once)")

    with on_interrupt(interrupted):
        yield
