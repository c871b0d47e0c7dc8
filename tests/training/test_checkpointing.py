from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tau_trainer.algorithms import Algorithm
from tau_trainer.errors import CheckpointError, ExportError
from tau_trainer.metrics import MetricsHub
from tau_trainer.training.checkpointing import Checkpointer
from tau_trainer.training.checkpoints import latest_checkpoint
from tau_trainer.training.learner import Learner
from tau_trainer.training.pair import AgentTrainerPair
from tests.training.fakes import Memory
from tests.training.learners import make_learner


def pairs(*decisions: int) -> list[AgentTrainerPair]:
    trainers = [SimpleNamespace(decisions=count, episodes_of=lambda learner: []) for count in decisions]
    return cast(list[AgentTrainerPair], [SimpleNamespace(id=i, trainer=one) for i, one in enumerate(trainers)])


@pytest.fixture
def make(hub: MetricsHub, executor: ThreadPoolExecutor) -> Any:
    return partial(make_learner, hub, executor, checkpoint_interval=100)


def learned(learner: Learner, decisions: int) -> None:
    """As if an update had been made."""
    learner.decisions = decisions
    learner.algorithm.version += 1
    learner.policy = learner.algorithm.snapshot()


def test_due_at_multiples_of_the_interval_once_something_was_learned(
    make: Any, hub: MetricsHub, tmp_path: Path
) -> None:
    checkpointer, learner = Checkpointer(tmp_path, hub, resume=False), make()
    checkpointer.register(learner)
    learner.decisions = 150
    assert not checkpointer.due(learner), "nothing was learned yet"
    learned(learner, 150)
    assert checkpointer.due(learner)
    asyncio.run(checkpointer.save([learner], pairs(100, 50)))
    assert not checkpointer.due(learner)
    learner.decisions = 250
    assert not checkpointer.due(learner), "the same weights again would be no checkpoint"
    learned(learner, 250)
    assert checkpointer.due(learner)


def test_a_checkpoint_knows_every_pair(make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path) -> None:
    checkpointer, learner = Checkpointer(tmp_path, hub, resume=False), make()
    checkpointer.register(learner)
    learned(learner, 150)
    checkpointer.generation = 4
    asyncio.run(checkpointer.save([learner], pairs(100, 50)))
    resumed = Checkpointer(tmp_path, hub, resume=True)
    resumed.prepare()
    assert (resumed.generation, resumed.pair_decisions) == (4, {0: 100, 1: 50})
    again = make()
    resumed.register(again)
    assert (again.decisions, again.policy.version) == (150, 1)
    assert not resumed.due(again)
    hub.drain(5.0)
    assert [event.fields["step"] for event in memory.events if event.kind == "checkpoint"] == [150]


