"""Whole messages: the byte vectors of ML-Agents, and round trips against an independent reader and writer."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.bridge.codec import (
    Capabilities,
    EngineInitialization,
    TrainerCodec,
    TrainerInitialization,
    encode_close,
    encode_initialization,
    encode_reply,
    parse_engine_message,
)
from tau_trainer.bridge.engine_codec import decode_trainer_message, encode_engine_message
from tau_trainer.bridge.package import order_of
from tau_trainer.bridge.protocol import Command
from tau_trainer.errors import DecodeError
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    StepBatch,
)
from tests.bridge.oracle import (
    PACKED,
    UNPACKED,
    Agent,
    Messages,
    action_message,
    assert_equal,
    engine_message,
    expected,
    read_images,
    simple_spec,
)
from tests.bridge.strategies import steps

NAME = "B?team=0"
HEADER = bytes.fromhex("0a0308c801")
GOODBYE = bytes.fromhex("0a03089003")
ENGINE_INIT = bytes.fromhex(
    "0a0308c801123212300a1041636164656d7953696e676c65746f6e1205312e352e303a05332e302e30420e0801100118012001280130013801"
)
TRAINER_INIT = bytes.fromhex("0a0308c8011a241222082a1205312e352e301a05312e312e30220e08011001180120012801300138012801")
RESET = bytes.fromhex("0a0308c8011a040a022001")
ONE_ACTION = bytes.fromhex("0a0308c8011a1f0a1d0a1b0a08423f7465616d3d30120f0a0d32080000003f000080bf3a0102")
ONE_STEP = bytes.fromhex(
    "0a0308c80112550a3f123d0a08423f7465616d3d3012310a2f3d0000803f50076a260a0102220a0a080000803e000000bf"
    "3201014212566563746f7253656e736f725f73697a653212122a103a08423f7465616d3d3040014a020802"
)


def decode(data: bytes, codec: TrainerCodec | None = None) -> list[StepBatch]:
    return (codec or TrainerCodec()).steps(parse_engine_message(data))


def test_messages_without_agents() -> None:
    assert encode_engine_message() == HEADER
    assert (parse_engine_message(HEADER).status, parse_engine_message(HEADER).initialization) == (200, None)
    reply = decode_trainer_message(HEADER, {})
    assert (reply.status, reply.has_input) == (200, False)
    assert encode_close() == GOODBYE
    assert parse_engine_message(GOODBYE).status == decode_trainer_message(GOODBYE, {}).status == 400
    met = EngineInitialization("AcademySingleton", "1.5.0", "3.0.0", Capabilities())
    assert encode_engine_message(initialization=EngineInitialization()) == ENGINE_INIT
    assert parse_engine_message(ENGINE_INIT).initialization == met
    assert encode_initialization(TrainerInitialization(42)) == TRAINER_INIT
    told = TrainerInitialization(42, "1.5.0", "1.1.0", Capabilities(), 1)
    assert decode_trainer_message(TRAINER_INIT, {}).initialization == told
    assert encode_reply(Command.RESET) == RESET
    reply = decode_trainer_message(RESET, {})
    assert (reply.has_input, reply.command, reply.side_channel) == (True, Command.RESET, b"")


def test_one_action() -> None:
    codec, spec = TrainerCodec(), simple_spec(ActionSpec(2, (3,)))
    decode(engine_message([(spec, [Agent(0, ())])]), codec)
    action = Actions(np.array([[0.5, -1.0]], np.float32), np.array([[2]], np.int32))
    assert codec.reply(Command.STEP, {NAME: action}) == ONE_ACTION
    found = decode_trainer_message(ONE_ACTION, {NAME: spec}).actions[NAME]
    assert found.continuous.tolist() == [[0.5, -1.0]]
    assert found.discrete.tolist() == [[2]]


def test_one_step() -> None:
    sensor = ObservationSpec("VectorSensor_size2", (2,), (DimensionProperty.NONE,))
    spec = BehaviorSpec(NAME, (sensor,), ActionSpec(2))
    codec = TrainerCodec()
    agent = Agent(7, (np.array([0.25, -0.5], np.float32),), reward=1.0)
    (batch,) = decode(ONE_STEP, codec)
    assert_equal(batch, expected(spec, [agent]))
    assert codec.specs == {NAME: spec}
    # Ours sends zeros and lengths that the reference leaves out, so what we write is compared by its meaning.
    ours = encode_engine_message(specs=[spec], steps=[batch], observation_specs={NAME: spec})
    assert_equal(decode(ours)[0], batch)
    assert engine_message([(spec, [agent])]) == ONE_STEP


@given(data=st.data())
@pytest.mark.parametrize("messages", [PACKED, UNPACKED], ids=["packed", "unpacked"])
def test_what_any_engine_sends_is_read(data: st.DataObject, messages: Messages) -> None:
    """Mixed layouts (zeros are not on the wire), unknown fields, an id twice, several behaviors, several messages."""
    codec = TrainerCodec()
    names = data.draw(st.lists(st.sampled_from(["B?team=0", "A?team=1", "Zß"]), min_size=1, unique=True))
    wanted = [data.draw(steps(name)) for name in names]
    for _ in range(2):  # once with new layouts, once with known ones
        batches = decode(engine_message(wanted, messages), codec)
        present = sorted((pair for pair in wanted if pair[1]), key=lambda pair: pair[0].name)
        assert [batch.behavior for batch in batches] == [spec.name for spec, _ in present]
        for batch, (spec, agents) in zip(batches, present, strict=True):
            assert codec.specs[spec.name] == spec
            assert_equal(batch, expected(spec, agents))


@given(steps(unknown=False))
def test_what_we_write_any_trainer_reads(step: tuple[BehaviorSpec, list[Agent]]) -> None:
    """The engine's side of the codec against the independent reader, and against our own."""
    spec, agents = step
    batch = expected(spec, agents)
    data = encode_engine_message(specs=[spec], steps=[batch], observation_specs={spec.name: spec}, side_channel=b"xy")
    message = PACKED.UnityMessage.FromString(data)
    output = message.unity_output.rl_output
    assert output.side_channel == b"xy"
    infos = output.agent_infos[spec.name].value
    in_order = [a for a in agents if a.done] + [a for a in agents if not a.done]
    assert [info.id for info in infos] == [a.id for a in in_order]
    assert [(info.done, info.max_step_reached) for info in infos] == [(a.done, a.interrupted) for a in in_order]
    assert [info.reward for info in infos] == [a.reward for a in in_order]
    for info, agent in zip(infos, in_order, strict=True):
        assert [tuple(o.shape) for o in info.observations] == [s.shape for s in spec.observations]
        for sensor, sent, values in zip(spec.observations, info.observations, agent.obs, strict=True):
            if sensor.dtype == np.uint8:
                mapping = list(sent.compressed_channel_mapping)
                assert read_images(sent.compressed_data, sensor.shape[0], mapping).tolist() == values.tolist()
            assert sent.compression_type == (sensor.dtype == np.uint8)
            written = values.transpose(1, 2, 0) if values.ndim == 3 else values  # as package 3.0.0 does
            assert list(sent.float_data.data) == ([] if sensor.dtype == np.uint8 else written.ravel().tolist())
    if agents:
        codec = TrainerCodec()
        codec.images = order_of("3.0.0", "auto", ())
        assert_equal(decode(data, codec)[0], batch)
    brain = message.unity_output.rl_initialization_output.brain_parameters[0]
    assert brain.brain_name == spec.name
    assert brain.is_training
    assert tuple(brain.action_spec.discrete_branch_sizes) == spec.actions.discrete_branches


