"""Runs a command line and returns its exit code: 0 done, 1 a bug of this program, 2 a mistake that the user can fix."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import re
import select
import sys
from collections.abc import Sequence

from tau_trainer.cli.messages import show_error, tell

_SWALLOWING = "--env-args"
_ESCAPED = "tau-train-escaped"
_PASS_THROUGH = "headless"
_PLAINLY = (
    (r"(?:Command .*parameter|Parameter) (-\S+) requires an argument", r"\1 needs a value"),
    (r"(?:Command .*parameter|Parameter) (\S+) requires an argument", r"\1 is missing"),
    (r"Parameter (\S+) specified multiple times", r"\1 is given more than once"),
    (r"Invalid value for (\S+): unable to convert \"(.*)\" into int", r"\1 must be a whole number, not '\2'"),
    (r"Invalid value for (\S+): unable to convert \"(.*)\" into float", r"\1 must be a number, not '\2'"),
    (r"Invalid value for (\S+): unable to convert \"(.*)\" into bool", r"\1 must be true or false, not '\2'"),
)
"""Sentences of the command-line parser, and plain ones for them."""


def run(argv: Sequence[str] | None = None) -> int:
    """Run ``tau-train`` with ``argv`` (default: this process's arguments); returns the exit code.

    Raises KeyboardInterrupt if the command was interrupted, even if the interrupt surfaced as another exception.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    # Acting multiplies small matrices, which a second thread only slows down. Set this before numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not (os.environ.get("COLUMNS") or "1").strip("0"):
        del os.environ["COLUMNS"]  # a terminal of width 0 would show nothing
    _write_every_character()
    debug = "--debug" in split_env_args(words)[0]
    try:
        code = _run(words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError as error:
        return 1 if _reader_has_gone() else tell(error, debug=debug)
    except BaseExceptionGroup as error:
        if error.subgroup(KeyboardInterrupt):
            raise KeyboardInterrupt from error
        return tell(error, debug=debug)
    except Exception as error:
        if isinstance(error, ImportError | SystemError) and _stopped(error):
            raise KeyboardInterrupt from error
        return tell(error, debug=debug)


def _write_every_character() -> None:
    """Escape what an output cannot encode (a pipe of Windows has 256 characters), as JSON does: it stays JSON."""

    def escaped(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return json.dumps(error.object[error.start : error.end])[1:-1], error.end

    codecs.register_error(_ESCAPED, escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):  # a pipe in the place of a file has no position; all else is set
                stream.reconfigure(errors=_ESCAPED)


def _stopped(error: BaseException | None) -> bool:
    """Whether a KeyboardInterrupt caused the error. Extension modules turn one into an error of their own."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _stopped(error.__cause__) or _stopped(error.__context__)
    )


def _reader_has_gone() -> bool:
    """Whether the reader of stdout has closed it; if so, also redirect stdout so that nothing is flushed at exit."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), select.POLLOUT)
    except (OSError, ValueError):
        return False
    gone = any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return gone


def _run(words: list[str]) -> int:
    if words[:1] == [_PASS_THROUGH]:
        from tau_trainer.cli.parts.headless import headless

        return headless(*words[1:])
    from cyclopts import CycloptsError

    from tau_trainer.cli.app import build_app

    app = build_app(next((word for word in words if not word.startswith("-")), None))
    try:
        result = app(
            join_env_args(words) or ["--help"], exit_on_error=False, print_error=False, result_action="return_value"
        )
    except CycloptsError as error:
        error.verbose = False
        show_error(usage_sentence(str(error), error.unused_tokens or (), error.command_chain or ()))
        return 2
    return result if isinstance(result, int) else 0


def usage_sentence(text: str, unused: Sequence[str], commands: Sequence[str]) -> str:
    """The message of the command-line parser as one sentence with a remedy."""
    sentence = " ".join(text.split()).replace(", ...", " and others")
    if sentence.startswith("Unused Tokens"):
        sentence = f"Unexpected argument: {' '.join(unused)}"
    for theirs, plain in _PLAINLY:
        sentence = re.sub(rf"^{theirs}", plain, sentence)
    if "Did you mean" in sentence and "?" in sentence:
        return sentence[: sentence.rindex("?") + 1]
    return f"{sentence.rstrip('.')}; see: {' '.join(['tau-train', *commands, '--help'])}"


def split_env_args(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before ``--env-args``, and the words after it, which are passed to the engine."""
    if _SWALLOWING not in words:
        return list(words), []
    at = list(words).index(_SWALLOWING)
    return list(words[:at]), list(words[at + 1 :])


def join_env_args(words: Sequence[str]) -> list[str]:
    """Bind each word after ``--env-args`` to that flag, so that none is parsed as a flag of ``tau-train``."""
    head, rest = split_env_args(words)
    return [*head, *(f"{_SWALLOWING}={word}" for word in rest)]
