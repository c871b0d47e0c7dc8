"""A run in its thread: how it begins, and what is left where it does not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tau_trainer.metrics import JsonLines
from tau_trainer.runs.collector import Collector
from tau_trainer.runs.run import Run
from tau_trainer.runs.session import start
from tau_trainer.settings import load_settings
from tests.runs.test_run import Counting


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself these signals there")
def test_ctrl_c_before_it_has_begun_leaves_nothing(tmp_path: Path) -> None:
    made: list[Counting] = []

    @contextmanager
    def begin(run: Run) -> Iterator[Collector]:
        os.kill(os.getpid(), signal.SIGINT)
        assert run.asked.wait(20)
        made.append(Counting(run))
        yield made[0]

    chosen = {"checkpoint_settings.run_id": "it", "checkpoint_settings.results_dir": str(tmp_path / "results")}
    with pytest.raises(KeyboardInterrupt):
        start(load_settings(None, chosen), "", 0, begin, recorders=lambda folder: [JsonLines(folder / "log.jsonl")])
    assert not hasattr(made[0].run, "collector"), "it was not begun any more"
    assert not (tmp_path / "results").exists()
