"""A run from its first step to its report, around a collector that only counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from tau_trainer.errors import CheckpointError, ExportError, RunFinishedError
from tau_trainer.metrics import BehaviorSnapshot, JsonLines, Recorder, RunReport
from tau_trainer.runs import run as module
from tau_trainer.runs.callbacks import Callback, LambdaCallback
from tau_trainer.runs.checkpoint_index import scan
from tau_trainer.runs.checkpoints import save_checkpoint
from tau_trainer.runs.collector import Collector, Conclusion, Export
from tau_trainer.runs.run import Run
from tau_trainer.runs.session import start
from tau_trainer.runs.store import PolicySnapshot
from tau_trainer.settings import RunSettings, load_settings
from tests.training.fakes import Memory
from tests.waiting import HANG_S

Turn = Callable[["Counting", int], None]


def nothing(_counting: Counting, _step: int) -> None: ...


class Counting(Collector):
    """Counts to ten; ``turn`` is called after each step."""

    command = "learn"
    unit = "counts"
    subject = "numbers"
    max_steps = 10

    def __init__(self, run: Run, turn: Turn = nothing) -> None:
        self.run, self.count, self.turn, self.evaluated, self.interrupted = run, 0, turn, False, 0

    @property
    @override
    def steps(self) -> int:
        return self.count

    @property
    @override
    def done(self) -> bool:
        return self.count >= self.max_steps

    @property
    @override
    def learned(self) -> bool:
        return self.count > 0

    @property
    @override
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        return (BehaviorSnapshot("A", self.count, self.max_steps, 0, None),)

    @override
    def advance(self) -> bool:
        if self.done or self.run.ending:
            return False
        self.count += 1
        self.turn(self, self.count)
        return True

    @override
    def interrupt(self) -> None:
        self.interrupted += 1

    @override
    def save(self) -> None:
        self.run.store.save([self.kept(name) for name in "AB"])

    def kept(self, name: str) -> PolicySnapshot:
        return PolicySnapshot(name, self.count, lambda: ({"count": np.array([self.count])}, {"name": name}), None, 1)

    @override
    def conclude(self) -> Conclusion:
        self.evaluated = not self.run.hurried.is_set()
        more, gone, bare = (self.run.folder.path / name for name in ("more", "gone", "bare"))
        more.write_text("more")
        bare.mkdir()
        return Conclusion([Export("A", self.export, self.count)], {"more": more, "gone": gone, "bare": bare})

    def export(self, path: Path) -> None:
        path.write_bytes(b"a model")


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    return load_settings(
        None, {"checkpoint_settings.run_id": "it", "checkpoint_settings.results_dir": str(tmp_path / "results")}
    )


def counted(
    settings: RunSettings, turn: Turn = nothing, memory: Memory | None = None, *callbacks: Callback
) -> tuple[RunReport, Counting]:
    found: list[Counting] = []

    @contextmanager
    def begin(run: Run) -> Iterator[Collector]:
        found.append(Counting(run, turn))
        yield found[0]

    def recorders(folder: Path) -> list[Recorder]:
        return [JsonLines(folder / "log.jsonl"), memory or Memory()]

    session = start(settings, "kept: true\n", 3, begin, recorders=recorders, callbacks=callbacks)
    return session.wait(HANG_S), found[0]


def other(settings: RunSettings) -> RunSettings:
    """The same under another name."""
    chosen = settings.checkpoint_settings.model_copy(update={"run_id": "other"})
    return settings.model_copy(update={"checkpoint_settings": chosen})


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
    def last(counting: Counting, step: int) -> None:
        if step == 10:
            counting.run.stop()

    assert counted(settings, last)[0].outcome == "completed"


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

    memory = Memory()
    report, _ = counted(settings, turn, memory, Third())
    assert (report.outcome, report.decisions, report.exit_code) == ("completed", 3, 0)
    assert heard == ["begun it 3 0", "saved A 3", "saved A 3", "saved B 3", "ended completed"]
    stops = [event.message for event in memory.events if event.kind == "stopped"]
    assert stops == ["the run ends after 3 counts: three are enough"]


def test_a_callback_that_fails_is_named_and_ends_it(settings: RunSettings) -> None:
    def fails(_info: Any) -> None:
        raise ValueError("no")

    report, counting = counted(settings, nothing, None, LambdaCallback(on_train_end=fails))
    assert (report.outcome, report.exit_code, counting.interrupted) == ("failed", 2, 1)
    assert report.errors == ("the callback LambdaCallback failed in on_train_end: ValueError: no; fix it",)


def test_what_cannot_be_exported_costs_nothing_else(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(counting: Counting, path: Path) -> None:
        raise ExportError("the model was not written")

    monkeypatch.setattr(Counting, "export", full)
    report, _ = counted(settings)
    assert (report.outcome, report.exit_code, report.errors) == ("completed", 1, ("the model was not written",))
    assert "checkpoints" in report.files


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


DISK_IS_FULL = "the disk is full. The other policies were not saved either, because all must be saved together."


def test_a_moment_that_cannot_be_written_is_told_until_one_can(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True
    save = save_checkpoint

    def saving(folder: Path, *given: Any, name: str, **more: Any) -> Path:
        if full and name == "B":
            raise CheckpointError("the disk is full.")
        return save(folder, *given, name=name, **more)

    monkeypatch.setattr("tau_trainer.runs.checkpoint_sets.save_checkpoint", saving)

    def turn(counting: Counting, step: int) -> None:
        nonlocal full
        if step in (3, 6):
            store = counting.run.store
            assert store.save([counting.kept("A"), counting.kept("B")]) is not full
            assert store.failures == (dict.fromkeys("AB", DISK_IS_FULL) if full else {})
            assert [len(scan(store.checkpoints, name)) for name in "AB"] == ([0, 0] if full else [1, 1])
            full = False

    report, _ = counted(settings, turn)
    assert (report.exit_code, report.errors) == (0, ())
    full = True
    report, _ = counted(other(settings))
    assert (report.exit_code, report.errors) == (1, (DISK_IS_FULL,))


def test_where_nothing_was_learned_nothing_stays(settings: RunSettings, tmp_path: Path) -> None:
    def begun(counting: Counting, _step: int) -> None:
        counting.count = 0
        counting.run.stop()

    memory = Memory()
    report, _ = counted(settings, begun, memory)
    assert (report.outcome, report.files, report.exit_code) == ("cancelled", {}, 0)
    assert memory.warnings == ["the run ended before anything was learned, so nothing is kept"]

    def failed(counting: Counting, _step: int) -> None:
        counting.count = 0
        raise CheckpointError("it is broken")

    with pytest.raises(CheckpointError, match="it is broken"):
        counted(settings, failed)
    assert not (tmp_path / "results").exists()


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
