"""The gradient step of DDPG and TD3 by hand, for plain networks, as :mod:`.fused_sac` is for SAC.

The formulas are those of :mod:`tau_trainer.algorithms.off_policy.ddpg`; tests compare both. With TorchScript, all steps
of an update run without Python and without the interpreter's lock. ``B`` is the minibatch, ``H`` the hidden units,
``E`` estimates of Q, ``c`` continuous actions, ``S`` reward streams.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from tau_trainer.algorithms.accelerators.fused_sac import SoftWeights, back, back_to_actions, through, weigh
from tau_trainer.algorithms.accelerators.steps import FusedSteps
from tau_trainer.algorithms.off_policy.transitions import Transitions, minibatch
from tau_trainer.algorithms.parameters import FlatParameters, OptimizerState, optimizer_step
from tau_trainer.models.deterministic_actor_critic import DeterministicActorCritic


class DDPGWorkspace(NamedTuple):
    """Activations of one minibatch, overwritten by the next: before and after each swish."""

    pre: list[torch.Tensor]
    """Of the actor, [1, B, H]."""
    post: list[torch.Tensor]
    q_pre: list[torch.Tensor]
    """[E, B, H]."""
    q_post: list[torch.Tensor]


class DDPGConstants(NamedTuple):
    """Hyperparameters that do not change."""

    gammas: torch.Tensor
    """[S]."""
    tau: float
    delay: int


class DDPGNetworks(NamedTuple):
    """All tensors that a gradient step changes."""

    weights: SoftWeights
    gradient: SoftWeights
    target: SoftWeights
    source: torch.Tensor
    """The trained parameters, flat."""
    followed: torch.Tensor
    """The target's, which follow them, flat."""
    actor: OptimizerState
    q: OptimizerState


def named_weights(views: dict[str, torch.Tensor], actor: str, q: str) -> SoftWeights:
    """The parameters of an actor and its Qs, or their gradients; fields that only SAC has are empty."""
    layers = sum(name.startswith(f"{q}.body.") for name in views) // 2

    def body(owner: str, kind: str) -> list[torch.Tensor]:
        return [views[f"{owner}.body.{layer}.{kind}"] for layer in range(layers)]

    nothing = torch.zeros(0)
    return SoftWeights(
        body_weight=body(actor, "weight"),
        body_bias=body(actor, "bias"),
        action_weight=views[f"{actor}.action.weight"],
        action_bias=views[f"{actor}.action.bias"],
        value_weight=nothing,
        value_bias=nothing,
        q_body_weight=body(q, "weight"),
        q_body_bias=body(q, "bias"),
        q_weight=views[f"{q}.weight"],
        q_bias=views[f"{q}.bias"],
        log_coefficients=nothing,
    )


def value_after(target: SoftWeights, batch: Transitions, noise: torch.Tensor) -> torch.Tensor:
    """The smallest Q' [B, S] of the action of pi' after each transition, with ``noise`` [B, c]."""
    following = batch.following[0]
    x = following  # [B, D], then [B, H]
    for layer in range(len(target.body_weight)):
        x = torch.ops.aten.silu(torch.addmm(target.body_bias[layer][0], x, target.body_weight[layer][0]))
    actions = torch.tanh(torch.addmm(target.action_bias, x, target.action_weight)) + noise  # [B, c]
    both = torch.cat((following, actions.clamp(-1.0, 1.0)), dim=1)  # [B, D + c]
    y = both.unsqueeze(0).expand(target.q_weight.size(0), both.size(0), both.size(1))  # [E, B, D + c], a view
    for layer in range(len(target.q_body_weight)):
        y = torch.ops.aten.silu(torch.baddbmm(target.q_body_bias[layer], y, target.q_body_weight[layer]))
    return torch.baddbmm(target.q_bias, y, target.q_weight).amin(dim=[0])


def compute_q_gradient(
    hyper: DDPGConstants, networks: DDPGNetworks, space: DDPGWorkspace, batch: Transitions, noise: torch.Tensor
) -> torch.Tensor:
    """Write the gradient of the Qs' losses; returns these and the mean Q of each stream, [E + S]."""
    weights, gradient, target = networks.weights, networks.gradient, networks.target
    goal = torch.addcmul(batch.rewards, batch.goes_on * hyper.gammas, value_after(target, batch, noise))  # [B, S]
    both = torch.cat((batch.inputs[0], batch.continuous), dim=1)
    x = both.unsqueeze(0).expand(weights.q_weight.size(0), both.size(0), both.size(1))  # [E, B, D + c], a view
    features = through(x, weights.q_body_weight, weights.q_body_bias, space.q_pre, space.q_post)  # [E, B, H]
    q = torch.baddbmm(weights.q_bias, features, weights.q_weight)  # [E, B, S]
    error = q - goal
    weighted = weigh(error, batch)
    grad = weighted * (1.0 / float(goal.numel()))  # d 0.5 mean(w e²) / dq = w e / (B S)
    torch.bmm(features.transpose(1, 2), grad, out=gradient.q_weight)
    torch.sum(grad, dim=[1], keepdim=True, out=gradient.q_bias)
    if len(space.q_pre) > 0:
        grad = torch.bmm(grad, weights.q_weight.transpose(1, 2))  # at the features [E, B, H]
        back(x, grad, weights.q_body_weight, space.q_pre, space.q_post, gradient.q_body_weight, gradient.q_body_bias)
    return torch.cat((0.5 * (error * weighted).mean(dim=[1, 2]), q.mean(dim=[0, 1])))


