"""Side channels: the byte vectors of ML-Agents, readers past the end, and the hub."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.bridge.protocol import TrainingEnvironmentInitialized
from tau_trainer.bridge.side_channels import (
    ENGINE_CONFIGURATION,
    ENVIRONMENT_PARAMETERS,
    FLOAT_PROPERTIES,
    STATS,
    TRAINING_ANALYTICS,
    PayloadReader,
    Sampler,
    SamplerKind,
    SideChannelHub,
    Stat,
    engine_configuration_payloads,
    environment_parameter_payload,
    joined,
    pack_payload,
    parse_environment_parameter,
    parse_stat,
    stat_payload,
    string,
    unpack_payloads,
)
from tau_trainer.errors import DecodeError
from tau_trainer.settings import EngineSettings
from tau_trainer.specs import Aggregation

FLOATS = st.floats(width=32, allow_nan=False)
INTS = st.integers(-(2**31), 2**31 - 1)
ASCII = st.text(st.characters(max_codepoint=127), max_size=20)


@pytest.mark.parametrize(
    ("channel", "on_the_wire"),
    [
        (ENGINE_CONFIGURATION, "2c3451e97e4fea11b238784f4387d1f7"),
        (ENVIRONMENT_PARAMETERS, "1e894c530f81ea11a9d0822485860400"),
        (STATS, "b7f7d8a1c8cef950b78bd3e165a78520"),
        (FLOAT_PROPERTIES, "d0f7cc607e4fea11b238784f4387d1f7"),
        (TRAINING_ANALYTICS, "a9a464b66fd85f5a95cbe8353a7e8356"),
    ],
)
def test_channel_ids_travel_as_guids(channel: uuid.UUID, on_the_wire: str) -> None:
    assert pack_payload(channel, b"").hex() == on_the_wire + "00000000"


def test_engine_configuration_vectors() -> None:
    payloads = engine_configuration_payloads(EngineSettings())
    assert [payload.hex() for payload in payloads] == [
        "000000005400000054000000",
        "0100000005000000",
        "020000000000a041",
        "03000000ffffffff",
        "040000003c000000",
    ]


def test_one_envelope_vector() -> None:
    envelope = bytes.fromhex("2c3451e97e4fea11b238784f4387d1f708000000020000000000a041")
    assert unpack_payloads(envelope) == [(ENGINE_CONFIGURATION, bytes.fromhex("020000000000a041"))]
    assert pack_payload(ENGINE_CONFIGURATION, engine_configuration_payloads(EngineSettings())[2]) == envelope


@pytest.mark.parametrize(
    ("key", "value", "vector"),
    [
        ("gravity", -9.5, "070000006772617669747900000000000018c1"),
        (
            "scale",
            Sampler(SamplerKind.UNIFORM, 7, (0.5, 2.0)),
            "050000007363616c650100000007000000000000000000003f00000040",
        ),
        (
            "m",
            Sampler(SamplerKind.MULTI_RANGE_UNIFORM, 7, (0.0, 1.0, 2.0, 3.0)),
            "010000006d01000000070000000200000004000000000000000000803f0000004000004040",
        ),
    ],
)
def test_environment_parameter_vectors(key: str, value: float | Sampler, vector: str) -> None:
    assert environment_parameter_payload(key, value).hex() == vector
    assert parse_environment_parameter(bytes.fromhex(vector)) == (key, value)


@given(ASCII, st.one_of(FLOATS, st.builds(Sampler, st.just(SamplerKind.GAUSSIAN), INTS, st.tuples(FLOATS, FLOATS))))
def test_environment_parameters_round_trip(key: str, value: float | Sampler) -> None:
    assert parse_environment_parameter(environment_parameter_payload(key, value)) == (key, value)


@given(ASCII, FLOATS, st.sampled_from(Aggregation))
def test_stats_round_trip(key: str, value: float, aggregation: Aggregation) -> None:
    assert parse_stat(stat_payload(key, value, aggregation)) == Stat(key, value, aggregation)


@pytest.mark.parametrize(
    ("parse", "payload", "sentence"),
    [
        (parse_stat, string("k") + struct.pack("<fi", 1.0, 9), "'k' has aggregation 9"),
        (parse_environment_parameter, string("k") + struct.pack("<i", 2), "'k' has unknown kind 2"),
        (parse_environment_parameter, string("k") + struct.pack("<iii", 1, 0, 3), r"\(sampler 3\)"),
    ],
)
def test_payloads_of_an_unknown_kind(parse: Callable[[bytes], object], payload: bytes, sentence: str) -> None:
    with pytest.raises(DecodeError, match=sentence):
        parse(payload)


def test_text_that_is_not_ascii_is_replaced() -> None:
    assert string("für") == struct.pack("<i", 3) + b"f?r"
    assert PayloadReader(struct.pack("<i", 1) + b"\xff").string() == "\ufffd"


def test_past_the_end_readers_give_their_defaults() -> None:
    assert PayloadReader(b"\x01\x02").int32(5) == 5
    assert PayloadReader(b"abc").float32() == 0.0
    assert PayloadReader(struct.pack("<i", 100) + b"short").string() == ""
    assert PayloadReader(struct.pack("<i", -3)).string() == ""
    assert PayloadReader(struct.pack("<i", 2**31 - 1)).float_list() == []
    assert PayloadReader(struct.pack("<i", -1)).float_list() == []


@given(st.lists(st.tuples(st.uuids(), st.binary(max_size=20)), max_size=5))
def test_envelopes_round_trip_and_every_cut_is_noticed(messages: list[tuple[uuid.UUID, bytes]]) -> None:
    data = joined(messages)
    assert unpack_payloads(data) == messages
    ends = {sum(20 + len(payload) for _, payload in messages[:k]) for k in range(len(messages) + 1)}
    for cut in range(len(data)):
        if cut in ends:
            assert len(unpack_payloads(data[:cut])) == sorted(ends).index(cut)
        else:
            with pytest.raises(DecodeError, match=r"end inside|past the end"):
                unpack_payloads(data[:cut])


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(DecodeError, match="-1 bytes"):
        unpack_payloads(STATS.bytes_le + struct.pack("<i", -1))


@given(st.binary(max_size=60))
def test_random_payloads_raise_decode_error_only(data: bytes) -> None:
    for parse in (parse_stat, parse_environment_parameter, unpack_payloads):
        try:
            parse(data)
        except DecodeError:
            continue


def test_what_is_queued_goes_out_once_and_in_order() -> None:
    hub = SideChannelHub()
    hub.introduce(EngineSettings(), None)
    hub.send_environment_parameters({"gravity": -9.5, "size": 2.0})
    sent = unpack_payloads(hub.take())
    assert [channel for channel, _ in sent] == [ENGINE_CONFIGURATION] * 5 + [ENVIRONMENT_PARAMETERS] * 2
    assert [parse_environment_parameter(payload) for _, payload in sent[5:]] == [("gravity", -9.5), ("size", 2.0)]
    assert hub.take() == b""


def test_the_trainer_is_told_of_in_the_references_message() -> None:
    hub = SideChannelHub()
    hub.introduce(
        EngineSettings(),
        TrainingEnvironmentInitialized(
            trainer_version="tau 1",
            envs_version="1.1.0",
            python_version="3.11",
            torch_version="2.13",
            device="cpu",
            num_envs=300,
        ),
    )
    *_, (channel, payload) = unpack_payloads(hub.take())
    assert channel == TRAINING_ANALYTICS
    url = b"type.googleapis.com/communicator_objects.TrainingEnvironmentInitialized"
    body = b"\x0a\x05tau 1\x12\x051.1.0\x1a\x043.11\x22\x042.13\x2a\x03cpu\x30\xac\x02"
    assert payload == b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(body)]) + body


def test_statistics_are_handed_on_and_strangers_passed_over() -> None:
    stats: list[Stat] = []
    data = pack_payload(STATS, stat_payload("k", 2.0)) + pack_payload(uuid.uuid4(), b"?")
    SideChannelHub(stats.append).receive(data)
    assert stats == [Stat("k", 2.0, Aggregation.AVERAGE)]
    SideChannelHub().receive(data)  # and where nobody listens, nothing happens
