"""The gradient step of ``sac_ln`` by hand, for plain networks, as :mod:`.fused_sac` is for SAC.

The formulas are those of :func:`tau_trainer.algorithms.off_policy.sac_ln.losses`; tests compare both. Letters as there
and in :mod:`.fused_sac`: ``B`` is the minibatch, ``H`` the hidden units, ``D`` the observation, ``c`` continuous
actions, ``M`` the sizes of all branches, ``S`` reward streams, ``A`` is 1 or ``M``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from tau_trainer.algorithms.accelerators.fused_sac import SoftTarget, back, named_weights, through, weigh
from tau_trainer.algorithms.accelerators.scripting import scripted
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
    """The Qs', before normalisation, for the stored actions [2, B, H]."""
    q_post: list[torch.Tensor]
    """After each ReLU."""
    drawn_pre: list[torch.Tensor]
    """The first Q's, for the policy's actions [1, B, H]."""
    drawn_post: list[torch.Tensor]


class SACLNCoefficients(NamedTuple):
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
    pace: torch.Tensor
    """[1 + b]: speed of the logarithms of entropy coefficients, as a multiple of the weights' speed."""
    least: torch.Tensor
    """[1 + b]: lower bounds of these logarithms."""
    learning_rate: float


def new_normalized_workspace(weights: NormalizedWeights, batch: int) -> NormalizedWorkspace:
    """Memory for minibatches of ``batch`` rows."""

    def make(towers: int, rows: int) -> list[torch.Tensor]:
        return [bias.new_zeros(towers, rows, bias.size(2)) for bias in weights.body_bias]

    actor, qs, first = (1, 2 * batch), (TWINS, batch), (1, batch)
    return NormalizedWorkspace(make(*actor), make(*actor), make(*qs), make(*qs), make(*first), make(*first))


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
    into: tuple[list[torch.Tensor], list[torch.Tensor]],
) -> None:
    """Gradients of both Qs' layers, from ``grad`` [2, n, H] at their features.

    ``activations``: before, after, means, reciprocal deviations; ``into``: the gradients of weights and biases.
    """
    pre, post, means, scales = activations
    for step in range(len(weight)):
        layer = len(weight) - 1 - step
        grad = q_back_layer(grad, pre[layer], post[layer], means[layer], scales[layer])
        source = x if layer == 0 else post[layer - 1]
        torch.bmm(source.transpose(1, 2), grad, out=into[0][layer])
        torch.sum(grad, dim=[1], keepdim=True, out=into[1][layer])
        if layer > 0:
            grad = torch.bmm(grad, weight[layer].transpose(1, 2))


def worth_of(
    target: SoftTarget, x: torch.Tensor, probability: torch.Tensor, branches: int, streams: int
) -> torch.Tensor:
    """Value [B, S] of inputs [B, D + c] by the smaller target, as the expectation over values of branches [B, M]."""
    rows = x.size(0)
    said = x.unsqueeze(0).expand(2, rows, x.size(1))
    for layer in range(len(target.weight)):
        said = torch.baddbmm(target.bias[layer], said, target.weight[layer])
        if layer < len(target.weight) - 1:
            said = torch.relu(torch.native_layer_norm(said, [said.size(2)], None, None, 1e-5)[0])
    if branches > 0:
        said = (said.reshape(2, rows, streams, -1) * probability.unsqueeze(1)).sum(dim=3) / float(branches)
    return torch.minimum(said[0], said[1])


