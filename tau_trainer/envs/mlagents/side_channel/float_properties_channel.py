"""Numbers by name that both sides can set."""

from __future__ import annotations

import uuid

from tau_trainer.bridge.side_channels import FLOAT_PROPERTIES
from tau_trainer.envs.mlagents.side_channel.side_channel import IncomingMessage, OutgoingMessage, SideChannel


class FloatPropertiesChannel(SideChannel):
    """Float properties shared with the game."""

    def __init__(self, channel_id: uuid.UUID | None = None) -> None:
        self._properties: dict[str, float] = {}
        super().__init__(channel_id or FLOAT_PROPERTIES)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Store a value that the game has set."""
        key = msg.read_string()
        self._properties[key] = msg.read_float32()

    def set_property(self, key: str, value: float) -> None:
        """Set a property, here and in the game."""
        self._properties[key] = value
        message = OutgoingMessage()
        message.write_string(key)
        message.write_float32(value)
        self.queue_message_to_send(message)

    def get_property(self, key: str) -> float | None:
        """The property's value; None if it was never set."""
        return self._properties.get(key)

    def list_properties(self) -> list[str]:
        """All names."""
        return list(self._properties)

    def get_property_dict_copy(self) -> dict[str, float]:
        """A copy of all properties."""
        return dict(self._properties)
