"""Runs in a separate thread, or in the foreground with Ctrl-C. Does not import torch."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType

from tau_trainer import plugins
from tau_trainer.bridge.protocol import COMMUNICATION_VERSION
from tau_trainer.errors import EngineError
from tau_trainer.files import atomic_write_json, atomic_write_text
from tau_trainer.metrics import (
    Event,
    JsonLines,
    MetricsHub,
    Recorder,
    RunReport,
    RunSnapshot,
    StatusFile,
    TensorBoard,
    TerminalMode,
    Timer,
    TimersFile,
    terminal_recorder,
)
from tau_trainer.runs.callbacks import Callback, named
from tau_trainer.runs.collector import Collector
from tau_trainer.runs.folder import RunFolder
from tau_trainer.runs.provenance import provenance, versions
from tau_trainer.runs.run import Run
from tau_trainer.settings import RunSettings

Begin = Callable[[Run], AbstractContextManager[Collector]]
"""Creates a run's collector, in the run's thread; everything that the collector needs ends with the context."""
_POLL_S = 0.2
"""Seconds between checks while waiting, so that Ctrl-C works on Windows too."""


class Session:
    """One run in its own thread. :func:`start` creates it."""

    def __init__(self, run: Run, begin: Begin, record: Callable[[], None]) -> None:
        """``record``: writes the run's settings and facts once it has started."""
        self.run_id, self.folder = run.run_id, run.folder.path
        self.plays = run.plays
        """Whether a saved run is played without learning."""
        self._run, self._begin, self._record = run, begin, record
        self._report: RunReport | None = None
        self._failure: BaseException | None = None
        self._has_begun = self._given_up = False
        self._begun = threading.Event()
        """Set once the run has started or failed to start."""
        self._ended = threading.Event()
        """Set once the run has ended completely."""
        self._leaving, self._left = threading.Lock(), False
        self._stop_asked()  # an earlier process may have ended before it saw the file
        self._thread = threading.Thread(target=self._work, name=f"run {run.run_id}", daemon=True)

    def _work(self) -> None:
        run = self._run
        try:
            with self._begin(run) as collector:
                if not self._given_up:
                    run.collect_by(collector)
                    self._record()
                    self._has_begun = True
                    self._begun.set()
                    self._report = run.to_end()
        except BaseException as error:
            self._failure = error
        finally:
            self._leave()
            self._begun.set()
            self._ended.set()

    def _leave(self) -> None:
        """Close the recorders and unlock the folder, once; delete the folder if nothing was learned."""
        with self._leaving:
            if self._left:  # already done, and another run may use this folder now
                return
            self._left = True
            self._run.hub.close()
            if not (self._run.kept or self.plays):
                self._discard()
            self._run.folder.release()

    def _discard(self) -> None:
        """Delete the folder of a run that learned nothing, but keep the logs of an engine that failed."""
        error = self._failure
        logs = self._run.folder.discard(keep_logs=isinstance(error, EngineError))
        if isinstance(error, EngineError) and logs is not None:
            self._failure = type(error)(f"{error}; the engine's full log is in {logs}")

    def begin(self) -> None:
        """Start the run and wait until it has started. If it cannot start, raises the error and leaves no files."""
        try:
            self._thread.start()
            while not self._begun.wait(_POLL_S):
                if self._stop_asked():
                    raise KeyboardInterrupt
        except BaseException:  # Ctrl-C
            self._given_up = True
            self._run.asked.set()  # no message about saving: there is nothing to save
            try:
                while not (self._run.loose.is_set() or self._ended.wait(_POLL_S)):
                    pass
            finally:  # also after one more Ctrl-C
                self._leave()
            raise
        if not self._has_begun and self._failure is not None:
            raise self._failure

    def _stop_asked(self) -> bool:
        """Whether another program has made the file that asks the run to end; deletes the file."""
        if self.plays:  # which writes nothing, and may share the folder with a process that trains
            return False
        try:
            self._run.folder.stop_request.unlink()
        except OSError:  # there is none, or its writer (Windows) still has it open
            return False
        return True

    @property
    def running(self) -> bool:
        """Whether the run is still running."""
        return self._thread.is_alive()

    def status(self) -> RunSnapshot:
        """The latest snapshot of the run, taken a few times per second. Call from any thread."""
        return self._run.seen

    def cancel(self, *, at_once: bool = False) -> None:
        """Finish the current work, save, evaluate and export; called twice, or with ``at_once``: only save, now."""
        self._run.stop(at_once=at_once)

    def wait(self, timeout: float | None = None) -> RunReport:
        """Wait for the end; returns the run's report. Meanwhile the file ``run_logs/stop`` asks for it, like Ctrl-C.

        Raises TauError if nothing could be trained, TimeoutError after ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._thread.is_alive():
            self._thread.join(_POLL_S)
            if self._stop_asked():
                self.cancel()
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"run '{self.run_id}' has not ended within {timeout:g} s")
        if self._failure is not None:
            raise self._failure
        assert self._report is not None
        return self._report

    def wait_in_foreground(self) -> RunReport:
        """Wait for the end; Ctrl-C ends the run.

        Once: the current work is finished, saved, evaluated and exported. Twice: the run is saved without waiting. If a
        saved run is played, there is nothing to save.
        """
        with on_interrupt(self.cancel):
            return self.wait()


def start(
    settings: RunSettings,
    configuration: str,
    seed: int,
    begin: Begin,
    *,
    recorders: Callable[[Path], Sequence[Recorder]] | None = None,
    terminal: TerminalMode = "quiet",
    command_line: Sequence[str] | None = None,
    callbacks: Sequence[Callback] = (),
) -> Session:
    """Start a run in the background.

    Args:
        settings: settings of the run; ``checkpoint_settings`` name its folder, and whether to resume or play it.
        configuration: content of its ``configuration.yaml``.
        seed: random seed.
        begin: creates its collector.
        recorders: creates recorders from the run's folder; None: those of the folder, and the terminal.
        terminal: mode of the terminal.
        command_line: the command line; None: this process's.
        callbacks: receive the run's events, after the callbacks of the settings.

    Raises:
        TauError: the run cannot start or has nothing to do; no files are left.
    """
    chosen = settings.checkpoint_settings
    results, plays = Path(chosen.results_dir), chosen.inference
    if plays:
        folder = RunFolder.look(results, chosen.run_id)
    else:
        folder = RunFolder.create(results, chosen.run_id, resume=chosen.resume, force=chosen.force)
    hub: MetricsHub | None = None
    try:
        shown = None if recorders else terminal_recorder(terminal)

        def say(sentence: str) -> None:
            if shown is not None:
                shown.on_event(Event("starting", 0.0, {"message": f"{chosen.run_id}: {sentence}"}))

        timers, heard = Timer(), [*named(getattr(settings, "callbacks", ())), *callbacks]
        if recorders is not None:
            kept = [*recorders(folder.path)]
        else:
            kept = [] if plays else kept_recorders(folder, settings, timers, command_line)
        hub = MetricsHub([*kept, *([] if shown is None else [shown])], timers=timers)
        run = Run(folder, hub, seed, heard, say, plays=plays)
    except BaseException:
        if hub is not None:
            hub.close()
        folder.discard()
        raise

    def record() -> None:
        if not plays:
            atomic_write_text(folder.configuration, run.collector.configuration or configuration)
            atomic_write_json(folder.run_json, provenance(seed, command_line))

    session = Session(run, begin, record)
    session.begin()
    return session


def kept_recorders(
    folder: RunFolder, settings: RunSettings, timers: Timer, command_line: Sequence[str] | None
) -> list[Recorder]:
    """Recorders that write to the run's folder, those in the settings, and those of other packages.

    Raises SettingsError.
    """
    names = {"python": "python_version", "tau-trainer": "tau_trainer_version", "torch": "pytorch_version"}
    names |= {"numpy": "numpy_version"}
    metadata = {names[package]: version for package, version in versions().items() if package in names and version}
    metadata["communication_protocol_version"] = COMMUNICATION_VERSION
    metadata["command_line_arguments"] = " ".join(sys.argv if command_line is None else command_line)
    wanted = dict.fromkeys([*getattr(settings, "recorders", ()), *plugins.others("recorders")])
    others = [plugins.load("recorders", name)(settings, folder.path) for name in wanted]
    kept = [JsonLines(folder.log), TensorBoard(folder.path), TimersFile(folder.timers, timers, metadata)]
    return [*kept, StatusFile(folder.status), *others]


_ASKING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""Ctrl-C, `kill` as job schedulers send it, a closed terminal (POSIX; Windows)."""


@contextmanager
def on_interrupt(react: Callable[[], None]) -> Iterator[None]:
    """Call ``react`` for every signal to stop. Signals that `nohup` ignores stay ignored.

    Nothing is raised, so a second Ctrl-C can never interrupt saving.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        react()

    numbers = [getattr(signal, name) for name in _ASKING if hasattr(signal, name)]
    asking = [number for number in numbers if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in asking}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
