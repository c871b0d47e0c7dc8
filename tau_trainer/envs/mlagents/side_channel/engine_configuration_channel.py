"""Engine settings: resolution, quality, speed."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from tau_trainer.bridge.side_channels import ENGINE_CONFIGURATION, engine_configuration_payloads
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
        self.set_configuration(
            EngineConfig(width, height, quality_level, time_scale, target_frame_rate, capture_frame_rate)
        )

    def set_configuration(self, config: EngineConfig) -> None:
        """Send all settings that are not None. Raises UnitySideChannelException for a width without a height."""
        if (config.width is None) != (config.height is None):
            raise UnitySideChannelException("the screen's width and height can only be set together; give both")
        for payload in engine_configuration_payloads(config):
            self._send(payload)
