"""Processes on the nodes of a cluster: what every place promises, and what is this one's own.

Collected by test_connection.py, which has the cluster.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tau_trainer.cluster import host
from tau_trainer.cluster.connection import Cluster
from tau_trainer.errors import ActorError, ClusterError
from tau_trainer.remote.process import Places
from tests.cluster.conftest import processes_with
from tests.remote.contract import *  # noqa: F403
from tests.remote.contract import Echo
from tests.waiting import HANG_S, until

MODULE = "tau_trainer.cluster.process"
"""By its name: whoever imports it imports Ray, which reads the environment at that moment."""


@pytest.fixture
def places(connection: Cluster) -> Places:
    return connection.place


def test_it_is_on_a_node_and_writes_where_that_has_a_folder(echo: Echo, tmp_path: Path) -> None:
    missing = tmp_path / "not on every machine"
    given = {"there": str(tmp_path), "missing": str(missing), "address": "192.0.2.1"}
    process = echo(arguments=given, folders=("there", "missing"))
    process.say("hello")
    told = process.hear(HANG_S).data["arguments"]
    assert re.fullmatch(r"local-\d", process.node)
    assert told["there"] == given["there"]
    assert Path(told["missing"]).stat().st_mode & 0o777 == 0o700
    assert told["address"] == "127.0.0.1", "as Ray calls that node"
    assert not missing.exists()
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    process.end()
    assert not Path(told["missing"]).exists(), "it has ended well"


def test_no_room_within_some_seconds_is_its_end_and_whoever_waits_can_be_killed(
    echo: Echo, connection: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{MODULE}.PLACE_S", 0.5)
    monkeypatch.setattr(connection, "asked", {"CPU": 1000.0})
    with pytest.raises(ActorError) as caught:
        echo().hear(HANG_S)
    said = str(caught.value)
    assert said.startswith("the echo ended before it started: no node had room for it within 0.5 s: it needs 1000 CPU,")
    assert re.search(r"; local-1 has \d+ CPU", said)
    monkeypatch.setattr(f"{MODULE}.PLACE_S", 60.0)
    process = echo()
    process.kill()
    with pytest.raises(ActorError, match=r"^the echo ended because it was given up$"):
        process.hear(HANG_S)
    assert process.pid == 0


def test_one_of_another_version_is_refused(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "__version__", "9.9.9")
    with pytest.raises(
        ActorError, match=r"the echo on (local-\d) ended before it started: \1 has tau_trainer .* 9.9.9"
    ):
        echo().hear(HANG_S)


def test_a_worker_of_rays_that_is_killed_takes_its_process_with_it(echo: Echo) -> None:
    process = echo()
    pid = process.pid
    worker = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(ActorError, match=r"^the echo on local-\d ended with Ray's worker there"):
        process.hear(HANG_S)
    assert process.exit_code is not None
    until(lambda: pid not in processes_with("echo"))


def test_one_that_cannot_be_told_something_ends(echo: Echo) -> None:
    """Else it would go on without."""
    from tau_trainer.cluster.process import RayProcess
    from tau_trainer.cluster.weights import controlled

    process = echo()
    assert process.pid
    assert isinstance(process, RayProcess)
    process._place.call(lambda: process._queue(lambda host: controlled(host.say, "news", "no JSON", {})))
    with pytest.raises(
        ActorError, match=r"^the echo on local-\d ended because a message could not be delivered \(Expecting"
    ):
        process.hear(HANG_S)


def test_a_cluster_that_is_lost_is_no_reason_to_begin_again(
    echo: Echo, connection: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = connection.place(0, 0)
    process = echo(place)
    assert process.pid
    monkeypatch.setattr(connection, "lost", "the head of the Ray cluster no longer answers")
    place.lose()
    with pytest.raises(ClusterError, match=r"^the head of the Ray cluster no longer answers$"):
        process.hear(HANG_S)
    with pytest.raises(ClusterError):
        echo(place).hear(HANG_S)
    monkeypatch.undo()
    process._release()  # type: ignore[attr-defined]
    place.close()
