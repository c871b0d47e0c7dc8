"""What a run of pairs keeps in checkpoints besides its learners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tau_trainer.metrics import MetricsHub
from tau_trainer.training.agents import Tally
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.loop import UpdateLoop
from tau_trainer.training.learning.self_play import SelfPlay
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.pairs.coordinator import RunCoordinator
from tests.training.fakes import newest
from tests.training.learners import make_learner
from tests.training.test_checkpointing import KilledError, failing_at, keeper, learned


@pytest.fixture
def make(hub: MetricsHub) -> Any:
    return partial(make_learner, hub, checkpoint_interval=100)


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


def coordinator(run: Path, hub: MetricsHub, *, resume: bool = False, together: bool = False) -> RunCoordinator:
    """Of the run in this folder, without pairs."""
    made = RunCoordinator.__new__(RunCoordinator)
    made.plan = SimpleNamespace(inference=False, deterministic=together, task=None)  # type: ignore[assignment]
    made.pool = SimpleNamespace(learners={}, loops={}, self_play=SelfPlay(hub), in_thread=at_once)  # type: ignore[assignment]
    made.lessons, made.checkpointer, made.generation = Lessons({}), keeper(run, hub, resume=resume), 0
    made._earlier = made._restore(made.checkpointer.newest())
    return made


def registered(make: Any, made: RunCoordinator, names: Sequence[str]) -> list[Learner]:
    learners = [make(name=name, keep_checkpoints=1) for name in names]
    for learner in learners:
        made.checkpointer.register(learner)
    made.pool.learners |= {learner.name: learner for learner in learners}
    made.pool.loops |= {learner.name: UpdateLoop(learner, ThreadPoolExecutor(1)) for learner in learners}
    return learners


def plays(made: RunCoordinator, *decisions: int) -> None:
    pairs = [SimpleNamespace(id=index, tally=Tally(count)) for index, count in enumerate(decisions)]
    made.parallel = SimpleNamespace(pairs=pairs)  # type: ignore[assignment]


def test_a_round_saves_all_learners_and_every_pair(make: Any, hub: MetricsHub, tmp_path: Path) -> None:
    made = coordinator(tmp_path, hub, together=True)
    registered(make, made, "AB")
    plays(made, 10, 20)
    assert not asyncio.run(made.round_over()), "nothing was learned yet"
    learned(made.pool.learners["B"], 150)
    assert asyncio.run(made.round_over())
    assert made.generation == 1
    for name in "AB":
        checkpoint = newest(tmp_path, name)
        assert checkpoint.manifest["generation"] == 1
        assert checkpoint.manifest["pairs"] == {"0": 10, "1": 20}
        assert checkpoint.set_id == (1, ("A", "B"))


def test_a_learner_that_is_killed_before_its_first_checkpoint_begins_with_its_pair(
    make: Any, hub: MetricsHub, tmp_path: Path
) -> None:
    """Its pair is new: what it decided since the moment before is made again."""
    made = coordinator(tmp_path, hub, together=True)
    learners = registered(make, made, "AB")
    for learner in learners:
        learned(learner, 100)
    plays(made, 100, 100, 0)
    asyncio.run(made.round_over())
    learners += registered(make, made, "C")
    for learner in learners:
        learned(learner, 200)
    plays(made, 200, 200, 68)
    with failing_at("C", KilledError()), pytest.raises(KilledError):
        asyncio.run(made.round_over())
    resumed = coordinator(tmp_path, hub, together=True, resume=True)
    assert (resumed.generation, resumed._earlier) == (1, {0: 100, 1: 100, 2: 0})
    assert [learner.decisions for learner in registered(make, resumed, "ABC")] == [100, 100, 0]


def test_pairs_with_policies_of_their_own_go_on_from_where_those_stood(
    make: Any, hub: MetricsHub, tmp_path: Path
) -> None:
    """Each saves when it has learned; what another one's checkpoint knew of its pair was later, or it has none."""
    made = coordinator(tmp_path, hub)
    learners = registered(make, made, ["Agent-pair0", "Agent-pair1"])
    for learner, counts in zip(learners, ((100, 90, 80), (150, 140, 130)), strict=True):
        learned(learner, 100)
        plays(made, *counts)
        asyncio.run(made.save([learner]))
    assert coordinator(tmp_path, hub, resume=True)._earlier == {0: 100, 1: 140}
