"""Groups of a rollout on the learner's device, and queries to their critic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from tau_trainer.models.group_critic import GroupCritic
from tau_trainer.models.observation_encoder import Inputs

_NUMBERS = 2**21
"""Floats that the critic holds at once for each of its layers.

The rows of a minibatch are cut into pieces of this size.
"""


@dataclass(slots=True)
class Seating:
    """All entities of a rollout on the learner's device, set after set. A *seat* is an entity's place there.

    ``E`` entities in ``S`` sets; the last ones serve only for bootstrapping.
    """

    inputs: Inputs
    """[E, ...] each, from :meth:`ActorCritic.prepare`."""
    done: torch.Tensor
    """float32 [E, A], see :meth:`GroupCritic.done`; zeros if there was no decision."""
    sizes: torch.Tensor
    """int64 [S]."""
    begins: torch.Tensor
    """int64 [S], seat of each set's first entity."""
    set_of: torch.Tensor
    """int64 [E]."""
    worth: torch.Tensor
    """float32 [S + 1, R]: values of the sets before the update; the last is the value of nothing, 0."""
    before: torch.Tensor
    """float32 [E, C]: the critic's outputs for each entity before the update: its set's value, and its baseline."""
    past: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
    """For a critic with a memory: its state float32 [E, M] at each decision, and :attr:`Groups.turn` and
    :attr:`Groups.fresh` [E].
    """

    def ask(
        self, critic: GroupCritic, sets: torch.Tensor, *, baselines: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Values [s, R] and baselines [k, R] of these sets, int64 [s], member after member."""
        sizes = self.sizes[sets]
        seats = _ranges(self.begins[sets], sizes)
        done = self.done[seats] if baselines else None
        answer: tuple[torch.Tensor, torch.Tensor | None] = critic(self._perceived(critic, seats), done, sizes)
        return answer

    def _perceived(self, critic: GroupCritic, seats: torch.Tensor) -> torch.Tensor:
        """[k, F] of :meth:`GroupCritic.perceived`.

        A sequence starts from the stored state of its first requested seat.
        """
        if self.past is None:
            return critic.perceived([values[seats] for values in self.inputs])[0]
        state, turn, fresh = self.past
        order = turn[seats].argsort()
        some = seats[order]
        begins = fresh[some]  # a copy
        begins[1:] |= turn[some][1:] != turn[some][:-1] + 1
        features, _ = critic.perceived([values[some] for values in self.inputs], state[some], begins)
        return features[order.argsort()]

    def answer(self, critic: GroupCritic, seats: torch.Tensor, *, baselines: bool) -> torch.Tensor:
        """[n, C] for seats, int64 [n]. Seats of a set, or of a sequence with a memory, must follow one another."""
        distinct = torch.unique_consecutive if self.past is None else torch.unique
        sets, which = distinct(self.set_of[seats], return_inverse=True)
        values, others = self.ask(critic, sets, baselines=baselines)
        if others is None:
            return values[which]
        sizes = self.sizes[sets]
        places = (sizes.cumsum(0) - sizes)[which] + seats - self.begins[sets][which]
        return torch.cat((values[which], others[places]), dim=1)

    def judge(self, critic: GroupCritic, *, baselines: bool) -> None:
        """Compute :attr:`worth` and :attr:`before`."""
        before, worth = list[torch.Tensor](), list[torch.Tensor]()
        for sets in self._pieces(critic):
            values, others = self.ask(critic, sets, baselines=baselines)
            worth.append(values)
            spread = values.repeat_interleave(self.sizes[sets], dim=0)
            before.append(spread if others is None else torch.cat((spread, others), dim=1))
        self.worth = torch.cat((*worth, values.new_zeros(1, values.shape[1])))
        self.before = torch.cat(before)

    def rows_at_once(self, critic: GroupCritic) -> int:
        """Rows of a minibatch that fit in the critic's working memory."""
        members = int(self.sizes.max())
        return max(1, _NUMBERS // (members * (critic.out.out_features + 4 * members)))

    def _pieces(self, critic: GroupCritic) -> Iterator[torch.Tensor]:
        """All sets in order, in pieces of about :meth:`rows_at_once` rows."""
        rows = self.sizes.cumsum(0)
        piece = rows.sub(1).div(self.rows_at_once(critic), rounding_mode="floor")
        _, counts = torch.unique_consecutive(piece, return_counts=True)
        sets = torch.arange(len(rows), device=rows.device)
        yield from torch.split(sets, counts.tolist())


def _ranges(first: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """``first[0], first[0] + 1, ...``, ``sizes`` [s] of each, one range after another: int64 [sum]."""
    ends = sizes.cumsum(0)
    shift = (first - ends + sizes).repeat_interleave(sizes)
    return shift + torch.arange(len(shift), device=sizes.device)