@given(
    actions=st.lists(
        st.tuples(
            st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2),
            st.lists(st.integers(0, 299), min_size=2, max_size=2),
        ),
        max_size=5,
    )
)
@pytest.mark.parametrize("messages", [PACKED, UNPACKED], ids=["packed", "unpacked"])
def test_actions_travel_both_ways(messages: Messages, actions: list[tuple[list[float], list[int]]]) -> None:
    spec = simple_spec(ActionSpec(2, (300, 300)))
    continuous = np.array([c for c, _ in actions], np.float32).reshape(-1, 2)
    discrete = np.array([d for _, d in actions], np.int32).reshape(-1, 2)
    theirs = decode_trainer_message(action_message(NAME, actions, messages), {NAME: spec})
    if actions:
        np.testing.assert_array_equal(theirs.actions[NAME].continuous, continuous)
        np.testing.assert_array_equal(theirs.actions[NAME].discrete, discrete)
    codec = TrainerCodec()
    decode(engine_message([(spec, [Agent(0, ())])]), codec)
    reply = PACKED.UnityMessage.FromString(codec.reply(Command.STEP, {NAME: Actions(continuous, discrete)}, b"side"))
    sent = reply.unity_input.rl_input.agent_actions[NAME].value
    assert [list(action.continuous_actions) for action in sent] == continuous.tolist()
    assert [list(action.discrete_actions) for action in sent] == discrete.tolist()
    assert not any(action.vector_actions_deprecated for action in sent)
    assert reply.unity_input.rl_input.side_channel == b"side"


