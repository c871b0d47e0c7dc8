"""Data about the trainer for Unity's analytics (the game sends them only if the user allowed it)."""

from __future__ import annotations

import platform

from tau_trainer.bridge.protocol import PACKAGE_VERSION, TrainingEnvironmentInitialized
from tau_trainer.bridge.side_channels import TRAINING_ANALYTICS, training_environment_payload
from tau_trainer.envs.mlagents.side_channel.side_channel import SendingChannel


class DefaultTrainingAnalyticsSideChannel(SendingChannel):
    """Reports that a script controls the game, and its Python version."""

    CHANNEL_ID = TRAINING_ANALYTICS

    def __init__(self) -> None:
        super().__init__(self.CHANNEL_ID)

    def environment_initialized(self) -> None:
        """Send the report with the next reset."""
        message = TrainingEnvironmentInitialized(
            python_version=platform.python_version(),
            trainer_version="Custom",
            envs_version=PACKAGE_VERSION,
            torch_version="Unknown",
            device="Unknown",
        )
        self._send(training_environment_payload(message))
