"""MA-POCA (Cohen et al. 2021) and MAPPO (Yu et al. 2022): PPO whose critic sees all agents of a group.

- Agents of one behavior that decide at the same moment in the same group form a *set*
  (:mod:`tau_trainer.memory.groups`). The critic estimates its value from everything that its agents see
  (:mod:`tau_trainer.models.group_critic`). Groups change their size as agents come and go. An agent without a group is
  a set by itself and learns as in PPO, with this critic.
- The reward of a decision is the sum of the own rewards of all agents in its set, plus the group's reward. Returns are
  TD(lambda)'s. The return of an agent that leaves continues with its group's, to the group's end or as far as it is
  known. A learned stream pays each decision separately.
- The advantage is that return minus a *baseline*. In POCA each agent has its own: it knows the others' actions, but not
  the agent's. So it removes the others' effect on the return, and keeps the agent's. In MAPPO the baseline is the set's
  value.
- Loss = policy loss + 0.5 (value loss + 0.5 baseline loss) - beta * entropy, ML-Agents' numbers; policy loss and all
  else as in :mod:`.ppo`.
- Both value losses have a trust region: a value that has moved by ``epsilon`` towards its return in an update stays
  there. In ML-Agents that has no effect, because it stores returns in place of the old values. If the critic's error
  is larger than 1 (root mean square over the update), the region grows by the same factor: otherwise large rewards
  would take forever.
- Several streams' advantages are added up, as everywhere here (ML-Agents takes their mean).
- Minibatches consist of whole sets, which share computations. If a minibatch's end cuts a set, both sides still see all
  of it. So ``batch_size`` should hold several sets.
- With a memory (see :mod:`tau_trainer.models.group_critic` for its owner), minibatches consist of whole blocks: up to
  ``sequence_length`` sets of a group, one after another, and in them sequences of its members as in :mod:`.ppo`.
"""

from __future__ import annotations

from functools import cached_property

import torch
from typing_extensions import override

from tau_trainer.algorithms.autograd import AutogradEpochs
from tau_trainer.algorithms.groups import GroupReader
from tau_trainer.algorithms.losses import Objective, clipped_surrogate, trust_region
from tau_trainer.algorithms.minibatches import Rows, Samples
from tau_trainer.algorithms.ppo import PPO, PolicyUpdate
from tau_trainer.columns import GROUP, MOMENT, Column
from tau_trainer.metrics import keys
from tau_trainer.models.actor_critic import NetworkOutput
from tau_trainer.models.blocks import NO_PAST, Past
from tau_trainer.models.group_critic import GroupActorCritic, GroupCritic
from tau_trainer.models.observation_encoder import Inputs


class GroupEpochs(AutogradEpochs):
    """Minibatches of sets.

    Args:
        update: has the objective to minimize, and knows the seats of samples.
    """

    def __init__(self, update: GroupUpdate, objective: Objective) -> None:
        super().__init__(update.network, update.parameters, update.ranks, objective)
        self._update = update

    @override
    def answer(self, minibatch: Samples) -> NetworkOutput:
        *inputs, seats = minibatch.inputs
        outputs = self._network.outputs(inputs, minibatch.past)
        return NetworkOutput(outputs, self._update.of_groups(seats), outputs[:, :0])


class GroupUpdate(PolicyUpdate):
    """PPO's update with the values of a group. ``C`` columns: values of all streams, and baselines if there are any.

    Attributes:
        baselines: whether each agent has its own baseline, as in POCA.
    """

    baselines: bool = True
    _reader: GroupReader
    _reach: torch.Tensor | float = 1.0
    """[C], at least 1: width of the trust region as a multiple of epsilon."""

    @property
    def critic(self) -> GroupCritic:
        """The critic of the network."""
        assert isinstance(self.network, GroupActorCritic)
        return self.network.critic

    @cached_property
    @override
    def objective(self) -> Objective:
        coefficients = (0.5, 0.25) if self.baselines else (0.5,)
        return Objective(clipped_surrogate, coefficients, self._value_losses)

    def of_groups(self, seats: torch.Tensor) -> torch.Tensor:
        """Current values, [n, C]."""
        return self._reader.seating.answer(self.critic, seats, baselines=self.baselines)

    @override
    def values(self, inputs: Inputs, past: Past = NO_PAST) -> torch.Tensor:
        seating = self._reader.seating
        seating.judge(self.critic, baselines=self.baselines)
        self.epochs = GroupEpochs(self, self.objective)
        self.epochs.rows = seating.rows_at_once(self.critic)
        return seating.before[inputs[-1]]

    @override
    def _prepared(self, samples: Samples, rows: Rows) -> Samples:
        error = samples.returns - self._reader.seating.before[samples.inputs[-1]]
        self._reach = error.square().mean(dim=0).sqrt().clamp(min=1.0)
        return super()._prepared(samples, rows)

    def _value_losses(self, values: torch.Tensor, samples: Samples, epsilon: float) -> tuple[torch.Tensor, ...]:
        """Losses of values and of baselines."""
        before = self._reader.seating.before[samples.inputs[-1]]
        reach = epsilon * self._reach
        losses = trust_region(values, before, samples.returns, reach)
        parts = losses.chunk(2, dim=1) if self.baselines else (losses,)
        return tuple(part.mean() for part in parts)

    @override
    def _losses(self, epochs: torch.Tensor) -> dict[str, torch.Tensor]:
        mean = epochs.mean(dim=0)
        others = {keys.BASELINE_LOSS: mean[6]} if self.baselines else {}
        return super()._losses(epochs) | others

    @override
    def _of_values(self, values: torch.Tensor, returns: torch.Tensor, rows: Rows) -> dict[str, torch.Tensor]:
        widths = [stream.width for stream in self.streams]
        size = sum(widths)
        found = super()._of_values(values[:, :size], returns[:, :size], rows)
        if self.baselines:
            means = torch.split(rows.mean(values[:, size:]), widths)
            for stream, mean in zip(self.streams, means, strict=True):
                found[keys.baseline_estimate(stream.name)] = mean.mean()
        return found


class SharedBaseline(GroupUpdate):
    """The value of the group is the baseline of all its agents."""

    baselines = False


class POCA(PPO):
    """The learner of one behavior's groups."""

    name = "poca"
    starts_from = ()
    update_kind = GroupUpdate
    reader_kind = GroupReader
    by_component = False

    @override
    def build_network(self) -> GroupActorCritic:
        return GroupActorCritic(self.spec, self.settings.network_settings, self.widths, self.generator)

    @cached_property
    @override
    def columns(self) -> tuple[Column, ...]:
        return (*super().columns, MOMENT, GROUP)


class MAPPO(POCA):
    """POCA without a baseline for each agent."""

    name = "mappo"
    update_kind = SharedBaseline
