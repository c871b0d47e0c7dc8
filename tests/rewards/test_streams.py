from __future__ import annotations

from tau_trainer.rewards import RewardStream
from tau_trainer.rewards.streams import paid_streams
from tau_trainer.settings import RewardSignalSettings
from tau_trainer.settings.signals import CuriositySettings


def test_credit_by_component_widens_the_extrinsic_stream_alone() -> None:
    signals = {"extrinsic": RewardSignalSettings(gamma=0.9), "curiosity": CuriositySettings(gamma=0.5, strength=0.1)}
    assert paid_streams(signals, 3) == (
        RewardStream("extrinsic", 3, 0.9, 1.0),
        RewardStream("curiosity", 1, 0.5, 0.1, episodic=False),
    )
