from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c as reference

from tau_trainer.metrics.event_file import EventFile, masked_crc32c, messages


@pytest.mark.parametrize(
    ("data", "crc"),
    [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
)
def test_crc_has_the_values_of_rfc_3720(data: bytes, crc: int) -> None:
    """RFC 3720 appendix B.4, and the check value of CRC-32C."""
    assert masked_crc32c(data) == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@given(st.binary(max_size=300))
def test_crc_is_tensorboards_own(data: bytes) -> None:
    assert masked_crc32c(data) == reference(data)


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
