"""Functions that commands share: logging, training in the foreground, output files, and folders of runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tau_trainer.cli.messages import set_up_logging, show_error, show_status
from tau_trainer.cli.options import OutputFlags
from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from tau_trainer.metrics import TerminalMode
    from tau_trainer.settings import RunSettings
    from tau_trainer.training.plan import RunKind

_LEAST_S = 0.1
"""Minimum duration of a measurement, in seconds."""


def prepare(shown: OutputFlags) -> None:
    """Set up the output according to the flags. Raises SettingsError."""
    if shown.log is not None:
        try:
            # A program that starts this one may end or restart first, which would break a pipe but not a file.
            sys.stdout = sys.stderr = shown.log.open("w", encoding="utf-8", errors="replace", buffering=1)
        except OSError as error:
            from tau_trainer.files import reason

            raise SettingsError(f"--log {shown.log}: cannot be written ({reason(error)}); name another file") from error
    set_up_logging(debug=bool(shown.debug), quiet=shown.quiet)


def told(shown: OutputFlags, *, always: bool = False) -> Callable[[str], None]:
    """Shows sentences on the way, unless the flags forbid it; ``always``: in any case."""
    return show_status if always or not (shown.quiet or shown.json) else lambda _: None


def check_seconds(seconds: float) -> None:
    """Raises SettingsError if there is no time to measure anything."""
    if not _LEAST_S <= seconds < float("inf"):
        raise SettingsError(f"--seconds {seconds:g}: must be a number from {_LEAST_S:g} up")


def check_least(least: int, **numbers: int | None) -> None:
    """Raises SettingsError if a flag's number is below ``least``; None: the flag was not given."""
    for name, number in numbers.items():
        if number is not None and number < least:
            raise SettingsError(f"--{name} {number}: must be at least {least}")


def train(command: RunKind, settings: RunSettings, shown: OutputFlags) -> int:
    """Train, and show the progress; returns the exit code."""
    if settings.debug:
        set_up_logging(debug=True, quiet=shown.quiet)
    from tau_trainer.training.api import train as run

    mode: TerminalMode = "json" if shown.json else "quiet" if shown.quiet else "auto"
    report = run(settings, command, terminal=mode, command_line=["tau-train", *sys.argv[1:]])
    if mode != "quiet" and not sys.stdout.isatty():  # a pipe or file may never be read
        for error in report.errors:
            show_error(error)
    return report.exit_code


def writable(path: Path, force: bool, flag: str = "--output") -> Path:
    """``path`` if it can be written; messages name ``flag``. Raises SettingsError."""
    if not path.parent.is_dir():
        raise SettingsError(f"{flag} {path}: the folder {path.parent} does not exist; make it first")
    if path.exists() and not force:
        raise SettingsError(f"{flag} {path}: already exists; choose another name, or add --force")
    return path


def run_folder(run: str, results_dir: str, *marks: str) -> Path:
    """The folder of the run with this name. Raises SettingsError, with the most similar name, if there is none.

    ``marks``: names of files that identify a run's folder, in addition to configuration.yaml.
    """
    from tau_trainer.settings.problems import did_you_mean

    home = Path(results_dir)
    places, wanted = (home / run, Path(run)), ("configuration.yaml", *marks)
    for folder in places:
        if any((folder / mark).is_file() for mark in wanted):
            return folder
    known = sorted(path.parent.name for path in home.glob("*/configuration.yaml"))
    hint = did_you_mean(run, known) if known else "train one with `tau-train parallel`"
    if run and (bare := next((folder for folder in reversed(places) if folder.is_dir()), None)):
        raise SettingsError(f"{bare}: this folder holds no run (it has no {' or '.join(wanted)}); {hint}")
    raise SettingsError(f"{run}: no run of this name in {results_dir}; {hint}")


def run_folders(
    runs: Sequence[str], results_dir: str, output: Path | None = None, what: str | None = None
) -> list[Path]:
    """The folders of runs to show together. Raises SettingsError.

    ``what``: the kind of file to write; for several runs it needs an ``output``. None: no file.
    """
    folders = [run_folder(run, results_dir, "log.jsonl") for run in runs]
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise SettingsError(f"{' '.join(runs)}: names a run twice; name each once")
    if what is not None and output is None and len(folders) > 1:
        raise SettingsError(f"a {what} of several runs has no default path; choose one with --output FILE")
    return folders
