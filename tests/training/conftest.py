"""Runs without processes, and hubs that remember."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tau_trainer import plugins
from tau_trainer.metrics import MetricsHub, plot
from tests.training.fakes import Memory, Stage


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Learning curves are read and written, but drawn only where a test asks for ``drawn``: two thirds of a run."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(plot, "draw", lambda history: None)
        monkeypatch.setattr(plot, "save_figure", lambda figure, path: path.write_bytes(b"") and path)


@pytest.fixture
def drawn() -> None:
    """Learning curves are pictures."""


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def hub(memory: Memory) -> Iterator[MetricsHub]:
    with MetricsHub([memory]) as hub:
        yield hub


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    """The learner's thread."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def recurrent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Networks may have a memory: one that counts."""
    with monkeypatch.context() as patch:
        patch.setitem(plugins._OWN["memories"], "lstm", "tests.training.fakes:Tally")
        plugins._found.cache_clear()
        yield
    plugins._found.cache_clear()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage.opened(monkeypatch)
