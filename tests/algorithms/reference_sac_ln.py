"""The losses of ``sac_ln`` once more, from the papers: every network for itself, a loop over transitions."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.distributions import Categorical, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.specs import ActionSpec
from tests.algorithms.reference_sac import Weights, entropy_of, hidden

OWNERS = {
    "policy": ("network.body[0]", "network.action"),
    "q1": ("q[0]",),
    "q2": ("q[1]",),
    "coefficients": ("log_coefficients",),
}
"""Whose weights each loss moves; in brackets the tower."""


def normalized(weights: Weights, network: str, twin: int, x: torch.Tensor) -> torch.Tensor:
    layer = 0
    while f"{network}.body.{layer}.weight" in weights:
        x = x @ weights[f"{network}.body.{layer}.weight"][twin] + weights[f"{network}.body.{layer}.bias"][twin, 0]
        x = (x - x.mean()) / torch.sqrt(((x - x.mean()) ** 2).mean() + 1e-5)
        x = torch.clamp(x, min=0.0)
        layer += 1
    return x


def q_values(
    weights: Weights, network: str, twin: int, obs: torch.Tensor, action: torch.Tensor, streams: int
) -> torch.Tensor:
    """Q of every stream and discrete value, [S, A]."""
    features = normalized(weights, network, twin, torch.cat((obs, action)))
    return (features @ weights[f"{network}.weight"][twin] + weights[f"{network}.bias"][twin, 0]).view(streams, -1)


class Choice:
    """What the policy does with one observation."""

    def __init__(
        self, weights: Weights, actions: ActionSpec, obs: torch.Tensor, noise: torch.Tensor, forbidden: torch.Tensor
    ) -> None:
        size, branches = actions.continuous_size, actions.discrete_branches
        features = hidden(weights, "network.body", 0, obs)
        out = features @ weights["network.action.weight"] + weights["network.action.bias"]
        alpha = weights["log_coefficients"].detach().exp()
        self.cost, self.drawn = torch.zeros((), dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
        self.entropies: list[torch.Tensor] = []
        if size:
            gaussian = Normal(out[:size], out[size : 2 * size].clamp(-20, 2).exp())
            self.drawn = torch.tanh(gaussian.loc + gaussian.scale * noise.double())
            squashed: Any = TransformedDistribution(gaussian, [TanhTransform(cache_size=1)])
            self.log_pi = squashed.log_prob(self.drawn).sum()
            self.cost = self.cost + alpha[0] * self.log_pi
        self.expected, begin = [], 0
        for branch, width in enumerate(branches):
            logits = out[2 * size + begin : 2 * size + begin + width]
            found = Categorical(logits=logits.masked_fill(forbidden[begin : begin + width], -math.inf))
            self.entropies.append(entropy_of(found.probs))
            self.cost = self.cost - alpha[len(alpha) - len(branches) + branch] * self.entropies[-1] / len(branches)
            self.expected.append(found.probs)
            begin += width


def worth(q: torch.Tensor, branches: tuple[int, ...], chosen: list[Any]) -> torch.Tensor:
    """Of each stream: the mean over branches of what was chosen there, or is expected."""
    if not branches:
        return q[:, 0]
    total, first = torch.zeros(len(q), dtype=torch.float64), 0
    for width, choice in zip(branches, chosen, strict=True):
        part = q[:, first : first + width]
        total = total + (part @ choice if isinstance(choice, torch.Tensor) else part[:, choice])
        first += width
    return total / len(branches)


def textbook(
    weights: Weights, actions: ActionSpec, batch: Transitions, noise: torch.Tensor, gammas: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The losses of one minibatch of vectors: ``policy``, ``q1``, ``q2``, ``coefficients``.

    ``weights`` are those of a NormalizedSoftActorCritic, float64; ``noise`` [2, n, c].
    """
    branches, streams = actions.discrete_branches, len(gammas)
    logarithms = list(weights["log_coefficients"])
    found: dict[str, list[torch.Tensor]] = {name: [] for name in OWNERS}
    for row in range(noise.shape[1]):
        obs, following = batch.inputs[0][row].double(), batch.following[0][row].double()
        now = Choice(weights, actions, obs, noise[0, row], batch.forbidden[row])
        with torch.no_grad():
            backup = batch.rewards[row].double()
            then = Choice(weights, actions, following, noise[1, row], batch.forbidden_after[row])
            said = [
                worth(q_values(weights, "q_target", twin, following, then.drawn, streams), branches, then.expected)
                for twin in range(2)
            ]
            backup = backup + batch.goes_on[row].double() * gammas.double() * (torch.minimum(*said) - then.cost)
        taken = batch.discrete[row].tolist()
        weight = batch.weights[row].double() if len(batch.weights) else 1.0
        for twin in range(2):
            q = worth(q_values(weights, "q", twin, obs, batch.continuous[row].double(), streams), branches, taken)
            found[f"q{twin + 1}"].append(weight * 0.5 * ((q - backup) ** 2).mean())
        of_drawn = [
            worth(q_values(weights, "q", twin, obs, now.drawn, streams), branches, now.expected)
            for twin in range(1 if branches else 2)
        ]
        found["policy"].append(now.cost - torch.stack(of_drawn).mean())
        coefficients = torch.zeros((), dtype=torch.float64)
        if actions.continuous_size:
            coefficients = coefficients - logarithms[0] * (now.log_pi.detach() - actions.continuous_size)
        own = logarithms[len(logarithms) - len(branches) :]
        for width, entropy, logarithm in zip(branches, now.entropies, own, strict=True):
            coefficients = coefficients - logarithm * (0.2 * math.log(width) - entropy.detach()) / len(branches)
        found["coefficients"].append(coefficients)
    return {name: torch.stack(each).mean() for name, each in found.items()}
