"""Output of the command line: lines on stdout, one-sentence errors on stderr, log records."""

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
"""Exit code for a bug of this program."""

_UNITS = {None: 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""Bytes of each unit in allocators' messages; None: bytes."""


def show_lines(lines: Iterable[str]) -> None:
    """Write plain lines to stdout, without wrapping, and without styles or control characters from their content."""
    from tau_trainer.console import Console

    console = Console(soft_wrap=True)
    for line in lines:
        console.print(shown(line))


def show_status(text: str) -> None:
    """Write the current step to stderr, before a step that takes a while."""
    print(shown(text), file=sys.stderr, flush=True)  # noqa: T201


def show_json(value: object) -> None:
    """Write one JSON line to stdout."""
    sys.stdout.write(shown(json.dumps(value, allow_nan=False, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def show_error(text: str, *, mistake: bool = True, each: Iterable[str] = ()) -> None:
    """Write ``error: text`` to stderr (``note:`` if it is not a mistake), in colour if stderr is a terminal.

    ``each``: more lines below it.
    """
    from rich.text import Text

    from tau_trainer.console import Console

    console = Console(stderr=True, soft_wrap=True)
    console.print(Text("error:", style="bold red") if mistake else Text("note:", style="bold"), Text(shown(text)))
    for line in each:
        console.print(Text(f"  {shown(line)}"))


def tell(error: BaseException, *, debug: bool) -> int:
    """Report ``error`` to the user; returns the exit code."""
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
    hint = "" if debug else "; run again with --debug to see the traceback, and report it"
    show_error(f"internal error: {_described(error)}{hint}")
    return INTERNAL


def _remedy(error: BaseException) -> str | None:
    """The remedy if memory, disk space or a package is missing; None for any other error."""
    from tau_trainer.files import memory_bytes, reason

    if is_out_of_memory(error):
        found = re.search(r"(?:allocate|allocating) ([\d.]+) ?([KMGT]iB)?", str(error))
        asked = float(found[1]) * _UNITS[found[2]] if found else 0.0
        much = f": one allocation of {asked / _UNITS['GiB']:,.1f} GiB failed" if found else ""
        there = None if "CUDA" in str(error) else memory_bytes()
        has = f", and this machine has {there / _UNITS['GiB']:,.1f} GiB" if there and found else ""
        has += f", so less than 1/{asked // there:.0f} of that fits" if there and asked > 2 * there else ""
        return (
            f"out of memory{much}{has}; use fewer copies or engines (--num-envs), or a smaller buffer_size "
            "(tau-train scale finds what fits here)"
        )
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("tau_trainer"):
        return (
            f"the Python package {error.name.partition('.')[0]} is required but not installed; run `pip install "
            "tau-trainer` again to install missing packages"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        place = error.filename or "the output"
        return f"cannot write {place}: {reason(error)}; free some space, or choose another place"
    return None


def _described(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _mistakes(error: BaseException) -> Iterator[TauError]:
    """``error`` if it is a TauError, or the TauErrors in its group; none if the group has any other error."""
    if isinstance(error, TauError):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        inner, others = error.split(TauError)
        if inner is not None and others is None:
            yield from (leaf for part in inner.exceptions for leaf in _mistakes(part))


def set_up_logging(*, debug: bool = False, quiet: bool = False) -> None:
    """Send the package's log records to stderr: warnings; with ``debug`` all records, with ``quiet`` only errors."""
    handler = _Stderr()
    form = "%(levelname)s %(name)s: %(message)s" if debug else "%(levelname)s: %(message)s"
    handler.setFormatter(_LowerCase(form))
    logger = logging.getLogger("tau_trainer")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.DEBUG if debug else logging.ERROR if quiet else logging.WARNING)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to the current ``sys.stderr``: a live table replaces it with its own, to scroll lines above the table."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr  # `setStream` would flush the old stream, which may be closed
        super().emit(record)


class _LowerCase(ShownFormatter):
    """``warning: ...`` instead of ``WARNING: ...``."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return record.levelname.lower() + text.removeprefix(record.levelname)
