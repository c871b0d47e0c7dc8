"""PPO's minibatch by hand: forward, loss, backward, clipping and optimizer on preallocated memory.

Plain autograd spends most of a small minibatch on bookkeeping. Here an epoch is one call: both towers go through one
batched product, gradients are written straight into one flat vector, and statistics stay on the device. The functions
use only what TorchScript supports. With TorchScript, a whole epoch runs without Python and **without holding the
interpreter's lock**, so learning in a thread neither waits for an event loop nor delays it. Without TorchScript, the
same functions run as ordinary Python.

The formulas are those of :mod:`tau_trainer.algorithms.losses`; tests compare both. ``B`` is the minibatch, ``H`` the
hidden units, ``c`` continuous actions, ``b`` branches, ``M`` their sizes together, ``K = c + b``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from tau_trainer.algorithms.accelerators.scripting import scripted
from tau_trainer.algorithms.minibatches import Coefficients, EpochStatistics, Samples
from tau_trainer.algorithms.parameters import FlatParameters, OptimizerState, clip_gradient, optimizer_step
from tau_trainer.models.actor_critic import ActorCritic


class Weights(NamedTuple):
    """Parameters, or their gradients: views of one flat vector. Shapes as in the module's own parameters."""

    body_weight: list[torch.Tensor]  # one per layer, [towers, in, H]
    body_bias: list[torch.Tensor]  # [towers, 1, H]
    action_weight: torch.Tensor  # [H, c + M]
    action_bias: torch.Tensor  # [c + M]
    log_sigma: torch.Tensor  # [c]
    value_weight: torch.Tensor  # [H, R]
    value_bias: torch.Tensor  # [R]


class Workspace(NamedTuple):
    """Activations of one minibatch of ``B`` rows, overwritten by the next."""

    pre: list[torch.Tensor]
    """Before each swish, [towers, B, H]."""
    post: list[torch.Tensor]
    """After each swish."""
    grad: list[torch.Tensor]
    """Gradient at each layer."""
    outputs: torch.Tensor
    """[B, c + M]."""
    grad_outputs: torch.Tensor
    """[B, c + M]."""
    grad_values: torch.Tensor
    """[B, R]."""
    error: torch.Tensor
    """[B, c]: (sample - mean) / sigma."""
    log_prob: torch.Tensor
    """[B, c + b]."""
    ratio: torch.Tensor
    """[B, K]."""
    surrogate: torch.Tensor
    """[B, K]: first the unclipped objective, then the gradient at the log-probability."""
    clipped: torch.Tensor
    """[B, K]."""


def new_workspace(network: ActorCritic, batch: int) -> Workspace:
    """Memory for minibatches of ``batch`` rows."""
    actions, layers, like = network.action.choices, len(network.body), network.action.weight
    outputs = actions.continuous_size + actions.mask_size

    def make(*shape: int) -> torch.Tensor:
        return like.new_zeros(*shape)

    def hidden() -> list[torch.Tensor]:
        return [make(network.towers, batch, network.body.size) for _ in range(layers)]

    return Workspace(
        pre=hidden(),
        post=hidden(),
        grad=hidden(),
        outputs=make(batch, outputs),
        grad_outputs=make(batch, outputs),
        grad_values=make(batch, network.value.bias.numel()),
        error=make(batch, actions.continuous_size),
        log_prob=make(batch, actions.components),
        ratio=make(batch, actions.components),
        surrogate=make(batch, actions.components),
        clipped=make(batch, actions.components),
    )


def named_weights(views: dict[str, torch.Tensor]) -> Weights:
    """The parameters of a plain network, or their gradients, under this module's names."""
    layers = sum(name.startswith("body.") for name in views) // 2
    return Weights(
        body_weight=[views[f"body.{layer}.weight"] for layer in range(layers)],
        body_bias=[views[f"body.{layer}.bias"] for layer in range(layers)],
        action_weight=views["action.weight"],
        action_bias=views["action.bias"],
        log_sigma=views["action.log_sigma"],
        value_weight=views["value.weight"],
        value_bias=views["value.bias"],
    )


