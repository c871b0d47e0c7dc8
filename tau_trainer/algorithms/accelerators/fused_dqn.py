"""DQN's gradient step by hand, for plain networks, as :mod:`.fused` is for PPO.

The formulas are those of :class:`~tau_trainer.algorithms.off_policy.q_learning.QLearning`; tests compare both. With
TorchScript, all steps of an update run without Python and without the interpreter's lock. ``B`` is the minibatch, ``H``
the hidden units, ``T`` towers (2 with dueling), ``b`` branches, ``M`` their sizes together.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from tau_trainer.algorithms.accelerators.fused_sac import back, through
from tau_trainer.algorithms.accelerators.steps import FusedSteps
from tau_trainer.algorithms.off_policy.transitions import Transitions, minibatch
from tau_trainer.algorithms.parameters import FlatParameters, OptimizerState, clip_gradient, optimizer_step


class ValueWeights(NamedTuple):
    """Parameters of one network, or their gradients: views of one flat vector. Shapes as in its own parameters."""

    body_weight: list[torch.Tensor]  # one per layer, [T, in, H]
    body_bias: list[torch.Tensor]  # [T, 1, H]
    action_weight: torch.Tensor  # [H, M]
    action_bias: torch.Tensor  # [M]
    value_weight: torch.Tensor  # [H, 1], or [H, 0] without dueling
    value_bias: torch.Tensor  # [1], or [0]


class Activations(NamedTuple):
    """Activations of one pass, overwritten by the next: [T, rows, H] per layer."""

    pre: list[torch.Tensor]
    """Before each swish."""
    post: list[torch.Tensor]
    """After each swish."""


class Branches(NamedTuple):
    """Values that follow from the sizes of branches."""

    sizes: list[int]
    first: torch.Tensor
    """int64 [b]: first column of each branch."""
    shares: torch.Tensor
    """[M, b]: one over the size of the branch that a value belongs to, 0 for other branches."""


class DQNConstants(NamedTuple):
    """Sizes of the actions, and hyperparameters that do not change."""

    gamma: float
    limit: float
    """Of an error's gradient."""
    clip: float
    """Largest error that the memory learns."""
    double: bool
    tau: float
    interval: int
    """Gradient steps between two target updates."""
    max_grad_norm: float
    """Largest norm of a gradient; larger ones are scaled down. 0: no limit."""
    branches: Branches


class ValueNetworks(NamedTuple):
    """All tensors that a gradient step changes."""

    weights: ValueWeights
    gradient: ValueWeights
    target: ValueWeights
    followed: list[torch.Tensor]
    """The target's parameters."""
    source: list[torch.Tensor]
    """Those that they follow."""
    optimizer: OptimizerState


class ValueWorkspace(NamedTuple):
    """Activations of one minibatch, overwritten by the next."""

    seen: Activations
    """For the observations; with ``double``, the next ones follow."""
    after: Activations
    """The target's, for the next observations."""


def named_value_weights(views: dict[str, torch.Tensor], network: str) -> ValueWeights:
    """The parameters of one network, or their gradients, under this file's names."""
    layers = sum(name.startswith(f"{network}.body.") for name in views) // 2
    return ValueWeights(
        body_weight=[views[f"{network}.body.{layer}.weight"] for layer in range(layers)],
        body_bias=[views[f"{network}.body.{layer}.bias"] for layer in range(layers)],
        action_weight=views[f"{network}.action.weight"],
        action_bias=views[f"{network}.action.bias"],
        value_weight=views[f"{network}.value.weight"],
        value_bias=views[f"{network}.value.bias"],
    )


def new_activations(weights: ValueWeights, rows: int) -> Activations:
    """Memory for passes of ``rows`` rows."""
    pre, post = ([bias.new_zeros(bias.size(0), rows, bias.size(2)) for bias in weights.body_bias] for _ in range(2))
    return Activations(pre, post)


def features_of(weights: ValueWeights, x: torch.Tensor, space: Activations) -> torch.Tensor:
    """[T, n, H] from observations [n, in]; fills the activations."""
    towers = 2 if weights.value_weight.size(1) > 0 else 1
    both = x.unsqueeze(0).expand(towers, x.size(0), x.size(1))  # a view [T, n, in]
    return through(both, weights.body_weight, weights.body_bias, space.pre, space.post)


