"""An environment that can be made by its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tau_trainer.envs.mlagents.base_env import BaseEnv


@dataclass(eq=False)
class BaseRegistryEntry(ABC):
    """A name, the reward at which it counts as solved, a description, and a method to make it."""

    identifier: str
    """Its name in the registry."""
    expected_reward: float | None
    """Cumulative reward of an episode at which it counts as solved."""
    description: str | None
    """The agents' observations, actions and rewards."""

    @abstractmethod
    def make(self, **kwargs: Any) -> BaseEnv:
        """Start it; accepts keywords of UnityEnvironment."""