def forward(weights: Weights, space: Workspace, observations: torch.Tensor, values: torch.Tensor) -> None:
    """Fill the activations, ``space.outputs`` and ``values``; ``observations`` [B, D]."""
    layers = len(space.pre)
    for layer in range(layers):
        if layer == 0:
            towers = space.pre[0].size(0)
            # A view [towers, B, D].
            source = observations.unsqueeze(0).expand(towers, observations.size(0), observations.size(1))
        else:
            source = space.post[layer - 1]
        torch.baddbmm(weights.body_bias[layer], source, weights.body_weight[layer], out=space.pre[layer])
        torch.ops.aten.silu(space.pre[layer], out=space.post[layer])
    actor, critic = observations, observations  # [B, D]
    if layers > 0:
        # [B, H]; -1: the second tower, or the shared one.
        actor, critic = space.post[layers - 1][0], space.post[layers - 1][-1]
    torch.addmm(weights.action_bias, actor, weights.action_weight, out=space.outputs)
    torch.addmm(weights.value_bias, critic, weights.value_weight, out=values)


def gaussian(hyper: Coefficients, weights: Weights, space: Workspace, continuous: torch.Tensor) -> torch.Tensor:
    """Write errors and log-probabilities of the continuous actions [B, c]; returns their mean entropy []."""
    size = hyper.continuous
    # e = (a - mu) / sigma; log N(a; mu, sigma) = -e² / 2 - log sigma - log sqrt(2 pi)
    torch.sub(continuous, space.outputs[:, :size], out=space.error)
    space.error.mul_(torch.exp(-weights.log_sigma))
    peak = -weights.log_sigma - 0.9189385332046727  # [c], at the mean; log sqrt(2 pi)
    torch.addcmul(peak, space.error, space.error, value=-0.5, out=space.log_prob[:, :size])
    # H = log sigma + log sqrt(2 pi e), the mean over actions as in ML-Agents
    return weights.log_sigma.mean() + 1.4189385332046727


