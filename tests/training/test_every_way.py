"""Whatever a run can do it can do with each of the ways to gather experience: one test over the product of both.

Its table stands in ``docs/architecture.md``. Going on from a checkpoint is in ``test_earlier.py``, whose settings
these are.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

from tau_trainer.errors import RunFinishedError, SettingsError, TauError
from tau_trainer.metrics import RunReport, plot_learning_curve, read_log
from tau_trainer.report import RunRecord, render
from tau_trainer.runs.callbacks import Callback, Hook
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.training.api import train
from tau_trainer.training.manager import ParallelTrainerManager
from tau_trainer.training.plan import RunKind
from tau_trainer.training.stored import evaluate_copies, evaluate_run, export_run
from tests.training.fakes import until
from tests.training.test_earlier import EARLIER
from tests.waiting import HANG_S

KINDS = ("pairs", "actors", "population", "batched", "recordings")
WITHOUT = {
    ("criterion", "recordings"): "no episode is played",
    ("evaluate", "pairs"): "what is played has no task; --inference shows its rewards",
    ("evaluate", "actors"): "the same",
    ("evaluate", "recordings"): "the same",
}
"""Cells of the table that are blank, and why."""


class Listener(Callback):
    """Remembers what it is told, and may end the run with the first event of a kind."""

    def __init__(self, end_with: Hook | None = None) -> None:
        self.heard: list[str] = []
        self.end_with = end_with

    def hear(self, hook: Hook) -> None:
        self.heard.append(hook)
        if hook == self.end_with:
            self.stop("that is enough")


for _hook in get_args(Hook):
    setattr(Listener, _hook, lambda listener, _info, hook=_hook: listener.hear(hook))


def settings_of(kind: str, results: Path, run_id: str, **changes: Any) -> RunSettings:
    """Of a small run; ``changes`` of the run, of each behavior (``each__``), or of its ``checkpoint_settings``."""
    file = EARLIER / kind / "configuration.yaml"
    overrides = {"checkpoint_settings.run_id": run_id, "checkpoint_settings.results_dir": str(results)}
    if kind == "recordings":
        overrides["behaviors.*.demo_path"] = str(EARLIER / kind / "cartpole.demo")
    named = {key.replace("each__", "behaviors.*.").replace("__", "."): value for key, value in changes.items()}
    return load_settings(file, overrides | named)


def command_of(kind: str) -> RunKind:
    return "parallel" if kind == "population" else "learn"


def run(kind: str, results: Path, run_id: str, *callbacks: Callback, **changes: Any) -> RunReport:
    settings = settings_of(kind, results, run_id, **changes)
    return train(settings, command_of(kind), callbacks=callbacks, terminal="quiet")


@dataclass(frozen=True)
class Finished:
    """A run that came to its end."""

    kind: str
    report: RunReport
    heard: list[str]

    @property
    def folder(self) -> Path:
        return self.report.folder


@pytest.fixture(scope="module", params=KINDS)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    listener, results = Listener(), tmp_path_factory.mktemp(request.param)
    yield Finished(request.param, run(request.param, results, "first", listener), listener.heard)
    shutil.rmtree(results)


def test_it_ends_well_and_leaves_the_same_files(finished: Finished) -> None:
    report, folder = finished.report, finished.folder
    assert (report.outcome, report.exit_code, report.errors) == ("completed", 0, ())
    assert report.models
    assert all(path.is_file() for path in report.models)
    names = {path.name for path in folder.iterdir()}
    assert {"checkpoints", "configuration.yaml", "learning_curve.png", "log.jsonl", "run.json", "run_logs"} <= names
    assert {"timers.json", "training_status.json"} <= {path.name for path in (folder / "run_logs").iterdir()}


def test_callbacks_hear_of_it(finished: Finished) -> None:
    heard = finished.heard
    assert (heard[0], heard[-1]) == ("on_train_begin", "on_train_end")
    assert heard.count("on_update_begin") == heard.count("on_update_end") > 0
    assert heard.count("on_save_begin") == heard.count("on_save_end") > 0


def test_a_callback_may_end_it(finished: Finished, tmp_path: Path) -> None:
    """Here a run that begins with the weights of another one, and keeps its best policy alone."""
    shutil.copytree(finished.folder, tmp_path / "first")
    changes: dict[str, Any] = {"each__max_steps": 1_000_000, "each__save_best_only": True, "each__trial_count": 1}
    changes |= {"checkpoint_settings__initialize_from": "first"}
    report = run(finished.kind, tmp_path, "ended", Listener("on_update_end"), **changes)
    assert (report.outcome, report.exit_code) == ("completed", 0)
    assert 0 < report.decisions < 10_000
    assert report.models
    assert list((report.folder / "checkpoints").glob("*-*")), "the first is always one"
    log = read_log(report.folder / "log.jsonl")
    assert [one for one in log if one.get("kind") == "initialized"]
    with pytest.raises(TauError, match="nosuch"):
        run(finished.kind, tmp_path, "third", checkpoint_settings__initialize_from="nosuch")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if ("criterion", kind) not in WITHOUT])
def test_it_ends_once_all_have_learned_enough(kind: str, tmp_path: Path) -> None:
    changes = {"each__max_steps": 100_000} | ({"each__summary_freq": 512} if kind == "batched" else {})
    report = run(kind, tmp_path, "enough", each__trial_count=1, each__criterion=-1000.0, **changes)
    assert (report.outcome, report.exit_code) == ("completed", 0)
    assert report.decisions < 20_000
    reasons = [record for record in read_log(report.folder / "log.jsonl") if record.get("kind") == "criterion"]
    assert len(reasons) == len(report.behaviors)
    assert report.models


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_it_is_played_and_stays_as_it_is(finished: Finished) -> None:
    before = content(finished.folder)
    settings = settings_of(finished.kind, finished.folder.parent, "first", checkpoint_settings__inference=True)
    if finished.kind == "recordings":
        settings = settings.model_copy(
            update={"env_settings": settings.env_settings.model_copy(update={"env_path": "gym:CartPole-v1"})}
        )
    listener = Listener()
    session = ParallelTrainerManager().start(settings, command_of(finished.kind), callbacks=[listener])
    try:
        until(lambda: session.status().decisions > 0)
    finally:
        session.cancel()
    report = session.wait(HANG_S)
    assert (report.outcome, report.exit_code, report.models) == ("played", 0, ())
    assert report.decisions > 0
    assert not [hook for hook in listener.heard if "update" in hook or "save" in hook]
    assert content(finished.folder) == before


def test_a_finished_one_is_left_as_it_is(finished: Finished) -> None:
    before = content(finished.folder / "checkpoints")
    with pytest.raises(RunFinishedError, match="has already reached max_steps"):
        run(finished.kind, finished.folder.parent, "first", checkpoint_settings__resume=True)
    assert content(finished.folder / "checkpoints") == before


def test_its_models_are_exported_again(finished: Finished, tmp_path: Path) -> None:
    written = export_run(finished.folder, tmp_path)
    names = {path.name for path in finished.report.models}
    assert {path.name for path, _ in written} == names
    for path in finished.report.models:
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_it_is_told_and_drawn_from_its_files(finished: Finished, tmp_path: Path) -> None:
    page = render([RunRecord.load(finished.folder)])
    assert "first" in page
    copied = shutil.copytree(finished.folder, tmp_path / "copy")
    (copied / "learning_curve.png").unlink()
    plot_learning_curve(copied)
    assert (copied / "learning_curve.png").is_file()


def test_it_is_evaluated_again(finished: Finished, tmp_path: Path) -> None:
    copied = shutil.copytree(finished.folder, tmp_path / "copy")
    if ("evaluate", finished.kind) in WITHOUT:
        with pytest.raises(SettingsError, match=r"has no task.*; play it and see its rewards.* tau-train learn --inf"):
            evaluate_run(copied)
    elif finished.kind == "batched":
        (scores,) = (evaluate_copies(copied) or {}).values()
        assert scores["Evaluation/Episode return"] >= 1.0
    else:
        found = evaluate_run(copied).evaluation
        assert found is not None
        assert 0.0 <= found.accuracy <= 1.0


def test_few_cells_are_blank() -> None:
    assert len(WITHOUT) <= 6
