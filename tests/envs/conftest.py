"""Engines that are scenes inside the test."""

from __future__ import annotations

import pytest

from tests.training.fakes import Memory, Stage


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage.opened(monkeypatch)


@pytest.fixture
def memory() -> Memory:
    return Memory()
