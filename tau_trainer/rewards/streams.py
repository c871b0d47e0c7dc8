"""Reward streams: what a value function predicts, each with a discount and a strength of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tau_trainer.specs import FloatArray

if TYPE_CHECKING:
    from tau_trainer.memory import Rollout
    from tau_trainer.settings import RewardSignalSettings

EXTRINSIC = "extrinsic"
"""The stream that the engine or the AgentTrainer pays."""


@dataclass(frozen=True, slots=True)
class RewardStream:
    """One reward with its own value head. This one is paid while agents act; others may come from a model."""

    name: str
    width: int = 1
    """``R``, numbers in one reward: 1, or one for each action component (credit by component)."""
    gamma: float = 0.99
    """Discount."""
    strength: float = 1.0
    """Factor on the reward."""
    episodic: bool = True
    """Whether an episode's real end is the end of its returns; else it is bootstrapped as a limit's is."""

    def rewards(self, rollout: Rollout) -> FloatArray:
        """float32 [N, R], before ``strength``: what was paid for each transition, its group's share included."""
        paid, group_reward = rollout.rewards[self.name], rollout.group_reward
        return paid if self.name != EXTRINSIC or group_reward is None else paid + group_reward[:, None]


def paid_streams(signals: Mapping[str, RewardSignalSettings], width: int) -> tuple[RewardStream, ...]:
    """The streams that ``reward_signals`` ask for; ``width`` numbers in one extrinsic reward."""
    return tuple(
        RewardStream(name, width if name == EXTRINSIC else 1, signal.gamma, signal.strength, not signal.novelty)
        for name, signal in signals.items()
    )
