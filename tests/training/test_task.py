from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.errors import DataError
from tau_trainer.settings import load_settings
from tau_trainer.training.task import task_of
from tests.training.fakes import tau_settings


def test_without_one_there_is_none() -> None:
    assert task_of(load_settings(None)) is None


def test_what_a_task_cannot_do_is_known_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no data file .*mine\.json"):
        task_of(tau_settings(tmp_path, tau__data=str(tmp_path / "mine.json")))
