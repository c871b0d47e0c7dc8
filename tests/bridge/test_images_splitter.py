"""PNG files are taken out of lists of agents wherever they are, whatever came before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.bridge.engine_codec import AgentEncoder
from tau_trainer.bridge.images import ImageSplitter
from tau_trainer.bridge.records import delimited
from tau_trainer.errors import DecodeError
from tau_trainer.specs import ActionSpec, BehaviorSpec
from tests.bridge.oracle import PACKED, UNPACKED, Agent, expected, fill
from tests.bridge.strategies import IMAGE_SENSOR, steps


@given(st.data(), st.booleans())
def test_a_list_is_what_it_was_without_its_files(data: st.DataObject, packed: bool) -> None:
    """Whatever the splitter met before, each record is what protobuf makes of it without compressed data."""
    splitter, messages = ImageSplitter(), PACKED if packed else UNPACKED
    spec, agents = data.draw(steps())
    for part in (agents, agents[:2], agents[::-1], agents):
        infos = messages.AgentInfos()
        fill(infos, spec, part)
        lean, files = splitter.split(infos.SerializeToString())
        assert files == [[o.compressed_data for o in info.observations if o.compression_type] for info in infos.value]
        for info in infos.value:
            for observation in info.observations:
                if observation.compression_type:
                    observation.ClearField("compressed_data")
        assert messages.AgentInfos.FromString(lean) == infos


SPEC = BehaviorSpec("B", (IMAGE_SENSOR,), ActionSpec(1))


def payload(*numbers: int) -> bytes:
    image = np.zeros(IMAGE_SENSOR.shape, np.uint8)
    return AgentEncoder(SPEC).encode(expected(SPEC, [Agent(number, (image + number % 9,)) for number in numbers]))


def test_records_are_cut_as_the_one_before_where_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    splitter = ImageSplitter()
    splitter.split(payload(1))
    monkeypatch.setattr(splitter, "_anew", None)
    assert [len(own) for own in splitter.split(payload(*range(100)))[1]] == [1] * 100


def sensor(data: bytes, rest: bytes = b"") -> bytes:
    return delimited(13, b"\x10\x01" + delimited(3, data) + rest)


FLOATS = delimited(13, delimited(4, delimited(1, bytes(8))))


@pytest.mark.parametrize(
    "other",
    [
        sensor(b"two") + sensor(b"three"),
        sensor(b"two") + FLOATS + sensor(b"three"),
        sensor(b"two", delimited(8, b"longer")),
        FLOATS + sensor(b"two"),
        FLOATS,
        b"\x50\x05" + sensor(b"two"),
        sensor(b"two") + b"\x50\x05",
        sensor(b"two", sensor(b"inside")),
        delimited(12, sensor(b"two")[2:]),  # a field that nobody knows
        b"",
    ],
)
@pytest.mark.parametrize("before", [sensor(b"one"), sensor(b"one") + FLOATS, sensor(b"one") + sensor(b"more")])
def test_a_record_unlike_the_one_before_is_cut_as_it_would_be_alone(before: bytes, other: bytes) -> None:
    alone, after = ImageSplitter().split(delimited(1, other)), ImageSplitter()
    after.split(delimited(1, before))
    assert after.split(delimited(1, other)) == alone


def test_of_several_files_fields_the_last_counts() -> None:
    observation = delimited(3, b"first") + delimited(8, b"name") + delimited(3, b"last")
    lean, files = ImageSplitter().split(delimited(1, delimited(13, observation)))
    assert files == [[b"last"]]
    assert lean == delimited(1, delimited(13, delimited(3, b"first") + delimited(8, b"name")))


def test_a_tag_may_be_longer_than_it_need_be() -> None:
    """Protobuf's parsers take padded varints, tags too."""
    observation = b"\x10\x01" + b"\x9a\x00\x03abc"  # compression type, then field 3 with a tag of two bytes
    record = b"\x50\x05" + b"\xea\x00" + bytes([len(observation)]) + observation  # id, then field 13 alike
    splitter = ImageSplitter()
    for _ in range(2):
        lean, files = splitter.split(delimited(1, record))
        assert files == [[b"abc"]]
        assert lean == delimited(1, b"\x50\x05" + delimited(13, b"\x10\x01"))


@given(st.data())
def test_damaged_lists_raise_decode_error_only(data: st.DataObject) -> None:
    splitter = ImageSplitter()
    splitter.split(payload(1, 2))
    damaged = bytearray(payload(1, 2, 3))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        lean, files = splitter.split(bytes(damaged))
    except DecodeError:
        return
    assert len(lean) + sum(len(one) for own in files for one in own) <= len(damaged)


def test_lists_of_something_else() -> None:
    with pytest.raises(DecodeError, match="unknown field at byte 0"):
        ImageSplitter().split(b"\x12\x00")
    with pytest.raises(DecodeError, match="runs past its end"):
        ImageSplitter().split(b"\x0a\x05")
