"""The shell of a run that its own thread plays, around one that only counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from tau_trainer.errors import CheckpointError, RunFinishedError, SettingsError
from tau_trainer.metrics import BehaviorSnapshot, MetricsHub, RunReport
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.training.api import ENDING, HURRYING
from tau_trainer.training.checkpoint_index import scan
from tau_trainer.training.checkpoints import save_checkpoint
from tau_trainer.training.run_folder import RunFolder
from tau_trainer.training.shell import Kept, Say, Shell, in_foreground
from tests.training.fakes import Memory

SPEC = BehaviorSpec("A", (ObservationSpec("seen", (2,)),), ActionSpec(1, ()))
Turn = Callable[["Counting", int], None]


def nothing(_run: Counting, _step: int) -> None: ...


class Counting(Shell):
    """Counts to ten; ``turn`` is called after each step."""

    command = "learn"
    unit = "counts"
    subject = "numbers"
    max_steps = 10

    def __init__(self, settings: RunSettings, folder: RunFolder, hub: MetricsHub, turn: Turn = nothing) -> None:
        super().__init__(settings, folder, hub)
        self.count, self.turn, self.evaluated = 0, turn, False
        self.begin()

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
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        return (BehaviorSnapshot("A", self.count, 10, 0, None),)

    @override
    def collect_and_learn(self) -> None:
        while not self.done and not self.asked.is_set():
            self.count += 1
            self.turn(self, self.count)
            self.show()

    @override
    def conclude(self) -> Mapping[str, Path]:
        self.save_moment(["A", "B"], 1)
        self.evaluated = not self.hurried.is_set()
        return {"more": self.folder.path / "more"}

    @override
    def keep(self, name: str) -> Kept:
        return Kept(self.count, {"count": np.array([self.count])}, {"name": name})

    @override
    def policy_of(self, name: str) -> tuple[None, BehaviorSpec]:
        return None, SPEC

    @property
    @override
    def more_of_snapshot(self) -> Mapping[str, Any]:
        return {"seed": 3}


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    return load_settings(
        None, {"checkpoint_settings.run_id": "it", "checkpoint_settings.results_dir": str(tmp_path / "results")}
    )


def counted(settings: RunSettings, turn: Turn = nothing) -> tuple[RunReport, Counting]:
    runs: list[Counting] = []

    @contextmanager
    def begin(folder: RunFolder, hub: MetricsHub, say: Say) -> Iterator[Shell]:
        say("beginning")
        runs.append(Counting(settings, folder, hub, turn))
        yield runs[0]

    report = in_foreground(settings, "kept: true\n", 3, begin, starting="starting", terminal="quiet")
    return report, runs[0]


def test_a_whole_run(settings: RunSettings, tmp_path: Path) -> None:
    report, run = counted(settings)
    folder = tmp_path / "results" / "it"
    assert (report.outcome, report.exit_code, report.decisions, report.unit) == ("completed", 0, 10, "counts")
    assert report.files.keys() == {"more", "curve", "checkpoints", "log"}
    assert run.evaluated
    assert (folder / "configuration.yaml").read_text() == "kept: true\n"
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"A-10", "B-10"}
    assert not (folder / ".lock").exists()
    assert (run.snapshot().seed, run.snapshot().subject) == (3, "numbers")


def test_one_that_replaces_another_leaves_nothing_of_it(settings: RunSettings, tmp_path: Path) -> None:
    counted(settings)
    forced = settings.checkpoint_settings.model_copy(update={"force": True})
    report, _ = counted(settings.model_copy(update={"checkpoint_settings": forced}))
    assert report.outcome == "completed"
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["it"]


def test_asked_once_it_ends_gently_and_twice_it_is_saved_alone(settings: RunSettings) -> None:
    def once(run: Counting, step: int) -> None:
        if step == 4:
            run.stop()

    def twice(run: Counting, step: int) -> None:
        for _ in range(2 * (step == 4)):
            run.stop()

    gently, run = counted(settings, once)
    assert (gently.outcome, gently.decisions, run.evaluated) == ("cancelled", 4, True)
    assert "curve" in gently.files
    other = settings.checkpoint_settings.model_copy(update={"run_id": "other"})
    at_once, run = counted(settings.model_copy(update={"checkpoint_settings": other}), twice)
    assert (at_once.outcome, run.evaluated, at_once.models) == ("cancelled", False, ())
    assert at_once.files.keys() == {"more", "checkpoints", "log"}


def test_what_it_answers(settings: RunSettings, tmp_path: Path) -> None:
    memory = Memory()
    hub = MetricsHub([memory])
    run = Counting(settings, RunFolder(tmp_path), hub)
    run.stop()
    run.stop()
    hub.drain(10.0)
    assert [event.message for event in memory.events] == [ENDING, HURRYING]
    hub.close()


def test_a_moment_that_cannot_be_written_is_told_until_one_can(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True
    save = save_checkpoint

    def saving(folder: Path, *given: Any, name: str, **more: Any) -> Path:
        if full and name == "B":
            raise CheckpointError("the disk is full")
        return save(folder, *given, name=name, **more)

    monkeypatch.setattr("tau_trainer.training.moments.save_checkpoint", saving)

    def turn(run: Counting, step: int) -> None:
        nonlocal full
        if step in (3, 6):
            run.save_moment(["A", "B"], 1)
            assert run.unsaved == ({"A": "the disk is full", "B": "the disk is full"} if full else {})
            assert [len(scan(run.folder.checkpoints, name)) for name in "AB"] == ([0, 0] if full else [1, 1])
            full = False

    report, _ = counted(settings, turn)
    assert (report.exit_code, report.errors) == (0, ())
    full = True
    other = settings.checkpoint_settings.model_copy(update={"run_id": "other"})
    report, _ = counted(settings.model_copy(update={"checkpoint_settings": other}))
    assert (report.exit_code, report.errors) == (1, ("the disk is full",))


def test_where_nothing_was_learned_nothing_stays(settings: RunSettings, tmp_path: Path) -> None:
    def begun(run: Counting, _step: int) -> None:
        run.count = 0
        run.stop()

    with pytest.raises(SettingsError, match="ended before anything was learned"):
        counted(settings, begun)

    def failed(run: Counting, _step: int) -> None:
        run.count = 0
        raise CheckpointError("it is broken")

    with pytest.raises(CheckpointError, match="it is broken"):
        counted(settings, failed)
    assert not (tmp_path / "results").exists()


def test_what_fails_later_is_kept_up_to_there(settings: RunSettings) -> None:
    def failed(_run: Counting, step: int) -> None:
        if step == 5:
            raise CheckpointError("it is broken")

    report, _ = counted(settings, failed)
    assert (report.outcome, report.exit_code, report.errors) == ("failed", 2, ("it is broken",))


def test_where_nothing_is_left_to_do_that_is_said(
    settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counting, "max_steps", 0)
    with pytest.raises(RunFinishedError, match="has had all its counts, so there was nothing to do; raise --max-steps"):
        counted(settings)
    assert not (tmp_path / "results").exists()
