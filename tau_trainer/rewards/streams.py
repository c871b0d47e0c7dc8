"""Reward streams, which value functions predict: each with its own discount and strength."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tau_trainer.columns import EXTRINSIC

if TYPE_CHECKING:
    from tau_trainer.settings import RewardSignalSettings


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
    """Whether its returns stop at an episode's real end; otherwise they are bootstrapped there, as at a limit."""


def paid_streams(signals: Mapping[str, RewardSignalSettings], width: int) -> tuple[RewardStream, ...]:
    """The streams of ``reward_signals``; ``width`` numbers in one extrinsic reward."""
    return tuple(
        RewardStream(name, width if name == EXTRINSIC else 1, signal.gamma, signal.strength, not signal.novelty)
        for name, signal in signals.items()
    )
