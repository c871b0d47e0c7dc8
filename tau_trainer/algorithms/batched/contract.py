"""What learns one policy of a batched environment: one page, whoever fulfils it.

Shapes: ``T`` steps of ``E`` copies, in which the policy has ``A`` agents. Nothing here asks a tensor for a number.
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
    """What a policy does in one step."""

    actions: torch.Tensor
    """As the environment takes them: int64 [E, A], int64 [E, A, b] or float32 [E, A, c]."""
    kept: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """What its learner wants to see again, [E, A, ...] by name: log-probabilities, values, raw samples."""


@dataclass(frozen=True, slots=True)
class TensorRollout:
    """``T`` steps as they were made; row ``t`` of one tensor belongs to row ``t`` of every other."""

    observations: torch.Tensor
    """[T, E, A, *obs]: what was decided upon."""
    actions: torch.Tensor
    """[T, E, A, ...]: see :attr:`Acted.actions`."""
    mask: torch.Tensor | None
    """bool [T, E, A, k]: what was allowed; None: everything."""
    rewards: torch.Tensor
    """float32 [T, E, A]."""
    terminated: torch.Tensor
    """bool [T, E, A]."""
    truncated: torch.Tensor
    """bool [T, E, A]."""
    present: torch.Tensor
    """bool [T, E, A]: whose decision it was; rows of agents that had left teach nothing."""
    final: torch.Tensor | None
    """[T, E, A, *obs]: what came after, where it was the end; None: it never truncates, and nobody asks besides."""
    after: torch.Tensor
    """[E, A, *obs]: what is decided upon after the last step."""
    after_mask: torch.Tensor | None
    """bool [E, A, k]: what is allowed then."""
    kept: Mapping[str, torch.Tensor]
    """[T, E, A, ...]: see :attr:`Acted.kept`."""

    def part(self, copies: slice) -> TensorRollout:
        """Of some copies: views."""
        found: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, values in found.items():
            if isinstance(values, torch.Tensor):
                # What comes after the last step has no time.
                found[name] = values[copies] if name in ("after", "after_mask") else values[:, copies]
        return TensorRollout(**found | {"kept": {name: values[:, copies] for name, values in self.kept.items()}})

    @property
    def decisions(self) -> int:
        """``T * E * A``, those of agents that had left included."""
        return self.rewards.numel()


@dataclass(frozen=True, slots=True)
class LearnerSetup:
    """What a learner is made from."""

    spec: BehaviorSpec
    """The policy's name, its one sensor (an observation as a vector), and its actions."""
    action_space: spaces.Discrete | spaces.MultiDiscrete | spaces.Box
    """Of one agent."""
    settings: PolicySettings
    num_envs: int
    """``E``, those of all ranks."""
    agents: int
    """``A``: agents that the policy has in each copy."""
    max_steps: int
    """Steps of the run, for schedules."""
    seed: int
    """Of weights, samples, and the order in which is learned."""
    device: torch.device
    ranks: Ranks = field(default_factory=Ranks)
    """Who learns together."""


class BatchedLearner(ABC):
    """Acts and learns for one policy. Made from a :class:`LearnerSetup`; raises SettingsError for what it cannot do.

    Attributes:
        horizon: steps of every copy between two updates.
        sees_ends: whether it wants to know what came after real ends as well.
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
            mask: bool [E, A, k], what is allowed; None: everything.
            present: bool [E, A], who has not left: what others do does not matter. None: nobody has.
            deterministic: the likeliest action instead of a drawn one.
        """

    @abstractmethod
    def learn(self, rollout: TensorRollout, progress: float) -> Mapping[str, torch.Tensor]:
        """Learn from the newest :attr:`horizon` steps.

        Args:
            rollout: may be overwritten after this returns.
            progress: share of the run's steps that is behind us, 0 to 1, for schedules.

        Returns:
            Statistics by TensorBoard name, tensors [] on the device: who asks for numbers decides when to wait.
        """

    @abstractmethod
    def state(self) -> State:
        """Everything needed to go on bit for bit."""

    @abstractmethod
    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        """Go on from :meth:`state`; nothing is changed unless everything fits. Raises CheckpointError.

        ``fresh``: take over what was learned alone, as :meth:`.Algorithm.load` does.
        """

    def lost(self, facts: Mapping[str, Any]) -> str:
        """What a checkpoint with these facts did not keep though learning needs it, in a sentence; empty: nothing."""
        return ""

    @property
    def module(self) -> torch.nn.Module | None:
        """What it learns, to be looked at; None: nothing."""
        return None

    def compile(self, observations: torch.Tensor, mask: torch.Tensor | None) -> None:  # noqa: B027 perhaps nothing
        """Compile :meth:`act`, where it is not deterministic, now, for inputs as these; nothing else changes."""

    def policy(self, version: int) -> Policy | None:
        """What acts, as it stands, for those who export it; None: it is nothing that can be."""
        return None


_LEARNERS = {
    "a2c": "tau_trainer.algorithms.batched.on_policy:A2CLearner",
    "ppo": "tau_trainer.algorithms.batched.on_policy:PPOLearner",
    "dqn": "tau_trainer.algorithms.batched.dqn:DQNLearner",
}
"""By ``trainer_type``."""


def make_learner(setup: LearnerSetup) -> BatchedLearner:
    """The learner that ``trainer_type`` names. Raises SettingsError for spaces that it cannot learn."""
    learner: BatchedLearner = plugins.resolve(_LEARNERS[setup.settings.trainer_type])(setup)
    return learner
