"""The contract of acting for one policy of a batched environment.

Shapes: ``E`` copies, in which the policy has ``A`` agents. Nothing here reads a number from a device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True, slots=True)
class Acted:
    """The decisions of a policy in one step."""

    actions: torch.Tensor
    """In the environment's form: int64 [E, A], int64 [E, A, b] or float32 [E, A, c]."""
    kept: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Values that learning needs later, [E, A, ...] by name: log-probabilities, values, raw samples."""
    state: torch.Tensor | None = None
    """Recurrent state after the decisions, to pass back at the next ones: see :meth:`TensorActor.fresh_state`."""


@dataclass(frozen=True, slots=True)
class ActorInput:
    """The input of one decision of every agent of every copy."""

    observations: torch.Tensor
    """[E, A, *obs]."""
    mask: torch.Tensor | None = None
    """bool [E, A, k], the allowed values; None: all."""
    present: torch.Tensor | None = None
    """bool [E, A], whether agents are there; decisions of others do not matter. None: all are."""
    state: torch.Tensor | None = None
    """Recurrent state after the last decisions, or in restarted copies the :meth:`TensorActor.fresh_state`.

    None: all have restarted.
    """


class TensorActor(ABC):
    """Decides for one policy's agents in all copies."""

    sees_ends: bool = False
    """Whether learning from its rollouts also needs the final observations of real ends."""

    def fresh_state(self, envs: int, agents: int) -> torch.Tensor | None:
        """Recurrent state before the first decision of an episode, float32 [E, A, towers, M]; None: no memory."""
        return None

    @abstractmethod
    def act(self, seen: ActorInput, *, deterministic: bool = False) -> Acted:
        """One decision for every agent; ``deterministic``: the most likely action instead of a random one."""

    def compile(self, seen: ActorInput) -> None:  # noqa: B027 perhaps nothing
        """Compile :meth:`act` (not the deterministic one) now, for inputs like this; nothing else changes."""
