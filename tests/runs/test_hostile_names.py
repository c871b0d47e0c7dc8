"""Behaviors are called what an engine likes: every file of theirs is inside the run, and none is shared."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.envs.mlagents.base_env import DecisionSteps, TerminalSteps
from tau_trainer.files import file_name
from tau_trainer.metrics.tensorboard import TensorBoard
from tau_trainer.runs.checkpoint_index import learner_names
from tau_trainer.runs.checkpoints import latest_checkpoint
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.training.recording import record
from tests.envs.mlagents.doubles import Scripted, spec_of
from tests.training.fakes import Memory, train

NAMES = [
    "A/B", "A_B", ".", "..", " ", "../../evil", "/etc/evil", "C:\\evil", "CON", "nul.txt", "a\nb", "a\x1b[31mb", "a ",
    "a", "checkpoints", "run_logs", "configuration.yaml", "A_B.onnx", "x" * 300, "Größe", file_name("A/B"),
]  # fmt: skip


class Named(Scripted):
    """One agent of each name, paid its number; episodes of four decisions."""

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        spec, at, none = self.specs[behavior_name], self.at % 5, np.zeros(0, np.float32)
        number = np.array([NAMES.index(behavior_name)], np.float32)
        ids, nobody = np.array([1], np.int32), np.zeros(0, np.int32)
        here, gone = self._seen(spec, [1], float(at)), self._seen(spec, [], 0.0)
        if at < 4:
            return DecisionSteps(here, number, ids, None, 0 * ids, 0 * number), TerminalSteps(
                gone, none, none.astype(bool), nobody, nobody, none
            )
        return DecisionSteps(gone, none, nobody, None, nobody, none), TerminalSteps(
            here, number, np.zeros(1, bool), ids, 0 * ids, 0 * number
        )


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = types.ModuleType("named_games")
    own.build = lambda *_: Named([], *[spec_of() for _ in NAMES], names=NAMES)
    monkeypatch.setitem(sys.modules, "named_games", own)


def settings(results: Path, max_steps: int, **changes: object) -> RunSettings:
    trainer = {
        "trainer_type": "ppo",
        "max_steps": max_steps,
        "summary_freq": 8,
        "checkpoint_interval": 16,
        "network_settings": {"hidden_units": 4, "num_layers": 1},
        "hyperparameters": {"batch_size": 8, "buffer_size": 8},
    }
    given = {
        "env_settings.env_path": "mlagents:named_games:build",
        "env_settings.seed": 1,
        "checkpoint_settings.results_dir": str(results),
        "checkpoint_settings.run_id": "run",
        "default_settings": trainer,
    }
    return load_settings(None, {**given, **changes})


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_every_file_is_inside_the_run_and_of_one_behavior(module: None, memory: Memory, tmp_path: Path) -> None:
    results, run = tmp_path / "some" / "results", tmp_path / "some" / "results" / "run"
    board = TensorBoard(run)
    report = train(settings(results, 16), memory, "learn")
    assert report.errors == ()
    for summary in memory.summaries:
        board.on_summary(summary)
    board.close()
    everything = files_of(tmp_path)
    assert all(path.startswith("some/results/run/") for path in everything)
    assert [path.name for path in results.iterdir()] == ["run"]
    files = files_of(run)
    ours = [file_name(name) for name in NAMES]
    assert len(set(ours)) == len(NAMES)
    for file in ours:
        assert f"{file}.onnx" in files
        assert f"{file}/{file}-16.onnx" in files
        assert files & {f"checkpoints/{file}-16{revision}/manifest.json" for revision in ("", ".2")}
        assert any(path.startswith(f"{file}/events.out.tfevents.") for path in files)
    assert learner_names(run / "checkpoints") == sorted(NAMES)
    resumed = train(settings(results, 32, **{"checkpoint_settings.resume": True}), memory, "learn")
    assert resumed.errors == ()
    assert not [text for text in memory.warnings if "from zero" in text or "from scratch" in text], "each finds its own"
    assert {behavior.step for behavior in resumed.behaviors} == {32}
    for name in NAMES:
        newest = latest_checkpoint(run / "checkpoints", name).checkpoint
        assert newest is not None
        assert (newest.name, newest.step, newest.manifest["learner"]["behavior"]["name"]) == (name, 32, name)
    assert all(path.startswith("some/results/run/") for path in files_of(tmp_path))


def test_recordings_are_beside_each_other(module: None, tmp_path: Path) -> None:
    written = record(settings(tmp_path / "results", 16), "random", tmp_path / "a.demo", episodes=1)
    assert sorted(path.name for path, _ in written) == sorted(f"a-{file_name(name)}.demo" for name in NAMES)
    assert {path.parent for path, _ in written} == {tmp_path}
