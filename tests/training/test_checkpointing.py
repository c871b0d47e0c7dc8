from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tau_trainer.errors import CheckpointError, ExportError
from tau_trainer.evaluation.candidates import ScoredPolicy
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.runs.callbacks import NOBODY
from tau_trainer.runs.checkpoint_sets import CheckpointSet
from tau_trainer.runs.initial_weights import InitialWeights
from tau_trainer.runs.run import Run
from tau_trainer.runs.store import Store
from tau_trainer.training.checkpointing import Checkpointer
from tau_trainer.training.learning.learner import Learner
from tests.training.fakes import Memory, newest
from tests.training.learners import make_learner


def keeper(run: Path, hub: MetricsHub, *, resume: bool, initial: InitialWeights | None = None) -> Checkpointer:
    """Of the run in this folder."""
    store, folder = Store(run, hub, NOBODY, goes_on=resume), SimpleNamespace(resumed=resume, path=run)
    begun = SimpleNamespace(store=store, hub=hub, folder=folder, plays=False, hurried=threading.Event())
    checkpointer = Checkpointer(cast(Run, begun), initial)
    checkpointer.newest()
    return checkpointer


def save(checkpointer: Checkpointer, *learners: Learner) -> bool:
    """A moment of these learners."""
    return checkpointer.writing(learners, {})()


@pytest.fixture
def make(hub: MetricsHub) -> Any:
    return partial(make_learner, hub, checkpoint_interval=100)


def learned(learner: Learner, decisions: int) -> None:
    """As if an update had been made."""
    learner.progress.decisions = decisions
    learner.algorithm.version += 1
    learner.policy = learner.algorithm.snapshot()


def test_due_at_multiples_of_the_interval_once_something_was_learned(
    make: Any, hub: MetricsHub, tmp_path: Path
) -> None:
    checkpointer, learner = keeper(tmp_path, hub, resume=False), make()
    checkpointer.register(learner)
    learner.progress.decisions = 150
    assert not checkpointer.due(learner), "nothing was learned yet"
    learned(learner, 150)
    assert checkpointer.due(learner)
    save(checkpointer, learner)
    assert not checkpointer.due(learner)
    learner.progress.decisions = 250
    assert not checkpointer.due(learner), "the same weights again would be no checkpoint"
    learned(learner, 250)
    assert checkpointer.due(learner)


def test_a_checkpoint_holds_what_the_run_adds(make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path) -> None:
    checkpointer, learner = keeper(tmp_path, hub, resume=False), make()
    checkpointer.register(learner)
    learned(learner, 150)
    checkpointer.writing([learner], {"generation": 4}, {"speed": 2})()
    assert json.loads((tmp_path / "run_logs" / "training_status.json").read_text())["speed"] == {"lesson_num": 2}
    resumed = keeper(tmp_path, hub, resume=True)
    assert resumed.newest()["Agent"].manifest["generation"] == 4
    again = make()
    resumed.register(again)
    assert (again.decisions, again.policy.version) == (150, 1)
    assert not resumed.due(again)
    with pytest.raises(CheckpointError, match="hidden units"):
        resumed.register(make(hidden_units=16))
    hub.drain(5.0)
    assert [event.fields["step"] for event in memory.events if event.kind == "checkpoint"] == [150]
    new, other = keeper(tmp_path, hub, resume=False), make()
    new.register(other)
    assert (new.newest(), other.decisions) == ({}, 0), "a new run reads nothing"


