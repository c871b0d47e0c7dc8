"""Recordings as experience."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.errors import DataError
from tests.algorithms.offline.learners import HYBRID, learner
from tests.bridge.demos import made_up


def test_a_recording_without_outcomes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no decision with a known outcome"):
        learner("bc", tmp_path, made_up(HYBRID, lengths=(1,)))
