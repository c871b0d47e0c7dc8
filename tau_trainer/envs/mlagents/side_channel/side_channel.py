"""Base classes of side channels."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod

from tau_trainer.envs.mlagents.exception import UnityCommunicationException
from tau_trainer.envs.mlagents.side_channel.incoming_message import IncomingMessage
from tau_trainer.envs.mlagents.side_channel.outgoing_message import OutgoingMessage

__all__ = ["IncomingMessage", "OutgoingMessage", "SideChannel"]


class SideChannel(ABC):
    """Messages between Python and the game. To add a channel, derive a class with a new ID."""

    def __init__(self, channel_id: uuid.UUID) -> None:
        """``channel_id``: the same as on the game's side."""
        self._channel_id = channel_id
        self.message_queue: list[bytearray] = []

    def queue_message_to_send(self, msg: OutgoingMessage) -> None:
        """Send a message with the next step or reset."""
        self.message_queue.append(msg.buffer)

    @abstractmethod
    def on_message_received(self, msg: IncomingMessage) -> None:
        """Called for every message, after the step that it came with."""

    @property
    def channel_id(self) -> uuid.UUID:
        """The ID, equal on both sides."""
        return self._channel_id


class SendingChannel(SideChannel):
    """A channel on which games never send."""

    def _send(self, payload: bytes) -> None:
        message = OutgoingMessage()
        message.set_raw_bytes(payload)
        self.queue_message_to_send(message)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Raises UnityCommunicationException: games do not send on this channel."""
        raise UnityCommunicationException(
            f"the game sent a message to the {type(self).__name__}, which only sends; is its id used twice?"
        )
