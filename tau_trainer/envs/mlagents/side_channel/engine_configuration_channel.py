"""Engine settings: resolution, quality, speed."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from tau_trainer.bridge.side_channels import ENGINE_CONFIGURATION
from tau_trainer.envs.mlagents.exception import UnitySideChannelException
from tau_trainer.envs.mlagents.side_channel.side_channel import SendingChannel


class EngineConfig(NamedTuple):
    """All settings; None: keep the game's value."""

    width: int | None
    height: int | None
    quality_level: int | None
    time_scale: float | None
    target_frame_rate: int | None
    capture_frame_rate: int | None

    @staticmethod
    def default_config() -> EngineConfig:
        """Small, fast, and 60 frames a second of game time."""
        return EngineConfig(80, 80, 1, 20.0, -1, 60)


class EngineConfigurationChannel(SendingChannel):
    """Sends engine settings. The game keeps its values for settings that are never sent."""

    class ConfigurationType(IntEnum):
        """The number before each setting in a message."""

        SCREEN_RESOLUTION = 0
        QUALITY_LEVEL = 1
        TIME_SCALE = 2
        TARGET_FRAME_RATE = 3
        CAPTURE_FRAME_RATE = 4

    def __init__(self) -> None:
        super().__init__(ENGINE_CONFIGURATION)

    def set_configuration_parameters(
        self,
        width: int | None = None,
        height: int | None = None,
        quality_level: int | None = None,
        time_scale: float | None = None,
        target_frame_rate: int | None = None,
        capture_frame_rate: int | None = None,
    ) -> None:
        """Send the given settings. Raises UnitySideChannelException for a width without a height."""
        kinds = self.ConfigurationType
        if (width is None) != (height is None):
            raise UnitySideChannelException("the screen's width and height can only be set together; give both")
        if width is not None:
            self._send(struct.pack("<iii", kinds.SCREEN_RESOLUTION, width, height))
        for form, kind, value in (
            ("<ii", kinds.QUALITY_LEVEL, quality_level),
            ("<if", kinds.TIME_SCALE, time_scale),
            ("<ii", kinds.TARGET_FRAME_RATE, target_frame_rate),
            ("<ii", kinds.CAPTURE_FRAME_RATE, capture_frame_rate),
        ):
            if value is not None:
                self._send(struct.pack(form, kind, value))

    def set_configuration(self, config: EngineConfig) -> None:
        """Send all settings."""
        self.set_configuration_parameters(**config._asdict())
