"""Groups of a rollout on the learner's device, and how an update reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.batch import Samples, exact, shuffled
from tau_trainer.algorithms.policy_update import PolicyUpdate
from tau_trainer.algorithms.ppo import RolloutReader
from tau_trainer.memory import Groups, Rollout
from tau_trainer.memory.advantages import lambda_returns
from tau_trainer.models import ActorCritic
from tau_trainer.models.group_critic import GroupActorCritic, GroupCritic
from tau_trainer.models.observation_encoder import Inputs
from tau_trainer.rewards.streams import EXTRINSIC

_NUMBERS = 2**21
"""Floats that the critic holds at once for each of its layers: rows of a minibatch are cut into pieces of so many."""


@dataclass(slots=True)
class Seating:
    """All entities of a rollout on the learner's device, set behind set: a *seat* is an entity's place there.

    ``E`` entities in ``S`` sets; the last ones are bootstrapped from alone.
    """

    inputs: Inputs
    """[E, ...] of each, of :meth:`ActorCritic.prepare`."""
    done: torch.Tensor
    """float32 [E, A], see :meth:`GroupCritic.done`; zeros where nothing was decided."""
    sizes: torch.Tensor
    """int64 [S]."""
    begins: torch.Tensor
    """int64 [S], seat of each set's first entity."""
    set_of: torch.Tensor
    """int64 [E]."""
    worth: torch.Tensor
    """float32 [S + 1, R]: the sets' values before the update; the last is nothing's, 0."""
    before: torch.Tensor
    """float32 [E, C]: what the critic said of each entity before the update: its set's value, and its baseline."""

    def ask(
        self, critic: GroupCritic, sets: torch.Tensor, *, baselines: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Values [s, R] and baselines [k, R] of these sets, int64 [s], one member behind the other."""
        sizes = self.sizes[sets]
        seats = _ranges(self.begins[sets], sizes)
        inputs = [values[seats] for values in self.inputs]
        done = self.done[seats] if baselines else None
        return critic(inputs, done, sizes)

    def answer(self, critic: GroupCritic, seats: torch.Tensor, *, baselines: bool) -> torch.Tensor:
        """[n, C] of seats, int64 [n], of which those of a set follow each other."""
        sets, which = torch.unique_consecutive(self.set_of[seats], return_inverse=True)
        values, others = self.ask(critic, sets, baselines=baselines)
        if others is None:
            return values[which]
        sizes = self.sizes[sets]
        places = (sizes.cumsum(0) - sizes)[which] + seats - self.begins[sets][which]
        return torch.cat((values[which], others[places]), dim=1)

    def judge(self, critic: GroupCritic, *, baselines: bool) -> None:
        """Work out :attr:`worth` and :attr:`before`."""
        before, worth = list[torch.Tensor](), list[torch.Tensor]()
        for sets in self._pieces(critic):
            values, others = self.ask(critic, sets, baselines=baselines)
            worth.append(values)
            spread = values.repeat_interleave(self.sizes[sets], dim=0)
            before.append(spread if others is None else torch.cat((spread, others), dim=1))
        self.worth = torch.cat((*worth, values.new_zeros(1, values.shape[1])))
        self.before = torch.cat(before)

    def rows_at_once(self, critic: GroupCritic) -> int:
        """Of a minibatch: as many as the critic's working memory is for."""
        members = int(self.sizes.max())
        return max(1, _NUMBERS // (members * (critic.out.out_features + 4 * members)))

    def _pieces(self, critic: GroupCritic) -> Iterator[torch.Tensor]:
        """All sets in order, about so many rows at once."""
        rows = self.sizes.cumsum(0)
        piece = rows.sub(1).div(self.rows_at_once(critic), rounding_mode="floor")
        _, counts = piece.unique_consecutive(return_counts=True)
        sets = torch.arange(len(rows), device=rows.device)
        yield from sets.split(counts.tolist())


def _ranges(first: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """``first[0], first[0] + 1, ...``, ``sizes`` [s] of each, one range behind the other: int64 [sum]."""
    ends = sizes.cumsum(0)
    shift = (first - ends + sizes).repeat_interleave(sizes)
    return shift + torch.arange(len(shift), device=sizes.device)


class GroupReader(RolloutReader):
    """Samples set by set. Behind their inputs stands their seat, int64 [N], in :attr:`seating`.

    Args:
        rollout: what is learned from; its memory keeps moments and groups.
        network: who learns.
        version: of its policy.
        generator: what minibatches are drawn from.
    """

    seating: Seating

    def __init__(self, rollout: Rollout, network: ActorCritic, version: int, generator: torch.Generator) -> None:
        super().__init__(rollout, network, version, generator)
        self._groups = groups = Groups(rollout)
        arrived = np.argsort(groups.joint, kind="stable")  # entities by seat
        seat = np.empty_like(arrived)
        seat[arrived] = np.arange(len(arrived))
        self._seats, self._arrived_by_seat = seat[groups.entity], arrived
        self._order = np.argsort(self._seats)
        """[N]: transitions by sample."""

    @override
    def samples(self, network: ActorCritic) -> Samples:
        assert isinstance(network, GroupActorCritic)
        self.seating = self._seated(network)
        seats = self._tensor(self._seats[self._order])
        samples = shuffled(super().samples(network), self._tensor(self._order))
        sets = self.seating.set_of[seats]
        begins = torch.cat((sets.new_ones(1, dtype=torch.bool), sets[1:] != sets[:-1]))
        return samples._replace(inputs=[*samples.inputs, seats], begins=begins)

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
        worth = exact(self.seating.worth)[self._tensor(groups.after)]
        following = self._tensor(groups.next)
        heir = self._tensor(groups.heir)
        returns = list[torch.Tensor]()
        parts = torch.split(worth, widths, dim=1)
        for stream, after in zip(update.streams, parts, strict=True):
            rewards = rollout.rewards[stream.name]
            if stream.name == EXTRINSIC:
                rewards = groups.summed(rewards)
                if rollout.group_reward is not None:
                    rewards = rewards + rollout.group_reward[:, None]
            paid = exact(self._tensor(rewards)) * stream.strength
            gamma = stream.gamma
            found = lambda_returns(paid, after, trace, gamma, following)
            returns.append(found[heir])
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
        return self._tensor(np.argsort(self._order))[stale]
