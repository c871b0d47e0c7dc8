"""Lists of agents: what is refused and how it is named, odd but legal encodings, and the cost of many agents."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.bridge.agent_encoder import AgentEncoder
from tau_trainer.bridge.agent_records import AgentDecoder
from tau_trainer.bridge.records import delimited, varint
from tau_trainer.errors import DecodeError
from tau_trainer.specs import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    StepBatch,
    empty_terminals,
)
from tests.bridge.oracle import PACKED, Agent, assert_equal, expected, fill, simple_spec
from tests.bridge.strategies import steps

SPEC = simple_spec(ActionSpec(1, (2, 3)), (2,), (2, 2))


def agent(number: int = 7, first: float = 1.0, second: float = 2.0, **fields: Any) -> Agent:
    return Agent(number, (np.full(2, first, np.float32), np.full((2, 2), second, np.float32)), **fields)


def packed(*agents: Agent, spec: BehaviorSpec = SPEC) -> bytes:
    infos = PACKED.AgentInfos()
    fill(infos, spec, agents)
    return bytes(infos.SerializeToString())


def decode(payload: bytes, spec: BehaviorSpec = SPEC) -> StepBatch:
    return AgentDecoder(spec.name).decode(payload, spec)


def test_no_agents() -> None:
    batch = decode(b"")
    assert len(batch) == len(batch.terminals) == 0
    assert [sensor.shape for sensor in batch.obs] == [(0, 2), (0, 2, 2)]
    assert AgentEncoder(SPEC).encode(batch) == b""


def test_an_agent_may_end_and_go_on_in_one_message() -> None:
    batch = decode(packed(agent(3, done=True, interrupted=True, reward=5.0), agent(3), agent(4, done=True)))
    assert batch.agent_ids.tolist() == [3]
    assert batch.terminals.agent_ids.tolist() == [3, 4]
    assert batch.terminals.truncated.tolist() == [True, False]
    assert batch.terminals.reward.tolist() == [5.0, 0.0]


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


def test_infinities_that_cancel_are_found_without_a_warning() -> None:
    with pytest.raises(DecodeError, match="NaN or infinity in reward of agent 1"):
        decode(packed(agent(1, reward=np.inf), agent(2, reward=-np.inf)))


def test_large_finite_numbers_are_no_infinity() -> None:
    largest = float(np.finfo(np.float32).max)
    batch = decode(packed(*(agent(i, first=largest, reward=largest) for i in range(8))))
    assert batch.reward.tolist() == [largest] * 8


def test_a_change_of_shape_is_refused() -> None:
    other = simple_spec(SPEC.actions, (3,), (2, 2))
    three = Agent(1, (np.zeros(3, np.float32), np.zeros((2, 2), np.float32)))
    with pytest.raises(DecodeError, match=r"shapes \[\(3,\), \(2, 2\)\] after \[\(2,\), \(2, 2\)\]; all agents"):
        decode(packed(agent()) + packed(three, spec=other))


def test_a_missing_sensor_is_refused() -> None:
    with pytest.raises(DecodeError, match="need the same sensors"):
        decode(packed(Agent(1, (np.zeros(2, np.float32),)), spec=simple_spec(SPEC.actions, (2,))))


def test_images_get_a_sentence_with_the_remedy() -> None:
    infos = PACKED.AgentInfos()
    infos.value.add().observations.add(name="Camera", shape=[1, 8, 8], compression_type=1, compressed_data=b"\x89PNG")
    with pytest.raises(DecodeError, match=r"'Camera' sends PNG images.* set the sensor's Compression Type to None"):
        AgentDecoder("B").specs(infos.SerializeToString())


@pytest.mark.parametrize(
    "shape", [[3], [2, 2], [-2, -1], [2**31 - 1, 2**31 - 1], [1] * 40 + [2], [2**31 - 1, 2**31 - 1, 4, 0]]
)
def test_shapes_that_cannot_be(shape: list[int]) -> None:
    infos = PACKED.AgentInfos()
    sensor = infos.value.add().observations.add(name="s", shape=shape)
    sensor.float_data.data.extend([1.0, 2.0] if 0 not in shape else [])
    with pytest.raises(DecodeError, match=r"sensor 's' declares shape \(.*\) but sends \d floats"):
        AgentDecoder("B").specs(infos.SerializeToString())


def test_sensors_are_described_by_the_first_agent() -> None:
    sensors = (
        ObservationSpec("a", (2,), (DimensionProperty.NONE,), ObservationType.GOAL_SIGNAL),
        ObservationSpec("bé", (2, 2), (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)),
    )
    spec = BehaviorSpec("B", sensors, ActionSpec(1))
    assert AgentDecoder("B").specs(packed(agent(1), agent(2, reward=1.0), spec=spec)) == sensors


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


@settings(max_examples=50)
@given(steps(unknown=False))
def test_encoder_and_decoder_agree_after_any_history(step: tuple[BehaviorSpec, list[Agent]]) -> None:
    spec, agents = step
    encoder, decoder = AgentEncoder(spec), AgentDecoder(spec.name)
    for part in (agents, agents[:1], agents[::-1], agents):
        batch = expected(spec, part)
        found = decoder.decode(encoder.encode(batch), spec)
        assert_equal(found, batch)


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

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(before)
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


@given(st.integers(2, 300))
def test_alternating_lengths_keep_their_order(n: int) -> None:
    agents = [agent(i, reward=float(i % 2)) for i in range(n)]
    assert_equal(decode(packed(*agents)), expected(SPEC, agents))


def test_the_list_itself_may_hold_nothing_else() -> None:
    with pytest.raises(DecodeError, match="unknown field at byte 0"):
        decode(varint(2 << 3 | 2) + b"\x00")


def test_arrays_are_the_receivers_own() -> None:
    """Whoever gets a batch may write into it; neither the next batch nor the message knows."""
    decoder, payload = AgentDecoder(SPEC.name), packed(agent(1), agent(2))
    wanted = expected(SPEC, [agent(1), agent(2)])
    for _ in range(3):
        batch = decoder.decode(payload, SPEC)
        assert_equal(batch, wanted)
        for array in (batch.agent_ids, batch.reward, batch.group_id, batch.group_reward, *batch.obs):
            assert array.flags.c_contiguous
            assert array.flags.aligned
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
