"""SAC's gradient step by hand, for plain networks, as :mod:`.fused` is for PPO.

The formulas are those of :func:`tau_trainer.algorithms.off_policy.sac.losses`; tests compare both. With TorchScript,
all steps of an update run without Python and without the interpreter's lock. Both Qs, for the stored actions and for
the policy's new ones, go through one batched product per layer. ``B`` is the minibatch, ``H`` the hidden units, ``c``
continuous actions, ``b`` branches, ``M`` their sizes together, ``S`` reward streams, ``A`` is 1 or ``M``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch

from tau_trainer.algorithms.accelerators.steps import FusedSteps
from tau_trainer.algorithms.off_policy.transitions import Transitions, minibatch
from tau_trainer.algorithms.parameters import FlatParameters, OptimizerState, optimizer_step
from tau_trainer.models.soft_actor_critic import TWINS, SoftActorCritic

Weights = TypeVar("Weights")
_HEADS = "network.action", "network.value", "q"


class SoftWeights(NamedTuple):
    """Parameters, or their gradients: views of one flat vector. Shapes as in the module's own parameters."""

    body_weight: list[torch.Tensor]
    """Of policy and V; so are the next ones."""
    body_bias: list[torch.Tensor]
    action_weight: torch.Tensor  # [H, 2c + M]
    action_bias: torch.Tensor  # [2c + M]
    value_weight: torch.Tensor  # [H, S]
    value_bias: torch.Tensor  # [S]
    q_body_weight: list[torch.Tensor]  # [2, in, H]
    q_body_bias: list[torch.Tensor]  # [2, 1, H]
    q_weight: torch.Tensor  # [2, H, S A]
    q_bias: torch.Tensor  # [2, 1, S A]
    log_coefficients: torch.Tensor  # [1 + b], without the 1 or the b if there are no such actions


class SoftTarget(NamedTuple):
    """The target, and the network that it follows."""

    weight: list[torch.Tensor]
    """Of V's layers and head, [in, out]."""
    bias: list[torch.Tensor]
    """[1, out]."""
    all: list[torch.Tensor]
    source: list[torch.Tensor]


class SoftWorkspace(NamedTuple):
    """Activations of one minibatch of ``B`` rows, overwritten by the next."""

    pre: list[torch.Tensor]
    """Before each swish, [2, B, H]."""
    post: list[torch.Tensor]
    """After each swish."""
    q_pre: list[torch.Tensor]
    """[2, 2B, H]: for the stored actions, then for the policy's new ones."""
    q_post: list[torch.Tensor]


class SoftNetworks(NamedTuple):
    """All tensors that a gradient step changes."""

    weights: SoftWeights
    gradient: SoftWeights
    target: SoftTarget
    optimizer: OptimizerState


class SoftConstants(NamedTuple):
    """Sizes of the actions, and hyperparameters that do not change."""

    continuous: int
    branches: list[int]
    gammas: torch.Tensor
    """[S]."""
    aims: torch.Tensor
    """[b]: the target entropy of each branch."""
    first: torch.Tensor
    """int64 [b]: first column of each branch."""
    tau: float


class DrawnActions(NamedTuple):
    """A policy's actions for ``n`` observations, the cost of its entropy, and what their gradient needs."""

    action: torch.Tensor
    """[n, c], continuous ones."""
    noisy: torch.Tensor
    """Sigma times noise, [n, c]."""
    inside: torch.Tensor
    """bool [n, c]: log sigma is within its limits, so it gets a gradient."""
    probability: torch.Tensor
    """[n, M], of each value of each branch."""
    log_probability: torch.Tensor
    cost: torch.Tensor
    """alpha log pi, [n]."""
    entropy: torch.Tensor
    """[], as :attr:`~tau_trainer.algorithms.off_policy.sac.SACLosses.entropy`."""
    grad_log_coefficients: torch.Tensor
    """[1 + b]."""


