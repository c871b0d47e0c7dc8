"""The gradient step of ``sac_ln`` by hand, for plain networks, as :mod:`.fused_sac` is for SAC.

The formulas are those of :func:`tau_trainer.algorithms.off_policy.sac_ln.losses`; tests compare both. Letters as there
and in :mod:`.fused_sac`: ``B`` is the minibatch, ``H`` the hidden units, ``D`` the observation, ``c`` continuous
actions, ``M`` the sizes of all branches, ``S`` reward streams, ``A`` is 1 or ``M``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from tau_trainer.algorithms.accelerators.fused_sac import (
    SoftConstants,
    SoftTarget,
    at_followed_q,
    at_outputs,
    back,
    compute_q_errors,
    draw_actions,
    expected_q,
    named_weights,
    through,
)
from tau_trainer.algorithms.accelerators.steps import FusedSteps
from tau_trainer.algorithms.off_policy.transitions import Transitions, minibatch
from tau_trainer.algorithms.parameters import FlatParameters, OptimizerState, optimizer_step
from tau_trainer.models.soft_actor_critic import TWINS, NormalizedSoftActorCritic

_HEADS = "network.action", "q"


class NormalizedWeights(NamedTuple):
    """Parameters, or their gradients: views of one flat vector. Shapes as in the module's own parameters."""

    body_weight: list[torch.Tensor]  # [1, in, H]
    body_bias: list[torch.Tensor]  # [1, 1, H]
    action_weight: torch.Tensor  # [H, 2c + M]
    action_bias: torch.Tensor  # [2c + M]
    q_body_weight: list[torch.Tensor]  # [2, in, H]
    q_body_bias: list[torch.Tensor]  # [2, 1, H]
    q_weight: torch.Tensor  # [2, H, S A]
    q_bias: torch.Tensor  # [2, 1, S A]
    log_coefficients: torch.Tensor  # [1 + b], without the 1 or the b if there are no such actions


class NormalizedNetworks(NamedTuple):
    """All tensors that a gradient step changes."""

    weights: NormalizedWeights
    gradient: NormalizedWeights
    target: SoftTarget
    """Of the Qs' hidden layers and head, [2, in, out] and [2, 1, out]."""
    optimizer: OptimizerState


class NormalizedWorkspace(NamedTuple):
    """Activations of one minibatch of ``B`` rows, overwritten by the next."""

    pre: list[torch.Tensor]
    """The actor's, before each swish, [1, 2B, H]: for the observations, then for the next ones."""
    post: list[torch.Tensor]
    q_pre: list[torch.Tensor]
    """The Qs', before normalisation, [2, 2B, H]: for the stored actions, then for the policy's. Without continuous
    actions [2, B, H]: both are the same."""
    q_post: list[torch.Tensor]
    """After each ReLU."""


class NormalizedNumbers(NamedTuple):
    """The constants of both soft actor-critics, and what entropy coefficients follow here."""

    soft: SoftConstants
    pace: torch.Tensor
    """[1 + b]: speed of the logarithms of entropy coefficients, as a multiple of the weights' speed."""
    least: torch.Tensor
    """[1 + b]: lower bounds of these logarithms, which change between updates."""


def new_normalized_workspace(weights: NormalizedWeights, batch: int) -> NormalizedWorkspace:
    """Memory for minibatches of ``batch`` rows."""

    def make(towers: int, rows: int) -> list[torch.Tensor]:
        return [bias.new_zeros(towers, rows, bias.size(2)) for bias in weights.body_bias]

    layers = zip(weights.body_weight, weights.q_body_weight, strict=True)
    alike = all(actor.size(1) == q.size(1) for actor, q in layers)  # Qs have no actions as inputs
    actor, qs = (1, 2 * batch), (TWINS, batch if alike else 2 * batch)
    return NormalizedWorkspace(make(*actor), make(*actor), make(*qs), make(*qs))


def followed(branches: list[int]) -> int:
    """Number of Qs whose mean the policy follows: both, or only the first if actions have branches."""
    return 1 if len(branches) > 0 else 2


def q_through(
    x: torch.Tensor,
    weight: list[torch.Tensor],
    bias: list[torch.Tensor],
    pre: list[torch.Tensor],
    post: list[torch.Tensor],
) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
    """Features [E, n, H] of Qs from inputs [E, n, in], and each layer's means and reciprocal deviations [E, n, 1].

    Fills the activations.
    """
    means: list[torch.Tensor] = []
    scales: list[torch.Tensor] = []
    for layer in range(len(weight)):
        torch.baddbmm(bias[layer], x, weight[layer], out=pre[layer])
        normal, mean, scale = torch.native_layer_norm(pre[layer], [pre[layer].size(2)], None, None, 1e-5)
        torch.clamp_min(normal, 0.0, out=post[layer])
        means.append(mean)
        scales.append(scale)
        x = post[layer]
    return x, means, scales


