"""Readers: the experience of any collector, in any layout, as samples for an update.

| reader | experience | samples in the order of |
| --- | --- | --- |
| :class:`RolloutReader` | ragged: agents of engines come and go | arrival; for recurrent networks, sequences |
| :class:`.GroupReader` | the same, by moments and groups | sets of agents that decide together |
| :class:`TensorReader` | dense: the copies of a batched environment | time, copies, agents |
| :class:`SequenceReader` | the same, for recurrent networks | sequences, by copies and agents |
| :class:`PopulationReader` | the same, each member's rows apart | members, then time |

Shapes: ``N`` samples; ``K`` components of an action; ``R`` numbers in all rewards. Dense rollouts have ``T`` steps of
``E`` copies with ``A`` agents each; only decisions of agents that had not left are learned from. A population has one
agent per copy and ``P * E`` copies, member after member.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.batched.acting import inputs_of
from tau_trainer.algorithms.minibatches import MemberRows, Rows, Samples, SharedRows, SplitRows, exact, shuffled
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.algorithms.signals import CopySums, experience_of
from tau_trainer.columns import EXTRINSIC
from tau_trainer.memory import Rollout, TensorRollout
from tau_trainer.memory.advantages import gae
from tau_trainer.models import ActorCritic, Normalizer
from tau_trainer.models.actor_critic import MEMORY, as_tensor
from tau_trainer.models.blocks import NO_PAST, Past
from tau_trainer.models.distributions import forbidden_of
from tau_trainer.models.observation_encoder import Inputs
from tau_trainer.rewards.learned import Experience
from tau_trainer.rewards.streams import RewardStream
from tau_trainer.specs import BoolArray, Float64Array, IndexArray

if TYPE_CHECKING:
    from tau_trainer.algorithms.ppo import PolicyUpdate


class Reader(ABC):
    """Experience in the form that an update needs.

    Attributes:
        rows: decides which samples make a minibatch.
        new: number of samples that no update has learned from before.
    """

    rows: Rows
    new: int

    @abstractmethod
    def observe(self, normalizer: Normalizer) -> None:
        """Let the normaliser take in the new observations."""

    @abstractmethod
    def experience(self, network: ActorCritic) -> Experience:
        """The samples in the form for reward models, the newest last."""

    @abstractmethod
    def pay(self, name: str, rewards: torch.Tensor) -> None:
        """Set a learned stream's rewards, float32 [n, 1], of the newest ``n`` samples; others keep what they have."""

    @abstractmethod
    def samples(self, network: ActorCritic) -> Samples:
        """Samples without advantages and returns, on the network's device, normalised with the current statistics."""

    @abstractmethod
    def advantages(self, values: torch.Tensor, update: PolicyUpdate) -> tuple[torch.Tensor, torch.Tensor]:
        """Sum of all streams' advantages float32 [N, 1 or K], and their returns side by side [N, R].

        Args:
            values: current values, [N, R], in the order of the samples.
            update: its :meth:`~.ppo.PolicyUpdate.values` are used for the next observations.
        """

    def stale(self, *, renormalized: bool) -> torch.Tensor | slice | None:
        """Rows whose log-probability has to be recomputed with the current network; None: the current policy acted.

        ``renormalized``: whether the statistics were initialized after acting.
        """
        return slice(None) if renormalized else None


