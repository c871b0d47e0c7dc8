"""A critic that sees all agents of a group at once (Cohen et al. 2021, section 4; ML-Agents ``MultiAgentNetworkBody``).

Every agent is an entity: what it sees is embedded, alone or beside what it did, and all attend to each other, so a
group may have any size. The *value* is that of what all see. The *baseline* of an agent is what its group is worth if
the others do what they did and nothing is known of its own action: there it is embedded alone, and they with their
actions.

With a **memory** every agent has one for the critic too, of what it saw itself, and what it remembers stands beside
what it sees, in all embeddings. Its state is kept with each decision as the actor's is, by who acts. ML-Agents has the
memory behind the attention, one state for an agent's values and one for its baselines, and works them out in the
update. There every agent remembers its whole group; here the group's critic hears what each one remembers. So groups
that change their members need no memory of their own, a set is worth the same whoever asks, and learning may begin
anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.columns import Column
from tau_trainer.errors import SettingsError
from tau_trainer.models.actor_critic import ActorCritic, Answer, make_memories
from tau_trainer.models.blocks import Recurrent, drawn_from
from tau_trainer.models.encoders.attention import HEADS, UNHEARD, attended, begin_small, by_head, mean_of, normed
from tau_trainer.models.graph import NORM_EPSILON
from tau_trainer.models.heads import ValueHead
from tau_trainer.models.hyper import make_body
from tau_trainer.models.mlp import Noise
from tau_trainer.models.observation_encoder import Inputs, make_encoders
from tau_trainer.specs import ActionSpec, BehaviorSpec

if TYPE_CHECKING:
    from tau_trainer.settings import NetworkSettings


CRITIC = 1
"""Where the state of the critic's memory stands in the column of both; the actor's is the first."""


class GroupCritic(torch.nn.Module):
    """Values of groups and baselines of their members, by the same layers.

    Below ``s`` groups have ``k`` members in all and at most ``m``; ``A`` numbers say what an agent did, ``R`` its
    worth.

    Args:
        spec: the behavior with the sensors that the policy sees.
        choices: what is drawn for an agent (:attr:`ActionHead.choices`).
        settings: of the network; ``hidden_units`` is the width of an entity too.
        streams: name of each reward stream and its width.
        generator: source of the initial weights.

    Raises:
        SettingsError: a sensor is nothing that a network reads, or the heads do not share ``hidden_units`` evenly.
    """

    most: torch.Tensor
    """float64 []: members of the largest group so far."""

    def __init__(
        self,
        spec: BehaviorSpec,
        choices: ActionSpec,
        settings: NetworkSettings,
        streams: Mapping[str, int],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        width = settings.hidden_units
        if width % HEADS:
            raise SettingsError(
                f"network_settings.hidden_units is {width}, which the {HEADS} heads of the group's critic cannot share "
                f"evenly; make it a multiple of {HEADS}"
            )
        self.branches = choices.discrete_branches
        self.encoders, seen, _ = make_encoders(spec, settings, 1, generator)
        self.memories = torch.nn.ModuleList()
        if settings.memory is not None:
            self.memories, remembered = make_memories(seen, settings.memory, 1, generator)
            seen += remembered
        with drawn_from(generator):
            self.alone = torch.nn.Linear(seen, width)
            did = choices.continuous_size + choices.mask_size
            self.acted = torch.nn.Linear(seen + did, width)
            self.query = torch.nn.Linear(width, width)
            self.key = torch.nn.Linear(width, width)
            self.value = torch.nn.Linear(width, width)
            self.out = torch.nn.Linear(width, width)
            for layer in (self.alone, self.acted, self.query, self.key):
                begin_small(layer, width)
            begin_small(self.value, width)
            begin_small(self.out, width)
        self.body, _ = make_body(width, 0, settings, 1, generator)
        self.worth = ValueHead(self.body.size + 1, streams)
        self.register_buffer("most", torch.ones((), dtype=torch.float64))

    def done(self, continuous: torch.Tensor, discrete: torch.Tensor) -> torch.Tensor:
        """What agents did, [n, A]: raw samples [n, c], and their choices [n, b] one-hot."""
        parts = [continuous]
        for i, size in enumerate(self.branches):
            chosen = torch.nn.functional.one_hot(discrete[:, i], size)
            parts.append(chosen.to(continuous.dtype))
        return torch.cat(parts, dim=1)

    def perceived(
        self, inputs: Inputs, state: torch.Tensor | None = None, begins: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What each agent sees and remembers, [k, F], and its new state [k, M]; M is 0 without a memory.

        Args:
            inputs: of :meth:`ActorCritic.prepare`, [k, ...].
            state: [k, M]; None = as at the beginning of an episode.
            begins: bool [k], see :meth:`ActorCritic.forward`.
        """
        seen = self.encoders[0](inputs).features if self.encoders else inputs[0]
        if not self.memories:
            return seen, seen.new_zeros(len(seen), 0)
        memory = self.memories[0]
        assert isinstance(memory, Recurrent)
        before = seen.new_zeros(len(seen), memory.state_size) if state is None else state
        if begins is None:
            remembered, after = memory(seen, before)
        else:
            remembered, after = memory.unrolled(seen, before, begins), before[:, :0]
        return torch.cat((seen, remembered), dim=1), after

    def forward(
        self, features: torch.Tensor, done: torch.Tensor | None, sizes: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Values and baselines.

        Args:
            features: [k, F] of :meth:`perceived`, the members of a group one behind the other.
            done: [k, A], see :meth:`done`; None: no baselines are wanted.
            sizes: int64 [s], members of each group, at least 1.

        Returns:
            Values [s, R], and baselines [k, R] or None.
        """
        most = int(sizes.max())
        present = torch.arange(most, device=sizes.device) < sizes[:, None]
        slots = present.flatten().nonzero()[:, 0]

        def embedded(layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
            """[s, m, width] of [k, inputs], zeros where nobody is."""
            entities = normed(torch.nn.functional.silu(layer(x)))
            if len(slots) == present.numel():
                return entities.view(*present.shape, -1)
            padded = entities.new_zeros(present.numel(), entities.shape[1])
            return padded.index_copy(0, slots, entities).view(*present.shape, -1)

        alone = embedded(self.alone, features)
        query, key, value = (by_head(layer, alone) for layer in (self.query, self.key, self.value))
        heard = attended(query, key, value, present)
        values = self._worth(mean_of(normed(self.out(heard) + alone), present), sizes)
        if done is None:
            return values, None
        if most == 1:  # who is alone has no mates whose actions could count
            return values, values
        acted = embedded(self.acted, torch.cat((features, done), dim=1))
        pooled = self._without_own_action(alone, (query, key, value), acted, present)
        pooled = pooled.flatten(0, 1)[slots]
        return values, self._worth(pooled, sizes.repeat_interleave(sizes))

    def _without_own_action(
        self, alone: torch.Tensor, heads: tuple[torch.Tensor, ...], acted: torch.Tensor, present: torch.Tensor
    ) -> torch.Tensor:
        """[s, m, width]: what is heard on average where member ``i`` is there without its action.

        All ``m`` such lists of entities share keys, values and scores, which are worked out once. Below ``j`` is who
        asks, ``k`` who is asked, ``h`` a head. An answer is ``y_ij = sum_hk a_ijhk v_hk + sum_h a_ijhi d_ih + x_j``
        with the values ``v`` behind :attr:`out`, ``d_i`` what is added to them where ``k = i``, and the asking entity
        ``x``. All have mean 0, so normalising is dividing by ``|y|``, which follows from products among ``v``, ``d``
        and ``x``; then the mean over ``j`` is taken of attention. So nothing as large as all ``y`` [s, m, m, width] is
        made.
        """
        members, width = acted.shape[1:]
        # Of every head: [s, h, m, width / h].
        query_alone, key_alone, value_alone = heads
        query, key, value = (by_head(layer, acted) for layer in (self.query, self.key, self.value))
        query_alone = query_alone * width**-0.5
        query = query * width**-0.5
        diagonal = torch.eye(members, dtype=torch.bool, device=acted.device)
        # [s, 1, 1, k]
        unheard = ((~present).to(acted.dtype) * UNHEARD)[:, None, None]
        # [h, width / h, width]
        weights = self.out.weight - self.out.weight.mean(dim=0)
        weights = weights.view(width, HEADS, -1).permute(1, 2, 0)
        bias = self.out.bias - self.out.bias.mean()
        # v [s, h k, width], d [s, i, h, width], x [s, j, width]
        heard = self._behind_out(value, weights).flatten(1, 2)
        instead = self._behind_out(value_alone - value, weights).transpose(1, 2)
        asking = acted + bias

        # Mates j != i ask everybody; where k = i they meet i without its action. Scores are [s, i, j, h, k].
        match = (query @ key.mT).transpose(1, 2) + unheard
        match_own = (query @ key_alone.mT).permute(0, 3, 2, 1)
        match = torch.where(diagonal[:, None, None], match_own[..., None], match[:, None])
        attention = torch.softmax(match, dim=4)
        at_own = attention.diagonal(dim1=1, dim2=4).permute(0, 3, 1, 2)
        attention = attention.flatten(3)
        # |y|² [s, i, j]: products of v with v and x, of x with itself, and of d with all three.
        square = attention.flatten(1, 2) @ (heard @ heard.mT)
        square = square.view_as(attention) + 2.0 * (asking @ heard.mT)[:, None]
        square = (square * attention).sum(dim=3) + asking.square().sum(dim=2)[:, None]
        apart = instead.flatten(1, 2).mT
        by_member = (len(acted), -1, members, HEADS)
        mixed = attention @ (heard @ apart).view(by_member).transpose(1, 2)
        mixed = mixed + (asking @ apart).view(by_member).transpose(1, 2)
        mixed = 2.0 * mixed + at_own @ (instead @ instead.mT)
        square = square + (at_own * mixed).sum(dim=3)
        share = torch.rsqrt(square.clamp(min=0.0) / width + NORM_EPSILON)
        share = share * (present[:, None] & ~diagonal)
        # Sums over j: [s, i, h k], [s, i, h] and [s, i, width].
        shared = share[:, :, None]
        total = (shared @ attention)[:, :, 0] @ heard + share @ asking
        total = total + (shared @ at_own @ instead)[:, :, 0]

        # And i itself asks, without its action: [s, i, h, k].
        match = (query_alone @ key.mT).transpose(1, 2) + unheard
        match_own = (query_alone * key_alone).sum(dim=3).mT
        match = torch.where(diagonal[:, None], match_own[..., None], match)
        attention = torch.softmax(match, dim=3)
        at_own = attention.diagonal(dim1=1, dim2=3).mT
        answer = attention.flatten(2) @ heard + alone + bias
        answer = normed(answer + (at_own[:, :, None] @ instead)[:, :, 0])
        return (total + answer) / present.sum(dim=1)[:, None, None]

    @staticmethod
    def _behind_out(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """[s, h, m, width] of values by head [s, h, m, width / h], by weights [h, width / h, width]."""
        groups, _, members, size = values.shape
        each = values.transpose(0, 1).reshape(HEADS, groups * members, size) @ weights
        return each.view(HEADS, groups, members, -1).transpose(0, 1)

    def _worth(self, pooled: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        """[n, R] of [n, width]; the head is told how large the group is beside the largest so far, -1 to 1."""
        share = (sizes * (2.0 / self.most) - 1.0).to(pooled.dtype)[:, None]
        features = self.body(pooled, 0)
        result: torch.Tensor = self.worth(torch.cat((features, share), dim=1))
        return result


class GroupActorCritic(ActorCritic):
    """An actor as everywhere, whose values are those of its group.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: shape of both networks.
        streams: name of each reward stream and its width.
        generator: source of the initial weights.

    Raises:
        SettingsError: see :class:`ActorCritic` and :class:`GroupCritic`.
    """

    def __init__(
        self, spec: BehaviorSpec, settings: NetworkSettings, streams: Mapping[str, int], generator: torch.Generator
    ) -> None:
        # The critic has the values.
        super().__init__(spec, settings, {}, shared_critic=True, generator=generator)
        choices = self.action.choices
        self.critic = GroupCritic(spec, choices, settings, streams, generator)

    @property
    @override
    def state_columns(self) -> tuple[Column, ...]:
        """Of the actor, and of the critic."""
        return tuple(Column(column.name, (2, column.shape[1])) for column in super().state_columns)

    @override
    def forward(
        self,
        inputs: Inputs,
        state: torch.Tensor | None = None,
        begins: torch.Tensor | None = None,
        noise: Noise | None = None,
    ) -> Answer:
        answer = super().forward(inputs, state, begins, noise)
        if not self.memories or begins is not None:
            return answer
        _, after = self.critic.perceived(inputs, None if state is None else state[:, CRITIC])
        return answer._replace(state=torch.cat((answer.state, after[:, None]), dim=1))