def compute_normalized_gradient(
    hyper: SACLNCoefficients,
    networks: NormalizedNetworks,
    space: NormalizedWorkspace,
    batch: Transitions,
    noise: torch.Tensor,
) -> torch.Tensor:
    """Write the gradient of one minibatch's losses; returns the numbers that :meth:`SACLN.learn` reports, [5 + S]."""
    weights, gradient, target = networks.weights, networks.gradient, networks.target
    size, rows, streams, count = hyper.continuous, noise.size(1), hyper.gammas.size(0), len(hyper.branches)
    scale = 1.0 / float(rows)
    coefficients = torch.exp(weights.log_coefficients)
    # The actor, for the observations and the next ones, in one product per layer.
    seen = torch.cat((batch.inputs[0], batch.following[0]))  # [2B, D]
    x = seen.unsqueeze(0)
    features = through(x, weights.body_weight, weights.body_bias, space.pre, space.post)[0]
    outputs = torch.addmm(weights.action_bias, features, weights.action_weight)  # [2B, 2c + M]
    grad_outputs = torch.zeros_like(outputs[:rows])
    cost = torch.zeros_like(outputs[:, 0])  # alpha log pi, [2B]
    coefficient_loss = torch.zeros_like(coefficients[0])
    entropy = torch.zeros_like(coefficient_loss)
    both_noise = noise.reshape(2 * rows, size)
    log_sigma, noisy, action = both_noise, both_noise, both_noise  # [2B, c]
    if size > 0:
        log_sigma = outputs[:, size : 2 * size].clamp(-20.0, 2.0)
        noisy = torch.exp(log_sigma) * both_noise  # sigma times noise
        raw = outputs[:, :size] + noisy
        action = torch.tanh(raw)
        # log pi = -e² / 2 - log sigma - log sqrt(2 pi) - 2 (log 2 - x - softplus(-2 x))
        # Half of log pi, without log sigma and constants.
        half = torch.addcmul(raw + torch.nn.functional.softplus(raw * -2.0), both_noise, both_noise, value=-0.25)
        log_prob = (half * 2.0 - log_sigma).sum(dim=1) - float(size) * (0.9189385332046727 + 2.0 * math.log(2.0))
        cost = log_prob * coefficients[0]
        surplus = log_prob[:rows].mean() - float(size)  # above the target, an entropy of -c
        gradient.log_coefficients[0] = -surplus
        coefficient_loss = -weights.log_coefficients[0] * surplus
        entropy = log_sigma[:rows].mean() + 1.4189385332046727
    probability = outputs[:, 2 * size :]  # [2B, M]
    log_probability = probability
    if count > 0:
        logits = probability.masked_fill(torch.cat((batch.forbidden, batch.forbidden_after)), -1e8)  # MASKED_LOGIT
        parts = torch.split(logits, hyper.branches, dim=1)
        log_probability = torch.cat([torch.log_softmax(part, dim=1) for part in parts], dim=1)
        probability = torch.exp(log_probability)
        begin = 0
        for branch, width in enumerate(hyper.branches):
            end, place = begin + width, coefficients.size(0) - count + branch
            negative = (probability[:, begin:end] * log_probability[:, begin:end]).sum(dim=1)  # minus the entropy [2B]
            cost = torch.addcmul(cost, negative, coefficients[place], value=1.0 / float(count))
            lacking = negative[:rows].mean() + hyper.aims[branch]
            gradient.log_coefficients[place] = lacking * (-1.0 / float(count))
            coefficient_loss = coefficient_loss - weights.log_coefficients[place] * lacking / float(count)
            entropy = entropy - negative[:rows].mean()
            begin = end
    # y = r + gamma (min Q'(s', a') - alpha log pi(a'))
    after = torch.cat((seen[rows:], action[rows:]), dim=1)  # [B, D + c]
    worth = worth_of(target, after, probability[rows:], count, streams) - cost[rows:].unsqueeze(1)  # [B, S]
    backup = torch.addcmul(batch.rewards, batch.goes_on * hyper.gammas, worth)
    # Q of the stored actions, and the first Q of the policy's actions.
    x_q = torch.cat((seen[:rows], batch.continuous), dim=1)
    x_q = x_q.unsqueeze(0).expand(2, rows, x_q.size(1))  # [2, B, D + c], a view
    q_features, means, scales = q_through(x_q, weights.q_body_weight, weights.q_body_bias, space.q_pre, space.q_post)
    taken = torch.baddbmm(weights.q_bias, q_features, weights.q_weight)  # [2, B, S A]
    first_weight = [weight[:1] for weight in weights.q_body_weight]
    first_bias = [bias[:1] for bias in weights.q_body_bias]
    of_drawn = torch.cat((seen[:rows], action[:rows]), dim=1).unsqueeze(0)  # [1, B, D + c]
    drawn_features, drawn_means, drawn_scales = q_through(
        of_drawn, first_weight, first_bias, space.drawn_pre, space.drawn_post
    )
    drawn = torch.addmm(weights.q_bias[0], drawn_features[0], weights.q_weight[0])  # [B, S A]
    grad_q = torch.zeros_like(taken)
    grad_drawn = torch.full_like(drawn, -scale / float(streams))  # of the policy's loss, at the first Q
    if count > 0:
        p, log_p = probability[:rows], log_probability[:rows]
        by_stream = drawn.reshape(rows, streams, -1)  # [B, S, M]
        expected = (by_stream * p.unsqueeze(1)).sum(dim=2) / float(count)  # [B, S]
        first_q = by_stream.mean(dim=1)  # [B, M]
        begin = 0
        for branch, width in enumerate(hyper.branches):
            end, place = begin + width, coefficients.size(0) - count + branch
            # dL / d logit = p (w - sum p w) / (B b) with w = alpha log p - Q
            of_branch = p[:, begin:end]
            wanted = torch.addcmul(-first_q[:, begin:end], log_p[:, begin:end], coefficients[place])
            wanted = wanted - (of_branch * wanted).sum(dim=1, keepdim=True)
            grad_outputs[:, 2 * size + begin : 2 * size + end] = of_branch * wanted * (scale / float(count))
            begin = end
        chosen = (batch.discrete + hyper.first).unsqueeze(1).expand(rows, streams, count)  # int64 [B, S, b]
        chosen = chosen.unsqueeze(0).expand(2, rows, streams, count)
        q = taken.reshape(2, rows, streams, -1).gather(3, chosen).mean(dim=3)  # [2, B, S]
        error = q - backup
        weighted = weigh(error, batch)
        upstream = (weighted * (scale / float(streams * count))).unsqueeze(3).expand(2, rows, streams, count)
        grad_q.view(2, rows, streams, -1).scatter_(3, chosen, upstream)
        # Weigh each value by its probability.
        grad_drawn = (grad_drawn.view(rows, streams, -1) * p.unsqueeze(1) / float(count)).view(rows, -1)
    else:
        expected, q = drawn, taken
        error = taken - backup
        weighted = weigh(error, batch)
        torch.mul(weighted, scale / float(streams), out=grad_q)
    policy_loss = (cost[:rows] - expected.mean(dim=1)).mean()
    if size > 0:
        # Through the first Q to the actions.
        weight, grad = weights.q_weight[:1], grad_drawn.unsqueeze(0)  # [1, H, S A], [1, B, S A]
        for step in range(len(first_weight)):
            layer = len(first_weight) - 1 - step
            grad = q_back_layer(
                torch.bmm(grad, weight.transpose(1, 2)),
                space.drawn_pre[layer],
                space.drawn_post[layer],
                drawn_means[layer],
                drawn_scales[layer],
            )
            weight = first_weight[layer]
        at_actions = torch.mm(grad[0], weight[0, weight.size(1) - size :].t())  # actions are the last inputs of Qs
        alpha, squashed = coefficients[0] * scale, action[:rows]
        # d log pi / d x = 2 tanh(x), and the slope of tanh is 1 - tanh²
        at_raw = torch.addcmul(at_actions * (1.0 - squashed * squashed), squashed, alpha, value=2.0)
        grad_outputs[:, :size] = at_raw  # [B, c]
        inside = outputs[:rows, size : 2 * size].eq(log_sigma[:rows])  # no gradient for clamped values
        grad_outputs[:, size : 2 * size] = (at_raw * noisy[:rows] - alpha) * inside
    torch.mm(features[:rows].t(), grad_outputs, out=gradient.action_weight)
    torch.sum(grad_outputs, dim=[0], out=gradient.action_bias)
    if len(space.pre) > 0:
        pre, post = [units[:, :rows] for units in space.pre], [units[:, :rows] for units in space.post]
        at_features = torch.mm(grad_outputs, weights.action_weight.t()).unsqueeze(0)
        back(x[:, :rows], at_features, weights.body_weight, pre, post, gradient.body_weight, gradient.body_bias)
    torch.bmm(q_features.transpose(1, 2), grad_q, out=gradient.q_weight)
    torch.sum(grad_q, dim=[1], keepdim=True, out=gradient.q_bias)
    if len(space.q_pre) > 0:
        at_features = torch.bmm(grad_q, weights.q_weight.transpose(1, 2))
        activations = space.q_pre, space.q_post, means, scales
        into = gradient.q_body_weight, gradient.q_body_bias
        q_back(x_q, at_features, weights.q_body_weight, activations, into)
    single = torch.stack((policy_loss, coefficient_loss, entropy))
    return torch.cat((single, 0.5 * (error * weighted).mean(dim=[1, 2]), q.mean(dim=[0, 1])))