def test_engines_without_hybrid_actions_get_the_deprecated_copy() -> None:
    codec, spec = TrainerCodec(), simple_spec(ActionSpec(1, (4,)))
    codec.legacy_actions = True
    decode(engine_message([(spec, [Agent(0, ())])]), codec)
    action = Actions(np.array([[0.5]], np.float32), np.array([[3]], np.int32))
    reply = PACKED.UnityMessage.FromString(codec.reply(Command.STEP, {NAME: action}))
    (sent,) = reply.unity_input.rl_input.agent_actions[NAME].value
    assert list(sent.vector_actions_deprecated) == [0.5, 3.0]
    assert list(sent.continuous_actions) == [0.5]
    assert list(sent.discrete_actions) == [3]


@pytest.mark.parametrize(
    ("kind", "sizes", "actions"),
    [(1, [3], ActionSpec(3)), (0, [3, 2], ActionSpec(0, (3, 2))), (1, [], ActionSpec()), (0, [], ActionSpec())],
)
def test_packages_before_api_1_3_describe_actions_in_deprecated_fields(
    kind: int, sizes: list[int], actions: ActionSpec
) -> None:
    message = PACKED.UnityMessage()
    message.unity_output.rl_initialization_output.brain_parameters.add(
        brain_name=NAME, vector_action_size_deprecated=sizes, vector_action_space_type_deprecated=kind
    )
    assert parse_engine_message(message.SerializeToString()).action_specs == {NAME: actions}


@pytest.mark.parametrize("actions", [ActionSpec(-1), ActionSpec(1, (0,)), ActionSpec(0, (3, -2))])
def test_impossible_actions_are_refused(actions: ActionSpec) -> None:
    with pytest.raises(DecodeError, match=r"behavior 'B\?team=0' describes .* sizes start at 1"):
        parse_engine_message(engine_message([(simple_spec(actions), [])]))


def test_a_behavior_may_appear_later_and_lists_may_be_empty() -> None:
    codec, spec = TrainerCodec(), simple_spec(ActionSpec(2), (1,))
    one = Agent(3, (np.ones(1, np.float32),))
    assert decode(engine_message([(spec, [])]), codec) == []
    assert codec.specs == {}
    unannounced = PACKED.UnityMessage.FromString(engine_message([(spec, [one])]))
    unannounced.unity_output.ClearField("rl_initialization_output")
    with pytest.raises(DecodeError, match=r"'B\?team=0' without ever describing its actions"):
        decode(unannounced.SerializeToString())
    (batch,) = decode(unannounced.SerializeToString(), codec)
    assert batch.agent_ids.tolist() == [3]
    assert decode(engine_message([(spec, [])]), codec) == []


@st.composite
def damaged_bytes(draw: st.DrawFn, sound: bytes) -> bytes:
    """Cut off, changed in places, or invented."""
    kind = draw(st.sampled_from(["cut", "changed", "random"]))
    if kind == "cut":
        return sound[: draw(st.integers(0, len(sound)))]
    if kind == "random":
        return draw(st.binary(max_size=200))
    changed = bytearray(sound)
    for _ in range(draw(st.integers(1, 4))):
        changed[draw(st.integers(0, len(sound) - 1))] = draw(st.integers(0, 255))
    return bytes(changed)


@given(st.data(), st.sampled_from([PACKED, UNPACKED]))
def test_damaged_messages_raise_decode_error_only(data: st.DataObject, messages: Messages) -> None:
    with contextlib.suppress(DecodeError):
        for batch in decode(data.draw(damaged_bytes(engine_message([data.draw(steps(most=3))], messages)))):
            assert len(batch.reward) == len(batch.agent_ids)
            assert all(np.isfinite(sensor).all() for sensor in batch.obs)
    sent = data.draw(damaged_bytes(action_message(NAME, [([0.5, -1.0], [2, 150])] * 2, messages)))
    with contextlib.suppress(DecodeError):
        for actions in decode_trainer_message(sent, {NAME: simple_spec(ActionSpec(2, (3, 200)))}).actions.values():
            assert actions.continuous.shape == actions.discrete.shape == (len(actions), 2)