def q_back_layer(
    grad: torch.Tensor, pre: torch.Tensor, post: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor
) -> torch.Tensor:
    """Gradient at the normalised values, from that at the features, all [E, n, H]."""
    grad = torch.ops.aten.threshold_backward(grad, post, 0.0)
    found = torch.ops.aten.native_layer_norm_backward(
        grad, pre, [pre.size(2)], mean, scale, None, None, [True, False, False]
    )
    result: torch.Tensor = found[0]
    return result


def q_back(
    x: torch.Tensor,
    grad: torch.Tensor,
    weight: list[torch.Tensor],
    activations: tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]],
    grad_weight: list[torch.Tensor],
    grad_bias: list[torch.Tensor],
) -> None:
    """Gradients of both Qs' layers, from ``grad`` [2, n, H] at their features.

    ``activations``: before, after, means, reciprocal deviations.
    """
    pre, post, means, scales = activations
    for step in range(len(weight)):
        layer = len(weight) - 1 - step
        grad = q_back_layer(grad, pre[layer], post[layer], means[layer], scales[layer])
        source = x if layer == 0 else post[layer - 1]
        torch.bmm(source.transpose(1, 2), grad, out=grad_weight[layer])
        torch.sum(grad, dim=[1], keepdim=True, out=grad_bias[layer])
        if layer > 0:
            grad = torch.bmm(grad, weight[layer].transpose(1, 2))


def target_through(target: SoftTarget, x: torch.Tensor) -> torch.Tensor:
    """Q' [2, B, S A] of inputs [B, D + c]."""
    said = x.unsqueeze(0).expand(2, x.size(0), x.size(1))
    for layer in range(len(target.weight)):
        said = torch.baddbmm(target.bias[layer], said, target.weight[layer])
        if layer < len(target.weight) - 1:
            said = torch.relu(torch.native_layer_norm(said, [said.size(2)], None, None, 1e-5)[0])
    return said


def compute_normalized_gradient(
    hyper: SoftConstants,
    networks: NormalizedNetworks,
    space: NormalizedWorkspace,
    batch: Transitions,
    noise: torch.Tensor,
) -> torch.Tensor:
    """Write the gradient of one minibatch's losses; returns the numbers that :meth:`SACLN.learn` reports, [4 + S]."""
    weights, gradient, size, rows = networks.weights, networks.gradient, hyper.continuous, noise.size(1)
    # The actor, for the observations and the next ones, in one product per layer.
    seen = torch.cat((batch.inputs[0], batch.following[0]))  # [2B, D]
    x = seen.unsqueeze(0)
    features = through(x, weights.body_weight, weights.body_bias, space.pre, space.post)[0]
    outputs = torch.addmm(weights.action_bias, features, weights.action_weight)  # [2B, 2c + M]
    forbidden = torch.cat((batch.forbidden, batch.forbidden_after))
    drawn = draw_actions(hyper, outputs, noise.reshape(2 * rows, size), forbidden, weights.log_coefficients, rows)
    gradient.log_coefficients.copy_(drawn.grad_log_coefficients)
    # y = r + gamma (min Q'(s', a') - alpha log pi(a'))
    after = target_through(networks.target, torch.cat((seen[rows:], drawn.action[rows:]), dim=1))
    after = expected_q(hyper, after, drawn.probability[rows:])  # [2, B, S]
    worth = torch.minimum(after[0], after[1]) - drawn.cost[rows:].unsqueeze(1)  # [B, S]
    backup = torch.addcmul(batch.rewards, batch.goes_on * hyper.gammas, worth)
    # Both Qs of the stored actions and of the policy's, in one product per layer. Branches are no inputs of Qs.
    x_q = torch.cat((seen[:rows], batch.continuous), dim=1)  # [B, D + c]
    if size > 0:
        x_q = torch.cat((x_q, torch.cat((seen[:rows], drawn.action[:rows]), dim=1)))  # [2B, D + c]
    x_q = x_q.unsqueeze(0).expand(2, x_q.size(0), x_q.size(1))  # a view
    q_features, means, scales = q_through(x_q, weights.q_body_weight, weights.q_body_bias, space.q_pre, space.q_post)
    all_q = torch.baddbmm(weights.q_bias, q_features, weights.q_weight)  # [2, 2B or B, S A]
    q, q_losses, grad_q = compute_q_errors(hyper, all_q[:, :rows], backup, batch)
    towers = followed(hyper.branches)
    followed_q = all_q[:towers, all_q.size(1) - rows :].mean(dim=[0])  # [B, S A]
    probability = drawn.probability[:rows]  # [B, M]
    expected = expected_q(hyper, followed_q.unsqueeze(0), probability)[0]  # [B, S]
    policy_loss = (drawn.cost[:rows] - expected.mean(dim=1)).mean()
    at_actions = drawn.action
    if size > 0:
        # Through the Qs that the policy follows to the actions.
        weight = weights.q_weight[:towers]
        grad = at_followed_q(hyper, followed_q, probability).expand(towers, rows, followed_q.size(1))
        for step in range(len(weights.q_body_weight)):
            layer = len(weights.q_body_weight) - 1 - step
            grad = q_back_layer(
                torch.bmm(grad, weight.transpose(1, 2)),
                space.q_pre[layer][:towers, rows:],
                space.q_post[layer][:towers, rows:],
                means[layer][:towers, rows:].contiguous(),  # its kernel takes these two as they lie in memory
                scales[layer][:towers, rows:].contiguous(),
            )
            weight = weights.q_body_weight[layer][:towers]
        # Actions are the last inputs of Qs, of which each is an equal part of the mean.
        at_actions = torch.bmm(grad, weight[:, weight.size(1) - size :].transpose(1, 2)).mean(dim=[0])
    grad_outputs = at_outputs(hyper, drawn, weights.log_coefficients, followed_q, at_actions)
    torch.mm(features[:rows].t(), grad_outputs, out=gradient.action_weight)
    torch.sum(grad_outputs, dim=[0], out=gradient.action_bias)
    if len(space.pre) > 0:
        pre = [units[:, :rows] for units in space.pre]
        post = [units[:, :rows] for units in space.post]
        at_features = torch.mm(grad_outputs, weights.action_weight.t()).unsqueeze(0)
        back(x[:, :rows], at_features, weights.body_weight, pre, post, gradient.body_weight, gradient.body_bias)
    torch.bmm(q_features[:, :rows].transpose(1, 2), grad_q, out=gradient.q_weight)
    torch.sum(grad_q, dim=[1], keepdim=True, out=gradient.q_bias)
    if len(space.q_pre) > 0:
        at_features = torch.bmm(grad_q, weights.q_weight.transpose(1, 2))
        stored = (
            [units[:, :rows] for units in space.q_pre],
            [units[:, :rows] for units in space.q_post],
            [mean[:, :rows].contiguous() for mean in means],
            [scale[:, :rows].contiguous() for scale in scales],
        )
        q_back(x_q[:, :rows], at_features, weights.q_body_weight, stored, gradient.q_body_weight, gradient.q_body_bias)
    return torch.cat((torch.stack((policy_loss, drawn.entropy)), q_losses, q.mean(dim=[0, 1])))


