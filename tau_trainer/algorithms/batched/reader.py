"""Readers of a dense rollout of tensors for an update, and of a population's, whose members' rows are separate.

Shapes: ``T`` steps of ``E`` copies with ``A`` agents each; ``N`` decisions of agents that had not left: only these are
learned from. A population has one agent per copy and ``P * E`` copies, member after member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from typing_extensions import override

from tau_trainer.algorithms.batched.contract import TensorRollout
from tau_trainer.algorithms.minibatches import MemberRows, Rows, Samples, SharedRows
from tau_trainer.algorithms.policy_update import PolicyUpdate, Reader
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.memory.advantages import gae
from tau_trainer.models import ActorCritic, Normalizer
from tau_trainer.models.distributions import forbidden_of
from tau_trainer.rewards.streams import EXTRINSIC


class TensorReader(Reader):
    """Samples in order of time, then copies, then agents. Rewards of a stream are float [T, E, A] or [T, E, A, R].

    Args:
        rollout: the experience to learn from; its rewards are the extrinsic ones.
        generator: draws the minibatches.
        ranks: the processes that learn together; the rollout is of this one's copies.
        cut: bool [T, E, A], further ends of traces; None: none.
        paid: rewards of other streams by name.
    """

    def __init__(
        self,
        rollout: TensorRollout,
        generator: torch.Generator,
        ranks: Ranks | None = None,
        cut: torch.Tensor | None = None,
        paid: Mapping[str, torch.Tensor] = MappingProxyType({}),
    ) -> None:
        self._paid = {EXTRINSIC: rollout.rewards, **paid}
        self._rollout, self._ranks = rollout, ranks or Ranks()
        ended = rollout.terminated | rollout.truncated  # bool [T, E, A]
        self._goes_on = ~(ended if cut is None else ended | cut)
        present = rollout.present
        # A single agent is there as long as its copy is.
        self._there = slice(None) if present.shape[2] == 1 else present.flatten().nonzero().squeeze(1)
        self._inputs = self._flat(rollout.observations).flatten(1)  # [N, D]
        if self._ranks.alone:
            self.rows = Rows(len(self._inputs), generator)
        else:
            everybody = isinstance(self._there, slice)
            self.rows = SharedRows(self._ranks, torch.ones_like(present) if everybody else present, generator)
        self.new = self.rows.count

    def _flat(self, values: torch.Tensor) -> torch.Tensor:
        """[N, ...] of [T, E, A, ...]."""
        return values.flatten(0, 2)[self._there]

    def _spread(self, values: torch.Tensor) -> torch.Tensor:
        """[T, E, A, k] of [N, k]; zeros for agents that were not there."""
        shape = self._rollout.terminated.shape
        everybody = values.new_zeros(shape.numel(), values.shape[1])
        everybody[self._there] = values  # the zeros affect no other agent: each trace is of one agent
        return everybody.view(*shape, -1)

    @override
    def observe(self, normalizer: Normalizer) -> None:
        normalizer.take_in(self._inputs, self.rows.count, self._ranks.add)

    @override
    def samples(self, network: ActorCritic) -> Samples:
        kept = {name: self._flat(values) for name, values in self._rollout.kept.items()}
        # Empty: of no rows, of no columns.
        nothing, none, mask = self._inputs.new_zeros(0), self._inputs[:, :0], self._rollout.mask
        branches = network.action.choices.discrete_branches
        return Samples(
            inputs=network.normalize([self._inputs]),
            state=nothing,
            continuous=kept.get("continuous", none),
            discrete=kept.get("discrete", none.to(torch.int64)),
            mask=nothing if mask is None else forbidden_of(self._flat(mask), branches),
            log_prob=kept["log_prob"],
            advantage=nothing,
            returns=nothing,
            begins=nothing,
        )

    @override
    def advantages(self, values: torch.Tensor, update: PolicyUpdate) -> tuple[torch.Tensor, torch.Tensor]:
        shape, widths = self._rollout.terminated.shape, [stream.width for stream in update.streams]
        current = self._spread(values).to(self._rollout.rewards.dtype)  # [T, E, A, R] of all streams
        foresees = any(stream.gamma > 0.0 for stream in update.streams)
        # Without discounted future rewards, the critic is not needed.
        after = self._after(current, update) if foresees else torch.zeros_like(current)
        endless = not all(stream.episodic for stream in update.streams)
        beyond = self._after(current, update, beyond=True) if endless else after
        advantages = list[torch.Tensor]()
        columns = (torch.split(found, widths, dim=3) for found in (current, after, beyond))
        for stream, now, in_episode, in_life in zip(update.streams, *columns, strict=True):
            rewards = self._paid[stream.name].view(*shape, -1).to(current.dtype)  # [T, E, A, r]
            if stream.strength != 1.0:
                rewards = rewards * stream.strength
            decay = self._goes_on.to(rewards.dtype) * (stream.gamma * update.hyperparameters.lambd)  # [T, E, A]
            later = in_episode if stream.episodic else in_life
            advantages.append(self._flat(gae(rewards, now, later, decay, stream.gamma, None)))
        returns = torch.cat(advantages, dim=1) + values  # lambda-returns
        return sum(advantages[1:], advantages[0]).float(), returns.float()

    def _after(self, values: torch.Tensor, update: PolicyUpdate, *, beyond: bool = False) -> torch.Tensor:
        """Values [T, E, A, R] after each decision, from the values at the decisions; 0 after a real end.

        ``beyond``: treat all ends as limits.
        """
        rollout, truncated = self._rollout, self._rollout.truncated
        truncated = truncated | rollout.terminated if beyond else truncated

        def value(observations: torch.Tensor) -> torch.Tensor:
            """[n, R] of observations [n, ...]."""
            return update.values(update.network.normalize([observations.flatten(1)])).to(values.dtype)

        last = value(rollout.after.flatten(0, 1)).view_as(values[:1])  # [1, E, A, R]
        # A copy that ended has restarted: one step later is another episode, and a real end has value 0.
        after = torch.cat((values[1:], last)) * ~rollout.terminated[..., None]
        if rollout.final is None:
            return after
        if self._picks:
            at = truncated.nonzero(as_tuple=True)  # t, e and a of each cut
            after[at] = value(rollout.final[at])
            return after
        return torch.where(truncated[..., None], self._spread(value(self._flat(rollout.final))), after)

    @property
    def _picks(self) -> bool:
        """Whether to select final observations: on a CPU this is cheaper than computing all values."""
        return self._inputs.device.type == "cpu"


class PopulationReader(TensorReader):
    """Samples member after member, each in order of time.

    Args:
        rollout: of all members.
        generators: one for each member.
        cut: see :class:`TensorReader`.
    """

    def __init__(self, rollout: TensorRollout, generators: Sequence[torch.Generator], cut: torch.Tensor) -> None:
        self._members = len(generators)
        super().__init__(rollout, generators[0], None, cut)
        self.rows = MemberRows(len(self._inputs) // self._members, generators)
        self.new = self.rows.count

    @override
    def _flat(self, values: torch.Tensor) -> torch.Tensor:
        # [T, P, E, ...].
        apart = values.view(len(values), self._members, values.shape[1] // self._members, *values.shape[3:])
        return apart.transpose(0, 1).flatten(0, 2)

    @override
    def _spread(self, values: torch.Tensor) -> torch.Tensor:
        shape = self._rollout.terminated.shape
        return values.view(self._members, shape[0], -1, values.shape[1]).transpose(0, 1).reshape(*shape, -1)

    @property
    @override
    def _picks(self) -> bool:
        return False
