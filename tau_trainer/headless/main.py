"""From a command line to a running engine and its exit code."""

from __future__ import annotations

import functools
import gc
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from tau_trainer.bridge.codec import TrainerInitialization
from tau_trainer.errors import SettingsError, TauError
from tau_trainer.headless.args import build_arguments, log_file, parse_args
from tau_trainer.headless.build import write_build
from tau_trainer.headless.options import HeadlessOptions
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import Scene
from tau_trainer.headless.scenes import check_scene, create_scene

_log = logging.getLogger("tau_trainer.headless")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the engine with these command-line arguments (None: the process's own); return the exit code.

    0: the trainer or the user ended it; 2: a mistake, told in one sentence in the log; 1: a defect, with traceback.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    logger = _Logging()
    try:
        logger.open(log_file(arguments))
        options = parse_args(arguments)
        if options.write_build is None:
            _run(options)
        else:
            _write_build(options.write_build, options.scene, arguments)
    except KeyboardInterrupt:
        return 0
    except TauError as error:
        _log.error("error: %s", error)
        return error.exit_code
    except Exception:
        _log.exception("the engine has a defect")
        return 1
    finally:
        logger.close()
    return 0


def _run(options: HeadlessOptions) -> None:
    if options.unknown:
        _log.warning("ignored unknown arguments: %s", " ".join(options.unknown))
    if options.port is None:
        raise SettingsError("no trainer to connect to; give its port with `--mlagents-port N`.")
    check_scene(options)
    _catch_terminate()
    _play(options, options.port)


def _play(options: HeadlessOptions, port: int) -> None:
    from tau_trainer.headless.client import HeadlessEngine
    from tau_trainer.headless.link import TrainerLink
    from tau_trainer.headless.pace import Pace
    from tau_trainer.headless.report import Report

    def make_scene(parameters: EnvironmentParameters, trainer: TrainerInitialization) -> Scene:
        scene = create_scene(options, parameters, seed=trainer.seed, areas=trainer.num_areas)
        _log.info("playing %s with %d agents", options.scene, scene.agents)
        return scene

    path, seconds = options.report_file, options.report_seconds
    report = None if path is None else functools.partial(Report, path, interval=seconds)
    with TrainerLink(port) as link:
        _log.info("connecting to the trainer on localhost:%d", port)
        engine = HeadlessEngine(
            link,
            make_scene,
            pace=Pace(options.step_ms, options.spin_ms),
            fault=options.make_fault(),
            open_report=report,
            connect_seconds=options.connect_seconds,
        )
        gc.freeze()  # what is loaded now stays: later collections need not look at it
        engine.run()


def _write_build(folder: Path, scene: str, arguments: Sequence[str]) -> None:
    _log.info("wrote %s", write_build(folder, scene, build_arguments(arguments)))


def _catch_terminate() -> None:
    """Let SIGTERM end the engine as Ctrl-C does, with a goodbye to the trainer."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)


class _Logging:
    """Sends this package's log lines to a file or to stderr, for the time of one engine."""

    def __init__(self) -> None:
        self._handler: logging.Handler = logging.StreamHandler(sys.stderr)
        self._use(self._handler, "%(message)s")

    def open(self, path: Path | None) -> None:
        """Log to ``path`` from now on (None: stderr). Raises SettingsError."""
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handler = logging.FileHandler(path, mode="w", encoding="utf-8")
        except OSError as error:
            raise SettingsError(f"cannot write the log file {path}: {error.strerror}; choose another.") from error
        self.close()
        self._use(handler, "%(asctime)s %(levelname)s %(message)s")

    def close(self) -> None:
        """Stop logging."""
        _log.removeHandler(self._handler)
        _log.propagate = True
        self._handler.close()

    def _use(self, handler: logging.Handler, layout: str) -> None:
        handler.setFormatter(logging.Formatter(layout))
        _log.addHandler(handler)
        _log.setLevel(logging.INFO)
        _log.propagate = False
        self._handler = handler
