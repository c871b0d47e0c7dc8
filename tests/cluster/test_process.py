"""What every place promises, on the nodes of a cluster, and what is this one's own."""

from __future__ import annotations

import pytest

from tau_trainer.cluster.connection import Connection
from tau_trainer.remote.process import Places
from tests.remote.contract import *  # noqa: F403

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]


@pytest.fixture
def places(connection: Connection) -> Places:
    return connection.place
