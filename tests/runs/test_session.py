"""A run in its thread: how it begins, and what is left where it does not."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tau_trainer import plugins
from tau_trainer.errors import SettingsError
from tau_trainer.metrics import JsonLines, Recorder
from tau_trainer.runs.collector import Collector, Conclusion
from tau_trainer.runs.folder import RunFolder
from tau_trainer.runs.run import Run
from tau_trainer.runs.session import Session, start
from tau_trainer.settings import RunSettings, load_settings
from tests.runs.counting import Counting
from tests.waiting import HANG_S


def stop(folder: Path) -> None:
    (folder / "run_logs").mkdir(exist_ok=True)
    (folder / "run_logs" / "stop").touch()


def begun(tmp_path: Path, begin: Callable[[Run], AbstractContextManager[Collector]], **more: str) -> Session:
    chosen = {"checkpoint_settings.run_id": "it", "checkpoint_settings.results_dir": str(tmp_path / "results"), **more}
    return start(load_settings(None, chosen), "", 0, begin, recorders=lambda folder: [JsonLines(folder / "log.jsonl")])


def collecting(kind: type[Counting] = Counting) -> Callable[[Run], AbstractContextManager[Collector]]:
    @contextmanager
    def begin(run: Run) -> Iterator[Collector]:
        yield kind(run)

    return begin


@pytest.mark.parametrize("way", ["signal", "file"])
def test_ctrl_c_or_the_file_stop_before_it_has_begun_leaves_nothing(tmp_path: Path, way: str) -> None:
    if way == "signal" and os.name == "nt":
        pytest.skip("a process cannot send itself these signals there")
    made: list[Counting] = []

    @contextmanager
    def begin(run: Run) -> Iterator[Collector]:
        if way == "signal":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            stop(run.folder.path)
        assert run.asked.wait(HANG_S)
        made.append(Counting(run))
        yield made[0]

    with pytest.raises(KeyboardInterrupt):
        begun(tmp_path, begin)
    assert not hasattr(made[0].run, "collector"), "it was not begun any more"
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself these signals there")
def test_what_is_left_behind_touches_nothing_any_more(tmp_path: Path) -> None:
    """A thread in a compiler ends when it ends, and the folder's name may be another run's by then."""
    left, over = threading.Event(), threading.Event()

    @contextmanager
    def begin(run: Run) -> Iterator[Collector]:
        with run.abandonable():
            os.kill(os.getpid(), signal.SIGINT)
            assert left.wait(60)
        try:
            yield Counting(run)
        finally:
            over.set()

    with pytest.raises(KeyboardInterrupt):
        begun(tmp_path, begin)
    assert not (tmp_path / "results").exists(), "the thread is still at it"
    [thread] = [thread for thread in threading.enumerate() if thread.name == "run it"]
    again = RunFolder.create(tmp_path / "results", "it")
    left.set()
    assert over.wait(60)
    thread.join(60)
    assert again.being_trained
    again.release()


def test_recorders_are_those_that_are_named_and_all_of_other_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, object, Path]] = []

    class Noted(Recorder):
        def __init__(self, settings: object, folder: Path) -> None:
            made.append((type(self).__name__, settings, folder))

    class Theirs(Noted): ...

    def named(run_id: str, recorders: list[str]) -> RunSettings:
        chosen = {"checkpoint_settings.run_id": run_id, "checkpoint_settings.results_dir": str(tmp_path / "results")}
        return load_settings(None, {**chosen, "recorders": recorders})

    monkeypatch.setattr("tau_trainer.metrics.trackers.mlflow.MLflow", Noted)
    monkeypatch.setattr("tests.runs.test_session.Theirs", Theirs, raising=False)
    monkeypatch.setattr(
        plugins, "_found", lambda kind: {"theirs": "tests.runs.test_session:Theirs"} | plugins._OWN[kind]
    )

    begin = collecting()
    for recorders, wanted in ((["mlflow"], ["Noted", "Theirs"]), ([], ["Theirs"])):
        made.clear()
        settings = named(f"it{len(recorders)}", recorders)
        start(settings, "", 0, begin).wait()
        assert [name for name, *_ in made] == wanted
        assert all(row[1:] == (settings, tmp_path / "results" / f"it{len(recorders)}") for row in made)
    with pytest.raises(SettingsError, match="'mlfow' is not one of the recorders; known: mlflow, wandb"):
        start(named("none", ["mlfow"]), "", 0, begin)
    assert not (tmp_path / "results" / "none").exists()


class Endless(Counting):
    """Collects until it is asked to end."""

    done = False

    def advance(self) -> bool:
        super().advance()
        return not self.run.asked.wait(0.01)

    def conclude(self) -> Conclusion:
        return Conclusion()


def test_the_file_stop_ends_a_run_as_ctrl_c_does_and_again_at_once(tmp_path: Path) -> None:
    session = begun(tmp_path, collecting(Endless))
    stop(session.folder)
    assert session.wait(HANG_S).outcome == "cancelled"
    assert session._run.asked.is_set()
    assert not session._run.hurried.is_set()
    assert not (session.folder / "run_logs" / "stop").exists()
    stop(session.folder)
    assert session._stop_asked()
    session.cancel()
    assert session._run.hurried.is_set()


def test_a_file_stop_that_an_earlier_process_left_ends_nothing(tmp_path: Path) -> None:
    session = begun(tmp_path, collecting(Endless))
    file = session.folder / "run_logs" / "stop"
    stop(session.folder)
    session.wait(HANG_S)
    stop(session.folder)
    again = begun(tmp_path, collecting(Endless), **{"checkpoint_settings.resume": "true"})
    try:
        assert not file.exists()
        with pytest.raises(TimeoutError):
            again.wait(0.1)
    finally:
        again.cancel()
        again.wait(HANG_S)
    stop(session.folder)
    begun(tmp_path, collecting(), **{"checkpoint_settings.inference": "true"}).wait(HANG_S)
    assert file.exists(), "a saved run that is played hears no file"
