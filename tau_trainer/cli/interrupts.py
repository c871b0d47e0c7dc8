"""Handles Ctrl-C from the start, while everything else is still loading. Imports almost nothing."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # as in the package's own
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

INTERRUPTED = 130
"""Exit code after Ctrl-C if there was nothing to save."""
_SAID = "error: stopped before anything was to be saved\n"
_ASKING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""The same signals as in :mod:`tau_trainer.runs.session`, which takes over while a run learns."""


class Interrupts:
    """Turns the first signal to stop into KeyboardInterrupt, and ends the process at the second.

    No traceback is shown, and no run stays locked.

    Args:
        whole: whether the process ends with this command, so that it may be ended at any moment.
    """

    def __init__(self, *, whole: bool) -> None:
        self._whole, self._pressed = whole, False
        self._before: dict[int, Any] = {}
        for number in (getattr(signal, name) for name in _ASKING if hasattr(signal, name)):
            usual = signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
            if usual and (whole or number == signal.SIGINT):  # `nohup` ignores some; keep that
                try:
                    self._before[number] = signal.signal(number, self._hear)
                except ValueError:  # only the main thread receives signals
                    return
        if whole:
            sys.unraisablehook = self._unraisable

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self._pressed and self._whole:
            self._leave()
        self._pressed = True
        raise KeyboardInterrupt

    def _unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Called where Python would print the KeyboardInterrupt and continue, as in an import's callback."""
        if unraisable.exc_type is KeyboardInterrupt:
            self._leave()
        sys.__unraisablehook__(unraisable)

    def stop(self) -> int:
        """Print that the command was stopped; returns the exit code, or ends the process if a run's thread is alive."""
        self._ignore()
        if not self._whole:
            sys.stderr.write(_SAID)
            return INTERRUPTED
        threads = sys.modules["threading"].enumerate() if "threading" in sys.modules else []
        if any(thread.name.startswith("run ") for thread in threads):
            self._leave()
        _say()
        return INTERRUPTED

    def end(self) -> None:
        """Restore the earlier handlers at the end of the command."""
        if self._whole:
            self._pressed = True  # only the interpreter's shutdown is left, which would print a traceback
            _let_go()
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ignore(self) -> None:
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def _leave(self) -> NoReturn:
        """End the process now, without waiting for anything."""
        self._ignore()
        _say()
        _let_go()
        os._exit(INTERRUPTED)


def _say() -> None:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        os.write(2, _SAID.encode())
    except (OSError, ValueError, RuntimeError):  # the stream is closed, or a write was in progress
        return


def _let_go() -> None:
    """Unlock the runs of this process, and delete the folders of runs that had not started."""
    folders = sys.modules.get("tau_trainer.runs.folder")
    if folders is not None and hasattr(folders, "let_go"):  # not while it is being imported
        folders.let_go()
