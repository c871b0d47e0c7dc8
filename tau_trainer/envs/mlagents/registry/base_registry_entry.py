"""An environment that can be made by its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tau_trainer.envs.mlagents.base_env import BaseEnv


class BaseRegistryEntry(ABC):
    """A name, the reward at which it counts as solved, a description, and a method to make it."""

    def __init__(self, identifier: str, expected_reward: float | None, description: str | None) -> None:
        self._identifier = identifier
        self._expected_reward = expected_reward
        self._description = description

    @property
    def identifier(self) -> str:
        """Its name in the registry."""
        return self._identifier

    @property
    def expected_reward(self) -> float | None:
        """Cumulative reward of an episode at which it counts as solved."""
        return self._expected_reward

    @property
    def description(self) -> str | None:
        """The agents' observations, actions and rewards."""
        return self._description

    @abstractmethod
    def make(self, **kwargs: Any) -> BaseEnv:
        """Start it; accepts keywords of UnityEnvironment."""