def named_weights(make: Callable[..., Weights], heads: tuple[str, ...], views: dict[str, torch.Tensor]) -> Weights:
    """A module's parameters or gradients, as they are named here: hidden layers of policy and Qs, and ``heads``."""
    layers = range(sum(name.startswith("q.body.") for name in views) // 2)
    found: dict[str, Any] = {"log_coefficients": views["log_coefficients"]}
    for kind in ("weight", "bias"):
        for prefix, owner in (("", "network"), ("q_", "q")):
            found[f"{prefix}body_{kind}"] = [views[f"{owner}.body.{layer}.{kind}"] for layer in layers]
        found |= {f"{head.rpartition('.')[2]}_{kind}": views[f"{head}.{kind}"] for head in heads}
    return make(**found)


def new_soft_workspace(weights: SoftWeights, batch: int) -> SoftWorkspace:
    """Memory for minibatches of ``batch`` rows."""

    def make(rows: int) -> list[torch.Tensor]:
        return [bias.new_zeros(TWINS, rows, bias.size(2)) for bias in weights.body_bias]

    return SoftWorkspace(make(batch), make(batch), make(2 * batch), make(2 * batch))


def through(
    x: torch.Tensor,
    weight: list[torch.Tensor],
    bias: list[torch.Tensor],
    pre: list[torch.Tensor],
    post: list[torch.Tensor],
) -> torch.Tensor:
    """Features [2, n, H] of both towers from inputs [2, n, in]; fills the activations."""
    for layer in range(len(weight)):
        torch.baddbmm(bias[layer], x, weight[layer], out=pre[layer])
        torch.ops.aten.silu(pre[layer], out=post[layer])
        x = post[layer]
    return x


def back(
    x: torch.Tensor,
    grad: torch.Tensor,
    weight: list[torch.Tensor],
    pre: list[torch.Tensor],
    post: list[torch.Tensor],
    grad_weight: list[torch.Tensor],
    grad_bias: list[torch.Tensor],
) -> None:
    """Gradients of both towers' layers, from ``grad`` [2, n, H] at their features."""
    for step in range(len(weight)):
        layer = len(weight) - 1 - step
        grad = torch.ops.aten.silu_backward(grad, pre[layer])
        source = x if layer == 0 else post[layer - 1]
        torch.bmm(source.transpose(1, 2), grad, out=grad_weight[layer])
        torch.sum(grad, dim=[1], keepdim=True, out=grad_bias[layer])
        if layer > 0:
            grad = torch.bmm(grad, weight[layer].transpose(1, 2))


def back_to_actions(weights: SoftWeights, grad: torch.Tensor, pre: list[torch.Tensor], size: int) -> torch.Tensor:
    """Gradient at ``size`` continuous actions [B, c], from ``grad`` [B, S A] at the first Q of the rows of ``pre``."""
    weight = weights.q_weight[0]  # [H, S A]
    for step in range(len(pre)):
        layer = len(pre) - 1 - step
        grad = torch.ops.aten.silu_backward(torch.mm(grad, weight.t()), pre[layer][0])
        weight = weights.q_body_weight[layer][0]
    return torch.mm(grad, weight[weight.size(0) - size :].t())  # actions are the last inputs of Qs


def weigh(error: torch.Tensor, batch: Transitions) -> torch.Tensor:
    """Errors of both Qs [2, B, S] times the weight of each transition; a prioritized memory learns the errors."""
    if batch.weights.size(0) == 0:
        return error
    batch.errors.copy_(error.abs().mean(dim=[0, 2]))  # [B]: mean over Qs and streams
    return error * batch.weights.view(1, -1, 1)


def draw_actions(
    hyper: SoftConstants,
    outputs: torch.Tensor,
    noise: torch.Tensor,
    forbidden: torch.Tensor,
    log_coefficients: torch.Tensor,
    rows: int,
) -> DrawnActions:
    """Draw actions from a policy's outputs [n, 2c + M] with ``noise`` [n, c]; the first ``rows`` move coefficients."""
    size, count = hyper.continuous, len(hyper.branches)
    coefficients, grad = torch.exp(log_coefficients), torch.zeros_like(log_coefficients)
    cost = torch.zeros_like(outputs[:, 0])
    entropy = torch.zeros_like(coefficients[0])
    noisy, action, inside = noise, noise, noise
    if size > 0:
        log_sigma = outputs[:, size : 2 * size].clamp(-20.0, 2.0)
        inside = outputs[:, size : 2 * size].eq(log_sigma)
        noisy = torch.exp(log_sigma) * noise
        raw = outputs[:, :size] + noisy
        action = torch.tanh(raw)
        # log pi = -e² / 2 - log sigma - log sqrt(2 pi) - 2 (log 2 - x - softplus(-2 x))
        # Half of log pi, without log sigma and constants.
        half = torch.addcmul(raw + torch.nn.functional.softplus(raw * -2.0), noise, noise, value=-0.25)
        log_prob = (half * 2.0 - log_sigma).sum(dim=1) - float(size) * (0.9189385332046727 + 2.0 * math.log(2.0))
        cost = log_prob * coefficients[0]
        grad[0] = float(size) - log_prob[:rows].mean()  # target: an entropy of -c
        entropy = log_sigma[:rows].mean() + 1.4189385332046727
    probability = outputs[:, 2 * size :]
    log_probability = probability
    if count > 0:
        logits = probability.masked_fill(forbidden, -1e8)  # MASKED_LOGIT
        parts = torch.split(logits, hyper.branches, dim=1)
        log_probability = torch.cat([torch.log_softmax(part, dim=1) for part in parts], dim=1)
        probability = torch.exp(log_probability)
        begin = 0
        for branch, width in enumerate(hyper.branches):
            end, place = begin + width, coefficients.size(0) - count + branch
            negative = (probability[:, begin:end] * log_probability[:, begin:end]).sum(dim=1)  # minus the entropy [n]
            cost = torch.addcmul(cost, negative, coefficients[place], value=1.0 / float(count))
            grad[place] = (negative[:rows].mean() + hyper.aims[branch]) * (-1.0 / float(count))
            entropy = entropy - negative[:rows].mean()
            begin = end
    return DrawnActions(action, noisy, inside, probability, log_probability, cost, entropy, grad)


def expected_q(hyper: SoftConstants, q: torch.Tensor, probability: torch.Tensor) -> torch.Tensor:
    """From Q [E, n, S A], that of drawn actions, [E, n, S]: the expectation over branches' values [n, M]."""
    if len(hyper.branches) == 0:
        return q
    by_stream = q.reshape(q.size(0), q.size(1), hyper.gammas.size(0), -1)  # [E, n, S, M]
    return (by_stream * probability.unsqueeze(1)).sum(dim=3) / float(len(hyper.branches))


def compute_q_errors(
    hyper: SoftConstants, taken: torch.Tensor, backup: torch.Tensor, batch: Transitions
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Q of the stored actions [2, B, S], their losses [2], and the gradient at Qs ``taken`` [2, B, S A]."""
    rows, streams, count = backup.size(0), backup.size(1), len(hyper.branches)
    scale = 1.0 / float(rows)
    if count == 0:
        error = taken - backup
        weighted = weigh(error, batch)
        return taken, 0.5 * (error * weighted).mean(dim=[1, 2]), weighted * (scale / float(streams))
    chosen = (batch.discrete + hyper.first).unsqueeze(1).expand(rows, streams, count)  # int64 [B, S, b]
    chosen = chosen.unsqueeze(0).expand(2, rows, streams, count)
    q = taken.reshape(2, rows, streams, -1).gather(3, chosen).mean(dim=3)
    error = q - backup
    weighted = weigh(error, batch)
    grad = torch.zeros_like(taken)
    upstream = (weighted * (scale / float(streams * count))).unsqueeze(3).expand(2, rows, streams, count)
    grad.view(2, rows, streams, -1).scatter_(3, chosen, upstream)
    return q, 0.5 * (error * weighted).mean(dim=[1, 2]), grad


def at_followed_q(hyper: SoftConstants, q: torch.Tensor, probability: torch.Tensor) -> torch.Tensor:
    """Gradient of the policy's loss at the Q that it follows [B, S A], of drawn actions with these probabilities."""
    rows, streams, count = q.size(0), hyper.gammas.size(0), len(hyper.branches)
    grad = torch.full_like(q, -1.0 / float(rows) / float(streams))
    if count > 0:  # weigh each value by its probability
        grad = (grad.view(rows, streams, -1) * probability.unsqueeze(1) / float(count)).view(rows, -1)
    return grad


def at_outputs(
    hyper: SoftConstants,
    drawn: DrawnActions,
    log_coefficients: torch.Tensor,
    q: torch.Tensor,
    at_actions: torch.Tensor,
) -> torch.Tensor:
    """Gradient of the policy's loss at its outputs [B, 2c + M].

    ``q``: the one that the policy follows, [B, S A]; ``at_actions``: gradient through it [B, c], unused without
    continuous actions.
    """
    rows, count = q.size(0), len(hyper.branches)
    scale, coefficients = 1.0 / float(rows), torch.exp(log_coefficients)
    parts: list[torch.Tensor] = []
    if hyper.continuous > 0:
        alpha, action = coefficients[0] * scale, drawn.action[:rows]
        # d log pi / d x = 2 tanh(x), and the slope of tanh is 1 - tanh²
        at_raw = torch.addcmul(at_actions * (1.0 - action * action), action, alpha, value=2.0)
        parts += [at_raw, (at_raw * drawn.noisy[:rows] - alpha) * drawn.inside[:rows]]
    mean_q, begin = q.reshape(rows, hyper.gammas.size(0), -1).mean(dim=1), 0  # [B, M]
    for branch, width in enumerate(hyper.branches):
        end, place = begin + width, coefficients.size(0) - count + branch
        # dL / d logit = p (w - sum p w) / (B b) with w = alpha log p - Q
        p, log_p = drawn.probability[:rows, begin:end], drawn.log_probability[:rows, begin:end]
        worth = torch.addcmul(-mean_q[:, begin:end], log_p, coefficients[place])
        parts.append(p * (worth - (p * worth).sum(dim=1, keepdim=True)) * (scale / float(count)))
        begin = end
    return torch.cat(parts, dim=1)


def compute_soft_gradient(
    hyper: SoftConstants, networks: SoftNetworks, space: SoftWorkspace, batch: Transitions, noise: torch.Tensor
) -> torch.Tensor:
    """Write the gradient of one minibatch's losses; returns the numbers that :meth:`SAC.learn` reports, [5 + S]."""
    weights, gradient, target = networks.weights, networks.gradient, networks.target
    observations, rows = batch.inputs[0], noise.size(0)
    # y = r + gamma V'(s')
    after = batch.following[0]  # [B, D], then [B, H], then V' [B, S]
    for layer in range(len(target.weight)):
        after = torch.addmm(target.bias[layer], after, target.weight[layer])
        if layer < len(target.weight) - 1:
            after = torch.ops.aten.silu(after)
    backup = torch.addcmul(batch.rewards, batch.goes_on * hyper.gammas, after)  # [B, S]
    x = observations.unsqueeze(0).expand(2, observations.size(0), observations.size(1))  # [2, B, D], a view
    features = through(x, weights.body_weight, weights.body_bias, space.pre, space.post)
    outputs = torch.addmm(weights.action_bias, features[0], weights.action_weight)  # [B, 2c + M]
    values = torch.addmm(weights.value_bias, features[1], weights.value_weight)  # [B, S]
    drawn = draw_actions(hyper, outputs, noise, batch.forbidden, weights.log_coefficients, rows)
    gradient.log_coefficients.copy_(drawn.grad_log_coefficients)
    # Q of the stored actions and of the policy's new ones, in one product per layer
    done = torch.cat((observations, batch.continuous), dim=1)  # [B, D + c]
    both = torch.cat((done, torch.cat((observations, drawn.action), dim=1)))  # [2B, D + c]
    both = both.unsqueeze(0).expand(2, both.size(0), both.size(1))
    q_features = through(both, weights.q_body_weight, weights.q_body_bias, space.q_pre, space.q_post)  # [2, 2B, H]
    all_q = torch.baddbmm(weights.q_bias, q_features, weights.q_weight)  # [2, 2B, S A]
    expected = expected_q(hyper, all_q[:, rows:], drawn.probability)  # [2, B, S]
    _, q_losses, grad_q = compute_q_errors(hyper, all_q[:, :rows], backup, batch)
    value_error = values - (torch.minimum(expected[0], expected[1]) - drawn.cost.unsqueeze(1))  # [B, S]
    policy_loss = (drawn.cost - expected[0].mean(dim=1)).mean()
    first_q, at_actions = all_q[0, rows:], drawn.action
    if hyper.continuous > 0:
        later = [units[:, rows:] for units in space.q_pre]  # [2, B, H]: of the policy's actions
        grad_drawn = at_followed_q(hyper, first_q, drawn.probability)
        at_actions = back_to_actions(weights, grad_drawn, later, hyper.continuous)
    grad_outputs = at_outputs(hyper, drawn, weights.log_coefficients, first_q, at_actions)
    grad_values = value_error * (1.0 / float(rows) / float(hyper.gammas.size(0)))  # of 0.5 mean(e²)
    torch.mm(features[0].t(), grad_outputs, out=gradient.action_weight)
    torch.sum(grad_outputs, dim=[0], out=gradient.action_bias)
    torch.mm(features[1].t(), grad_values, out=gradient.value_weight)
    torch.sum(grad_values, dim=[0], out=gradient.value_bias)
    if len(space.pre) > 0:
        actor, critic = (
            torch.mm(grad_outputs, weights.action_weight.t()),
            torch.mm(grad_values, weights.value_weight.t()),
        )
        grad = torch.stack((actor, critic))
        back(x, grad, weights.body_weight, space.pre, space.post, gradient.body_weight, gradient.body_bias)
    seen = q_features[:, :rows]
    torch.bmm(seen.transpose(1, 2), grad_q, out=gradient.q_weight)
    torch.sum(grad_q, dim=[1], keepdim=True, out=gradient.q_bias)
    if len(space.q_pre) > 0:
        pre = [units[:, :rows] for units in space.q_pre]
        post = [units[:, :rows] for units in space.q_post]
        grad = torch.bmm(grad_q, weights.q_weight.transpose(1, 2))
        back(both[:, :rows], grad, weights.q_body_weight, pre, post, gradient.q_body_weight, gradient.q_body_bias)
    single = torch.stack((policy_loss, 0.5 * value_error.square().mean(), drawn.entropy))
    return torch.cat((single, q_losses, values.mean(dim=0)))


def run_soft_steps(
    hyper: SoftConstants,
    networks: SoftNetworks,
    space: SoftWorkspace,
    drawn: Transitions,
    noise: torch.Tensor,
    learning_rate: float,
) -> torch.Tensor:
    """Numbers [steps, 5 + S] of as many gradient steps as ``noise`` [1, steps, B, c] and ``drawn`` have minibatches."""
    optimizer, target, steps, rows = networks.optimizer, networks.target, noise.size(1), noise.size(2)
    taken = int(optimizer.step.item())  # read once: reading it at every step costs more
    numbers: list[torch.Tensor] = []
    for index in range(steps):
        batch = minibatch(drawn, index * rows, (index + 1) * rows)
        numbers.append(compute_soft_gradient(hyper, networks, space, batch, noise[0, index]))
        optimizer_step(optimizer, learning_rate, taken + index + 1)
        for place in range(len(target.all)):
            target.all[place].lerp_(target.source[place], hyper.tau)
    optimizer.step.add_(steps)
    return torch.stack(numbers)


def soft_steps(module: SoftActorCritic, parameters: FlatParameters, hyper: SoftConstants) -> FusedSteps:
    """The hand-written steps of ``sac``."""
    views = parameters.views(parameters.optimizer.parameters)
    followed = [name.removeprefix("target.") for name in views if name.startswith("target.")]
    critic = [f"target.body.{layer}" for layer in range(len(module.target.body))]
    target = SoftTarget(
        weight=[*(views[f"{name}.weight"][-1] for name in critic), views["target.value.weight"]],
        bias=[*(views[f"{name}.bias"][-1] for name in critic), views["target.value.bias"][None]],
        all=[views[f"target.{name}"] for name in followed],
        source=[views[f"network.{name}"] for name in followed],
    )
    slopes = parameters.views(parameters.optimizer.gradient)
    weights, gradient = (named_weights(SoftWeights, _HEADS, of) for of in (views, slopes))
    networks = SoftNetworks(weights, gradient, target, parameters.optimizer)
    return FusedSteps(run_soft_steps, hyper, networks, new_soft_workspace)