def categorical(
    hyper: Coefficients, space: Workspace, discrete: torch.Tensor, mask: torch.Tensor
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Write log-probabilities of the branches; returns all log-probabilities by branch, and entropies [B, b]."""
    begin = hyper.continuous
    if mask.size(0) > 0:
        space.outputs[:, begin:].masked_fill_(mask, -1e8)  # MASKED_LOGIT
    all_log_prob: list[torch.Tensor] = []
    entropies: list[torch.Tensor] = []
    for branch, size in enumerate(hyper.branches):
        row = torch.log_softmax(space.outputs[:, begin : begin + size], dim=1)  # [B, size]
        column = hyper.continuous + branch
        # [B, 1], of the chosen values.
        space.log_prob[:, column : column + 1] = row.gather(1, discrete[:, branch : branch + 1])
        entropies.append((row.exp() * row).sum(dim=1, keepdim=True).neg_())  # H = -sum p log p
        all_log_prob.append(row)
        begin += size
    return all_log_prob, torch.cat(entropies, dim=1)


def surrogate(
    hyper: Coefficients, space: Workspace, old: torch.Tensor, advantage: torch.Tensor, log_ratio: torch.Tensor
) -> None:
    """Write ``log_ratio`` [B, K] and leave in ``space.surrogate`` the gradient of the policy loss at it."""
    torch.sub(space.log_prob, old, out=log_ratio)
    torch.exp(log_ratio, out=space.ratio)
    # L = -min(r A, clip(r, 1 - epsilon, 1 + epsilon) A), the mean over samples and components (PPO, equation 7)
    torch.mul(space.ratio, advantage, out=space.surrogate)
    torch.clamp(space.ratio, 1.0 - hyper.epsilon, 1.0 + hyper.epsilon, out=space.clipped)
    space.clipped.mul_(advantage)
    # The minimum passes a gradient if the unclipped objective is smaller than the clipped one, or equal to it.
    # Then dL/d log r = -r A / (B K).
    active = torch.le(space.surrogate, space.clipped)  # bool [B, K]
    space.surrogate.mul_(active).mul_(-1.0 / float(log_ratio.numel()))


def backward_gaussian(hyper: Coefficients, weights: Weights, gradient: Weights, space: Workspace) -> None:
    """Gradients at the means (into ``space.grad_outputs``) and at log sigma."""
    size = hyper.continuous
    upstream = space.surrogate[:, :size]  # [B, c]: dL / d log pi
    at_mean = upstream * space.error  # times sigma
    # d log N / d log sigma = e² - 1, and the entropy bonus: -beta / c
    torch.sum(at_mean * space.error - upstream, dim=[0], out=gradient.log_sigma)
    gradient.log_sigma.sub_(hyper.beta / float(size))
    # d log N / d mu = e / sigma
    torch.mul(at_mean, torch.exp(-weights.log_sigma), out=space.grad_outputs[:, :size])


def backward_categorical(
    hyper: Coefficients,
    space: Workspace,
    discrete: torch.Tensor,
    all_log_prob: list[torch.Tensor],
    entropies: torch.Tensor,
) -> None:
    """Gradient at the logits, into ``space.grad_outputs``."""
    begin, rows = hyper.continuous, float(discrete.size(0))
    for branch, row in enumerate(all_log_prob):
        column = hyper.continuous + branch
        upstream = space.surrogate[:, column : column + 1]  # [B, 1]
        probability = row.exp()  # [B, size]
        # d(-beta * H / B) / d logit_j = beta / B * p_j * (log p_j + H)
        bonus = (row + entropies[:, branch : branch + 1]).mul_(probability).mul_(hyper.beta / rows)
        # d log p_a / d logit_j = [j = a] - p_j
        bonus.sub_(probability * upstream)
        bonus.scatter_add_(1, discrete[:, branch : branch + 1], upstream.contiguous())
        end = begin + row.size(1)
        space.grad_outputs[:, begin:end] = bonus
        begin = end


def backward_heads(
    weights: Weights, gradient: Weights, space: Workspace, actor: torch.Tensor, critic: torch.Tensor
) -> None:
    """Gradients of both heads; ``actor`` and ``critic`` are the inputs of the heads."""
    torch.mm(actor.t(), space.grad_outputs, out=gradient.action_weight)
    torch.sum(space.grad_outputs, dim=[0], out=gradient.action_bias)
    torch.mm(critic.t(), space.grad_values, out=gradient.value_weight)
    torch.sum(space.grad_values, dim=[0], out=gradient.value_bias)


def backward_body(weights: Weights, gradient: Weights, space: Workspace, observations: torch.Tensor) -> None:
    """Gradients of the body, from those at the heads' outputs."""
    last = len(space.pre) - 1
    towers = space.pre[last].size(0)
    torch.mm(space.grad_outputs, weights.action_weight.t(), out=space.grad[last][0])
    if towers == 1:
        space.grad[last][0].addmm_(space.grad_values, weights.value_weight.t())  # a shared tower gets both gradients
    else:
        torch.mm(space.grad_values, weights.value_weight.t(), out=space.grad[last][1])
    for step in range(last + 1):
        layer = last - step
        grad = space.grad[layer]
        torch.ops.aten.silu_backward(grad, space.pre[layer], grad_input=grad)  # in place: the gradient before the swish
        if layer == 0:
            source = observations.unsqueeze(0).expand(towers, observations.size(0), observations.size(1))
        else:
            source = space.post[layer - 1]
        torch.bmm(source.transpose(1, 2), grad, out=gradient.body_weight[layer])
        torch.sum(grad, dim=[1], keepdim=True, out=gradient.body_bias[layer])
        if layer > 0:
            torch.bmm(grad, weights.body_weight[layer].transpose(1, 2), out=space.grad[layer - 1])


def compute_gradient(
    hyper: Coefficients,
    weights: Weights,
    gradient: Weights,
    space: Workspace,
    samples: Samples,
    log_ratio: torch.Tensor,
    values: torch.Tensor,
) -> torch.Tensor:
    """Write the gradient of one minibatch's loss, ``log_ratio`` and ``values``; returns the mean entropy []."""
    observations = samples.inputs[0]
    forward(weights, space, observations, values)
    entropy = torch.zeros([], device=values.device)
    all_log_prob: list[torch.Tensor] = []
    entropies = entropy
    if hyper.continuous > 0:
        entropy = entropy + gaussian(hyper, weights, space, samples.continuous)
    if len(hyper.branches) > 0:
        all_log_prob, entropies = categorical(hyper, space, samples.discrete, samples.mask)
        entropy = entropy + entropies.sum() / float(values.size(0))
    surrogate(hyper, space, samples.log_prob, samples.advantage, log_ratio)
    if hyper.continuous > 0:
        backward_gaussian(hyper, weights, gradient, space)
    if len(hyper.branches) > 0:
        backward_categorical(hyper, space, samples.discrete, all_log_prob, entropies)
    # d 0.5 mean((V - R)²) / dV
    torch.sub(values, samples.returns, out=space.grad_values)
    space.grad_values.mul_(1.0 / float(values.numel()))
    if len(space.pre) > 0:
        last = space.post[len(space.pre) - 1]
        backward_heads(weights, gradient, space, last[0], last[-1])
        backward_body(weights, gradient, space, observations)
    else:
        backward_heads(weights, gradient, space, observations, observations)
    return entropy


def run_epoch(
    hyper: Coefficients,
    weights: Weights,
    gradient: Weights,
    optimizer: OptimizerState,
    space: Workspace,
    samples: Samples,
    statistics: EpochStatistics,
) -> None:
    """Learn from consecutive minibatches of shuffled ``samples``, each as large as the workspace."""
    batch, minibatches = space.outputs.size(0), statistics.entropy.size(0)
    taken = int(optimizer.step.item())  # read once: reading it at every step costs more
    for index in range(minibatches):
        begin, end = index * batch, (index + 1) * batch
        mask = samples.mask
        if mask.size(0) > 0:
            mask = mask[begin:end]
        minibatch = Samples(
            [samples.inputs[0][begin:end]],
            samples.state,
            samples.continuous[begin:end],
            samples.discrete[begin:end],
            mask,
            samples.log_prob[begin:end],
            samples.advantage[begin:end],
            samples.returns[begin:end],
            samples.begins,
        )
        log_ratio, values = statistics.log_ratio[begin:end], statistics.values[begin:end]
        entropy = compute_gradient(hyper, weights, gradient, space, minibatch, log_ratio, values)
        statistics.entropy[index] = entropy
        statistics.gradient_norm[index] = clip_gradient(optimizer.gradient, hyper.max_grad_norm)
        optimizer_step(optimizer, hyper.learning_rate, taken + index + 1)
    optimizer.step.add_(minibatches)


class FusedEpochs:
    """The fused path with its working memory."""

    def __init__(self, network: ActorCritic, parameters: FlatParameters) -> None:
        self._network, self._optimizer = network, parameters.optimizer
        self._weights = named_weights(parameters.views(parameters.optimizer.parameters))
        self._gradient = named_weights(parameters.views(parameters.optimizer.gradient))
        self._space: Workspace | None = None
        self._epoch = scripted(run_epoch)

    @property
    def scripted(self) -> bool:
        """Whether epochs run without the interpreter's lock."""
        return self._epoch is not run_epoch

    def run(
        self,
        hyper: Coefficients,
        samples: Samples,
        statistics: EpochStatistics,
        batch: int,
        sizes: Sequence[int] | None = None,
    ) -> None:
        """Learn from consecutive minibatches of ``batch`` shuffled ``samples``, all of which are local."""
        if self._space is None or len(self._space.outputs) != batch:
            self._space = new_workspace(self._network, batch)
        self._epoch(hyper, self._weights, self._gradient, self._optimizer, self._space, samples, statistics)
