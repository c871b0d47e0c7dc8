"""A run from its first step to its report, around a collector that only counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import CheckpointError, RunFinishedError
from tau_trainer.runs import run as module
from tau_trainer.runs.callbacks import Callback, LambdaCallback
from tau_trainer.settings import RunSettings
from tests.runs.counting import Counting, counted, nothing, other
from tests.training.fakes import Memory


def test_a_whole_run(settings: RunSettings, tmp_path: Path) -> None:
    report, counting = counted(settings)
    folder = tmp_path / "results" / "it"
    assert (report.outcome, report.exit_code, report.decisions, report.unit) == ("completed", 0, 10, "counts")
    assert report.files.keys() == {"policy", "more", "curve", "checkpoints", "log"}, "neither what is not there"
    assert report.models == (folder / "A.onnx",)
    assert counting.evaluated
    assert (folder / "configuration.yaml").read_text() == "kept: true\n"
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"A-10", "B-10"}
    assert not (folder / ".lock").exists()
    seen = counting.run.seen
    assert (seen.seed, seen.subject, seen.decisions, seen.max_decisions) == (3, "numbers", 10, 10)


def test_one_that_replaces_another_leaves_nothing_of_it(settings: RunSettings, tmp_path: Path) -> None:
    counted(settings)
    forced = settings.checkpoint_settings.model_copy(update={"force": True})
    report, _ = counted(settings.model_copy(update={"checkpoint_settings": forced}))
    assert report.outcome == "completed"
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["it"]


def test_asked_once_it_ends_gently_and_twice_it_is_saved_alone(settings: RunSettings) -> None:
    def once(counting: Counting, step: int) -> None:
        if step == 4:
            counting.run.stop()

    def twice(counting: Counting, step: int) -> None:
        for _ in range(2 * (step == 4)):
            counting.run.stop()

    gently, counting = counted(settings, once)
    assert (gently.outcome, gently.decisions, counting.evaluated) == ("cancelled", 4, True)
    assert counting.interrupted == 1
    assert "curve" in gently.files
    at_once, counting = counted(other(settings), twice)
    assert (at_once.outcome, counting.evaluated, at_once.models) == ("cancelled", False, ())
    assert at_once.files.keys() == {"more", "checkpoints", "log"}


def test_one_that_is_asked_as_it_ends_has_completed(settings: RunSettings) -> None:
    last = counted(settings, lambda counting, step: counting.run.stop() if step == 10 else None)
    assert last[0].outcome == "completed"


def test_a_callback_may_end_it_and_hears_of_all_of_it(settings: RunSettings) -> None:
    heard: list[str] = []

    class Third(Callback):
        def on_save_end(self, info: Any) -> None:
            heard.append(f"saved {info.behavior} {info.decisions}")
            if info.decisions == 3:
                self.stop("three are enough")

        def on_train_begin(self, info: Any) -> None:
            heard.append(f"begun {info.run_id} {info.seed} {info.decisions}")

        def on_train_end(self, info: Any) -> None:
            heard.append(f"ended {info.report.outcome}")

    def turn(counting: Counting, step: int) -> None:
        if step == 3:
            counting.run.store.save([counting.kept("A")])

    memory, third = Memory(), Third()
    late = LambdaCallback(on_save_end=lambda info: late.stop("too late"))
    report, _ = counted(settings, turn, memory, third, late)
    assert (report.outcome, report.decisions, report.exit_code) == ("completed", 3, 0)
    assert heard == ["begun it 3 0", "saved A 3", "saved A 3", "saved B 3", "ended completed"]
    stops = [event.message for event in memory.events if event.kind == "stopped"]
    assert stops == ["the run ends after 3 counts: three are enough"], "the first reason is the run's"
    assert counted(other(settings), nothing, None, third)[0].decisions == 10, "nothing of it is left in another run"


@pytest.mark.parametrize(("hook", "decisions"), [("on_save_begin", 3), ("on_train_end", 10)])
def test_a_callback_that_fails_is_named_and_ends_it_with_everything_saved(
    settings: RunSettings, hook: str, decisions: int
) -> None:
    def fails(_info: Any) -> None:
        raise ValueError("no")

    def turn(counting: Counting, step: int) -> None:
        if step == 3:
            counting.run.store.save([counting.kept("A")])

    class Broken(LambdaCallback):
        pass

    heard: list[Any] = []
    report, counting = counted(settings, turn, None, Broken(**{hook: fails}), LambdaCallback(on_train_end=heard.append))
    assert (report.outcome, report.exit_code, report.decisions) == ("failed", 2, decisions)
    assert report.errors == (f"the callback Broken failed in {hook}: ValueError: no; fix it",)
    assert counting.interrupted == 1
    assert report.models[0].is_file()
    assert f"B-{decisions}" in {path.name for path in report.files["checkpoints"].iterdir()}
    assert len(heard) == 1, "the others are told to the end"


def test_a_picture_that_fails_is_told_once(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SNAPSHOT_S", 0.0)
    memory = Memory()

    def turn(counting: Counting, step: int) -> None:
        broken = property(lambda self: 1 / 0)
        kind = type(counting)
        if step == 3:
            monkeypatch.setattr(kind, "status", broken)
        elif step == 7:
            monkeypatch.undo()

    assert counted(settings, turn, memory)[0].outcome == "completed"
    told = "live display disabled; training continues: ZeroDivisionError: division by zero"
    assert memory.warnings.count(told) == 1


def test_very_many_policies_are_counted() -> None:
    listed = module._listed({f"P{number}": Path(f"run/{number}.onnx") for number in range(64)})
    assert len(listed) == 9
    assert listed["56 more policies"] == Path("run")


def test_what_fails_later_is_kept_up_to_there(settings: RunSettings) -> None:
    def failed(_counting: Counting, step: int) -> None:
        if step == 5:
            raise CheckpointError("it is broken")

    report, _ = counted(settings, failed)
    assert (report.outcome, report.exit_code, report.errors) == ("failed", 2, ("it is broken",))


def test_where_nothing_is_left_to_do_that_is_said(
    settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counting, "max_steps", 0)
    with pytest.raises(RunFinishedError, match="has already reached max_steps; raise --max-steps"):
        counted(settings)
    assert not (tmp_path / "results").exists()
