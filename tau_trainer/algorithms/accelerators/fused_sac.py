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

from tau_trainer.algorithms.accelerators.scripting import scripted
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


class SACCoefficients(NamedTuple):
    """Hyperparameters of one update."""

    continuous: int
    branches: list[int]
    gammas: torch.Tensor
    """[S]."""
    aims: torch.Tensor
    """[b]: the target entropy of each branch."""
    first: torch.Tensor
    """int64 [b]: first column of each branch."""
    tau: float
    learning_rate: float


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


def compute_soft_gradient(
    hyper: SACCoefficients,
    weights: SoftWeights,
    gradient: SoftWeights,
    target: SoftTarget,
    space: SoftWorkspace,
    batch: Transitions,
    noise: torch.Tensor,
) -> torch.Tensor:
    """Write the gradient of one minibatch's losses; returns the numbers that :meth:`SAC.learn` reports, [6 + S]."""
    observations, size, rows, streams = batch.inputs[0], hyper.continuous, noise.size(0), hyper.gammas.size(0)
    scale = 1.0 / float(rows)
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
    coefficients = torch.exp(weights.log_coefficients)
    grad_outputs = torch.zeros_like(outputs)
    cost = torch.zeros_like(outputs[:, 0])  # alpha log pi, [B]
    coefficient_loss = torch.zeros_like(coefficients[0])
    entropy = torch.zeros_like(coefficient_loss)
    log_sigma, noisy, action = noise, noise, noise
    if size > 0:
        log_sigma = outputs[:, size : 2 * size].clamp(-20.0, 2.0)  # [B, c]
        noisy = torch.exp(log_sigma) * noise  # sigma times noise
        raw = outputs[:, :size] + noisy  # [B, c]
        action = torch.tanh(raw)
        # log pi = -e² / 2 - log sigma - log sqrt(2 pi) - 2 (log 2 - x - softplus(-2 x))
        # Half of log pi, without log sigma and constants.
        log_prob = torch.addcmul(raw + torch.nn.functional.softplus(raw * -2.0), noise, noise, value=-0.25)
        log_prob = (log_prob * 2.0 - log_sigma).sum(dim=1) - float(size) * (0.9189385332046727 + 2.0 * math.log(2.0))
        cost = log_prob * coefficients[0]
        surplus = log_prob.mean() - float(size)  # above the target, an entropy of -c
        gradient.log_coefficients[0] = -surplus
        coefficient_loss = -weights.log_coefficients[0] * surplus
        entropy = log_sigma.mean() + 1.4189385332046727
    # Q of the stored actions and of the policy's new ones, in one product per layer
    done = torch.cat((observations, batch.continuous), dim=1)  # [B, D + c]
    both = torch.cat((done, torch.cat((observations, action), dim=1)))  # [2B, D + c]
    both = both.unsqueeze(0).expand(2, both.size(0), both.size(1))
    q_features = through(both, weights.q_body_weight, weights.q_body_bias, space.q_pre, space.q_post)  # [2, 2B, H]
    all_q = torch.baddbmm(weights.q_bias, q_features, weights.q_weight)
    taken, drawn = all_q[:, :rows], all_q[:, rows:]  # [2, B, S A] each
    grad_q = torch.zeros_like(taken)
    grad_drawn = torch.full_like(drawn[0], -scale / float(streams))  # of the policy's loss, at the first Q
    if len(hyper.branches) > 0:
        count = len(hyper.branches)
        logits = outputs[:, 2 * size :].masked_fill(batch.forbidden, -1e8)  # MASKED_LOGIT
        parts = torch.split(logits, hyper.branches, dim=1)
        log_prob = torch.cat([torch.log_softmax(part, dim=1) for part in parts], dim=1)
        probability = torch.exp(log_prob)  # [B, M]
        by_stream = drawn.reshape(2, rows, streams, -1)  # [2, B, S, M]
        expected = (by_stream * probability.unsqueeze(1)).sum(dim=3) / float(count)  # [2, B, S]
        first_q = by_stream[0].mean(dim=1)  # [B, M]
        begin = 0
        for branch, width in enumerate(hyper.branches):
            end, place = begin + width, coefficients.size(0) - count + branch
            p = probability[:, begin:end]
            weighed = p * log_prob[:, begin:end]
            negative = weighed.sum(dim=1)  # minus the entropy [B]
            lacking = negative.mean() + hyper.aims[branch]
            gradient.log_coefficients[place] = lacking * (-1.0 / float(count))
            coefficient_loss = coefficient_loss - weights.log_coefficients[place] * lacking / float(count)
            entropy = entropy - negative.mean()
            cost = torch.addcmul(cost, negative, coefficients[place], value=1.0 / float(count))
            # dL / d logit = p (w - sum p w) / (B b) with w = alpha log p - Q
            worth = torch.addcmul(-first_q[:, begin:end], log_prob[:, begin:end], coefficients[place])
            worth = worth - (p * worth).sum(dim=1, keepdim=True)
            grad_outputs[:, 2 * size + begin : 2 * size + end] = p * worth * (scale / float(count))
            begin = end
        chosen = (batch.discrete + hyper.first).unsqueeze(1).expand(rows, streams, count)  # int64 [B, S, b]
        chosen = chosen.unsqueeze(0).expand(2, rows, streams, count)
        q = taken.reshape(2, rows, streams, -1).gather(3, chosen).mean(dim=3)  # [2, B, S]
        error = q - backup
        weighted = weigh(error, batch)
        upstream = (weighted * (scale / float(streams * count))).unsqueeze(3).expand(2, rows, streams, count)
        grad_q.view(2, rows, streams, -1).scatter_(3, chosen, upstream)
        # Weigh each value by its probability.
        grad_drawn = (grad_drawn.view(rows, streams, -1) * probability.unsqueeze(1) / float(count)).view(rows, -1)
    else:
        expected = drawn
        error = taken - backup
        weighted = weigh(error, batch)
        torch.mul(weighted, scale / float(streams), out=grad_q)
    value_error = values - (torch.minimum(expected[0], expected[1]) - cost.unsqueeze(1))  # [B, S]
    policy_loss = (cost - expected[0].mean(dim=1)).mean()
    if size > 0:
        later = [units[:, rows:] for units in space.q_pre]  # [2, B, H]: of the policy's actions
        alpha = coefficients[0] * scale
        # d log pi / d x = 2 tanh(x), and the slope of tanh is 1 - tanh²
        at_raw = back_to_actions(weights, grad_drawn, later, size) * (1.0 - action * action)
        at_raw = torch.addcmul(at_raw, action, alpha, value=2.0)
        grad_outputs[:, :size] = at_raw  # [B, c]
        inside = outputs[:, size : 2 * size].eq(log_sigma)  # no gradient for clamped values
        grad_outputs[:, size : 2 * size] = (at_raw * noisy - alpha) * inside
    grad_values = value_error * (scale / float(streams))  # of 0.5 mean(e²)
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
        pre, post = [units[:, :rows] for units in space.q_pre], [units[:, :rows] for units in space.q_post]
        grad = torch.bmm(grad_q, weights.q_weight.transpose(1, 2))
        back(both[:, :rows], grad, weights.q_body_weight, pre, post, gradient.q_body_weight, gradient.q_body_bias)
    single = torch.stack((policy_loss, 0.5 * value_error.square().mean(), coefficient_loss, entropy))
    return torch.cat((single, 0.5 * (error * weighted).mean(dim=[1, 2]), values.mean(dim=0)))


