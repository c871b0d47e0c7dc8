from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tau_trainer.metrics import MetricsHub, run_recorders
from tau_trainer.metrics.recorder import NullRecorder, Recorder


def test_a_run_leaves_a_log_events_and_lines(
    tmp_path: Path, console: Callable[..., Console], text_of: Callable[[Console], str]
) -> None:
    target = console()
    with MetricsHub(run_recorders(tmp_path / "run", "plain", console=target)) as hub:
        hub.flush("TauAgent", 10)
    assert (tmp_path / "run" / "log.jsonl").is_file()
    assert len(list((tmp_path / "run" / "TauAgent").glob("events.out.tfevents.*"))) == 1
    assert text_of(target).startswith("[INFO] TauAgent. Step: 10.")


def test_every_recorder_keeps_the_contract(tmp_path: Path, console: Callable[..., Console]) -> None:
    recorders = run_recorders(tmp_path, "auto", console=console())
    assert all(isinstance(recorder, Recorder) for recorder in [*recorders, NullRecorder()])
    assert not isinstance(object(), Recorder)