def test_every_checkpoint_has_a_model_that_goes_with_it(
    make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints"
    checkpointer, learner = Checkpointer(folder, hub, resume=False), make(keep_checkpoints=2)
    checkpointer.register(learner)
    (tmp_path / "Agent").mkdir()
    (tmp_path / "Agent" / "events").touch()
    for decisions in (100, 200, 300):
        learned(learner, decisions)
        asyncio.run(checkpointer.save([learner], pairs(decisions)))
    assert sorted(path.name for path in (tmp_path / "Agent").iterdir()) == [
        "Agent-200.onnx",
        "Agent-300.onnx",
        "events",
    ]
    learned(learner, 400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tau_trainer.training.checkpointing.export_onnx", refuse)
        asyncio.run(checkpointer.save([learner], pairs(400)))
    hub.drain(5.0)
    assert memory.warnings == ["the model of checkpoint Agent-400 was not written: no room"]
    assert checkpointer.failures == {}
    assert latest_checkpoint(folder, "Agent").checkpoint is not None, "the checkpoint itself is there"


def refuse(*_: object) -> None:
    raise ExportError("no room")


def test_a_new_run_reads_nothing(make: Any, hub: MetricsHub, tmp_path: Path) -> None:
    checkpointer, learner = Checkpointer(tmp_path, hub, resume=False), make()
    learned(learner, 150)
    checkpointer.register(learner)
    asyncio.run(checkpointer.save([learner], pairs(150)))
    fresh = Checkpointer(tmp_path, hub, resume=False)
    fresh.prepare()
    other = make()
    fresh.register(other)
    assert (fresh.pair_decisions, other.decisions) == ({}, 0)


def test_a_checkpoint_of_another_network(make: Any, hub: MetricsHub, tmp_path: Path) -> None:
    checkpointer, learner = Checkpointer(tmp_path, hub, resume=False), make()
    checkpointer.register(learner)
    asyncio.run(checkpointer.save([learner], pairs(0)))
    with pytest.raises(CheckpointError, match="hidden units"):
        Checkpointer(tmp_path, hub, resume=True).register(make(hidden_units=16))


def test_what_a_checkpoint_did_not_keep_is_told(
    make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer, learner = Checkpointer(tmp_path, hub, resume=False), make()
    checkpointer.register(learner)
    learned(learner, 100)
    asyncio.run(checkpointer.save([learner], pairs(100)))
    Checkpointer(tmp_path, hub, resume=True).register(make())
    monkeypatch.setattr(Algorithm, "lost", lambda _, facts: f"version {facts['version']} lost its memory")
    Checkpointer(tmp_path, hub, resume=True).register(make())
    hub.drain(5.0)
    assert memory.warnings == ["version 1 lost its memory"]


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(
    make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path
) -> None:
    checkpointer, learner = Checkpointer(tmp_path, hub, resume=False), make()
    checkpointer.register(learner)
    for decisions in (100, 200):
        learned(learner, decisions)
        asyncio.run(checkpointer.save([learner], pairs(decisions)))
    (tmp_path / "Agent-200" / "tensors.safetensors").write_bytes(b"half")
    again = make()
    Checkpointer(tmp_path, hub, resume=True).register(again)
    hub.drain(5.0)
    assert again.decisions == 100
    assert any("Agent-200" in warning for warning in memory.warnings)


def test_what_cannot_be_written_is_a_warning_and_tried_again(
    make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    checkpointer, learner = Checkpointer(tmp_path / "checkpoints", hub, resume=False), make()
    checkpointer.register(learner)
    learned(learner, 100)
    assert checkpointer.due(learner)
    asyncio.run(checkpointer.save([learner], pairs(0)))
    hub.drain(5.0)
    assert any("Cannot save checkpoint" in warning for warning in memory.warnings)
    assert "Cannot save checkpoint" in checkpointer.failures["Agent"]
    assert not checkpointer.due(learner), "not again at once"
    learner.decisions += learner.settings.checkpoint_every
    assert checkpointer.due(learner), "though nothing was learned since"
    (tmp_path / "checkpoints").unlink()
    asyncio.run(checkpointer.save([learner], pairs(0)))
    assert checkpointer.failures == {}
    assert latest_checkpoint(tmp_path / "checkpoints", "Agent").checkpoint is not None


def test_a_generation_saves_all_learners_and_leaves_nothing_open(make: Any, hub: MetricsHub, tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path, hub, resume=False)
    learners = [make(name="A"), make(name="B")]
    for learner in learners:
        checkpointer.register(learner)
    asyncio.run(checkpointer.save_generation(learners, pairs(10, 20)))
    assert checkpointer.generation == 1
    for name in "AB":
        checkpoint = latest_checkpoint(tmp_path, name).checkpoint
        assert checkpoint is not None
        assert checkpoint.manifest["generation"] == 1
        assert checkpoint.manifest["pairs"] == {"0": 10, "1": 20}


def test_a_kill_between_two_learners_of_a_generation_goes_back_to_the_one_that_both_have(
    make: Any, hub: MetricsHub, tmp_path: Path
) -> None:
    checkpointer = Checkpointer(tmp_path, hub, resume=False)
    first, second = make(name="A"), make(name="B")
    for learner in (first, second):
        checkpointer.register(learner)
        learned(learner, 100)
    asyncio.run(checkpointer.save_generation([first, second], pairs(10, 20)))
    learned(first, 200)
    asyncio.run(checkpointer.save_generation([first], pairs(30, 40)))  # killed before it came to B
    resumed = Checkpointer(tmp_path, hub, resume=True)
    resumed.prepare()
    assert (resumed.generation, resumed.pair_decisions) == (1, {0: 10, 1: 20})
    again = [make(name="A"), make(name="B")]
    for learner in again:
        resumed.register(learner)
    assert [learner.decisions for learner in again] == [100, 100]


def test_where_the_common_generation_was_not_kept_the_newest_is_taken_with_a_warning(
    make: Any, hub: MetricsHub, memory: Memory, tmp_path: Path
) -> None:
    checkpointer = Checkpointer(tmp_path, hub, resume=False)
    first, second = make(name="A", keep_checkpoints=1), make(name="B", keep_checkpoints=1)
    for learner in (first, second):
        checkpointer.register(learner)
        learned(learner, 100)
    asyncio.run(checkpointer.save_generation([first, second], pairs(10, 20)))
    learned(first, 200)
    asyncio.run(checkpointer.save_generation([first], pairs(30, 40)))
    resumed = Checkpointer(tmp_path, hub, resume=True)
    resumed.prepare()
    again = make(name="A")
    resumed.register(again)
    hub.drain(5.0)
    assert again.decisions == 200
    assert any("'A' goes on from a later checkpoint" in warning for warning in memory.warnings)
