"""What holds for every test: a quiet plot backend, patient property tests, no accelerator tests without one; toys."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")
# As the command line does: threads wait for each other busily.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shared machine may stop for a second at any point: time limits are pytest-timeout's business, one for each test.
settings.register_profile("tau-trainer", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tau-trainer")


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toy encoders of images and of lists and a toy memory are installed."""
    from tests.networks import plug_in  # imports torch, which most tests do without

    plug_in(monkeypatch)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests marked `gpu` where torch finds no accelerator (torch is imported only if there are any)."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked or _accelerator_available():
        return
    config.hook.pytest_deselected(items=marked)
    items[:] = [item for item in items if item not in marked]


def _accelerator_available() -> bool:
    import torch

    return torch.cuda.is_available()
