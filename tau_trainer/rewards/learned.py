"""Rewards that are learned together with the policy: the contract; each has a file of its own.

:mod:`.curiosity` and :mod:`.rnd` reward novelty, :mod:`.gail` and :mod:`.airl` similarity to demonstrations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch

from tau_trainer.specs import ActionSpec

Loss = tuple[torch.Tensor, dict[str, torch.Tensor]]
"""The loss of a gradient step, [], and numbers to report by TensorBoard name, [] each."""


class Experience(NamedTuple):
    """``n`` transitions, in the form for a reward's model."""

    inputs: list[torch.Tensor]
    """Observations from :meth:`~tau_trainer.models.ActorCritic.arrange`: not normalised."""
    following: list[torch.Tensor]
    """The same for the next observations; anything after a real end of a demonstration."""
    goes_on: torch.Tensor
    """float32 [n]: 0 after a real end."""
    continuous: torch.Tensor
    """float32 [n, c], as in the memory."""
    discrete: torch.Tensor
    """int64 [n, b]."""
    forbidden: torch.Tensor
    """bool [n, sum of branches]."""
    log_prob: torch.Tensor
    """float32 [n], of the whole action under the current policy; [0] if it was not requested."""

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

    The spec has the sensors that the policy sees, and the actions as in the memory.
    """

    @abstractmethod
    def loss(self, played: Experience, expert: Experience | None) -> Loss:
        """The loss of a minibatch.

        Args:
            played: transitions of the agents that learn.
            expert: the same number of transitions of the demonstrations; None if the signal's settings name none.
        """

    @abstractmethod
    def rewards(self, played: Experience) -> torch.Tensor:
        """float32 [n], before the stream's strength."""

    def observe(self, some: Experience, *, expert: bool) -> None:
        """Take transitions into its statistics, if it has any: all of the ``expert``'s, or the policy's newest."""


def flat_actions(some: Experience, actions: ActionSpec) -> torch.Tensor:
    """Actions [n, c + M]: continuous ones, then a one in the place of every branch's value."""
    ones = [
        torch.nn.functional.one_hot(some.discrete[:, branch], size)
        for branch, size in enumerate(actions.discrete_branches)
    ]
    return torch.cat([some.continuous, *ones], dim=1)
