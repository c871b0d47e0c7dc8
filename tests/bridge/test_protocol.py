"""The message classes that are built at import."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pool

from tau_trainer.bridge.protocol import (
    COMMUNICATION_VERSION,
    METHOD,
    UNITY_WIRE,
    UNREAL_METHOD,
    UNREAL_WIRE,
    Command,
    UnityMessage,
    Wire,
)
from tests.bridge.oracle import PACKED, UNREAL, Messages


def test_names_and_numbers_of_the_api() -> None:
    assert COMMUNICATION_VERSION == "1.5.0"
    assert METHOD == "/communicator_objects.UnityToExternalProto/Exchange"
    assert UNREAL_METHOD == "/communicator_objects.UnrealToExternalProto/Exchange"
    assert [int(command) for command in (Command.STEP, Command.RESET, Command.QUIT)] == [0, 1, 2]


def test_the_messages_stay_out_of_the_pool_that_others_use() -> None:
    """mlagents-envs registers its own there; a name twice in one pool is an error."""
    full_name = UnityMessage.DESCRIPTOR.full_name
    assert full_name == "tau_trainer.wire.Message"
    try:
        descriptor_pool.Default().FindMessageTypeByName(full_name)
    except KeyError:
        return
    raise AssertionError("registered in the default pool")


@pytest.mark.parametrize(("wire", "messages"), [(UNITY_WIRE, PACKED), (UNREAL_WIRE, UNREAL)], ids=["unity", "unreal"])
def test_every_field_that_we_name_has_the_protocols_number_and_type(wire: Wire, messages: Messages) -> None:
    """Lists of agents and actions apart, which are bytes to us, every message is the reference's, field by field."""
    pairs = [(wire.message.DESCRIPTOR, messages.UnityMessage.DESCRIPTOR)]
    seen = 0
    while pairs:
        ours, theirs = pairs.pop()
        for field in ours.fields:
            other = theirs.fields_by_number[field.number]
            seen += 1
            assert field.is_repeated == other.is_repeated, field.full_name
            if field.type == field.TYPE_BYTES and other.type == field.TYPE_MESSAGE:
                assert other.message_type.name in ("AgentInfos", "AgentActions")
            else:
                assert field.type == other.type, field.full_name
                if field.type == field.TYPE_MESSAGE:
                    pairs.append((field.message_type, other.message_type))
    assert seen > 30
