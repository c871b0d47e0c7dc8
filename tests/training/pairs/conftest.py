"""Teams of pairs on the hub of a test."""

from __future__ import annotations

import pytest

from tau_trainer.metrics import MetricsHub
from tests.training.pairs.pairs import Make, Team


@pytest.fixture
def make(hub: MetricsHub) -> Make:
    return lambda *args, **more: Team(hub, *args, **more)
