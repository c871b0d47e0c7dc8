"""SAC's losses once more, from the papers: every network for itself, a loop over transitions, torch.distributions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributions import Categorical, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.specs import ActionSpec

Weights = Mapping[str, torch.Tensor]


def hidden(weights: Weights, body: str, tower: int, x: torch.Tensor) -> torch.Tensor:
    layer = 0
    while f"{body}.{layer}.weight" in weights:
        x = x @ weights[f"{body}.{layer}.weight"][tower] + weights[f"{body}.{layer}.bias"][tower, 0]
        x = x * torch.sigmoid(x)
        layer += 1
    return x


def value(weights: Weights, network: str, obs: torch.Tensor) -> torch.Tensor:
    """V of every stream."""
    features = hidden(weights, f"{network}.body", 1, obs)
    return features @ weights[f"{network}.value.weight"] + weights[f"{network}.value.bias"]


def q_values(weights: Weights, twin: int, obs: torch.Tensor, action: torch.Tensor, streams: int) -> torch.Tensor:
    """Q of every stream and discrete value, [S, A]."""
    features = hidden(weights, "q.body", twin, torch.cat((obs, action)))
    return (features @ weights["q.weight"][twin] + weights["q.bias"][twin, 0]).view(streams, -1)


def textbook(
    weights: Weights,
    actions: ActionSpec,
    batch: Transitions,
    noise: torch.Tensor,
    gammas: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """The losses of one minibatch of vectors: ``policy``, ``value``, ``q1``, ``q2``, ``coefficients``.

    ``weights`` are those of a SoftActorCritic, float64.
    """
    size, branches, streams = actions.continuous_size, actions.discrete_branches, len(gammas)
    logarithms = list(weights["log_coefficients"])
    alpha = weights["log_coefficients"].detach().exp().tolist()
    found: dict[str, list[torch.Tensor]] = {name: [] for name in ("policy", "value", "q1", "q2", "coefficients")}
    for row in range(len(noise)):
        obs, following = batch.inputs[0][row].double(), batch.following[0][row].double()
        out = (
            hidden(weights, "network.body", 0, obs) @ weights["network.action.weight"] + weights["network.action.bias"]
        )
        cost = torch.zeros((), dtype=torch.float64)
        coefficients = torch.zeros((), dtype=torch.float64)
        drawn = torch.zeros(0, dtype=torch.float64)
        if size:
            gaussian = Normal(out[:size], out[size : 2 * size].clamp(-20, 2).exp())
            raw = gaussian.loc + gaussian.scale * noise[row].double()
            drawn = torch.tanh(raw)
            squashed: Any = TransformedDistribution(gaussian, [TanhTransform(cache_size=1)])
            log_pi = squashed.log_prob(drawn).sum()
            cost = cost + alpha[0] * log_pi
            coefficients = coefficients - logarithms[0] * (log_pi.detach() - size)
        categories, begin = [], 2 * size
        for branch, width in enumerate(branches):
            allowed = ~batch.forbidden[row, begin - 2 * size : begin - 2 * size + width]
            categories.append(Categorical(logits=out[begin : begin + width].masked_fill(~allowed, -math.inf)))
            own = len(logarithms) - len(branches) + branch
            entropy = entropy_of(categories[-1].probs)
            cost = cost - alpha[own] * entropy / len(branches)
            coefficients = coefficients - logarithms[own] * (0.2 * math.log(width) - entropy.detach()) / len(branches)
            begin += width

        def worth(q: torch.Tensor, chosen: list[Any]) -> torch.Tensor:
            """Of each stream: the mean over branches of what was chosen there, or is expected."""
            if not branches:
                return q[:, 0]
            total, first = torch.zeros(streams, dtype=torch.float64), 0
            for width, choice in zip(branches, chosen, strict=True):
                part = q[:, first : first + width]
                total = total + (part @ choice if isinstance(choice, torch.Tensor) else part[:, choice])
                first += width
            return total / len(branches)

        with torch.no_grad():
            backup = batch.rewards[row].double()
            if bool(batch.goes_on[row]):
                backup = backup + gammas.double() * value(weights, "target", following)
        taken, expected = batch.discrete[row].tolist(), [one.probs for one in categories]
        for twin in range(2):
            q = worth(q_values(weights, twin, obs, batch.continuous[row].double(), streams), taken)
            found[f"q{twin + 1}"].append(0.5 * ((q - backup) ** 2).mean())
        both = [worth(q_values(weights, twin, obs, drawn, streams), expected) for twin in range(2)]
        goal = (torch.minimum(*both) - cost).detach()
        found["value"].append(0.5 * ((value(weights, "network", obs) - goal) ** 2).mean())
        found["policy"].append(cost - both[0].mean())
        found["coefficients"].append(coefficients)
    return {name: torch.stack(each).mean() for name, each in found.items()}


def entropy_of(probability: torch.Tensor) -> torch.Tensor:
    some = probability[probability > 0]
    return -(some * some.log()).sum()


OWNERS = {
    "policy": ("network.body[0]", "network.action"),
    "value": ("network.body[1]", "network.value"),
    "q1": ("q[0]",),
    "q2": ("q[1]",),
    "coefficients": ("log_coefficients",),
}
"""Whose weights each loss moves; in brackets the tower."""


def gradients(
    weights: Weights, losses: Mapping[str, torch.Tensor], owners_of: Mapping[str, tuple[str, ...]] = OWNERS
) -> dict[str, torch.Tensor]:
    """Of each loss at its own weights alone."""
    names = list(weights)
    result = {name: torch.zeros_like(weights[name]) for name in names}
    for loss, owners in owners_of.items():
        found = torch.autograd.grad(losses[loss], list(weights.values()), retain_graph=True, allow_unused=True)
        for name, gradient in zip(names, found, strict=True):
            for owner in owners:
                prefix, _, tower = owner.partition("[")
                if gradient is None or not name.startswith(prefix):
                    continue
                if tower:
                    result[name][int(tower[0])] += gradient[int(tower[0])]
                else:
                    result[name] += gradient
    return result
