from __future__ import annotations

import numpy as np

from tau_trainer.memory import Rollout, RolloutMemory, StepFacts
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


def test_a_paid_stream_reads_what_was_paid() -> None:
    memory = RolloutMemory((), (), rewards={"extrinsic": 2, "other": 1}, capacity=1, horizon=5)
    for reward in (0.0, 7.0):
        paid = {"extrinsic": np.array([[reward, 2 * reward]], np.float32), "other": np.ones((1, 1), np.float32)}
        memory.append(np.array([0]), StepFacts(paid), {}, version=0)
    rollout = Rollout(memory.take().data)
    assert RewardStream("extrinsic", 2, strength=3.0).rewards(rollout).tolist() == [[7.0, 14.0]]
    assert RewardStream("other").rewards(rollout).tolist() == [[1.0]]
