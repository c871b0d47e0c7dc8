"""Lists of agents: what is refused and how it is named, odd but legal encodings, and the cost of many agents."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.agent_records import AgentDecoder
from tau_trainer.bridge.codec import Capabilities
from tau_trainer.bridge.engine_codec import AgentEncoder
from tau_trainer.bridge.images import SIGNATURE
from tau_trainer.bridge.package import ImageOrder
from tau_trainer.bridge.records import delimited
from tau_trainer.errors import DecodeError
from tau_trainer.specs import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    StepBatch,
    empty_terminals,
)
from tests.bridge.oracle import PACKED, Agent, assert_equal, expected, fill, png, simple_spec, unity_png
from tests.bridge.strategies import IMAGE

SPEC = simple_spec(ActionSpec(1, (2, 3)), (2,), (2, 2))


def agent(number: int = 7, first: float = 1.0, second: float = 2.0, **fields: Any) -> Agent:
    return Agent(number, (np.full(2, first, np.float32), np.full((2, 2), second, np.float32)), **fields)


def packed(*agents: Agent, spec: BehaviorSpec = SPEC) -> bytes:
    infos = PACKED.AgentInfos()
    fill(infos, spec, agents)
    return bytes(infos.SerializeToString())


def decode(payload: bytes, spec: BehaviorSpec = SPEC) -> StepBatch:
    return AgentDecoder(spec.name).decode(payload, spec)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("where", "culprit"),
    [
        ("reward", lambda v: agent(7, reward=v)),
        ("group reward", lambda v: agent(7, group_id=1, group_reward=v)),
        ("sensor 's0'", lambda v: agent(7, first=v)),
        ("sensor 's1'", lambda v: agent(7, second=v)),
    ],
)
def test_what_is_not_finite_is_named(value: float, where: str, culprit: Callable[[float], Agent]) -> None:
    message = rf"behavior 'B\?team=0' sent NaN or infinity in {where} of agent 7; look for"
    with pytest.raises(DecodeError, match=message):
        decode(packed(agent(1), culprit(value), agent(9)))


def test_what_is_finite_is_seen_by_each_number_and_not_by_their_sum() -> None:
    largest = float(np.finfo(np.float32).max)
    batch = decode(packed(*(agent(i, first=largest, reward=largest) for i in range(8))))
    assert batch.reward.tolist() == [largest] * 8
    with pytest.raises(DecodeError, match="NaN or infinity in reward of agent 1"):  # and no warning
        decode(packed(agent(1, reward=np.inf), agent(2, reward=-np.inf)))


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (((3,), (2, 2)), r"shapes \[\(3,\), \(2, 2\)\] after \[\(2,\), \(2, 2\)\]; all agents"),
        (((2,),), "need the same sensors"),
    ],
)
def test_agents_with_other_sensors_are_refused(shapes: tuple[tuple[int, ...], ...], said: str) -> None:
    other = Agent(1, tuple(np.zeros(shape, np.float32) for shape in shapes))
    with pytest.raises(DecodeError, match=said):
        decode(packed(agent()) + packed(other, spec=simple_spec(SPEC.actions, *shapes)))


def images(count: int, spec: BehaviorSpec) -> list[Agent]:
    """Agents with random images, and vectors."""
    rng = np.random.default_rng(count)
    return [
        Agent(
            number,
            tuple(
                rng.integers(0, 256, sensor.shape, np.uint8)
                if sensor.dtype == np.uint8
                else rng.random(sensor.shape, np.float32)
                for sensor in spec.observations
            ),
        )
        for number in range(count)
    ]


CAMERA = ObservationSpec("camera", (3, 4, 5), IMAGE, dtype=np.uint8)
SEEING = BehaviorSpec("B?team=0", (ObservationSpec("a", (2,)), CAMERA, ObservationSpec("z", (3,))), ActionSpec(1))


def altered(agents: list[Agent], number: int, **changes: Any) -> bytes:
    """The list with something else about the camera of one agent."""
    infos = PACKED.AgentInfos.FromString(packed(*agents, spec=SEEING))
    sensor = infos.value[number].observations[1]
    for name, value in changes.items():
        sensor.ClearField(name)
        if isinstance(value, list):
            getattr(sensor, name).extend(value)
        elif value is not None:
            setattr(sensor, name, value)
    return bytes(infos.SerializeToString())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"compressed_data": b"??"}, "bytes that are not a PNG file"),
        (
            {"compressed_data": unity_png(np.zeros((3, 5, 4), np.uint8))},
            "a PNG file of 4 x 5 pixels, but its shape",
        ),
        (
            {"compressed_data": png(np.zeros((4, 5), np.uint8))},
            "PNG files of 1 channels, but its shape has 3",
        ),
        ({"compressed_channel_mapping": [0, 1, 4]}, r"a channel mapping \[0, 1, 4\], which does not fill the 3"),
        ({"compressed_channel_mapping": [0, 1, 2, -1]}, "PNG files of 3 channels, but its channel mapping has"),
    ],
)
def test_images_that_cannot_be_read_are_named(changes: dict[str, Any], said: str) -> None:
    decoder, agents = AgentDecoder(SEEING.name), images(4, SEEING)
    decoder.decode(packed(*agents, spec=SEEING), SEEING)
    with pytest.raises(DecodeError, match=rf"^behavior 'B\?team=0': sensor 'camera' of agent 2 sent {said}"):
        decoder.decode(altered(agents, 2, **changes), SEEING)
    with pytest.raises(DecodeError, match=r"sent PNG files for 0 sensors of agent 2, but 1 need them"):
        decoder.decode(altered(agents, 2, compressed_data=None), SEEING)
    with pytest.raises(DecodeError, match=r"sensor 'camera' declares shape \(3, 4, 5\) but sends 0 floats"):
        decoder.decode(altered(agents, 2, compression_type=0), SEEING)


@pytest.mark.parametrize("first", [0, 1])
def test_images_of_some_and_floats_of_others_are_refused(first: int) -> None:
    """Whichever of them describes the behavior."""
    infos = PACKED.AgentInfos.FromString(packed(*images(2, SEEING), spec=SEEING))
    sensor = infos.value[1].observations[1]
    sensor.ClearField("compressed_data")
    sensor.float_data.data.extend([0.5] * 60)
    sensor.compression_type = 0
    infos.value.sort(key=lambda info: info.id != first)
    decoder, payload = AgentDecoder(SEEING.name), infos.SerializeToString()
    spec = BehaviorSpec(SEEING.name, decoder.specs(payload), SEEING.actions)
    with pytest.raises(DecodeError, match="'camera' as PNG images of some agents and as floats of others; give all"):
        decoder.decode(payload, spec)


@pytest.mark.parametrize(
    ("shapes", "sent"),
    [
        ([[3, 4], [12], [3, 4, 5, 1], [-3, 4, 5], [2**31 - 1] * 3], "PNG images"),
        ([[3], [2, 2], [-2, -1], [2**31 - 1, 2**31 - 1], [1] * 40 + [2], [2**31 - 1, 2**31 - 1, 4, 0]], r"\d floats"),
    ],
)
def test_shapes_that_cannot_be(shapes: list[list[int]], sent: str) -> None:
    for shape in shapes:
        infos = PACKED.AgentInfos()
        sensor = infos.value.add().observations.add(name="s", shape=shape)
        if sent == "PNG images":
            sensor.compression_type, sensor.compressed_data = 1, b"?"
        else:
            sensor.float_data.data.extend([1.0, 2.0] if 0 not in shape else [])
        with pytest.raises(DecodeError, match=rf"sensor 's' declares shape \(.*\) but sends {sent}"):
            AgentDecoder("B").specs(infos.SerializeToString())


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("flags", "older", "last"),
    [
        ([1, 2, 2], False, False),
        ([1, 2, 2], True, False),
        ([2, 2, 1], False, True),
        ([2, 2, 1], True, True),
        ([], False, False),
        ([], True, True),
        ([0, 0, 0], False, False),
        ([0, 0, 0], True, True),
    ],
)
def test_images_are_channels_first_whatever_the_package_sends(
    compressed: bool, flags: list[int], older: bool, last: bool
) -> None:
    """Packages before 3.0 declare [H, W, C], and those before 2.0 no dimension properties."""
    image = np.random.default_rng(0).integers(0, 256, (2, 3, 4), np.uint8)
    sent, infos = image.transpose(1, 2, 0) if last else image, PACKED.AgentInfos()
    for number in range(2):
        sensor = infos.value.add(id=number).observations.add(name="c", shape=sent.shape, dimension_properties=flags)
        if compressed:
            sensor.compression_type, sensor.compressed_data = 1, unity_png(image)
        else:
            sensor.float_data.data.extend(sent.ravel().tolist())
    decoder = AgentDecoder("B", ImageOrder(declared_last=older))
    (spec,) = decoder.specs(infos.SerializeToString())
    assert spec.shape == (2, 3, 4)
    unspecified = (DimensionProperty.UNSPECIFIED,) * 3
    assert spec.dimension_property == (unspecified if flags == [0, 0, 0] else IMAGE)
    batch = decoder.decode(infos.SerializeToString(), BehaviorSpec("B", (spec,), ActionSpec(1)))
    assert batch.obs[0].dtype == spec.dtype == (np.uint8 if compressed else np.float32)
    assert batch.obs[0].flags.c_contiguous
    np.testing.assert_array_equal(batch.obs[0], [image, image])


def test_what_is_no_image_is_left_as_it_is() -> None:
    """Rank two and four, whatever their properties say."""
    spec = BehaviorSpec(
        "B",
        (
            ObservationSpec("a", (2, 3), (DimensionProperty(2), DimensionProperty(1))),
            ObservationSpec("b", (1, 2, 2, 1), tuple(map(DimensionProperty, (2, 2, 1, 1)))),
        ),
        ActionSpec(1),
    )
    agents = images(3, spec)
    decoder = AgentDecoder("B", ImageOrder(declared_last=True, written_last=True))
    assert decoder.specs(packed(*agents, spec=spec)) == spec.observations
    assert_equal(decode(packed(*agents, spec=spec), spec), expected(spec, agents))


def test_masks_of_another_length_mask_nothing() -> None:
    masks: list[tuple[bool, ...]] = [(True,) * 3, (False, True, False, False, True), ()]
    batch = decode(packed(*(agent(i, mask=mask) for i, mask in enumerate(masks))))
    assert batch.action_mask is not None
    assert batch.action_mask.tolist() == [[False] * 5, [False, True, False, False, True], [False] * 5]
    assert decode(packed(agent(1))).action_mask is None


def test_booleans_need_not_be_written_in_one_byte() -> None:
    """``true`` as the varint 128, and ``false`` as a zero of two bytes."""
    mask = delimited(11, b"\x80\x01" + b"\x80\x00" + b"\x01\x00\x00")
    record = mask + PACKED.AgentInfos.FromString(packed(agent(5))).value[0].SerializeToString()
    batch = decode(delimited(1, record))
    assert batch.action_mask is not None
    assert batch.action_mask.tolist() == [[True, False, True, False, False]]
    assert batch.agent_ids.tolist() == [5]


def test_floats_and_fields_in_several_pieces_are_joined_and_overwritten() -> None:
    """Proto3 lets a sender split a repeated field, and says that the last of a singular field counts."""
    floats = delimited(4, delimited(1, np.array([1.5], "<f4").tobytes()) + b"\x0d" + np.array([2.5], "<f4").tobytes())
    observation = delimited(13, delimited(1, b"\x02") + floats)
    start = b"\x50\x01" + observation + b"\x50"  # id 1, then another in three bytes
    records = [start + last + b"\x80\x00" for last in (b"\x85", b"\x86", b"\x87")]
    batch = decode(b"".join(delimited(1, record) for record in records), simple_spec(ActionSpec(1), (2,)))
    assert batch.agent_ids.tolist() == [5, 6, 7]
    assert batch.obs[0].tolist() == [[1.5, 2.5]] * 3


def test_fields_of_an_unexpected_wire_type_are_skipped() -> None:
    record = PACKED.AgentInfos.FromString(packed(agent(5, reward=1.0))).value[0].SerializeToString()
    odd = b"".join([b"\x38\x01", delimited(10, b"xyz"), b"\x6d\x00\x00\x00\x00", b"\x5d\x00\x00\x00\x00"])
    assert_equal(decode(delimited(1, odd + record)), expected(SPEC, [agent(5, reward=1.0)]))


@pytest.mark.parametrize(
    "record",
    [
        b"\x53",  # a group, which proto3 does not have
        b"\x00\x01",  # field 0
        b"\x50" + b"\xff" * 11,  # a varint without end
        b"\x3d\x00\x00",  # half a reward
        delimited(13, delimited(4, delimited(1, b"\x00" * 5))),  # a float and a quarter
        delimited(13, delimited(1, b"\xff\xff")),  # a shape that ends inside a number
        delimited(11, b"\x01\x80"),
        delimited(13, b"\x0a\x05\x01"),
    ],
)
def test_records_that_cannot_be_read(record: bytes) -> None:
    with pytest.raises(DecodeError):
        AgentDecoder("B").specs(delimited(1, record) + delimited(1, b""))


def _batch(n: int) -> StepBatch:
    rng = np.random.default_rng(1)
    return StepBatch(
        SPEC.name,
        np.arange(100, 100 + n, dtype=np.int32) + 2**28,
        (rng.random((n, 2), np.float32), rng.random((n, 2, 2), np.float32)),
        rng.random(n, np.float32),
        np.ones(n, np.int32),
        rng.random(n, np.float32),
        empty_terminals(SPEC.observations),
        np.zeros((n, 5), np.bool_),
    )


def _python_calls(work: Callable[[], object]) -> int:
    count = 0

    def watch(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # a collection in between calls the callbacks of others
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count


@pytest.mark.parametrize(("few", "many"), [(8, 1024), (5000, 9000)], ids=["at once", "by columns"])
def test_no_python_call_is_made_for_each_agent(few: int, many: int) -> None:
    """Small lists are compared whole, large ones by the columns outside of values."""
    encoder = AgentEncoder(SPEC)
    batches = {n: _batch(n) for n in (few, many)}
    decoders = {n: AgentDecoder(SPEC.name) for n in batches}  # each brings the same agents again and again
    payloads = {n: encoder.encode(batch) for n, batch in batches.items()}
    for n, payload in payloads.items():
        decoders[n].decode(payload, SPEC)
    decoding = {n: _python_calls(lambda n=n: decoders[n].decode(payloads[n], SPEC)) for n in batches}  # type: ignore[misc]
    encoding = {n: _python_calls(lambda n=n: encoder.encode(batches[n])) for n in batches}  # type: ignore[misc]
    assert decoding[few] == decoding[many] > 10
    assert encoding[few] == encoding[many] > 10


def test_vectors_beside_images_are_read_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One reading of the list's layout for all agents, though no two records are of one length."""
    agents = images(50, SEEING)
    payload = packed(*agents, spec=SEEING)
    decoder = AgentDecoder(SEEING.name)
    assert_equal(decoder.decode(payload, SEEING), expected(SEEING, agents))
    monkeypatch.setattr(decoder._layouts, "_learn", None)  # there were two: the first agent's id, 0, is not sent
    assert_equal(decoder.decode(payload, SEEING), expected(SEEING, agents))
    assert sum(map(len, decoder._layouts._known.values())) == 2


