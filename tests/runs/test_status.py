"""``run_logs``: the two files of ML-Agents that programs read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tau_trainer import __version__
from tau_trainer.errors import TauError
from tau_trainer.metrics import Event, PairState
from tau_trainer.runs import store
from tau_trainer.runs.status import write_status
from tau_trainer.runs.store import Store
from tau_trainer.settings import RunSettings
from tau_trainer.training.manager import ParallelTrainerManager
from tests.training.fakes import WAIT_S, Memory, Stage, tau_settings, train
from tests.training.test_inference import basic

FIELDS = {"steps": int, "file_path": str, "reward": float, "creation_time": float, "auxillary_file_paths": list}
"""Of ``mlagents.trainers.policy.checkpoint_manager.ModelCheckpoint``, the spelling included."""


def status_of(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "run_logs" / "training_status.json").read_text("utf-8"))
    return content


def trained(settings: RunSettings, command: Any = "learn") -> Path:
    """With the recorders that a run of the command line has."""
    return ParallelTrainerManager().start(settings, command).wait(WAIT_S).folder


def test_checkpoints_lessons_and_versions_stand_where_mlagents_has_them(stage: Stage, tmp_path: Path) -> None:
    run = trained(basic(tmp_path, behaviors__Basic__checkpoint_interval=100, behaviors__Basic__keep_checkpoints=2))
    status = status_of(run)
    assert set(status) == {"Basic", "size", "metadata"}
    assert status["size"] == {"lesson_num": 1}
    assert status["metadata"]["stats_format_version"] == "0.3.0"
    assert status["metadata"]["tau_trainer_version"] == __version__
    assert set(status["metadata"]) == {"stats_format_version", "tau_trainer_version", "torch_version"}
    assert set(status["Basic"]) == {"checkpoints", "final_checkpoint"}
    first, last = status["Basic"]["checkpoints"]
    assert first["steps"] < last["steps"] == 300
    assert first["creation_time"] < last["creation_time"]
    for one in (first, last, status["Basic"]["final_checkpoint"]):
        assert {name: type(value) for name, value in one.items()} == FIELDS
        assert all(Path(path).is_file() for path in (one["file_path"], *one["auxillary_file_paths"]))
    assert last["file_path"] == str(run / "Basic" / "Basic-300.onnx")
    assert status["Basic"]["final_checkpoint"] == last | {"file_path": str(run / "Basic.onnx")}
    kept = sorted(path.name for path in (run / "Basic").glob("*.onnx"))
    assert kept == sorted(Path(one["file_path"]).name for one in (first, last)), "those that are gone are not named"


def test_both_files_are_there_with_the_first_checkpoint(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the end alone: who kills a run keeps them."""
    seen: list[tuple[int, bool]] = []
    original = Store.write_status

    def watched(self: Store, *args: Any) -> None:
        original(self, *args)
        status = status_of(tmp_path / "run")["Basic"]
        seen.append((len(status["checkpoints"]), status["final_checkpoint"]["file_path"].endswith("Basic.onnx")))

    monkeypatch.setattr(Store, "write_status", watched)
    run = trained(basic(tmp_path, behaviors__Basic__checkpoint_interval=100))
    assert seen[0] == (1, False)
    assert seen[-1] == (seen[-2][0], True)
    assert len(seen) >= 3, "on a busy machine one checkpoint may be due while another is written"
    timers = json.loads((run / "run_logs" / "timers.json").read_text("utf-8"))
    assert timers["gauges"]["Basic.Environment.CumulativeReward.mean"]["count"] > 0
    assert {"numpy_version", "pytorch_version", "communication_protocol_version"} <= set(timers["metadata"])
    (pair,) = timers["children"]["pairs"]["children"].values()
    (learner,) = timers["children"]["learners"]["children"].values()
    assert set(pair["children"]) == {
        "start the environment",
        "answer and record",
        "wait for the learner",
        "wait for the environment",
        "decide",
    }
    assert all(part["total"] > 0.0 for part in pair["children"].values())
    assert pair["children"]["answer and record"]["count"] == 300
    assert learner["children"]["update"]["count"] == 4
    assert learner["children"]["checkpoint"]["count"] == len(seen) - 1
    assert 0.0 < pair["total"] <= timers["total"]


def test_the_model_of_the_end_is_of_the_policy_that_was_chosen(stage: Stage, tmp_path: Path) -> None:
    report = train(tau_settings(tmp_path))
    assert report.evaluation is not None
    told = status_of(report.folder)["TauAgent"]["final_checkpoint"]
    assert told["file_path"] == str(report.models[0])
    assert told["steps"] == report.evaluation["policies"][report.evaluation["exported"]]["decisions"]


def test_a_status_that_cannot_be_written_costs_a_warning(
    stage: Stage, tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise TauError("Cannot write 'training_status.json' (No space left on device); free some space.")

    monkeypatch.setattr(store, "write_status", full)
    report = train(tau_settings(tmp_path), memory)
    assert [pair.state for pair in report.pairs] == [PairState.COMPLETED] * 2
    assert any("training_status.json" in warning for warning in memory.warnings)
    assert any(isinstance(event, Event) and event.kind == "checkpoint" for event in memory.events)


def test_a_resumed_run_tells_of_the_checkpoints_before_it_but_of_none_that_cannot_be_read(
    stage: Stage, tmp_path: Path
) -> None:
    trained(basic(tmp_path))
    run = trained(basic(tmp_path, checkpoint_settings__resume=True, behaviors__Basic__max_steps=400))
    assert [one["steps"] for one in status_of(run)["Basic"]["checkpoints"]] == [300, 400]
    (run / "checkpoints" / "Basic-300" / "manifest.json").write_text("{")
    write_status(run, {})
    assert [one["steps"] for one in status_of(run)["Basic"]["checkpoints"]] == [400]
    assert "size" not in status_of(run)