def hasten(logarithms: torch.Tensor, before: torch.Tensor, pace: torch.Tensor, least: torch.Tensor) -> None:
    """Move logarithms of entropy coefficients ``pace`` times as far as the step did, but not below ``least``."""
    torch.maximum(torch.addcmul(before, logarithms - before, pace), least, out=logarithms)


def run_normalized_steps(
    hyper: NormalizedNumbers,
    networks: NormalizedNetworks,
    space: NormalizedWorkspace,
    drawn: Transitions,
    noise: torch.Tensor,
    learning_rate: float,
) -> torch.Tensor:
    """Numbers [steps, 4 + S] of as many gradient steps as ``noise`` [2, steps, B, c] and ``drawn`` have minibatches."""
    optimizer, target, steps, rows = networks.optimizer, networks.target, noise.size(1), noise.size(2)
    taken = int(optimizer.step.item())  # read once: reading it at every step costs more
    numbers: list[torch.Tensor] = []
    for index in range(steps):
        batch = minibatch(drawn, index * rows, (index + 1) * rows)
        numbers.append(compute_normalized_gradient(hyper.soft, networks, space, batch, noise[:, index]))
        before = networks.weights.log_coefficients.clone()
        optimizer_step(optimizer, learning_rate, taken + index + 1)
        hasten(networks.weights.log_coefficients, before, hyper.pace, hyper.least)
        for place in range(len(target.all)):
            target.all[place].lerp_(target.source[place], hyper.soft.tau)
    optimizer.step.add_(steps)
    return torch.stack(numbers)


def normalized_steps(
    module: NormalizedSoftActorCritic, parameters: FlatParameters, hyper: NormalizedNumbers
) -> FusedSteps:
    """The hand-written steps of ``sac_ln``."""
    views = parameters.views(parameters.optimizer.parameters)
    followed = [name.removeprefix("q_target.") for name in views if name.startswith("q_target.")]
    layers = [f"q_target.body.{layer}." for layer in range(len(module.q_target.body))]
    target = SoftTarget(
        weight=[views[f"{name}weight"] for name in (*layers, "q_target.")],
        bias=[views[f"{name}bias"] for name in (*layers, "q_target.")],
        all=[views[f"q_target.{name}"] for name in followed],
        source=[views[f"q.{name}"] for name in followed],
    )
    slopes = parameters.views(parameters.optimizer.gradient)
    weights, gradient = (named_weights(NormalizedWeights, _HEADS, of) for of in (views, slopes))
    networks = NormalizedNetworks(weights, gradient, target, parameters.optimizer)
    return FusedSteps(run_normalized_steps, hyper, networks, new_normalized_workspace)
