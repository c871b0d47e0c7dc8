"""A private cluster of two nodes on this machine. One file of tests asks for it, so there is but one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tau_trainer.settings import ClusterSettings
from tests.waiting import until

if TYPE_CHECKING:
    from tau_trainer.cluster.connection import Cluster

NODES = 2
RESOURCES = {"cpu": 0.1}
"""Of each process: all of a test's fit on any node."""
if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]


def processes_with(*words: str) -> dict[int, str]:
    """Command lines of processes that hold all of these words, by number; those that have ended are left out."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if line and all(word in line for word in words):
            found[int(folder.name)] = line
    return found


@pytest.fixture(scope="module")
def connection() -> Iterator[Cluster]:
    """It begins within some ten seconds on two cores. Nothing of it is left in the end."""
    from tau_trainer.cluster.connection import Cluster

    before = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    connection = Cluster(ClusterSettings(address=f"local:{NODES}", resources=RESOURCES))
    home = connection.home
    assert home is not None
    assert processes_with("raylet", home)
    assert Path(home).stat().st_mode & 0o777 == 0o700
    assert [path.name for path in Path(home).iterdir()] == ["r"], "Ray opens its own folder to everybody"
    yield connection
    connection.close()
    until(lambda: processes_with(home) == {})
    assert not Path(home).exists()
    assert {name: value for name, value in os.environ.items() if name.startswith("RAY_")} == before
