from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tau_trainer.metrics import MetricsHub, run_recorders


def test_a_run_leaves_a_log_events_and_lines(
    tmp_path: Path, console: Callable[..., Console], text_of: Callable[[Console], str]
) -> None:
    target = console()
    with MetricsHub(run_recorders(tmp_path / "run", "plain", console=target)) as hub:
        hub.flush("TauAgent", 10)
    assert (tmp_path / "run" / "log.jsonl").is_file()
    assert len(list((tmp_path / "run" / "TauAgent").glob("events.out.tfevents.*"))) == 1
    assert text_of(target).startswith("[INFO] TauAgent. Step: 10.")
