"""Groups of a rollout on the learner's device, their reader, and queries to their critic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.minibatches import Samples, exact, shuffled
from tau_trainer.algorithms.readers import RolloutReader
from tau_trainer.columns import EXTRINSIC
from tau_trainer.memory import Groups
from tau_trainer.memory.advantages import lambda_returns
from tau_trainer.models import ActorCritic
from tau_trainer.models.actor_critic import MEMORY
from tau_trainer.models.group_critic import CRITIC, GroupActorCritic, GroupCritic
from tau_trainer.models.observation_encoder import Inputs
from tau_trainer.specs import BoolArray, IndexArray

if TYPE_CHECKING:
    from tau_trainer.algorithms.ppo import PolicyUpdate

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


class GroupReader(RolloutReader):
    """Samples set by set. Their seat, int64 [N] in :attr:`seating`, follows their inputs.

    The memory of the rollout keeps moments and groups.
    """

    seating: Seating

    @override
    def _arrange(self, sequence_length: int | None) -> None:
        self._recurrent = sequence_length is not None
        self._groups = groups = Groups(self._rollout, sequence_length)
        arrived = np.argsort(groups.joint, kind="stable")  # entities by seat
        seat = np.empty_like(arrived)
        seat[arrived] = np.arange(len(arrived))
        self._seats, self._arrived_by_seat = seat[groups.entity], arrived
        self._order = np.argsort(groups.turn[groups.entity] if self._recurrent else self._seats)
        """[N]: transitions by sample."""

    @override
    def samples(self, network: ActorCritic) -> Samples:
        assert isinstance(network, GroupActorCritic)
        self.seating = self._seated(network)
        samples, groups, order = super().samples(network), self._groups, self._order
        wholes = self._changes(groups.joint[groups.entity][order])
        if self._recurrent:
            samples = samples._replace(state=self._tensor(self._rollout.column(MEMORY)))
            self.seating.past = self._past(network, samples)
            turn = groups.turn[groups.entity][order]
            wholes = self._changes(groups.block[groups.entity][order])
            begins = groups.fresh[groups.entity][order] | self._changes(turn - np.arange(len(turn)))
        self.rows.wholes = self._tensor(wholes)
        samples = shuffled(samples, self._tensor(order))
        if self._recurrent:
            samples = samples._replace(begins=self._tensor(begins))
        return samples._replace(inputs=[*samples.inputs, self._tensor(self._seats[order])])

    @staticmethod
    def _changes(numbers: IndexArray) -> BoolArray:
        """Bool [n]: where the number changes."""
        return np.concatenate(([True], numbers[1:] != numbers[:-1]))

    def _past(self, network: GroupActorCritic, samples: Samples) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """See :attr:`Seating.past`."""
        groups, arrived = self._groups, self._arrived_by_seat
        last = self._tensor(groups.last)
        after = network.critic.perceived([values[last] for values in samples.inputs], samples.state[last, CRITIC])[1]
        state = torch.cat((self._tensor(self._rollout.whole(MEMORY)[1:, CRITIC]), after))
        return state[self._tensor(arrived)], self._tensor(groups.turn[arrived]), self._tensor(groups.fresh[arrived])

    def _seated(self, network: GroupActorCritic) -> Seating:
        groups, rollout, arrived = self._groups, self._rollout, self._arrived_by_seat
        continuous = self._tensor(rollout.whole("continuous")[1:])
        discrete = self._tensor(rollout.whole("discrete")[1:])
        done = network.critic.done(continuous, discrete.long())
        sizes = np.bincount(groups.joint, minlength=groups.sets)
        nothing = done.new_zeros(len(arrived) - len(done), done.shape[1])
        critic = network.critic
        critic.most.fill_(max(float(critic.most), float(sizes.max())))
        return Seating(
            inputs=network.prepare(tuple(sensor[arrived] for sensor in groups.observations())),
            done=torch.cat((done, nothing))[self._tensor(arrived)],
            sizes=self._tensor(sizes),
            begins=self._tensor(np.cumsum(sizes) - sizes),
            set_of=self._tensor(groups.joint[arrived]),
            worth=nothing,
            before=nothing,
        )

    @override
    def advantages(self, values: torch.Tensor, update: PolicyUpdate) -> tuple[torch.Tensor, torch.Tensor]:
        groups, rollout = self._groups, self._rollout
        widths = [stream.width for stream in update.streams]
        lambd = update.hyperparameters.lambd
        trace = exact(self._tensor(rollout.goes_on).float()) * lambd
        worth = exact(self.seating.worth)
        in_episode, in_life = (worth[self._tensor(sets)] for sets in (groups.after, groups.beyond))
        following = self._tensor(groups.next)
        heir = self._tensor(groups.heir)
        returns = list[torch.Tensor]()
        parts = (torch.split(after, widths, dim=1) for after in (in_episode, in_life))
        for stream, episode, life in zip(update.streams, *parts, strict=True):
            rewards = rollout.rewards[stream.name]
            if stream.name == EXTRINSIC:
                rewards = groups.summed(rewards)
                if rollout.group_reward is not None:
                    rewards = rewards + rollout.group_reward[:, None]
            paid = exact(self._tensor(rewards)) * stream.strength
            gamma = stream.gamma
            after = episode if stream.episodic else life
            if stream.name == EXTRINSIC:
                returns.append(lambda_returns(paid, after, trace, gamma, following)[heir])
                continue
            # An agent that inherits a return still gets its own reward: [N, R] more than its heir.
            more = paid - paid[heir]
            later = paid + gamma * trace[:, None] * more[self._tensor(rollout.next)]
            returns.append(lambda_returns(later, after, trace, gamma, following)[heir] + more)
        found = torch.cat(returns, dim=1)[self._tensor(self._order)]
        baselines = exact(values[:, -found.shape[1] :])
        advantages = torch.split(found - baselines, widths, dim=1)
        found = found.repeat(1, values.shape[1] // found.shape[1])
        return sum(advantages[1:], advantages[0]).float(), found.float()

    @override
    def stale(self, *, renormalized: bool) -> torch.Tensor | slice | None:
        stale = super().stale(renormalized=renormalized)
        if not isinstance(stale, torch.Tensor):
            return stale
        if self._recurrent:  # recompute whole sequences
            return slice(None)
        return self._tensor(np.argsort(self._order))[stale]
