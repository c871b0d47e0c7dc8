"""A channel for raw bytes."""

from __future__ import annotations

import uuid

from tau_trainer.envs.mlagents.side_channel.side_channel import IncomingMessage, OutgoingMessage, SideChannel


class RawBytesChannel(SideChannel):
    """Sends bytes, and stores received bytes until you fetch them."""

    def __init__(self, channel_id: uuid.UUID) -> None:
        self._received: list[bytearray] = []
        super().__init__(channel_id)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Store the message."""
        self._received.append(msg.get_raw_bytes())

    def get_and_clear_received_messages(self) -> list[bytearray]:
        """All messages since the last call."""
        received, self._received = self._received, []
        return received

    def send_raw_data(self, data: bytes | bytearray) -> None:
        """Send bytes with the next step or reset."""
        message = OutgoingMessage()
        message.set_raw_bytes(data)
        self.queue_message_to_send(message)
