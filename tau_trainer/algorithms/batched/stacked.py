"""PPO's epochs for many members at once, whose weights are stacked: one batched product a layer serves all.

The loss is :mod:`tau_trainer.algorithms.autograd`'s. Members do not meet in it, so the gradient of their sum is each
one's own.

Shapes: ``P`` members; ``N`` samples of a member's rollout, ``B`` of a minibatch; ``K`` components of an action; ``R``
numbers in a reward; ``S`` floats of one member's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import torch

from tau_trainer.algorithms.autograd import loss_of
from tau_trainer.algorithms.batch import EpochStatistics, Samples, normalized, shuffled_order
from tau_trainer.algorithms.fused import Numbers
from tau_trainer.algorithms.parameters import optimizer_step_from_python
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.statistics import summarize_epoch
from tau_trainer.models.actor_critic import ACTOR, ActorCritic

if TYPE_CHECKING:
    from tau_trainer.settings import PPOHyperparameters

ROWS = "parameters", "gradient", "exp_avg", "exp_avg_sq"
"""What is stacked, by the names of :class:`OptimizerState`."""
_FLAT = "continuous", "discrete", "log_prob", "advantage", "returns"


def features(
    network: ActorCritic, weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, tower: int
) -> torch.Tensor:
    """Features [P, n, H] of one tower from its inputs [P, n, D]: one product a layer."""
    for layer in range(len(network.body)):
        weight, bias = (weights[f"body.{layer}.{name}"][:, tower] for name in ("weight", "bias"))
        linear = torch.baddbmm(bias, inputs, weight)
        inputs = torch.nn.functional.silu(linear, inplace=not linear.requires_grad)
    return inputs


def head(name: str, weights: Mapping[str, torch.Tensor], features: torch.Tensor) -> torch.Tensor:
    """What a head says [P, n, ...] of features [P, n, H]."""
    return torch.baddbmm(weights[f"{name}.bias"].unsqueeze(1), features, weights[f"{name}.weight"])


class StackedEpochs:
    """The epochs of all members.

    Args:
        members: plain networks of one shape, with the same settings; their generators shuffle.
        rows: float32 [P, S] each, by the names in :data:`ROWS`; changed in place.
    """

    def __init__(self, members: Sequence[PPO], rows: Mapping[str, torch.Tensor]) -> None:
        first = members[0]
        self._members, self._rows, self._network = members, rows, first.network
        self._own = cast("PPOHyperparameters", first.settings.hyperparameters)
        views, stack = first.parameters.views, rows["parameters"]
        self._weights = {name: one.requires_grad_() for name, one in views(stack.detach()).items()}
        self._gradients = views(rows["gradient"])
        self._optimizer = first.parameters.optimizer._replace(
            parameters=stack,
            gradient=rows["gradient"],
            exp_avg=rows["exp_avg"],
            exp_avg_sq=rows["exp_avg_sq"],
            scratch=torch.empty_like(stack),
        )
        self._taken = torch.zeros((), device=stack.device)

    def run(self, samples: Samples, numbers: Numbers, taken: int, learns: torch.Tensor) -> torch.Tensor:
        """``num_epoch`` epochs of ``samples`` [P, N, ...].

        Args:
            samples: of all members; what does not exist has length 0.
            numbers: of this update.
            taken: steps of the optimizer before.
            learns: bool [P]: who is to learn. The rows of others, and of who comes to NaN, are as before.

        Returns:
            [P, 6], the numbers of :class:`UpdateSummary` in order; not finite of who came to NaN.
        """
        backup = {name: rows.clone() for name, rows in self._rows.items()}
        size = samples.inputs[0].shape[1]
        batch = min(self._own.batch_size, size)
        epochs = [
            self._epoch(samples, numbers, taken + number * (size // batch), batch)
            for number in range(self._own.num_epoch)
        ]
        summary = torch.stack(epochs, dim=1)
        mean, last = summary.mean(dim=1), summary[:, -1]
        told = torch.cat((mean[:, :3], last[:, 3:5], mean[:, 5:]), dim=1)
        whole = torch.isfinite(self._rows["parameters"].sum(dim=1)) & torch.isfinite(summary.sum(dim=(1, 2)))
        learned = whole & learns
        for name, rows in self._rows.items():
            rows.copy_(torch.where(learned[:, None], rows, backup[name]))
        return torch.where(whole[:, None], told, torch.nan)

    def _epoch(self, samples: Samples, numbers: Numbers, taken: int, batch: int) -> torch.Tensor:
        """All minibatches once; [P, 6] of :func:`summarize_epoch`."""
        count, size = samples.inputs[0].shape[:2]
        minibatches, device = size // batch, samples.inputs[0].device
        orders = [shuffled_order(samples.begins, size, one.generator) for one in self._members]
        order = torch.stack(orders)[:, : minibatches * batch].to(device)
        order += size * torch.arange(count, device=device)[:, None]
        flat = samples._replace(inputs=[samples.inputs[0].flatten(0, 1)])
        flat = flat._replace(**{name: getattr(samples, name).flatten(0, 1) for name in _FLAT})
        if self._own.normalize_advantage == "minibatch":
            stacked = normalized(flat.advantage[order].view(count, minibatches, batch, -1))
            flat = flat._replace(advantage=flat.advantage.index_copy(0, order.flatten(), stacked.flatten(0, 2)))
        found = []
        for index in range(minibatches):
            rows = order[:, index * batch : (index + 1) * batch].flatten()
            minibatch = flat.map(lambda values, rows=rows: values.index_select(0, rows))  # type: ignore[misc]
            found.append(self._descend(minibatch, numbers, taken + index + 1))
        log_ratio, values, entropy, norm = (torch.stack(one, dim=1) for one in zip(*found, strict=True))
        statistics = log_ratio.flatten(1, 2), values.flatten(1, 2), entropy, norm

        def summary(advantage: torch.Tensor, returns: torch.Tensor, *one: torch.Tensor) -> torch.Tensor:
            shown = samples._replace(advantage=advantage, returns=returns)
            return summarize_epoch(shown, EpochStatistics(*one), numbers.epsilon)

        summaries: torch.Tensor = torch.vmap(summary)(flat.advantage[order], flat.returns[order], *statistics)
        return summaries

    def _descend(
        self, samples: Samples, numbers: Numbers, step: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """One step of every member; log ratios [P, B, K], values [P, B, R], entropies and norms of gradients [P]."""
        network, weights, gradient = self._network, self._weights, self._rows["gradient"]
        count = len(gradient)
        inputs = samples.inputs[0].view(count, -1, samples.inputs[0].shape[-1])
        batch = inputs.shape[1]
        with torch.enable_grad():
            actor = features(network, weights, inputs, ACTOR)
            critic = actor if network.towers == 1 else features(network, weights, inputs, network.towers - 1)
            outputs, values = head("action", weights, actor), head("value", weights, critic)
            sigma = weights["action.log_sigma"].unsqueeze(1).expand(-1, batch, -1).flatten(0, 1)
            flat = outputs.flatten(0, 1), sigma, values.flatten(0, 1)
            loss, log_ratio, entropies = loss_of(numbers, network.action.choices, *flat, samples)
            # The mean over members: times their number it is the sum, and so every member's own gradient.
            found = torch.autograd.grad(loss * count, list(weights.values()), allow_unused=True)
        for own, one in zip(self._gradients.values(), found, strict=True):
            if one is not None:
                own.copy_(one)
        norm = torch.linalg.vector_norm(gradient, dim=1)
        if numbers.max_grad_norm > 0.0:
            gradient.mul_(torch.clamp(numbers.max_grad_norm / (norm + 1e-6), max=1.0)[:, None])
        optimizer_step_from_python(self._optimizer, numbers.learning_rate, step, self._taken)
        shapes = count, batch, -1
        entropy = entropies.view(count, batch).mean(dim=1)
        return log_ratio.view(shapes), values.detach(), entropy, norm
