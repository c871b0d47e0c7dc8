"""A critic that sees all agents of a group at once (Cohen et al. 2021, section 4; ML-Agents ``MultiAgentNetworkBody``).

Every agent is an entity: its observation is embedded, alone or together with its action, and all attend to each other,
so a group may have any size. The *value* comes from all observations. The *baseline* of an agent is the value of its
group given the others' actions but not its own: for that it is embedded without its action, and the others with theirs.

With a **memory**, every agent also has one for the critic, of its own observations, and the memory's output is embedded
together with the observation. Its state is stored with each decision like the actor's, by the process that acts.
ML-Agents has the memory after the attention, with one state for an agent's values and one for its baselines, and
computes them in the update. There every agent remembers its whole group; here the group's critic sees what each one
remembers. So groups that change their members need no memory of their own, a set has the same value for all agents, and
learning may start anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.columns import Column
from tau_trainer.errors import SettingsError
from tau_trainer.models.actor_critic import ActorCritic, NetworkOutput, make_memories
from tau_trainer.models.blocks import NO_PAST, Past, Recurrent, drawn_from
from tau_trainer.models.encoders.attention import HEADS, UNHEARD, begin_small, mean_of, normed
from tau_trainer.models.heads import ValueHead
from tau_trainer.models.hyper import make_body
from tau_trainer.models.mlp import Noise
from tau_trainer.models.observation_encoder import Inputs, make_encoders
from tau_trainer.specs import ActionSpec, BehaviorSpec

if TYPE_CHECKING:
    from tau_trainer.settings import NetworkSettings


CRITIC = 1
"""Index of the critic's memory in the shared state column; the actor's is the first."""


class GroupCritic(torch.nn.Module):
    """Values of groups and baselines of their members, by the same layers.

    Below, ``s`` groups have ``k`` members in all and at most ``m``; ``A`` numbers describe an agent's action, ``R`` its
    value.

    Args:
        spec: the behavior with the sensors that the policy sees.
        choices: the random choices of an agent (:attr:`ActionHead.choices`).
        settings: of the network; ``hidden_units`` is the width of an entity too.
        streams: name of each reward stream and its width.
        generator: source of the initial weights.

    Raises:
        SettingsError: networks do not support a sensor, or the heads cannot divide ``hidden_units`` evenly.
    """

    most: torch.Tensor
    """float64 []: number of members of the largest group so far."""

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
                f"network_settings.hidden_units is {width}, which the {HEADS} heads of the group's critic cannot "
                f"divide evenly; make it a multiple of {HEADS}"
            )
        self.branches = choices.discrete_branches
        self.encoders, seen, _ = make_encoders(spec, settings, 1, generator)
        self.memories = torch.nn.ModuleList()
        if settings.memory is not None:
            self.memories, remembered = make_memories(seen, settings.memory, 1, generator)
            seen += remembered
        with drawn_from(generator):
            self.alone = torch.nn.Linear(seen, width)
            self.acted = torch.nn.Linear(seen + choices.width, width)
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
        """Agents' actions, [n, A]: raw samples [n, c], and their choices [n, b] one-hot."""
        parts = [continuous]
        for i, size in enumerate(self.branches):
            chosen = torch.nn.functional.one_hot(discrete[:, i], size)
            parts.append(chosen.to(continuous.dtype))
        return torch.cat(parts, dim=1)

    def perceived(
        self, inputs: Inputs, state: torch.Tensor | None = None, begins: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Features of each agent's observation and memory, [k, F], and its new state [k, M]; M is 0 without a memory.

        Args:
            inputs: from :meth:`ActorCritic.prepare`, [k, ...].
            state: [k, M]; None = as at the start of an episode.
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
            features: [k, F] from :meth:`perceived`, the members of a group in a row.
            done: [k, A], see :meth:`done`; None: no baselines.
            sizes: int64 [s], members of each group, at least 1.

        Returns:
            Values [s, R], and baselines [k, R] or None.
        """
        most = int(sizes.max())
        present = torch.arange(most, device=sizes.device) < sizes[:, None]
        slots = present.flatten().nonzero()[:, 0]
        embedded = [self.alone(features)]
        if done is not None and most > 1:  # a single agent has no others whose actions count
            embedded.append(self.acted(torch.cat((features, done), dim=1)))
        # [s, m, e, width], zeros for empty places: each agent without its action and, for baselines, with it.
        entities = normed(torch.nn.functional.silu(torch.stack(embedded, dim=1)))
        if len(slots) < present.numel():
            padded = entities.new_zeros(present.numel(), *entities.shape[1:])
            entities = padded.index_copy(0, slots, entities)
        entities = entities.view(*present.shape, *entities.shape[1:])

        alone, value, match = entities[:, :, 0], *self._attention(entities, present)
        heard = (torch.softmax(match[0][0], dim=3) @ value[0]).transpose(1, 2).flatten(2)
        values = self._worth(mean_of(normed(self.out(heard) + alone), present), sizes)
        if done is None:
            return values, None
        if most == 1:
            return values, values
        pooled = self._without_own_action(entities, value, match, present)
        return values, self._worth(pooled.flatten(0, 1)[slots], sizes.repeat_interleave(sizes))

    def _attention(
        self, entities: torch.Tensor, present: torch.Tensor
    ) -> tuple[Sequence[torch.Tensor], Sequence[Sequence[torch.Tensor]]]:
        """Attention scores, for each of ``e`` kinds of entities [s, m, e, width].

        Returns:
            For each kind, its values by head, [s, h, m, width / h]. And for each kind of query and each kind of key,
            how
            well they match, [s, h, m, m].
        """
        layers = self.query, self.key, self.value
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        answer = torch.nn.functional.linear(entities, weight, bias)
        # One copy, so that products of all heads need none: three of [s, h, e, m, width / h].
        answer = answer.view(*entities.shape[:3], len(layers), HEADS, -1).permute(3, 0, 4, 2, 1, 5).contiguous()
        query, key, value = answer.unbind(0)
        match = (query * entities.shape[3] ** -0.5).flatten(2, 3) @ key.flatten(2, 3).mT
        unheard = ((~present).to(match.dtype) * UNHEARD)[:, None, None, None, None]
        match = match.view(*query.shape[:4], *query.shape[2:4]) + unheard
        return value.unbind(2), [asking.unbind(3) for asking in match.unbind(2)]

    def _without_own_action(
        self,
        entities: torch.Tensor,
        value: Sequence[torch.Tensor],
        match: Sequence[Sequence[torch.Tensor]],
        present: torch.Tensor,
    ) -> torch.Tensor:
        """[s, m, width]: the mean answer if member ``i`` is there without its action.

        Below, ``j`` is the query, ``k`` the key, ``h`` a head. All ``m`` lists of entities share queries, keys and
        values, also after :attr:`out`. List ``i`` differs for the query ``j = i`` and the key ``k = i``: there, scores
        are replaced, and answers are computed as if it were there with its action, plus the difference, so that they
        are one product per group. Only sums of positive numbers are divided by, so nothing cancels, however much of the
        attention one member has.
        """
        groups, members, _, width = entities.shape
        (alone_alone, alone_acted), (acted_alone, acted_acted) = match
        itself = torch.eye(members, dtype=torch.bool, device=entities.device)
        scores = acted_acted.transpose(1, 2)[:, None].expand(-1, members, -1, -1, -1).clone()  # [s, i, j, h, k]
        scores.diagonal(dim1=1, dim2=2).copy_(alone_acted.mT)
        scores.diagonal(dim1=1, dim2=4).copy_(torch.where(itself, alone_alone, acted_alone).transpose(1, 2))
        attention = torch.softmax(scores, dim=4)
        # Values and queries after `out`: [s, h, k, width] and [s, j, width].
        heard, asking = self._behind_out(value[1]), entities[:, :, 1] + self.out.bias
        answer = attention.flatten(3).flatten(1, 2) @ heard.flatten(1, 2)
        answer = answer.view(groups, members, members, width) + asking[:, None]
        # The difference, [s i, h + 1, width], and its weight, [s i, j, h + 1].
        apart = self._behind_out(value[0] - value[1]).transpose(1, 2), entities[:, :, :1] - entities[:, :, 1:]
        at_own = attention.diagonal(dim1=1, dim2=4).permute(0, 3, 1, 2)
        weights = at_own, itself.to(at_own.dtype).expand(groups, -1, -1)[..., None]
        answer = torch.baddbmm(
            answer.flatten(0, 1), torch.cat(weights, dim=3).flatten(0, 1), torch.cat(apart, dim=2).flatten(0, 1)
        )
        share = present.to(answer.dtype) / present.sum(dim=1, keepdim=True)
        return (share.repeat_interleave(members, dim=0)[:, None] @ normed(answer)).view(groups, members, width)

    def _behind_out(self, values: torch.Tensor) -> torch.Tensor:
        """[s, h, m, width] from values by head [s, h, m, width / h]: each head's part of the answer."""
        groups, _, members, size = values.shape
        weights = self.out.weight.view(-1, HEADS, size).permute(1, 2, 0)
        each = values.transpose(0, 1).reshape(HEADS, groups * members, size) @ weights
        return each.view(HEADS, groups, members, -1).transpose(0, 1)

    def _worth(self, pooled: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        """[n, R] from [n, width]; the head also gets the group's size relative to the largest so far, -1 to 1."""
        share = (sizes * (2.0 / self.most) - 1.0).to(pooled.dtype)[:, None]
        features = self.body(pooled, 0)
        result: torch.Tensor = self.worth(torch.cat((features, share), dim=1))
        return result


class GroupActorCritic(ActorCritic):
    """An ordinary actor with the values of its group.

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
        """State columns of the actor and of the critic."""
        return tuple(Column(column.name, (2, column.shape[1])) for column in super().state_columns)

    @override
    def forward(self, inputs: Inputs, past: Past = NO_PAST, noise: Noise | None = None) -> NetworkOutput:
        answer = super().forward(inputs, past, noise)
        if not self.memories or past.begins is not None:
            return answer
        _, after = self.critic.perceived(inputs, None if past.state is None else past.state[:, CRITIC])
        return answer._replace(state=torch.cat((answer.state, after[:, None]), dim=1))