def hasten(logarithms: torch.Tensor, before: torch.Tensor, pace: torch.Tensor, least: torch.Tensor) -> None:
    """Move logarithms of entropy coefficients ``pace`` times as far as the step did, but not below ``least``."""
    torch.maximum(torch.addcmul(before, logarithms - before, pace), least, out=logarithms)


def run_normalized_steps(
    hyper: SACLNCoefficients,
    networks: NormalizedNetworks,
    space: NormalizedWorkspace,
    drawn: Transitions,
    noise: torch.Tensor,
    statistics: torch.Tensor,
) -> None:
    """A gradient step for each row of ``statistics`` [steps, 5 + S], from as many minibatches of ``drawn``."""
    steps, optimizer, target = statistics.size(0), networks.optimizer, networks.target
    size, taken = noise.size(1) // steps, int(optimizer.step.item())  # read once: reading it at every step costs more
    for index in range(steps):
        begin, end = index * size, (index + 1) * size
        batch, part = minibatch(drawn, begin, end), noise[:, begin:end]
        statistics[index] = compute_normalized_gradient(hyper, networks, space, batch, part)
        before = networks.weights.log_coefficients.clone()
        optimizer_step(optimizer, hyper.learning_rate, taken + index + 1)
        hasten(networks.weights.log_coefficients, before, hyper.pace, hyper.least)
        for place in range(len(target.all)):
            target.all[place].lerp_(target.source[place], hyper.tau)
    optimizer.step.add_(steps)


class FusedNormalizedSteps:
    """The fused path with its working memory."""

    def __init__(self, module: NormalizedSoftActorCritic, parameters: FlatParameters) -> None:
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
        self._networks = NormalizedNetworks(weights, gradient, target, parameters.optimizer)
        self._space: NormalizedWorkspace | None = None
        self._steps = scripted(run_normalized_steps)

    @property
    def scripted(self) -> bool:
        """Whether steps run without the interpreter's lock."""
        return self._steps is not run_normalized_steps

    def run(self, hyper: SACLNCoefficients, drawn: Transitions, noise: torch.Tensor, steps: int) -> torch.Tensor:
        """Learn from ``steps`` minibatches; returns a row of numbers for each."""
        batch = noise.shape[1] // steps
        if self._space is None or any(layer.size(1) != 2 * batch for layer in self._space.pre):
            self._space = new_normalized_workspace(self._networks.weights, batch)
        statistics = noise.new_empty(steps, 5 + len(hyper.gammas))
        self._steps(hyper, self._networks, self._space, drawn, noise, statistics)
        return statistics