def worth_of(weights: ValueWeights, features: torch.Tensor, shares: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Values of actions [n]: the mean over branches of the columns ``chosen`` [n, b]."""
    scores = torch.addmm(weights.action_bias, features[0], weights.action_weight)  # [n, M]
    worth = scores.gather(1, chosen)  # [n, b]
    if weights.value_weight.size(1) > 0:
        value = torch.addmm(weights.value_bias, features[1], weights.value_weight)
        worth = worth - torch.mm(scores, shares) + value  # Wang et al. 2016, equation 9, in each branch
    return worth.mean(dim=1)


def best_of(weights: ValueWeights, features: torch.Tensor, branches: Branches, forbidden: torch.Tensor) -> torch.Tensor:
    """The column [n, b] of each branch's best value that is not ``forbidden`` [n, M]."""
    scores = torch.addmm(weights.action_bias, features[0], weights.action_weight).masked_fill(forbidden, -1e8)  # [n, M]
    parts = torch.split(scores, branches.sizes, dim=1)
    return torch.stack([part.argmax(dim=1) for part in parts], dim=1) + branches.first


def compute_value_gradient(
    hyper: DQNConstants, networks: ValueNetworks, spaces: ValueWorkspace, batch: Transitions
) -> torch.Tensor:
    """Write the gradient of one minibatch's loss and its errors; returns the loss and the mean value, [2]."""
    weights, gradient, target = networks.weights, networks.gradient, networks.target
    branches, space = hyper.branches, spaces.seen
    x, rows = batch.inputs[0], batch.rewards.size(0)  # [B, D]
    following = features_of(target, batch.following[0], spaces.after)  # [T, B, H]
    if hyper.double:  # observations and next observations, in one product per layer
        x = torch.cat((x, batch.following[0]))  # [2B, D]
    features = features_of(weights, x, space)
    if hyper.double:
        best = best_of(weights, features[:, rows:], branches, batch.forbidden_after)
    else:
        best = best_of(target, following, branches, batch.forbidden_after)
    future = worth_of(target, following, branches.shares, best)  # [B]
    goal = torch.addcmul(batch.rewards[:, 0], batch.goes_on[:, 0], future, value=hyper.gamma)  # [B]
    seen, chosen = features[:, :rows], batch.discrete + branches.first  # seen [T, B, H]; chosen int64 [B, b]
    values = worth_of(weights, seen, branches.shares, chosen)  # [B]
    error = values - goal  # temporal differences [B]
    size, limited = error.abs(), error.clamp(-hyper.limit, hyper.limit)
    loss = limited.abs()
    loss = loss * torch.sub(size, loss, alpha=0.5)  # Huber: |l| (|e| - |l| / 2)
    upstream = limited * (1.0 / float(rows))  # at the worth [B], of the mean over B
    if batch.weights.size(0) > 0:
        batch.errors.copy_(size.clamp(max=hyper.clip))
        loss, upstream = loss * batch.weights, upstream * batch.weights
    count = float(len(branches.sizes))
    each = upstream.unsqueeze(1) / count  # [B, 1]: a value is the mean over branches
    grad_scores = torch.zeros(rows, branches.shares.size(0), device=x.device)  # [B, M]
    grad_scores.scatter_(1, chosen, each.expand(rows, chosen.size(1)))
    dueling = weights.value_weight.size(1) > 0
    grad = upstream.unsqueeze(1)  # at V [B, 1]
    if dueling:
        # Every value's share of the subtracted mean.
        grad_scores.addcmul_(each, branches.shares.sum(dim=1), value=-1.0)
        torch.mm(seen[1].t(), grad, out=gradient.value_weight)
        torch.sum(grad, dim=[0], out=gradient.value_bias)
    torch.mm(seen[0].t(), grad_scores, out=gradient.action_weight)
    torch.sum(grad_scores, dim=[0], out=gradient.action_bias)
    if len(space.pre) > 0:
        at_features = torch.mm(grad_scores, weights.action_weight.t()).unsqueeze(0)  # [1, B, H]
        if dueling:
            at_features = torch.cat((at_features, torch.mm(grad, weights.value_weight.t()).unsqueeze(0)))  # [2, B, H]
        # The later rows only chose actions.
        pre = [layer[:, :rows] for layer in space.pre]
        post = [layer[:, :rows] for layer in space.post]
        source = x[:rows].unsqueeze(0).expand(at_features.size(0), rows, x.size(1))
        back(source, at_features, weights.body_weight, pre, post, gradient.body_weight, gradient.body_bias)
    return torch.stack((loss.mean(), values.mean()))


def run_value_steps(
    hyper: DQNConstants,
    networks: ValueNetworks,
    spaces: ValueWorkspace,
    drawn: Transitions,
    noise: torch.Tensor,
    learning_rate: float,
) -> torch.Tensor:
    """Numbers [steps, 3] of as many gradient steps as ``noise`` [1, steps, B, 0] and ``drawn`` have minibatches."""
    optimizer, steps, rows = networks.optimizer, noise.size(1), noise.size(2)
    taken = int(optimizer.step.item())  # read once: reading it at every step costs more
    numbers: list[torch.Tensor] = []
    for index in range(steps):
        batch = minibatch(drawn, index * rows, (index + 1) * rows)
        found = compute_value_gradient(hyper, networks, spaces, batch)
        norm = clip_gradient(optimizer.gradient, hyper.max_grad_norm)
        numbers.append(torch.cat((found, norm.unsqueeze(0))))
        optimizer_step(optimizer, learning_rate, taken + index + 1)
        if (taken + index + 1) % hyper.interval == 0:
            for place in range(len(networks.followed)):
                networks.followed[place].lerp_(networks.source[place], hyper.tau)
    optimizer.step.add_(steps)
    return torch.stack(numbers)


def value_steps(parameters: FlatParameters, hyper: DQNConstants) -> FusedSteps:
    """The hand-written steps of DQN."""
    views = parameters.views(parameters.optimizer.parameters)
    names = [name.removeprefix("target.") for name in views if name.startswith("target.")]
    networks = ValueNetworks(
        weights=named_value_weights(views, "network"),
        gradient=named_value_weights(parameters.views(parameters.optimizer.gradient), "network"),
        target=named_value_weights(views, "target"),
        followed=[views[f"target.{name}"] for name in names],
        source=[views[f"network.{name}"] for name in names],
        optimizer=parameters.optimizer,
    )

    def new_space(weights: ValueWeights, rows: int) -> ValueWorkspace:
        seen = 2 * rows if hyper.double else rows
        return ValueWorkspace(new_activations(weights, seen), new_activations(weights, rows))

    return FusedSteps(run_value_steps, hyper, networks, new_space)