def compute_policy_gradient(networks: DDPGNetworks, space: DDPGWorkspace, observations: torch.Tensor) -> torch.Tensor:
    """Write the gradient of the actor's loss; returns that, []."""
    weights, gradient = networks.weights, networks.gradient
    x = observations.unsqueeze(0)  # [1, B, D]
    features = through(x, weights.body_weight, weights.body_bias, space.pre, space.post)
    actions = torch.tanh(torch.addmm(weights.action_bias, features[0], weights.action_weight))  # [B, c]
    y = torch.cat((observations, actions), dim=1)  # [B, D + c]
    for layer in range(len(weights.q_body_weight)):  # only the first Q
        torch.addmm(weights.q_body_bias[layer][0], y, weights.q_body_weight[layer][0], out=space.q_pre[layer][0])
        y = torch.ops.aten.silu(space.q_pre[layer][0])
    q = torch.addmm(weights.q_bias[0], y, weights.q_weight[0])  # [B, S]
    grad = torch.full_like(q, -1.0 / float(q.numel()))  # of -mean(Q)
    # [B, c]; the slope of tanh is 1 - a².
    at_raw = back_to_actions(weights, grad, space.q_pre, actions.size(1)) * (1.0 - actions * actions)
    torch.mm(features[0].t(), at_raw, out=gradient.action_weight)
    torch.sum(at_raw, dim=[0], out=gradient.action_bias)
    if len(space.pre) > 0:
        upstream = torch.mm(at_raw, weights.action_weight.t()).unsqueeze(0)
        back(x, upstream, weights.body_weight, space.pre, space.post, gradient.body_weight, gradient.body_bias)
    return -q.mean()


def run_steps(
    hyper: DDPGConstants,
    networks: DDPGNetworks,
    space: DDPGWorkspace,
    drawn: Transitions,
    noise: torch.Tensor,
    learning_rate: float,
) -> torch.Tensor:
    """Numbers [steps, 2 + E + S] of as many steps as ``noise`` [1, steps, B, c] and ``drawn`` have minibatches."""
    actor, q, steps, rows = networks.actor, networks.q, noise.size(1), noise.size(2)
    taken = int(q.step.item())  # read once: reading it at every step costs more
    numbers: list[torch.Tensor] = []
    for index in range(steps):
        step = taken + index + 1
        batch = minibatch(drawn, index * rows, (index + 1) * rows)
        of_q = compute_q_gradient(hyper, networks, space, batch, noise[0, index])
        optimizer_step(q, learning_rate, step)
        policy = torch.zeros_like(of_q[:2])  # loss, and whether there is one
        if step % hyper.delay == 0:
            policy[0] = compute_policy_gradient(networks, space, batch.inputs[0])
            policy[1] = 1.0
            optimizer_step(actor, learning_rate, step // hyper.delay)  # its own count, for Adam's bias
            networks.followed.lerp_(networks.source, hyper.tau)
        numbers.append(torch.cat((policy, of_q)))
    q.step.add_(steps)
    return torch.stack(numbers)


def new_workspace(weights: SoftWeights, batch: int) -> DDPGWorkspace:
    """Memory for minibatches of ``batch`` rows."""
    biases = weights.body_bias, weights.body_bias, weights.q_body_bias, weights.q_body_bias
    return DDPGWorkspace(*([bias.new_zeros(len(bias), batch, bias.size(2)) for bias in each] for each in biases))


def ddpg_steps(parameters: FlatParameters, hyper: DDPGConstants) -> FusedSteps:
    """The hand-written steps of DDPG and TD3."""
    actor, q, target, q_target = DeterministicActorCritic.PARTS
    flat = parameters.optimizer.parameters
    views = parameters.views(flat)
    networks = DDPGNetworks(
        weights=named_weights(views, actor[:-1], q[:-1]),
        gradient=named_weights(parameters.views(parameters.optimizer.gradient), actor[:-1], q[:-1]),
        target=named_weights(views, target[:-1], q_target[:-1]),
        source=flat[parameters.span(actor, q)],
        followed=flat[parameters.span(target, q_target)],
        actor=parameters.part(actor),
        q=parameters.part(q),
    )
    return FusedSteps(run_steps, hyper, networks, new_workspace)
