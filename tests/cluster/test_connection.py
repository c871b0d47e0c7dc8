"""How a private cluster begins, what it leaves alone, and what is said where there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tau_trainer.cluster.connection import Connection
from tau_trainer.errors import ClusterError
from tau_trainer.settings import ClusterSettings
from tests.cluster.conftest import NODES, processes_with

pytestmark = pytest.mark.timeout(120)


def test_it_has_the_nodes_that_were_asked_for_and_no_other_finds_it(connection: Connection) -> None:
    assert [node.name for node in connection.nodes] == [f"local-{number}" for number in range(1, NODES + 1)]
    assert connection.room >= 10 * NODES
    assert connection.home is not None
    found = Path("/tmp/ray/ray_current_cluster")  # where a user's ray.init() would look
    assert not found.exists() or connection.head not in found.read_text()


def test_nothing_of_it_listens_beyond_loopback(connection: Connection) -> None:
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


def _open(number: int) -> list[str]:
    try:
        return [str(file.readlink()) for file in Path(f"/proc/{number}/fd").iterdir()]
    except OSError:
        return []


def test_a_request_that_no_node_can_ever_meet_is_told_at_once(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would wait."""
    greedy = ClusterSettings(address="local:3", resources={"cpu": 0.1, "unity": 2})
    monkeypatch.setattr(connection, "settings", greedy)
    with pytest.raises(ClusterError) as caught:
        connection.find()
    assert str(caught.value).startswith("no node of cluster local:3 has what each actor asks for (0.1 CPU, 2 unity): ")
    assert "local-2 has 1 CPU" in str(caught.value)
    monkeypatch.undo()
    connection.find()


def test_a_process_has_one_cluster(connection: Connection) -> None:
    with pytest.raises(ClusterError, match=r"^this process uses a Ray cluster already; call ray.shutdown\(\)"):
        Connection(ClusterSettings(address="local"))


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"^--cluster needs Ray; install it with: pip install 'tau-trainer\[cluster"):
        Connection(ClusterSettings(address="local"))


def test_ray_that_was_imported_before_would_open_a_private_cluster_to_others(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads where it listens as it is imported."""
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", True)
    with pytest.raises(ClusterError, match=r"^this process has imported ray before, and a private cluster of it would"):
        connection._check_imported()
    monkeypatch.undo()
    monkeypatch.setattr(connection, "settings", ClusterSettings(address="head:6379"))
    with pytest.raises(ClusterError, match=r"^this process had a private cluster, to which Ray keeps"):
        connection._check_imported()
