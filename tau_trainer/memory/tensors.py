"""A rollout of copies whose steps are tensors.

Shapes: ``T`` steps of ``E`` copies, in which a policy has ``A`` agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class TensorRollout:
    """``T`` steps as they were made; row ``t`` of one tensor belongs to row ``t`` of every other."""

    observations: torch.Tensor
    """[T, E, A, *obs]: the observations of the decisions."""
    actions: torch.Tensor
    """[T, E, A, ...]: see :attr:`.Acted.actions`."""
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
    """[T, E, A, ...]: see :attr:`.Acted.kept`."""

    def part(self, copies: slice) -> TensorRollout:
        """The steps of some copies, as views."""
        found: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, values in found.items():
            if name != "kept" and values is not None:
                # Values after the last step have no time dimension.
                found[name] = values[copies] if name in ("after", "after_mask") else values[:, copies]
        return TensorRollout(**found | {"kept": {name: values[:, copies] for name, values in self.kept.items()}})

    def __len__(self) -> int:
        """Number of decisions, ``T * E * A``, including those of agents that had left."""
        return self.rewards.numel()
