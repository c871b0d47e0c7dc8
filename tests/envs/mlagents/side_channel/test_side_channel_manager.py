"""Side channels between a game and its environment."""

from __future__ import annotations

import logging
import uuid

import pytest

from tau_trainer.bridge.side_channels import ENVIRONMENT_PARAMETERS, pack_payload, stat_payload, unpack_payloads
from tau_trainer.envs.mlagents import (
    IncomingMessage,
    RawBytesChannel,
    StatsSideChannel,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
)
from tests.envs.mlagents.engines import GOODBYE, SPEC, Talk, batch, message
from tests.envs.mlagents.games import HELLO

ID = uuid.UUID(int=99)


def test_side_channels_go_both_ways_and_come_after_the_step() -> None:
    seen: list[int] = []

    class Own(RawBytesChannel):
        def on_message_received(self, msg: IncomingMessage) -> None:
            super().on_message_received(msg)
            seen.append(len(env.get_steps(SPEC.name)[0]))
            if msg.buffer == b"bad":
                raise ZeroDivisionError

    own, stats = Own(ID), StatsSideChannel()
    said = pack_payload(ID, b"one") + pack_payload(stats.channel_id, stat_payload("Speed", 2.0))
    talk = Talk(
        HELLO,
        message(batch(SPEC, 4), side_channel=said + pack_payload(ID, b"two")),
        message(batch(SPEC, 4, 7), side_channel=pack_payload(ID, b"bad")),
        GOODBYE,
    )
    env = talk.environment(side_channels=[own, stats])
    own.send_raw_data(b"first")
    env.reset()
    own.send_raw_data(b"second")
    env.step()
    assert own.get_and_clear_received_messages() == [b"one", b"two"]
    assert stats.get_and_reset_stats() == {"Speed": [(2.0, 0)]}
    with pytest.raises(ZeroDivisionError):
        env.step()
    assert seen == [1, 1, 2]
    assert len(env.get_steps(SPEC.name)[0]) == 2
    with pytest.raises(UnityCommunicatorStoppedException):
        env.step()
    env.close()
    sent = [dict(unpack_payloads(said.side_channel)) for said in talk.heard]
    assert [ID in one for one in sent[:5]] == [False, True, True, False, False]
    assert sent[1][ID] == b"first"
    assert len(sent[1]) == 2, "and who plays with it, once"
    assert all(ENVIRONMENT_PARAMETERS not in one for one in sent)


def test_messages_for_nobody_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    stray = message(batch(SPEC, 4), side_channel=pack_payload(ID, b"x") * 2, specs=[SPEC])
    talk = Talk(stray, stray, message(batch(SPEC, 4), side_channel=b"short"), GOODBYE)
    env = talk.environment()
    with caplog.at_level(logging.WARNING):
        env.reset()
        env.step()
    assert caplog.text.count(str(ID)) == 1
    with pytest.raises(UnityEnvironmentException, match="find the game's side channel"):
        env.step()
    with pytest.raises(UnityCommunicatorStoppedException):
        env.step()
    env.close()
