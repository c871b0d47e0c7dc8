"""Rewards that are learned beside the policy: the contract, one file each.

:mod:`.curiosity` and :mod:`.rnd` pay for what is new, :mod:`.gail` and :mod:`.airl` for what demonstrations show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch

from tau_trainer.specs import ActionSpec

Loss = tuple[torch.Tensor, dict[str, torch.Tensor]]
"""What a gradient step makes smaller, [], and numbers to report by TensorBoard name, [] each."""


class Experience(NamedTuple):
    """``n`` transitions, as a reward's model sees them."""

    inputs: list[torch.Tensor]
    """What :meth:`~tau_trainer.models.ActorCritic.arrange` makes of the observations: nothing is normalised."""
    following: list[torch.Tensor]
    """The same of what came after; of demonstrations, after a real end, anything."""
    goes_on: torch.Tensor
    """float32 [n]: 0 after a real end."""
    continuous: torch.Tensor
    """float32 [n, c], as the memory has them."""
    discrete: torch.Tensor
    """int64 [n, b]."""
    forbidden: torch.Tensor
    """bool [n, sum of branches]."""
    log_prob: torch.Tensor
    """float32 [n], of the whole action under the policy of now; [0] where nobody asked for it."""

    def part(self, rows: torch.Tensor | slice) -> Experience:
        """Some of them: views of a slice, copies by index."""
        inputs, following, *others = self
        return Experience(
            [sensor[rows] for sensor in inputs],
            [sensor[rows] for sensor in following],
            *(values[rows] if len(values) else values for values in others),
        )


class LearnedReward(ABC, torch.nn.Module):
    """The model behind a reward stream. Made from the behavior's spec, the signal's settings, and a generator.

    The spec has the sensors that the policy sees, and the actions as the memory has them.
    """

    @abstractmethod
    def loss(self, played: Experience, expert: Experience | None) -> Loss:
        """What is learned from a minibatch.

        Args:
            played: transitions of the agents that learn.
            expert: as many of the demonstrations; None where the signal's settings name none.
        """

    @abstractmethod
    def rewards(self, played: Experience) -> torch.Tensor:
        """float32 [n], before the stream's strength."""

    def observe(self, some: Experience, *, expert: bool) -> None:
        """Take transitions into its statistics, where it has any: all of the ``expert``'s, or the policy's newest."""


def flat_actions(some: Experience, actions: ActionSpec) -> torch.Tensor:
    """What was done [n, c + M]: continuous actions, then a one in the place of every branch's value."""
    ones = [
        torch.nn.functional.one_hot(some.discrete[:, branch], size)
        for branch, size in enumerate(actions.discrete_branches)
    ]
    return torch.cat([some.continuous, *ones], dim=1)