@pytest.mark.parametrize(
    ("channels", "concatenates", "maps", "files", "mapping"),
    [
        (1, False, False, 1, []),
        (2, False, False, 1, []),
        (3, False, False, 1, []),
        (4, False, True, 0, []),
        (4, True, False, 0, []),
        (4, True, True, 2, [0, 1, 2, 3, -1, -1]),
        (5, True, True, 2, [0, 1, 2, 3, 4, -1]),
        (6, False, True, 0, []),
        (6, True, False, 2, []),
        (6, True, True, 2, []),
    ],
)
def test_bytes_travel_as_the_trainer_can_read_them(
    channels: int, concatenates: bool, maps: bool, files: int, mapping: list[int]
) -> None:
    spec = BehaviorSpec(
        "B",
        (ObservationSpec("camera", (channels, 2, 3), IMAGE, dtype=np.uint8), ObservationSpec("z", (1,))),
        ActionSpec(1),
    )
    able = Capabilities(concatenated_png=concatenates, compressed_channel_mapping=maps)
    agents = images(3, spec)
    payload = AgentEncoder(spec, able).encode(expected(spec, agents))
    for info, agent in zip(PACKED.AgentInfos.FromString(payload).value, agents, strict=True):
        sent = info.observations[0]
        assert sent.compressed_data.count(SIGNATURE) == files
        assert list(sent.compressed_channel_mapping) == mapping
        assert sent.compression_type == (files > 0)
        if not files:
            wanted = agent.obs[0].astype(np.float32) / 255
            assert list(sent.float_data.data) == wanted.ravel().tolist()


def test_arrays_are_the_receivers_own() -> None:
    """Whoever gets a batch may write into it; neither the next batch nor the message knows."""
    decoder, payload = AgentDecoder(SPEC.name), packed(agent(1), agent(2))
    wanted = expected(SPEC, [agent(1), agent(2)])
    for _ in range(3):
        batch = decoder.decode(payload, SPEC)
        assert_equal(batch, wanted)
        for array in (batch.agent_ids, batch.reward, batch.group_id, batch.group_reward, *batch.obs):
            array[...] = 9
        batch.terminals.agent_ids = np.ones(5, np.int32)


@pytest.mark.parametrize("done", [False, True])
def test_an_agent_listed_twice_is_refused(done: bool) -> None:
    decoder, spec = AgentDecoder(SPEC.name), SPEC
    agents = [agent(1), agent(2, done=done), agent(3), agent(2, done=done)]
    for fine in ([agent(1), agent(2)], [agent(1), agent(2, done=True), agent(2)], agents[:3], [agent(2), agent(1)]):
        decoder.decode(packed(*fine), spec)
        with pytest.raises(DecodeError, match=r"behavior '.*' lists agent 2 twice in one message"):
            decoder.decode(packed(*agents), spec)
