"""A private cluster: how it begins, what it leaves alone, its processes, runs on it, and where there is none.

All tests that need one are here, most by way of other files: it takes ten seconds to begin.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cluster import nodes
from tau_trainer.cluster.connection import Cluster
from tau_trainer.cluster.nodes import Node, survey
from tau_trainer.errors import ClusterError
from tau_trainer.settings import ClusterSettings
from tests.cluster.conftest import NODES, processes_with
from tests.cluster.processes import *  # noqa: F403
from tests.cluster.runs import *  # noqa: F403
from tests.cluster.runs import on_it, there
from tests.cluster.sweeps import *  # noqa: F403
from tests.training.actors import runs as actors_at_work
from tests.training.fakes import WAIT_S, Memory, begin, until

pytestmark = pytest.mark.slow


def test_it_has_the_nodes_that_were_asked_for_and_no_other_finds_it(connection: Cluster) -> None:
    assert [node.name for node in connection.nodes] == [f"local-{number}" for number in range(1, NODES + 1)]
    assert connection.room >= 10 * NODES
    assert connection.home is not None
    found = Path("/tmp/ray/ray_current_cluster")  # where a user's ray.init() would look
    assert not found.exists() or connection.head not in found.read_text()


def test_nothing_of_it_listens_beyond_loopback(connection: Cluster) -> None:
    assert connection.home is not None
    numbers = processes_with(connection.home)
    assert len(numbers) > NODES
    sockets = {link for number in numbers for link in _open(number) if link.startswith("socket:")}
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                listening.append(words[1].partition(":")[0])
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert listening
    assert set(listening) <= loopback
    assert not processes_with("ray.util.client.server", connection.head), "Ray Client, at port 10001 by default"


def _open(number: int) -> list[str]:
    try:
        return [str(file.readlink()) for file in Path(f"/proc/{number}/fd").iterdir()]
    except OSError:
        return []


def test_a_request_that_no_node_can_ever_meet_is_told_at_once(
    connection: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would wait."""
    greedy = ClusterSettings(address="local:2", resources={"cpu": 0.1, "unity": 2})
    monkeypatch.setattr(connection, "settings", greedy)
    with pytest.raises(ClusterError) as caught:
        connection.find()
    assert str(caught.value).startswith(
        "no node of cluster local:2 has the resources for a process (0.1 CPU, 2 unity): "
    )
    assert re.search(r"; local-2 has \d+ CPU", str(caught.value))
    monkeypatch.undo()
    connection.find()


def test_a_process_has_one_cluster(connection: Cluster) -> None:
    with pytest.raises(ClusterError, match=r"^this process already uses a Ray cluster; call ray.shutdown\(\)"):
        Cluster(ClusterSettings(address="local"))


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"^--cluster needs Ray; install it with: pip install 'tau-trainer\[cluster"):
        Cluster(ClusterSettings(address="local"))


def test_ray_that_was_imported_before_would_open_a_private_cluster_to_others(
    connection: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads where it listens as it is imported."""
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", True)
    with pytest.raises(ClusterError, match=r"^this process has imported ray before, and a private cluster of it would"):
        connection._check_imported("local")
    monkeypatch.undo()
    monkeypatch.setattr(connection, "settings", ClusterSettings(address="head:6379"))
    with pytest.raises(ClusterError, match=r"^Ray in this process is bound to an earlier private cluster"):
        connection._check_imported("head:6379")
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(
        ClusterError, match=r"^--cluster head:6379: on Windows and macOS Ray joins no cluster of several"
    ):
        connection._check_imported("head:6379")
    for address in ("127.0.0.1:6379", "localhost:6379", "[::1]:6379"):  # a Ray of that machine alone
        connection._check_imported(address)


def test_every_node_has_the_build_and_our_version(
    connection: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told with the node; so is one that has died since."""
    build = tmp_path / "game.x86_64"
    build.write_text("#!/bin/sh\n")
    build.chmod(0o755)
    connection.check(None)
    connection.check(str(tmp_path / "game"))
    with pytest.raises(ClusterError, match=rf"^node local-1 cannot play: no program found at '{tmp_path}/missing'; "):
        connection.check(str(tmp_path / "missing"))
    monkeypatch.setattr(nodes, "__version__", "9.9.9")
    with pytest.raises(ClusterError, match=r"^node local-1 has tau_trainer .*, but the run has 9.9.9; install"):
        connection.check(None)
    with pytest.raises(ClusterError, match=r"^node lost cannot run tau_trainer \(.*\)"):
        survey([Node("0" * 56, "lost", {})], None)


@on_it
def test_a_killed_actor_and_a_node_that_dies_cost_what_was_not_pushed(connection: Cluster, tmp_path: Path) -> None:
    """The restart budget is spent once for each."""
    memory = Memory()
    arguments: dict[str, Any] = {"env_settings__env_args": ["seconds=0.001"], "async_trainer__actors": 2}
    arguments |= {"env_settings__restarts_rate_limit_n": 2}
    session = begin(actors_at_work.settings_of(tmp_path, **arguments, **there()), memory, "learn")
    until(lambda: actors_at_work.playing(session))
    actors = actors_at_work.actors_of(session)

    def all_go_on() -> None:
        before = [actor.tally.decisions for actor in actors]
        until(lambda: all(actor.tally.decisions > n for actor, n in zip(actors, before, strict=True)))

    try:
        lost = next(node for actor in actors if (node := actor.process.node) != "local-1")
        assert connection.home is not None
        (raylet,) = processes_with("raylet", f"--node-name={lost}", connection.home)
        os.kill(raylet, signal.SIGKILL)
        until(lambda: any(f" on {lost} ended with " in each for each in memory.warnings))
        all_go_on()
        assert {actor.process.node for actor in actors} == {"local-1"}
        pid = actors[0].process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: any("actor 0 on local-1 ended by SIGKILL" in each for each in memory.warnings))
        all_go_on()
    finally:
        session.cancel()
    report = session.wait(WAIT_S)
    assert (report.outcome, report.exit_code) == ("cancelled", 0)
    assert [pair.restarts for pair in report.pairs if pair.restarts] in ([2], [1, 1])
    learner = actors_at_work.saved(tmp_path)
    assert learner["algorithm"]["seen"] == learner["samples"], "what had been pushed is there"
    assert sum(learner["pairs"].values()) == learner["decisions"] == report.decisions
