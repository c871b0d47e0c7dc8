"""Many plain networks of one shape as one: their weights are stacked, and one batched product per layer serves all.

Their results are ordered member after member, [P * n]. Members do not interact in the loss, so the gradient of its sum
contains each member's own gradient.

Shapes: ``P`` members; ``n`` rows of each; ``S`` floats of one member's parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.algorithms.batched.acting import StackedHead
from tau_trainer.algorithms.parameters import FlatParameters, OptimizerState, optimizer_step_from_python
from tau_trainer.models.actor_critic import ACTOR, ActorCritic, NetworkOutput
from tau_trainer.models.blocks import NO_PAST, Past
from tau_trainer.models.normalizer import Normalizer

if TYPE_CHECKING:
    from tau_trainer.models.observation_encoder import Inputs

STACKED = "parameters", "gradient", "exp_avg", "exp_avg_sq"
"""Stacked vectors, by the names of :class:`OptimizerState`."""


class StackedNormalizer(Normalizer):
    """The normalisers of all members, whose statistics are rows of this one's: ``mean`` float64 [P, 1, D]."""

    def __init__(self, members: Sequence[Normalizer]) -> None:
        super().__init__(members[0].mean.numel())
        self._members = members
        for name, of_one in list(self.named_buffers()):
            # [P, 1, D], or [P, 1, 1] of counts.
            stack = torch.stack([member.get_buffer(name) for member in members]).view(len(members), 1, -1)
            setattr(self, name, stack)
            for member, row in zip(members, stack, strict=True):
                setattr(member, name, row.view(of_one.shape))  # a view: member and stack share memory

    def part(self, some: slice) -> StackedNormalizer:
        """The normaliser of some members, as views of their rows."""
        part = copy.copy(self)  # shallow: modules and buffers are not copied
        part._members = self._members[some]
        part._buffers = {name: rows[some] for name, rows in self.named_buffers()}
        return part

    @property
    @override
    def untouched(self) -> bool:
        return all(member.untouched for member in self._members)

    @override
    def take_in(
        self,
        rows: torch.Tensor,
        count: int | None = None,
        add: Callable[[torch.Tensor], torch.Tensor] = lambda values: values,
    ) -> None:
        """Let each member take in its own rows of [P * n, D]."""
        for member, part in zip(self._members, rows.view(len(self._members), -1, rows.shape[1]), strict=True):
            member.take_in(part)


class StackedNetwork:
    """Acts and learns in place of an :class:`ActorCritic`.

    Args:
        like: one of the networks.
        weights: parameters [P, ...] by name.
        normalizer: of all members.
    """

    plain = False

    def __init__(
        self, like: ActorCritic, weights: Mapping[str, torch.Tensor], normalizer: StackedNormalizer | None
    ) -> None:
        self._weights, self._layers, self._towers = weights, len(like.body), like.towers
        self.normalizer = normalizer
        self.action = StackedHead(like.action.choices, weights["action.log_sigma"])

    def normalize(self, arranged: Inputs) -> Inputs:
        """Observations [P * n, D], normalised with the statistics of each member."""
        (rows,) = arranged
        return [rows if self.normalizer is None else self.normalizer(self._apart(rows)).view(rows.shape)]

    def __call__(self, inputs: Inputs, past: Past = NO_PAST) -> NetworkOutput:
        """The networks' outputs for normalised rows [P * n, D]."""
        actor = self._features(inputs, ACTOR)
        critic = actor if self._towers == 1 else self._features(inputs, self._towers - 1)  # [P, n, H]
        return NetworkOutput(self._said("action", actor), self._said("value", critic), actor.new_zeros(0))

    def outputs(self, inputs: Inputs, past: Past = NO_PAST) -> torch.Tensor:
        """The actors' outputs: means and logits [P * n, c + M]."""
        return self._said("action", self._features(inputs, ACTOR))

    def values(self, inputs: Inputs, past: Past = NO_PAST) -> torch.Tensor:
        """The critics' outputs: values [P * n, R]."""
        return self._said("value", self._features(inputs, self._towers - 1))

    def _apart(self, rows: torch.Tensor) -> torch.Tensor:
        """[P, n, D] of [P * n, D]."""
        return rows.view(len(self.action.log_sigma), -1, rows.shape[1])

    def _features(self, inputs: Inputs, tower: int) -> torch.Tensor:
        """[P, n, H]."""
        features = self._apart(inputs[0])
        for layer in range(self._layers):
            # [P, in, H], [P, 1, H].
            weight, bias = (self._weights[f"body.{layer}.{name}"][:, tower] for name in ("weight", "bias"))
            linear = torch.baddbmm(bias, features, weight)
            features = torch.nn.functional.silu(linear, inplace=not linear.requires_grad)
        return features

    def _said(self, head: str, features: torch.Tensor) -> torch.Tensor:
        """[P * n, ...] of features [P, n, H]."""
        # [P, 1, out], [P, H, out].
        bias = self._weights[f"{head}.bias"].unsqueeze(1)
        weight = self._weights[f"{head}.weight"]
        return torch.baddbmm(bias, features, weight).flatten(0, 1)


class StackedParameters:
    """Takes optimizer steps in place of :class:`FlatParameters`, for all members at once.

    Args:
        like: the parameters of one member, whose vectors are rows of the stack.
        stack: float32 [P, S] each, by the names in :data:`STACKED`.

    Attributes:
        weights: parameters [P, ...] by name, from which losses are differentiated.
    """

    def __init__(self, like: FlatParameters, stack: Mapping[str, torch.Tensor]) -> None:
        scratch = torch.empty_like(stack["parameters"])
        step = torch.zeros_like(like.optimizer.step)
        self.optimizer: OptimizerState = like.optimizer._replace(**stack, scratch=scratch, step=step)  # type: ignore[arg-type]
        self.weights = {name: view.requires_grad_() for name, view in like.views(stack["parameters"].detach()).items()}
        self._gradients = list(like.views(stack["gradient"]).values())
        self._taken = torch.zeros((), device=scratch.device)  # number of steps, as torch's own Adam counts them

    def differentiate(self, loss: torch.Tensor) -> None:
        """See :meth:`FlatParameters.differentiate`."""
        # Torch accumulates only into dense gradients, which rows of a stack are not.
        found = torch.autograd.grad(loss, list(self.weights.values()), allow_unused=True)
        for gradient, more in zip(self._gradients, found, strict=True):
            if more is not None:
                gradient.add_(more)

    @torch.no_grad()
    def descend(self, learning_rate: float) -> None:
        """See :meth:`FlatParameters.descend`."""
        self.optimizer.step.add_(1)
        optimizer_step_from_python(self.optimizer, learning_rate, int(self.optimizer.step), self._taken)