def test_every_checkpoint_has_a_model_that_goes_with_it(
    make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path
) -> None:
    checkpointer, learner = keeper(tmp_path, hub, resume=False), make(keep_checkpoints=2)
    checkpointer.register(learner)
    (tmp_path / "Agent").mkdir()
    (tmp_path / "Agent" / "events").touch()
    for decisions in (100, 200, 300):
        learned(learner, decisions)
        save(checkpointer, learner)
    assert sorted(path.name for path in (tmp_path / "Agent").iterdir()) == [
        "Agent-200.onnx",
        "Agent-300.onnx",
        "events",
    ]
    learned(learner, 400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tau_trainer.training.learning.learner.export_onnx", refuse)
        save(checkpointer, learner)
    hub.drain(5.0)
    assert memory.warnings == ["the model of checkpoint Agent-400 was not written: no room"]
    assert checkpointer._run.store.failures == {}
    assert newest(tmp_path, "Agent").step == 400, "the checkpoint itself is there"


def refuse(*_: object) -> None:
    raise ExportError("no room")


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(
    make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path
) -> None:
    checkpointer, learner = keeper(tmp_path, hub, resume=False), make()
    checkpointer.register(learner)
    for decisions in (100, 200):
        learned(learner, decisions)
        save(checkpointer, learner)
    (tmp_path / "checkpoints" / "Agent-200" / "tensors.safetensors").write_bytes(b"half")
    again = make()
    keeper(tmp_path, hub, resume=True).register(again)
    hub.drain(5.0)
    assert again.decisions == 100
    assert any("Agent-200" in warning for warning in memory.warnings)


def test_what_cannot_be_written_is_a_warning_and_tried_again(
    make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    checkpointer, learner = keeper(tmp_path, hub, resume=False), make()
    checkpointer.register(learner)
    learned(learner, 100)
    assert checkpointer.due(learner)
    save(checkpointer, learner)
    hub.drain(5.0)
    assert any("Cannot save checkpoint" in warning for warning in memory.warnings)
    assert "Cannot save checkpoint" in checkpointer._run.store.failures["Agent"]
    assert not checkpointer.due(learner), "not again at once"
    learner.progress.decisions += learner.settings.checkpoint_every
    assert checkpointer.due(learner), "though nothing was learned since"
    (tmp_path / "checkpoints").unlink()
    save(checkpointer, learner)
    assert checkpointer._run.store.failures == {}
    assert newest(tmp_path, "Agent").step == learner.decisions


class KilledError(Exception):
    """The process is gone."""


@contextlib.contextmanager
def failing_at(name: str, error: Exception) -> Iterator[None]:
    """The checkpoint of one learner fails."""
    write = CheckpointSet.write

    def fail(self: CheckpointSet, of: str, *given: Any) -> Path:
        if of == name:
            raise error
        return write(self, of, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointSet, "write", fail)
        yield


FULL = CheckpointError("Cannot save checkpoint 'B-200' (No space left on device); free some space.")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def registered(make: Any, checkpointer: Checkpointer, names: Sequence[str] = "AB") -> list[Learner]:
    learners = [make(name=name, keep_checkpoints=1) for name in names]
    for learner in learners:
        checkpointer.register(learner)
    return learners


def a_moment_later(make: Any, hub: MetricsHub, run: Path) -> tuple[Checkpointer, list[Learner]]:
    """Two learners were saved together at 100 decisions, and now have 200."""
    checkpointer = keeper(run, hub, resume=False)
    learners = registered(make, checkpointer)
    for decisions in (100, 200):
        for learner in learners:
            learned(learner, decisions)
        if decisions == 100:
            save(checkpointer, *learners)
    return checkpointer, learners


def test_a_kill_between_two_learners_of_a_generation_goes_back_to_the_one_that_both_have(
    make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints"
    checkpointer, learners = a_moment_later(make, hub, tmp_path)
    with failing_at("B", KilledError()), pytest.raises(KilledError):
        save(checkpointer, *learners)
    assert names(folder) == ["A-100", "A-200", "B-100"]
    resumed = keeper(tmp_path, hub, resume=True)
    again = registered(make, resumed)
    assert [learner.decisions for learner in again] == [100, 100]
    again = registered(make, resumed)  # as if the first engine had been refused
    assert [learner.decisions for learner in again] == [100, 100]
    for learner in again:
        learned(learner, 200)
    save(resumed, *again)
    assert names(folder) == ["A-200", "B-200"]
    hub.drain(5.0)
    assert memory.warnings == []


def test_a_disk_that_is_full_at_the_second_learner_leaves_the_moment_before(
    make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints"
    checkpointer, learners = a_moment_later(make, hub, tmp_path)
    with failing_at("B", FULL):
        save(checkpointer, *learners)
    assert names(folder) == ["A-100", "B-100"]
    assert checkpointer._run.store.failures.keys() == {"A", "B"}
    hub.drain(5.0)
    [warning] = memory.warnings
    assert warning.startswith("Cannot save checkpoint 'B-200'")
    assert warning.endswith("because all must be saved together.")
    assert not any(checkpointer.due(learner) for learner in learners), "not again at once"
    for learner in learners:
        learned(learner, 300)
        assert checkpointer.due(learner)
    save(checkpointer, *learners)
    assert names(folder) == ["A-300", "B-300"]
    assert checkpointer._run.store.failures == {}
    hub.drain(5.0)
    saved = [event.fields["step"] for event in memory.events if event.kind == "checkpoint"]
    assert saved == [100, 100, 300, 300]


def test_one_learner_alone_loses_nothing_by_another_that_cannot_be_written(
    make: Any, hub: MetricsHub, tmp_path: Path
) -> None:
    checkpointer = keeper(tmp_path, hub, resume=False)
    learners = registered(make, checkpointer, "BA")
    with failing_at("B", FULL):
        assert [save(checkpointer, learner) for learner in learners] == [False, True]
    assert names(tmp_path / "checkpoints") == ["A-0"]
    assert checkpointer._run.store.failures == {"B": str(FULL)}


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("Agent-*") if path.is_dir())


def test_the_best_alone_is_kept_by_the_mean_reward_of_episodes(make: Any, hub: MetricsHub, tmp_path: Path) -> None:
    checkpointer, learner = keeper(tmp_path, hub, resume=False), make(save_best_only=True, trial_count=2)
    checkpointer.register(learner)
    written = []
    for decisions, mean in ((100, None), (200, 1.0), (300, 0.5), (400, 1.0), (500, 2.0)):
        learner.ended(np.full(0 if mean is None else 2, mean or 0.0, np.float32))
        learned(learner, decisions)
        if checkpointer.due(learner):
            save(checkpointer, learner)
            written.append(decisions)
        else:
            assert not checkpointer.due(learner), "it waits for the next"
            learner.progress.decisions += 99 - learner.decisions % 100
            assert not checkpointer.due(learner)
    assert written == [100, 200, 500], "the first whatever it is, then only what is better"
    assert learner.tracker.best is not None
    assert (learner.tracker.best.decisions, learner.tracker.best.chosen_by) == (500, "mean reward")
    again = make(save_best_only=True, trial_count=2)
    resumed = keeper(tmp_path, hub, resume=True)
    resumed.register(again)
    assert again.tracker.best is not None
    assert again.tracker.best.rank == (2.0, 0.0)
    again.ended(np.full(2, 1.9, np.float32))
    learned(again, 600)
    assert not resumed.due(again), "a resumed run knows what is to be beaten"
    again.ended(np.full(2, 2.1, np.float32))
    learned(again, 700)
    assert resumed.due(again)


def test_the_best_alone_is_kept_by_validation(make: Any, hub: MetricsHub, tmp_path: Path) -> None:
    checkpointer = keeper(tmp_path, hub, resume=False)
    learner = make(save_best_only=True, trial_count=1, validator=lambda policy: {})
    checkpointer.register(learner)
    learned(learner, 100)
    save(checkpointer, learner)
    learner.ended(np.ones(5, np.float32))
    learned(learner, 200)
    assert not checkpointer.due(learner), "rewards do not judge where validation does"
    learner.tracker.best = ScoredPolicy(learner.policy, 200, {keys.VALIDATION_ACCURACY: 0.5}, (0.5, 0.0))
    learned(learner, 300)
    assert checkpointer.due(learner)


def test_what_is_left_to_save_at_the_end(make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path) -> None:
    checkpointer = keeper(tmp_path, hub, resume=False)
    saved, better, worse = (make(name=name, save_best_only=True, trial_count=1) for name in "ABC")
    for learner in (saved, better, worse):
        checkpointer.register(learner)
        learner.ended(np.ones(1, np.float32))
        learned(learner, 100)
        save(checkpointer, learner)
    for learner, mean in ((better, 2.0), (worse, 0.5)):
        learner.ended(np.full(1, mean, np.float32))
        learned(learner, 150)
    assert checkpointer.unsaved([saved, better, worse]) == [better]
    assert checkpointer.unsaved([saved, worse], together=True) == []
    hub.drain(5.0)
    told = [event.message for event in memory.events if event.kind == "checkpoint" and event.message]
    assert told == ["'C' is no better than in its latest checkpoint, which is kept (save_best_only)"] * 2
    assert checkpointer.unsaved([saved, better, worse], together=True) == [better, worse], "they are one moment"
