"""Whole runs on the nodes of a cluster. Collected by test_connection.py, which has the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from tau_trainer.algorithms import make_algorithm
from tau_trainer.cluster import connection as connecting
from tau_trainer.cluster.connection import Cluster
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.settings import ClusterSettings, load_settings
from tau_trainer.training.batched.api import train_batched
from tau_trainer.training.learning.group import LearnerGroup, Ranked
from tau_trainer.training.learning.parameter_server import ParameterServer
from tau_trainer.training.learning.process import RemoteLearner
from tests.cluster.conftest import NODES, RESOURCES
from tests.training.actors import test_lock_step
from tests.training.batched import test_data_parallel
from tests.training.fakes import Memory, begin
from tests.training.learning import test_group, test_parameter_server
from tests.waiting import HANG_S

on_it = pytest.mark.usefixtures("shared")
LONG_S = HANG_S


@pytest.fixture
def shared(connection: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run finds this cluster, with what its settings ask for, and leaves it as it is."""

    def connect(settings: ClusterSettings) -> Cluster:
        monkeypatch.setattr(connection, "settings", settings)
        connection.find()
        return connection

    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setattr(connecting, "Cluster", connect)
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.01)


def there(resources: dict[str, float] = RESOURCES) -> dict[str, Any]:
    """What a run on the cluster has in its settings besides."""
    return {"cluster__address": f"local:{NODES}", "cluster__resources": resources}


@on_it
def test_lock_step_is_the_same_run_to_the_bit(tmp_path: Path) -> None:
    """With an evaluator, and checkpoints at which all environments begin anew."""
    file, memory = test_lock_step.FILE, Memory()
    # If cores are busy, Ray may lose a worker, and one that has pushed is followed by one that draws other numbers.
    for attempt in ("first", "second"):
        memory, folder = Memory(), tmp_path / attempt
        folder.mkdir()
        elsewhere = begin(test_lock_step.settings_of(folder, "there", file, **there()), memory, "learn")
        here = begin(test_lock_step.settings_of(folder, "here", file), memory, "learn")
        reports = [session.wait(LONG_S) for session in (elsewhere, here)]
        assert [report.outcome for report in reports] == ["completed"] * 2
        restarts = [pair.restarts for report in reports for pair in report.pairs]
        if not (memory.warnings or any(restarts)):
            break
    assert memory.warnings == []
    assert not any(restarts)
    test_lock_step.assert_same(folder, "there", "here")
    nodes = {pair.node for snapshot in memory.snapshots for pair in snapshot.pairs} - {""}
    assert nodes <= {f"local-{number}" for number in range(1, NODES + 1)}
    assert nodes, "the table shows where they play"


@on_it
def test_pairs_train_on_nodes_as_many_at_a_time_as_may(tmp_path: Path) -> None:
    """Each with its own policy, evaluated when it ends; resumed, the run has no more to do."""
    given: dict[str, Any] = {"cluster.address": f"local:{NODES}", "cluster.resources": RESOURCES}
    given |= {"env_settings.env_path": "headless:tau"}
    given |= {"tau.pairs": 2, "tau.max_concurrent": 1, "tau.policy": "independent", "behaviors.*.max_steps": 2000}
    given |= {"checkpoint_settings.results_dir": str(tmp_path), "checkpoint_settings.run_id": "pairs"}
    memory = Memory()
    session = begin(load_settings("tau3", given), memory, command="parallel")
    report = session.wait(LONG_S)
    assert report.outcome == "completed"
    moved = [event.fields["pair"] for event in memory.events if event.kind == "pair"]
    assert moved == sorted(moved), "one after the other"
    assert [pair.decisions >= 1000 for pair in report.pairs] == [True] * 2
    assert all(pair.validation_accuracy is not None for pair in report.pairs)
    written = load_settings(tmp_path / "pairs" / "configuration.yaml")
    assert (written.execution, written.async_trainer.actors, written.async_trainer.eval_interval) == ("async", 2, 0)
    assert (tmp_path / "pairs" / "TauAgent-pair1.onnx").is_file()


@on_it
def test_ranks_of_a_batched_run_are_on_nodes(tmp_path: Path) -> None:
    """And the run is the one that it is on one machine, to the bit."""
    here, elsewhere = (test_data_parallel.run(tmp_path, run_id, devices=2) for run_id in ("here", "there"))
    cluster = ClusterSettings(address=f"local:{NODES}", resources=RESOURCES)
    elsewhere = elsewhere.model_copy(update={"cluster": cluster})
    for settings in (here, elsewhere):
        assert train_batched(settings, "quiet").outcome == "completed"
    first, second = (
        load_file(sorted((tmp_path / run_id / "checkpoints").glob("*/*.safetensors"))[-1])
        for run_id in ("here", "there")
    )
    assert first.keys() == second.keys()
    assert all((first[name] == second[name]).all() for name in first)
    assert (tmp_path / "there" / "run_logs" / "Rank-1.log").read_text() == ""


@on_it
def test_who_learns_together_is_on_nodes(connection: Cluster, tmp_path: Path) -> None:
    """The first here, the other there: the same learner as one process."""
    place, setup = connection.place(0, 0), test_group.SETUPS["ppo"]
    ranked = Ranked(2, "cpu", tmp_path, place=place, host=connection.address)
    group = LearnerGroup(ranked, print)
    learner, algorithm = RemoteLearner(group, "it", setup, make_algorithm(setup)), make_algorithm(setup)
    feed = test_group.feed_of(setup)
    for number in range(3):
        learner.submit(test_group.copied(feed(number)), 0.1, None)
        algorithm.update(feed(number), 0.1, None)
    test_group.assert_near(learner, algorithm)
    assert [bool(process._process.node) for process in group._processes] == [False, True]
    group.close()
    place.close()


@pytest.mark.nightly
@on_it
def test_who_learns_from_rollouts_of_its_own_is_on_nodes(connection: Cluster, tmp_path: Path) -> None:
    """The first here, the other there; where that one dies another begins, and its work is learned from too."""
    place, setup, warnings = connection.place(0, 0), test_parameter_server.SETUP, list[str]()
    server = ParameterServer(Ranked(2, "cpu", tmp_path, place=place), 2, warnings.append)
    learner, algorithm = RemoteLearner(server, "it", setup, make_algorithm(setup)), make_algorithm(setup)
    for number, work in enumerate(test_parameter_server.works(4)):
        if number == 2:  # its turn
            server._workers[1].process._process.kill()
        learner.submit(test_group.copied(work), 0.1, None)
        algorithm.update(work, 0.1, None)
    test_group.assert_near(learner, algorithm)
    assert [bool(worker.process._process.node) for worker in server._workers] == [False, True]
    assert len(warnings) == 1
    server.close()
    place.close()
