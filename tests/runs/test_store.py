"""What a run writes down as it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import CheckpointError, ExportError
from tau_trainer.runs.checkpoint_index import scan
from tau_trainer.runs.checkpoints import save_checkpoint
from tau_trainer.settings import RunSettings
from tests.runs.counting import Counting, counted, other
from tests.training.fakes import Memory


def test_what_cannot_be_exported_costs_nothing_else(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(counting: Counting, path: Path) -> None:
        raise ExportError("the model was not written")

    monkeypatch.setattr(Counting, "export", full)
    report, _ = counted(settings)
    assert (report.outcome, report.exit_code, report.errors) == ("completed", 1, ("the model was not written",))
    assert "checkpoints" in report.files


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
