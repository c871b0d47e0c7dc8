"""What the command line says: lines on stdout, one-sentence errors on stderr, log records."""

from __future__ import annotations

import errno
import json
import logging
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import TextIO

from tau_trainer.errors import SettingsError, TauError, is_out_of_memory
from tau_trainer.shown import ShownFormatter, shown

INTERNAL = 1
"""Exit code of a defect of this program."""

_UNITS = {None: 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""Bytes of what allocators count in; None: bytes."""


def show_lines(lines: Iterable[str]) -> None:
    """Write plain lines to stdout, never wrapped, broken or coloured by their content."""
    from tau_trainer.console import Console

    console = Console(soft_wrap=True)
    for line in lines:
        console.print(shown(line))


def show_status(text: str) -> None:
    """Say on stderr what is being done now, before something that takes a while."""
    print(shown(text), file=sys.stderr, flush=True)  # noqa: T201


def show_json(value: object) -> None:
    """Write one JSON line to stdout."""
    sys.stdout.write(shown(json.dumps(value, allow_nan=False, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def show_error(text: str, *, mistake: bool = True, each: Iterable[str] = ()) -> None:
    """Write ``error: text`` to stderr (``note:`` where it is no mistake), coloured where that is a terminal.

    ``each``: lines below it.
    """
    from rich.text import Text

    from tau_trainer.console import Console

    console = Console(stderr=True, soft_wrap=True)
    console.print(Text("error:", style="bold red") if mistake else Text("note:", style="bold"), Text(shown(text)))
    for line in each:
        console.print(Text(f"  {shown(line)}"))


def tell(error: BaseException, *, debug: bool) -> int:
    """Tell the user of ``error``; returns the exit code."""
    if debug:
        sys.stderr.write(shown("".join(traceback.format_exception(error)), lines=True))
    mistakes = list(_mistakes(error))
    if mistakes:
        for mistake in mistakes:
            problems = mistake.problems if isinstance(mistake, SettingsError) else ()
            heading, several = str(mistake), len(problems) > 1
            show_error(
                heading.partition("\n")[0] if several else heading,
                mistake=mistake.exit_code != 0,
                each=problems if several else (),
            )
        return mistakes[0].exit_code
    if (remedy := _remedy(error)) is not None:
        show_error(remedy)
        return TauError.exit_code
    hint = "" if debug else "; run again with --debug to see where, and report it"
    show_error(f"internal error: {_described(error)}{hint}")
    return INTERNAL


def _remedy(error: BaseException) -> str | None:
    """What to do where the machine has too little of something; None: that is not it."""
    from tau_trainer.files import memory_bytes, reason

    if is_out_of_memory(error):
        found = re.search(r"(?:allocate|allocating) ([\d.]+) ?([KMGT]iB)?", str(error))
        asked = float(found[1]) * _UNITS[found[2]] if found else 0.0
        much = f": {asked / _UNITS['GiB']:,.1f} GiB were asked for at once" if found else ""
        there = None if "CUDA" in str(error) else memory_bytes()
        has = f", and this machine has {there / _UNITS['GiB']:,.1f} GiB" if there and found else ""
        has += f", so less than 1/{asked // there:.0f} of that fits" if there and asked > 2 * there else ""
        return (
            f"out of memory{much}{has}; use fewer copies or engines (--num-envs), or a smaller buffer_size "
            "(tau-train scale finds what fits here)"
        )
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("tau_trainer"):
        return (
            f"the Python package {error.name.partition('.')[0]} is not installed, and this needs it; run `pip install "
            "tau-trainer` again, which brings what is missing"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        place = error.filename or "the output"
        return f"{place} cannot be written: {reason(error)}; make room, or let it go somewhere else"
    return None


def _described(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _mistakes(error: BaseException) -> Iterator[TauError]:
    """The TauErrors that ``error`` is or groups; none if it groups anything else."""
    if isinstance(error, TauError):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        inner, others = error.split(TauError)
        if inner is not None and others is None:
            yield from (leaf for part in inner.exceptions for leaf in _mistakes(part))


def set_up_logging(*, debug: bool = False, quiet: bool = False) -> None:
    """Send the package's log records to stderr: warnings, with ``debug`` everything, with ``quiet`` errors only."""
    handler = _Stderr()
    form = "%(levelname)s %(name)s: %(message)s" if debug else "%(levelname)s: %(message)s"
    handler.setFormatter(_LowerCase(form))
    logger = logging.getLogger("tau_trainer")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.DEBUG if debug else logging.ERROR if quiet else logging.WARNING)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to whatever stderr is at that moment: a live table puts its own in place, to scroll lines above it."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr  # `setStream` would flush the one before, which may be closed
        super().emit(record)


class _LowerCase(ShownFormatter):
    """``warning: ...`` instead of ``WARNING: ...``."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return record.levelname.lower() + text.removeprefix(record.levelname)
