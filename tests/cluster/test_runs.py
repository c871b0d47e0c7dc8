"""Whole runs whose actors play on the nodes of a cluster."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cluster import connection as connecting
from tau_trainer.cluster.connection import Connection
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.settings import ClusterSettings, load_settings
from tests.cluster.conftest import NODES, RESOURCES, processes_with
from tests.training.actors import test_lock_step, test_manager
from tests.training.fakes import WAIT_S, Memory, begin, pairs_of, until

pytestmark = [pytest.mark.timeout(180), pytest.mark.slow]
LONG_S = 100.0


@pytest.fixture(autouse=True)
def _shared(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run finds this cluster, with what its settings ask for, and leaves it as it is."""

    def connect(settings: ClusterSettings) -> Connection:
        monkeypatch.setattr(connection, "settings", settings)
        connection.find()
        return connection

    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setattr(connecting, "Connection", connect)
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.01)


def there(resources: dict[str, float] = RESOURCES) -> dict[str, Any]:
    """What a run on the cluster has in its settings besides."""
    return {"cluster__address": f"local:{NODES}", "cluster__resources": resources}


def test_lock_step_is_the_same_run_to_the_bit(tmp_path: Path) -> None:
    """With an evaluator, lessons of a curriculum and checkpoints at which all environments begin anew."""
    memory = Memory()
    file = test_lock_step.FILE
    elsewhere = begin(test_lock_step.settings_of(tmp_path, "there", file, **there()), memory, "learn")
    here = begin(test_lock_step.settings_of(tmp_path, "here", file), command="learn")
    assert [session.wait(LONG_S).outcome for session in (elsewhere, here)] == ["completed"] * 2
    test_lock_step.assert_same(tmp_path, "there", "here")
    assert memory.warnings == []
    nodes = {pair.node for snapshot in memory.snapshots for pair in snapshot.pairs} - {""}
    assert nodes <= {f"local-{number}" for number in range(1, NODES + 1)}
    assert nodes, "the table shows where they play"


def test_pairs_train_on_nodes_as_many_at_a_time_as_may(tmp_path: Path) -> None:
    """Each with its own policy, evaluated when it ends; resumed, the run has no more to do."""
    given: dict[str, Any] = {"cluster.address": f"local:{NODES}", "cluster.resources": RESOURCES}
    given |= {"env_settings.env_path": "headless:tau"}
    given |= {"tau.pairs": 3, "tau.max_concurrent": 2, "tau.policy": "independent", "behaviors.*.max_steps": 3000}
    given |= {"checkpoint_settings.results_dir": str(tmp_path), "checkpoint_settings.run_id": "pairs"}
    session = begin(load_settings("tau3", given), command="parallel")
    parallel = pairs_of(session).parallel
    report = session.wait(LONG_S)
    assert report.outcome == "completed"
    assert parallel.peak == 2
    assert [pair.decisions >= 1000 for pair in report.pairs] == [True] * 3
    assert all(pair.validation_accuracy is not None for pair in report.pairs)
    written = load_settings(tmp_path / "pairs" / "configuration.yaml")
    assert (written.execution, written.async_trainer.actors, written.async_trainer.eval_interval) == ("async", 3, 0)
    assert (tmp_path / "pairs" / "TauAgent-pair2.onnx").is_file()


def test_a_killed_actor_and_a_node_that_dies_cost_what_was_not_pushed(tmp_path: Path) -> None:
    """The restart budget is spent once for each."""
    memory = Memory()
    arguments: dict[str, Any] = {"env_settings__env_args": ["seconds=0.001"], "async_trainer__actors": 3}
    arguments |= {"env_settings__restarts_rate_limit_n": 2}
    session = begin(test_manager.settings_of(tmp_path, **arguments, **there()), memory, "learn")
    until(lambda: test_manager.playing(session), LONG_S)
    actors = test_manager.actors_of(session)

    def all_go_on() -> None:
        before = [actor.trainer.decisions for actor in actors]
        until(lambda: all(actor.trainer.decisions > n for actor, n in zip(actors, before, strict=True)), LONG_S)

    victim = actors[0]
    pid, node = victim.process.pid, victim.process.node
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: any(f"actor 0 on {node} ended by SIGKILL" in each for each in memory.warnings), 20.0)
    all_go_on()
    lost = next(node for actor in actors if (node := actor.process.node) != "local-1")
    (raylet,) = processes_with("raylet", f"--node-name={lost}")
    os.kill(raylet, signal.SIGKILL)
    until(lambda: any(f" on {lost} ended with " in each for each in memory.warnings), 40.0)
    all_go_on()
    assert lost not in {actor.process.node for actor in actors}
    session.cancel()
    report = session.wait(WAIT_S)
    assert (report.outcome, report.exit_code) == ("cancelled", 0)
    assert [pair.restarts for pair in report.pairs if pair.restarts] in ([2], [1, 1])
    learner = test_manager.saved(tmp_path)
    assert learner["algorithm"]["seen"] == learner["samples"], "what had been pushed is there"
    assert sum(learner["pairs"].values()) == learner["decisions"] == report.decisions
