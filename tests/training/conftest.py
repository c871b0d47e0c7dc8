"""Runs without processes, and hubs that remember."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tau_trainer.collection.restarts import RestartBudget
from tau_trainer.metrics import MetricsHub
from tests.training.fakes import Memory, Stage


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def hub(memory: Memory) -> Iterator[MetricsHub]:
    with MetricsHub([memory]) as hub:
        yield hub


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """From now on engines are scenes inside this process; restarts come at once."""
    stage = Stage()
    monkeypatch.setattr("tau_trainer.collection.worker.Engine", stage.make)
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.001)
    return stage
