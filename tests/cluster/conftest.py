"""A private cluster of three nodes on this machine for all tests of a module that ask for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tau_trainer.settings import ClusterSettings

NODES = 3
if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="package")
def connection() -> Iterator[object]:
    """It begins within some ten seconds on two cores; each process takes a small part of a core."""
    from tau_trainer.cluster.connection import Connection

    connection = Connection(ClusterSettings(address=f"local:{NODES}", resources={"cpu": 0.1}))
    yield connection
    connection.close()
