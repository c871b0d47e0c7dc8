from __future__ import annotations

from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

from tau_trainer.metrics.event_file import EventFile, messages


def test_tensorboard_reads_every_record(tmp_path: Path) -> None:
    file = EventFile(tmp_path / "Behavior")
    for step in range(5):
        file.write(messages().event.Event(step=step, wall_time=1.0).SerializeToString())
    file.close()
    raw = list(RawEventFileLoader(str(file.path)).Load())
    events = [messages().event.Event.FromString(one) for one in raw]
    assert events[0].file_version == "brain.Event:2"
    assert [event.step for event in events[1:]] == list(range(5))


def test_two_files_of_one_second_have_two_names(tmp_path: Path) -> None:
    files = [EventFile(tmp_path) for _ in range(2)]
    for file in files:
        file.close()
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 2
