"""The contract of a learner of one policy of a batched environment.

Shapes: ``T`` steps of ``E`` copies, in which the policy has ``A`` agents. Nothing here reads a number from a device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from gymnasium import spaces

from tau_trainer import plugins
from tau_trainer.algorithms.base import State
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.columns import Arrays
from tau_trainer.models import Policy
from tau_trainer.settings.batched import PolicySettings
from tau_trainer.specs import BehaviorSpec


@dataclass(frozen=True, slots=True)
class Acted:
    """The decisions of a policy in one step."""

    actions: torch.Tensor
    """In the environment's form: int64 [E, A], int64 [E, A, b] or float32 [E, A, c]."""
    kept: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Values that its learner needs later, [E, A, ...] by name: log-probabilities, values, raw samples."""


@dataclass(frozen=True, slots=True)
class TensorRollout:
    """``T`` steps as they were made; row ``t`` of one tensor belongs to row ``t`` of every other."""

    observations: torch.Tensor
    """[T, E, A, *obs]: the observations of the decisions."""
    actions: torch.Tensor
    """[T, E, A, ...]: see :attr:`Acted.actions`."""
    mask: torch.Tensor | None
    """bool [T, E, A, k]: the allowed values; None: all."""
    rewards: torch.Tensor
    """float32 [T, E, A]."""
    terminated: torch.Tensor
    """bool [T, E, A]."""
    truncated: torch.Tensor
    """bool [T, E, A]."""
    present: torch.Tensor
    """bool [T, E, A]: whether the agent was there; rows of agents that had left are not learned from."""
    final: torch.Tensor | None
    """[T, E, A, *obs]: final observations of ended episodes.

    None: no episode is truncated, and no learner needs them.
    """
    after: torch.Tensor
    """[E, A, *obs]: the observations after the last step."""
    after_mask: torch.Tensor | None
    """bool [E, A, k]: the allowed values after the last step."""
    kept: Mapping[str, torch.Tensor]
    """[T, E, A, ...]: see :attr:`Acted.kept`."""

    def part(self, copies: slice) -> TensorRollout:
        """The steps of some copies, as views."""
        found: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, values in found.items():
            if isinstance(values, torch.Tensor):
                # Values after the last step have no time dimension.
                found[name] = values[copies] if name in ("after", "after_mask") else values[:, copies]
        return TensorRollout(**found | {"kept": {name: values[:, copies] for name, values in self.kept.items()}})

    @property
    def decisions(self) -> int:
        """``T * E * A``, including those of agents that had left."""
        return self.rewards.numel()


@dataclass(frozen=True, slots=True)
class LearnerSetup:
    """The facts that a learner is made from."""

    spec: BehaviorSpec
    """The policy's name, its one sensor (an observation as a vector), and its actions."""
    action_space: spaces.Discrete | spaces.MultiDiscrete | spaces.Box
    """The action space of one agent."""
    settings: PolicySettings
    num_envs: int
    """``E``, over all ranks."""
    agents: int
    """``A``: number of the policy's agents in each copy."""
    max_steps: int
    """Steps of the run, for schedules."""
    seed: int
    """Seed of weights, samples, and the order of learning."""
    device: torch.device
    ranks: Ranks = field(default_factory=Ranks)
    """The processes that learn together."""


class BatchedLearner(ABC):
    """Acts and learns for one policy. Made from a :class:`LearnerSetup`; raises SettingsError for unsupported settings.

    Attributes:
        horizon: steps of every copy between two updates.
        sees_ends: whether it also needs the final observations of real ends.
    """

    horizon: int
    sees_ends: bool = False

    @abstractmethod
    def act(
        self,
        observations: torch.Tensor,
        mask: torch.Tensor | None,
        present: torch.Tensor | None = None,
        *,
        deterministic: bool = False,
    ) -> Acted:
        """One decision for every agent of every copy.

        Args:
            observations: [E, A, *obs].
            mask: bool [E, A, k], the allowed values; None: all.
            present: bool [E, A], whether agents are there; decisions of others do not matter. None: all are.
            deterministic: the most likely action instead of a random one.
        """

    @abstractmethod
    def learn(self, rollout: TensorRollout, progress: float) -> Mapping[str, torch.Tensor]:
        """Learn from the newest :attr:`horizon` steps.

        Args:
            rollout: may be overwritten after this returns.
            progress: finished share of the run's steps, 0 to 1, for schedules.

        Returns:
            Statistics by TensorBoard name, tensors [] on the device: the caller decides when to wait for the numbers.
        """

    @abstractmethod
    def state(self) -> State:
        """The full state for an exact resume."""

    @abstractmethod
    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        """Restore :meth:`state`; nothing is changed unless everything fits. Raises CheckpointError.

        ``fresh``: restore only what was learned, as :meth:`.Algorithm.load` does.
        """

    def lost(self, facts: Mapping[str, Any]) -> str:
        """A sentence on data that learning needs but a checkpoint with these facts does not have.

        Empty if there is none.
        """
        return ""

    @property
    def module(self) -> torch.nn.Module | None:
        """The module that it trains, for inspection; None: there is none."""
        return None

    def compile(self, observations: torch.Tensor, mask: torch.Tensor | None) -> None:  # noqa: B027 perhaps nothing
        """Compile :meth:`act` (not the deterministic one) now, for inputs like these; nothing else changes."""

    def policy(self, version: int) -> Policy | None:
        """The current policy, for export; None: it cannot be exported."""
        return None


_LEARNERS = {
    "a2c": "tau_trainer.algorithms.batched.on_policy:A2CLearner",
    "ppo": "tau_trainer.algorithms.batched.on_policy:PPOLearner",
    "dqn": "tau_trainer.algorithms.batched.dqn:DQNLearner",
}
"""Learners by ``trainer_type``."""


def make_learner(setup: LearnerSetup) -> BatchedLearner:
    """The learner that ``trainer_type`` names. Raises SettingsError for spaces that it cannot learn."""
    learner: BatchedLearner = plugins.resolve(_LEARNERS[setup.settings.trainer_type])(setup)
    return learner