def estimated(
    update: PolicyUpdate,
    rewards: Mapping[str, torch.Tensor],
    columns: Sequence[torch.Tensor],
    goes_on: torch.Tensor,
    following: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum of all streams' advantages by :func:`~tau_trainer.memory.advantages.gae`, and returns of TD(lambda).

    Args:
        update: knows the streams.
        rewards: [N, r] of each stream by name, or [T, E, A, r]; all that follow have the same first dimensions.
        columns: values [..., R] of the observations, then of the next ones: 0 after a real end, and as if all ends
            were limits.
        goes_on: [...], 1 where the agent's next reward counts for this decision, 0 at the end of a trace.
        following: see there.
    """
    lambd, widths = update.hyperparameters.lambd, [stream.width for stream in update.streams]
    advantages = list[torch.Tensor]()
    parts = (torch.split(values, widths, dim=-1) for values in columns)
    for stream, now, in_episode, in_life in zip(update.streams, *parts, strict=True):
        later = in_episode if stream.episodic else in_life
        paid, decay = rewards[stream.name] * stream.strength, goes_on * (stream.gamma * lambd)
        advantages.append(gae(paid, now, later, decay, stream.gamma, following))
    # Streams add up: [..., 1] counts for all K.
    return sum(advantages[1:], advantages[0]), torch.cat(advantages, dim=-1) + columns[0]


class RolloutReader(Reader):
    """Samples in order of arrival; for recurrent networks, in the order of :meth:`Rollout.sequences`.

    Args:
        rollout: the experience to learn from.
        network: the network to train; its device is the samples'.
        version: of its policy. Data of older policies is compared with the policy that the update starts from:
            otherwise much of it would be outside the clip range before the first step. That is the proximal policy of
            the decoupled objective (Hilton et al. 2022) without its weight pi_proximal / pi_behavior: stale data
            counts as if it were fresh.
        generator: draws the minibatches.
        sequence_length: steps of a sequence; None: the network has no memory.
        ranks: the processes that learn together; all have the whole rollout, each takes a part of every minibatch.
    """

    def __init__(
        self,
        rollout: Rollout,
        network: ActorCritic,
        version: int,
        generator: torch.Generator,
        sequence_length: int | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self._rollout, self._network, self._version = rollout, network, version
        self._sequences = self._arrange(sequence_length)
        self._tensor = partial(as_tensor, device=network.action.weight.device)
        ranks, count = ranks or Ranks(), len(rollout)
        self.new = count - rollout.older
        self.rows = Rows(count, generator) if ranks.alone else SplitRows(ranks, count, generator)
        self._arrived: tuple[Inputs, torch.Tensor] | None = None
        """Inputs and recurrent states [N, towers, M] in order of arrival, if the network has a memory."""

    def _arrange(self, sequence_length: int | None) -> tuple[IndexArray, BoolArray] | None:
        """Choose the order of the samples: see :meth:`Rollout.sequences`; None: an order without sequences."""
        return None if sequence_length is None else self._rollout.sequences(sequence_length)

    @override
    def observe(self, normalizer: Normalizer) -> None:
        # The previous update took in the older ones.
        new = tuple(sensor[self._rollout.older :] for sensor in self._rollout.observations)
        normalizer.merge(self._network.vectors(new))

    @override
    def experience(self, network: ActorCritic) -> Experience:
        return experience_of(self._rollout, network, network.action.weight.device)

    @override
    def pay(self, name: str, rewards: torch.Tensor) -> None:
        paid, known = rewards.cpu().numpy(), self._rollout.rewards
        earlier = len(self._rollout) - len(paid)
        known[name] = np.concatenate((known[name][:earlier], paid)) if earlier else paid

    @override
    def samples(self, network: ActorCritic) -> Samples:
        rollout, nothing = self._rollout, torch.zeros(0)
        mask = rollout.mask
        # Actions are raw samples, before they are clipped for the environment.
        kept = [rollout.column(name) for name in ("continuous", "discrete", "log_prob")]
        continuous, discrete, log_prob = map(self._tensor, kept)
        samples = Samples(
            inputs=network.prepare(rollout.observations),
            state=nothing,
            continuous=continuous,
            discrete=discrete.long(),
            mask=nothing if mask is None else self._tensor(network.action.forbidden(mask)),
            log_prob=log_prob,
            advantage=nothing,
            returns=nothing,
            begins=nothing,
        )
        if self._sequences is None:
            return samples
        order, begins = self._sequences
        # In order of arrival, for states after bootstrapped transitions.
        self._arrived = samples.inputs, self._tensor(rollout.column(MEMORY))
        samples = samples._replace(state=self._arrived[1])
        return shuffled(samples, self._tensor(order))._replace(begins=self._tensor(begins))

    @override
    def advantages(self, values: torch.Tensor, update: PolicyUpdate) -> tuple[torch.Tensor, torch.Tensor]:
        rollout = self._rollout
        paid = {each.name: rollout.earned(each.name) for each in update.streams}
        rows = rollout.after, rollout.beyond, rollout.next, rollout.goes_on
        after, beyond, following, goes_on = map(self._tensor, rows)
        # Row of each sample in the order of arrival.
        order = slice(None) if self._sequences is None else self._tensor(self._sequences[0])
        current = exact(torch.empty_like(values))  # float64 [N, R], in order of arrival
        current[order] = exact(values)
        # [m, R].
        bootstrap = update.values(
            self._network.prepare(rollout.bootstrap_observations), self._after_bootstrapped(update)
        )
        # Rows of decisions, of bootstrapped ends, and a 0 for real ends.
        table = torch.cat((current, bootstrap.to(current.dtype), current.new_zeros(1, current.shape[1])))
        rewards = {name: self._tensor(values).to(current.dtype) for name, values in paid.items()}
        columns = current, table[after], table[beyond]
        found = estimated(update, rewards, columns, goes_on.to(current.dtype), following)
        return found[0][order].float(), found[1][order].float()

    @override
    def stale(self, *, renormalized: bool) -> torch.Tensor | slice | None:
        stale = np.flatnonzero(self._rollout.version < self._version)
        if renormalized or (len(stale) and self._sequences is not None):  # recompute whole sequences
            return slice(None)
        return self._tensor(stale) if len(stale) else None

    def _after_bootstrapped(self, update: PolicyUpdate) -> Past:
        """The recurrent state after the bootstrapped transitions."""
        if self._arrived is None:
            return NO_PAST
        inputs, state = self._arrived
        rows = self._tensor(self._rollout.bootstrapped)
        some = [values[rows] for values in inputs]  # rows [m, ...]
        return Past(update.in_pieces(lambda *piece: self._network(*piece).state, some, Past(state[rows])))


class TensorReader(Reader):
    """Samples in order of time, then copies, then agents. Rewards of a stream are float [T, E, A] or [T, E, A, R].

    Args:
        rollout: the experience to learn from; its rewards are the extrinsic ones.
        generator: draws the minibatches.
        ranks: the processes that learn together; the rollout is of this one's copies.
        cut: bool [T, E, A], further ends of traces; None: none.

    Attributes:
        paid: rewards of all streams by name, as the rollout's.
    """

    def __init__(
        self,
        rollout: TensorRollout,
        generator: torch.Generator,
        ranks: Ranks | None = None,
        cut: torch.Tensor | None = None,
    ) -> None:
        self.paid = {EXTRINSIC: rollout.rewards}
        self._rollout, self._ranks = rollout, ranks or Ranks()
        ended = rollout.terminated | rollout.truncated  # bool [T, E, A]
        self._goes_on = ~(ended if cut is None else ended | cut)
        present = rollout.present
        self._there: slice | torch.Tensor = slice(None)
        if present.shape[2] > 1:  # a single agent is there as long as its copy is
            self._there = self._flat(present).nonzero().squeeze(1)
        self._inputs = inputs_of(self._flat(rollout.observations))  # of N rows
        if self._ranks.alone:
            self.rows = Rows(len(self._inputs[0]), generator)
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
        normalizer.take_in(self._inputs[0], self.rows.count, self._ranks.add)

    @override
    def experience(self, network: ActorCritic) -> Experience:
        rollout, samples = self._rollout, self.samples(network)
        assert rollout.final is not None, "the actor asks for it"
        following = torch.cat((rollout.observations[1:], rollout.after[None]))
        ended = rollout.terminated | rollout.truncated
        # A copy that ended has restarted: its final observation is stored separately.
        following = torch.where(ended.view(*ended.shape, *[1] * (following.dim() - 3)), rollout.final, following)
        forbidden = samples.mask
        if rollout.mask is None:
            size = network.action.choices.mask_size
            forbidden = torch.zeros(len(self._inputs[0]), size, dtype=torch.bool, device=following.device)
        return Experience(
            self._inputs,
            inputs_of(self._flat(following)),
            1.0 - self._flat(rollout.terminated).float(),
            samples.continuous,
            samples.discrete,
            forbidden,
            self._inputs[0].new_zeros(0),  # filled in on demand, because the policy changes
        )

    @override
    def pay(self, name: str, rewards: torch.Tensor) -> None:
        self.paid[name] = self._spread(rewards)

    def earned(self, streams: Sequence[RewardStream], sums: CopySums) -> Float64Array:
        """Rewards of all streams [e, S], strengths included, of the episodes that end."""
        ended = self._rollout.terminated | self._rollout.truncated
        columns = [self.paid[each.name].view(*ended.shape, 1) * each.strength for each in streams]
        return sums.add(torch.cat(columns, dim=3), ended)

    @override
    def samples(self, network: ActorCritic) -> Samples:
        kept = {name: self._flat(values) for name, values in self._rollout.kept.items()}
        # Empty: of no rows, of no columns.
        nothing, none, mask = self._inputs[0].new_zeros(0), self._inputs[0][:, :0], self._rollout.mask
        branches = network.action.choices.discrete_branches
        return Samples(
            inputs=network.normalize(self._inputs),
            state=kept.get(MEMORY, nothing),
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
        dtype, shape = self._rollout.rewards.dtype, self._rollout.terminated.shape
        current = self._spread(values).to(dtype)  # [T, E, A, R] of all streams
        foresees = any(stream.gamma > 0.0 for stream in update.streams)
        # Without discounted future rewards, the critic is not needed.
        after = self._after(current, update) if foresees else torch.zeros_like(current)
        endless = not all(stream.episodic for stream in update.streams)
        beyond = self._after(current, update, beyond=True) if endless else after
        rewards = {name: paid.view(*shape, -1).to(dtype) for name, paid in self.paid.items()}  # [T, E, A, r]
        advantage, returns = estimated(update, rewards, (current, after, beyond), self._goes_on.to(dtype))
        return self._flat(advantage).float(), self._flat(returns).float()

    def _after(self, values: torch.Tensor, update: PolicyUpdate, *, beyond: bool = False) -> torch.Tensor:
        """Values [T, E, A, R] after each decision, from the values at the decisions; 0 after a real end.

        ``beyond``: treat all ends as limits.
        """
        rollout, truncated = self._rollout, self._rollout.truncated
        truncated = truncated | rollout.terminated if beyond else truncated

        def value(observations: torch.Tensor, some: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
            """[n, R] of observations [n, *obs] that came after ``some`` decisions of [T, E, A, ...]."""
            past = self._states_after(some, update)
            return update.values(update.network.normalize(inputs_of(observations)), past).to(values.dtype)

        # [1, E, A, R].
        last = value(rollout.after.flatten(0, 1), lambda rows: rows[-1].flatten(0, 1)).view_as(values[:1])
        # A copy that ended has restarted: one step later is another episode, and a real end has value 0.
        after = torch.cat((values[1:], last)) * ~rollout.terminated[..., None]
        if rollout.final is None:
            return after
        if self._picks:
            at = truncated.nonzero(as_tuple=True)  # t, e and a of each cut
            after[at] = value(rollout.final[at], lambda rows: rows[at])
            return after
        return torch.where(truncated[..., None], self._spread(value(self._flat(rollout.final), self._flat)), after)

    def _states_after(self, some: Callable[[torch.Tensor], torch.Tensor], update: PolicyUpdate) -> Past:
        """The recurrent state after ``some`` decisions of [T, E, A, ...]."""
        rollout, network = self._rollout, update.network
        if MEMORY not in rollout.kept:
            return NO_PAST
        inputs = network.normalize(inputs_of(some(rollout.observations)))
        before = Past(some(rollout.kept[MEMORY]))
        return Past(update.in_pieces(lambda *piece: network(*piece).state, inputs, before))

    @property
    def _picks(self) -> bool:
        """Whether to select final observations: on a CPU this is cheaper than computing all values."""
        return self._inputs[0].device.type == "cpu"


class SequenceReader(TensorReader):
    """Samples of a recurrent network: those of an agent follow one another, in the order of time, as sequences.

    Args:
        rollout: with the states before its decisions.
        generator: draws the minibatches.
        longest: steps of a sequence; an agent's decisions in an episode are cut into pieces of this length.
    """

    def __init__(self, rollout: TensorRollout, generator: torch.Generator, longest: int) -> None:
        super().__init__(rollout, generator)
        ended, steps = rollout.terminated | rollout.truncated, len(rollout.present)
        # bool [T, E, A]: the rollout's first step, the first after an end, and the first of an agent that was away.
        fresh = torch.ones_like(ended)
        fresh[1:] = ended[:-1] | ~rollout.present[:-1]
        step = torch.arange(steps, device=ended.device).view(steps, 1, 1)
        since = step - torch.where(fresh, step, 0).cummax(dim=0).values  # int64 [T, E, A]: steps since then
        self._begins = self._flat(since % longest == 0)

    @override
    def _flat(self, values: torch.Tensor) -> torch.Tensor:
        return values.movedim(0, 2).flatten(0, 2)[self._there]  # [E, A, T, ...] in between

    @override
    def _spread(self, values: torch.Tensor) -> torch.Tensor:
        steps, *agents = self._rollout.terminated.shape
        return super()._spread(values).view(*agents, steps, -1).movedim(2, 0)  # filled as [E, A, T, k]

    @override
    def samples(self, network: ActorCritic) -> Samples:
        return super().samples(network)._replace(begins=self._begins)


class PopulationReader(TensorReader):
    """Samples member after member, each in order of time.

    Args:
        rollout: of all members.
        generators: one for each member.
        cut: see :class:`TensorReader`.
    """

    _picks = False

    def __init__(self, rollout: TensorRollout, generators: Sequence[torch.Generator], cut: torch.Tensor) -> None:
        self._members = len(generators)
        super().__init__(rollout, generators[0], None, cut)
        self.rows = MemberRows(len(self._inputs[0]) // self._members, generators)
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
