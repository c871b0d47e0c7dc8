"""What tests of whole runs need."""

from pathlib import Path

import pytest

from tau_trainer.settings import RunSettings, load_settings
from tests.training.conftest import memory, stage, undrawn

__all__ = ["memory", "stage", "undrawn"]


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    return load_settings(
        None, {"checkpoint_settings.run_id": "it", "checkpoint_settings.results_dir": str(tmp_path / "results")}
    )
