"""Side channels: messages between Python and the game in addition to observations and actions."""

from tau_trainer.envs.mlagents.side_channel.default_training_analytics_side_channel import (
    DefaultTrainingAnalyticsSideChannel,
)
from tau_trainer.envs.mlagents.side_channel.side_channel import IncomingMessage, OutgoingMessage, SideChannel

__all__ = ["DefaultTrainingAnalyticsSideChannel", "IncomingMessage", "OutgoingMessage", "SideChannel"]
