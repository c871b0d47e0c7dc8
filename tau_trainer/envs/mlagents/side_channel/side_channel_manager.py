"""All side channels of one environment."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import Any, cast

from tau_trainer.bridge.side_channels import pack_payload, unpack_payloads
from tau_trainer.envs.mlagents.exception import UnityEnvironmentException
from tau_trainer.envs.mlagents.side_channel.side_channel import IncomingMessage, SideChannel
from tau_trainer.errors import DecodeError

_log = logging.getLogger(__name__)


class SideChannelManager:
    """Collects the channels' outgoing messages and distributes incoming ones."""

    def __init__(self, side_channels: Sequence[SideChannel] | None = None) -> None:
        """Raises UnityEnvironmentException if two channels have the same ID."""
        self._side_channels_dict: dict[uuid.UUID, SideChannel] = {}
        self._unknown: set[uuid.UUID] = set()
        for channel in side_channels or ():
            if channel.channel_id in self._side_channels_dict:
                raise UnityEnvironmentException(
                    f"two side channels have the id {channel.channel_id}; give each a different id"
                )
            self._side_channels_dict[channel.channel_id] = channel

    def process_side_channel_message(self, data: bytes) -> None:
        """Distribute the messages of one exchange. Raises UnityEnvironmentException for invalid bytes."""
        try:
            messages = unpack_payloads(data)
        except DecodeError as error:
            raise UnityEnvironmentException(f"{error}; find the game's side channel that writes them") from error
        for channel_id, payload in messages:
            if channel_id in self._side_channels_dict:
                self._side_channels_dict[channel_id].on_message_received(IncomingMessage(payload))
            elif channel_id not in self._unknown:
                self._unknown.add(channel_id)
                _log.warning("the game sends on side channel %s, for which this environment was given none", channel_id)

    def generate_side_channel_messages(self) -> bytearray:
        """Everything queued; the queues are empty afterwards."""
        data = bytearray()
        for channel_id, channel in self._side_channels_dict.items():
            for message in channel.message_queue:
                data += pack_payload(channel_id, bytes(message))
            channel.message_queue = []
        return data


def channels_of(env: object) -> dict[Any, Any]:
    """The side channels of an environment by ID; for our and mlagents-envs' environments."""
    manager = getattr(env, "_side_channel_manager", None)
    return cast("dict[Any, Any]", getattr(manager, "_side_channels_dict", {}))
