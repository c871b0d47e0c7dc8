"""The engine's program: reads the command line, plays, and returns the exit code."""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from tau_trainer.errors import SettingsError, TauError
from tau_trainer.headless.args import HeadlessOptions, build_arguments, log_file, parse_args
from tau_trainer.headless.build import write_build
from tau_trainer.headless.scenes import check_scene
from tau_trainer.shown import ShownFormatter

_log = logging.getLogger("tau_trainer.headless")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the engine with these command-line arguments (None: those of the process); return the exit code.

    0: the trainer or the user ended it; 2: wrong input, with one sentence in the log; 1: a bug, with a traceback.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _log_to(logging.StreamHandler(sys.stderr), "%(message)s")
    try:
        path = log_file(arguments)
        if path is not None:
            _log_to(_open_log(path), "%(asctime)s %(levelname)s %(message)s")
        options = parse_args(arguments)
        if options.write_build is None:
            _run(options)
        else:
            build = write_build(options.write_build, options.scene, build_arguments(arguments))
            _log.info("wrote %s", build)
    except KeyboardInterrupt:
        return 0
    except TauError as error:
        _log.error("error: %s", error)
        return error.exit_code
    except Exception:
        _log.exception("the engine stopped because of a bug in it; please report the traceback")
        return 1
    finally:
        _log_to(None)
    return 0


def _run(options: HeadlessOptions) -> None:
    if options.unknown:
        _log.warning("ignored unknown arguments: %s", " ".join(options.unknown))
    if options.port is None:
        flag = "--port=N" if options.dialect == "godot" else "--mlagents-port N"
        raise SettingsError(f"the trainer's port is missing; give it with `{flag}`.")
    check_scene(options)
    _catch_terminate()
    from tau_trainer.headless.client import WIRES, HeadlessEngine
    from tau_trainer.headless.godot import GodotGame, GodotLink
    from tau_trainer.headless.link import TrainerClient

    wire = WIRES.get(options.dialect)
    with contextlib.closing(
        GodotLink(options.port) if wire is None else TrainerClient(options.port, wire.method)
    ) as link:
        _log.info("connecting to the trainer on localhost:%d", options.port)
        engine = (GodotGame if wire is None else HeadlessEngine)(link, options)
        gc.freeze()  # later collections can skip the modules that are loaded by now
        engine.run()


def _catch_terminate() -> None:
    """Make SIGTERM end the engine as Ctrl-C does: it says goodbye to the trainer."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)


def _open_log(path: Path) -> logging.Handler:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return logging.FileHandler(path, mode="w", encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write the log file {path}: {error.strerror}; choose another.") from error


def _log_to(handler: logging.Handler | None, layout: str = "") -> None:
    """Send this package's log lines to ``handler`` only; None: to the parent loggers."""
    for old in tuple(_log.handlers):
        _log.removeHandler(old)
        old.close()
    _log.propagate = handler is None
    if handler is not None:
        handler.setFormatter(ShownFormatter(layout))
        _log.addHandler(handler)
        _log.setLevel(logging.INFO)