def run_soft_steps(
    hyper: SACCoefficients,
    weights: SoftWeights,
    gradient: SoftWeights,
    target: SoftTarget,
    optimizer: OptimizerState,
    space: SoftWorkspace,
    drawn: Transitions,
    noise: torch.Tensor,
    statistics: torch.Tensor,
) -> None:
    """A gradient step for each row of ``statistics`` [steps, 6 + S], from as many minibatches of ``drawn``."""
    steps = statistics.size(0)
    size, taken = noise.size(0) // steps, int(optimizer.step.item())  # read once: reading it at every step costs more
    for index in range(steps):
        begin, end = index * size, (index + 1) * size
        batch = minibatch(drawn, begin, end)
        statistics[index] = compute_soft_gradient(hyper, weights, gradient, target, space, batch, noise[begin:end])
        optimizer_step(optimizer, hyper.learning_rate, taken + index + 1)
        for place in range(len(target.all)):
            target.all[place].lerp_(target.source[place], hyper.tau)
    optimizer.step.add_(steps)


class FusedSoftSteps:
    """The fused path with its working memory."""

    def __init__(self, module: SoftActorCritic, parameters: FlatParameters) -> None:
        self._optimizer = parameters.optimizer
        views = parameters.views(parameters.optimizer.parameters)
        self._weights = named_weights(SoftWeights, _HEADS, views)
        self._gradient = named_weights(SoftWeights, _HEADS, parameters.views(parameters.optimizer.gradient))
        followed = [name.removeprefix("target.") for name in views if name.startswith("target.")]
        critic = [f"target.body.{layer}" for layer in range(len(module.target.body))]
        self._target = SoftTarget(
            weight=[*(views[f"{name}.weight"][-1] for name in critic), views["target.value.weight"]],
            bias=[*(views[f"{name}.bias"][-1] for name in critic), views["target.value.bias"][None]],
            all=[views[f"target.{name}"] for name in followed],
            source=[views[f"network.{name}"] for name in followed],
        )
        self._space: SoftWorkspace | None = None
        self._steps = scripted(run_soft_steps)

    @property
    def scripted(self) -> bool:
        """Whether steps run without the interpreter's lock."""
        return self._steps is not run_soft_steps

    def run(self, hyper: SACCoefficients, drawn: Transitions, noise: torch.Tensor, steps: int) -> torch.Tensor:
        """Learn from ``steps`` minibatches; returns a row of numbers for each."""
        batch = len(noise) // steps
        if self._space is None or any(layer.size(1) != batch for layer in self._space.pre):
            self._space = new_soft_workspace(self._weights, batch)
        statistics = noise.new_empty(steps, 6 + len(hyper.gammas))
        self._steps(
            hyper, self._weights, self._gradient, self._target, self._optimizer, self._space, drawn, noise, statistics
        )
        return statistics
