"""Soft actor-critic (Haarnoja et al. 2018) as ML-Agents' users know it.

- A policy, a value V with a target that follows it at ``tau``, and twin Qs; V and the Qs have a head for each reward
  stream. The first version of the paper, with the entropy coefficients of the second (arXiv 1812.05905).
- Continuous actions are the tanh of a Gaussian whose log sigma depends on the observation, within [-20, 2]. For
  discrete
  branches, the expectation is computed instead of sampled; Q has a number for each value of each branch, and the value
  of a whole action is the mean over its branches.
- One coefficient for all continuous actions together, with a target entropy of minus their number, and one for each
  branch, with a target of 0.2 log n. The losses that move them are linear in their logarithm.
- The policy follows the first Q, averaged over streams; the smaller of both teaches V.
- All losses use the weights before the step, so one optimizer step for everything is the same as one for each.
- With a prioritized memory, its weights count in the Qs' losses, whose mean error it learns. Targets of several steps
  add no entropy on the way.
- The observation statistics take in new transitions before learning from them.
- Recurrent networks learn from sequences: a first transition is drawn, and up to ``sequence_length`` of the same agent
  and episode follow. Policy and V start with the stored state, the Qs without one, as in ML-Agents.

If actions are both continuous and discrete, ML-Agents adds the continuous entropy to V's target with the wrong sign and
counts Q twice in the policy's loss. Here both follow from one objective, for any actions:
``mean_b(alpha_b sum(p log p) - sum(p Q)) + alpha log pi``. With only branches, that is ML-Agents' own, divided by their
number, which makes no difference to Adam.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from typing_extensions import override

from tau_trainer.algorithms.accelerators.fused_sac import SoftConstants, soft_steps
from tau_trainer.algorithms.base import Setup
from tau_trainer.algorithms.off_policy.base import Stepwise
from tau_trainer.algorithms.off_policy.transitions import (
    Transitions,
    half_squares,
    targets,
    values_after,
)
from tau_trainer.algorithms.parameters import follower
from tau_trainer.metrics import keys
from tau_trainer.models.distributions import (
    GAUSSIAN_ENTROPY,
    LOG_SIGMA_RANGE,
    MASKED_LOGIT,
    branch_bounds,
    squashed_log_prob,
)
from tau_trainer.models.soft_actor_critic import NormalizedSoftActorCritic, SoftActorCritic
from tau_trainer.settings import SACHyperparameters, SACLNHyperparameters

if TYPE_CHECKING:
    from tau_trainer.models.heads import ActionHead

DISCRETE_TARGET = 0.2
"""Target entropy of a branch, as a share of the largest: about that of one random choice in twenty."""


class SACLosses(NamedTuple):
    """Losses of one minibatch, each []."""

    policy: torch.Tensor
    value: torch.Tensor
    q: torch.Tensor
    """[2], of both Qs."""
    coefficients: torch.Tensor
    entropy: torch.Tensor
    """As in ML-Agents: the mean over the Gaussians, before they are squashed, and the sum over branches."""
    values: torch.Tensor
    """[S], mean of each stream's V."""


class SampledActions(NamedTuple):
    """A policy's actions for ``n`` observations, and the cost of its entropy."""

    actions: torch.Tensor
    """[n, c], continuous ones, a sample with reparametrised gradients."""
    probability: torch.Tensor
    """[n, M], of each value of each branch."""
    cost: torch.Tensor
    """[n]: alpha log pi of the continuous actions, and for the branches the mean expectation."""
    coefficients: torch.Tensor
    """[], the loss that moves the entropy coefficients."""
    entropy: torch.Tensor
    """[], as :attr:`SACLosses.entropy`."""


def draw(
    head: ActionHead,
    logarithms: torch.Tensor,
    outputs: torch.Tensor,
    noise: torch.Tensor,
    forbidden: torch.Tensor,
) -> SampledActions:
    """Draw actions from a policy's outputs for ``n`` observations, differentiable.

    Args:
        head: the policy's.
        logarithms: of the entropy coefficients [1 + b], without the 1 or the b if there are no such actions.
        outputs: of the head, [n, 2c + M].
        noise: float32 [n, c], standard normal.
        forbidden: bool [n, M].
    """
    size, branches = head.choices.continuous_size, head.choices.discrete_branches
    coefficients = logarithms.detach().exp()  # constants in all losses except their own
    cost, actions, probability = torch.zeros_like(outputs[:, 0]), noise, outputs[:, head.logits :]
    loss = entropy = cost.new_zeros(())
    if size:
        # [n, c] each.
        mean, log_sigma = outputs[:, :size], outputs[:, size : 2 * size].clamp(*LOG_SIGMA_RANGE)
        # [n, c], before tanh; reparametrised, so gradients reach mean and sigma.
        raw = torch.addcmul(mean, log_sigma.exp(), noise)
        log_prob = squashed_log_prob(raw, noise, log_sigma).sum(dim=1)  # [n] (appendix C)
        cost, actions = coefficients[0] * log_prob, torch.tanh(raw)  # cost [n]
        loss = -logarithms[0] * (log_prob.detach().mean() - size)  # target: an entropy of -c
        entropy = log_sigma.detach().mean() + GAUSSIAN_ENTROPY
    if branches:
        logits, bounds = probability.masked_fill(forbidden, MASKED_LOGIT), branch_bounds(branches)  # [n, M]
        log_prob = torch.cat([torch.log_softmax(logits[:, begin:end], dim=1) for begin, end in bounds], dim=1)  # [n, M]
        probability = log_prob.exp()
        terms = probability * log_prob  # [n, M]: p log p
        negative = torch.stack([terms[:, begin:end].sum(dim=1) for begin, end in bounds], dim=1)  # [n, b]
        count = len(branches)
        cost = cost + (negative * coefficients[-count:]).mean(dim=1)
        aims = negative.new_tensor([DISCRETE_TARGET * math.log(branch) for branch in branches])  # float32 [b]
        lacking = negative.detach().mean(dim=0) + aims  # [b]: missing entropy
        loss = loss - (logarithms[-count:] * lacking).mean()
        entropy = entropy - negative.detach().sum(dim=1).mean()
    return SampledActions(actions, probability, cost, loss, entropy)


def of_taken(q: torch.Tensor, head: ActionHead, discrete: torch.Tensor) -> torch.Tensor:
    """From Q [E, n, S, A], that of stored actions, [E, n, S]: the mean over branches of the values [n, b] taken."""
    branches = head.choices.discrete_branches
    if not branches:
        return q.squeeze(3)
    first = discrete.new_tensor([begin for begin, _ in branch_bounds(branches)])  # int64 [b]
    chosen = (discrete + first)[None, :, None].expand(len(q), -1, q.shape[2], -1)  # int64 [E, n, S, b]
    return q.gather(3, chosen).mean(dim=3)


def of_drawn(q: torch.Tensor, head: ActionHead, drawn: SampledActions) -> torch.Tensor:
    """From Q [E, n, S, A], that of drawn actions, [E, n, S]: the expectation over values, the mean over branches."""
    branches = head.choices.discrete_branches
    return (q * drawn.probability[:, None]).sum(dim=3) / len(branches) if branches else q.squeeze(3)


def losses(
    module: SoftActorCritic, batch: Transitions, noise: torch.Tensor, gammas: torch.Tensor, n_step: int = 1
) -> SACLosses:
    """The losses of SAC, differentiable.

    Args:
        module: the networks.
        batch: ``n`` transitions.
        noise: float32 [n, c], standard normal, to draw actions with.
        gammas: float32 [S].
        n_step: see :func:`.transitions.targets`.
    """
    head, begins = module.network.action, batch.past.begins
    answer = module.network(batch.inputs, batch.past)
    with torch.no_grad():
        # V'(s') [n, S].
        after = values_after(module.target.values, batch)
        backup = targets(batch, gammas, after, n_step)  # [n, S]
    drawn = draw(head, module.log_coefficients, answer.outputs, noise, batch.forbidden)
    seen = module.q.see(batch.inputs)
    # [2, n, S, A]; no gradient at Qs' weights through `drawn`.
    q = module.q(seen, batch.continuous, begins)
    q_of_drawn = module.q(seen, drawn.actions, begins, frozen=True)
    q, q_of_drawn = of_taken(q, head, batch.discrete), of_drawn(q_of_drawn, head, drawn)  # [2, n, S]
    # [n, S]; teaches V, but neither policy nor Qs.
    goal = (torch.minimum(q_of_drawn[0], q_of_drawn[1]) - drawn.cost[:, None]).detach()
    return SACLosses(
        policy=(drawn.cost - q_of_drawn[0].mean(dim=1)).mean(),
        value=0.5 * (answer.values - goal).square().mean(),
        q=half_squares(q - backup, batch),
        coefficients=drawn.coefficients,
        entropy=drawn.entropy,
        values=answer.values.detach().mean(dim=0),
    )


class SoftAlgorithm(Stepwise):
    """Gradient steps of soft actor-critic. A subclass builds its networks, has its losses, and moves its target.

    Raises:
        SettingsError: as :class:`.OffPolicy`.
    """

    data_parallel = True
    soft = True
    module: SoftActorCritic | NormalizedSoftActorCritic
    draws: ClassVar[int] = 1
    """Number of actions that a gradient step draws for each transition."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        hyper, choices = self.hyperparameters, self.network.action.choices
        assert isinstance(hyper, SACHyperparameters | SACLNHyperparameters)
        branches, device = choices.discrete_branches, self.device
        self.constants = SoftConstants(
            continuous=choices.continuous_size,
            branches=list(branches),
            gammas=torch.tensor([stream.gamma for stream in self.streams], device=device),
            aims=torch.tensor([DISCRETE_TARGET * math.log(size) for size in branches], device=device),
            first=torch.tensor([begin for begin, _ in branch_bounds(branches)], dtype=torch.int64, device=device),
            tau=hyper.tau,
        )

    @override
    def noise(self, drawn: Transitions) -> torch.Tensor:
        return self.normal(self.draws, *drawn.continuous.shape)

    @override
    def step(self, batch: Transitions, noise: torch.Tensor, learning_rate: float) -> torch.Tensor:
        gradient = self.parameters.optimizer.gradient
        gradient.zero_()
        with torch.enable_grad():
            loss, numbers = self.loss(batch, noise)
            # All use the weights before the step, so one backward and one step serve all.
            loss.backward()  # type: ignore[no-untyped-call]
        self.ranks.mean(gradient)  # losses are means over rows; all ranks have equally many
        self.descend(learning_rate)
        return numbers.detach()

    @abstractmethod
    def loss(self, batch: Transitions, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of all losses, differentiable, and the numbers to report."""

    @abstractmethod
    def descend(self, learning_rate: float) -> None:
        """Take the optimizer's step, and let the target follow."""

    def coefficients_by_key(self) -> dict[str, float]:
        """Entropy coefficients by TensorBoard name: of continuous actions, and the mean of those of the branches."""
        values, branches = self.module.log_coefficients.detach().exp().tolist(), len(self.constants.branches)
        result = dict[str, float]()
        if len(values) > branches:
            result[keys.CONTINUOUS_COEFFICIENT] = values[0]
        if branches:
            result[keys.DISCRETE_COEFFICIENT] = sum(values[-branches:]) / branches
        return result


class SAC(SoftAlgorithm):
    """The learner of one behavior.

    Args:
        setup: see :class:`.Setup`.
        fused: plain networks learn through hand-written steps; False = torch's own differentiation throughout, the
            same numbers.
    """

    name = "sac"
    module: SoftActorCritic

    def __init__(self, setup: Setup, *, fused: bool = True) -> None:
        super().__init__(setup)
        self._follow = follower(self.module.target, self.module.network)
        if fused:
            self.fuse(lambda: soft_steps(self.module, self.parameters, self.constants))

    @override
    def build(self) -> SoftActorCritic:
        hyper = SACHyperparameters.of(self.hyperparameters)
        streams = {stream.name: stream.width for stream in self.streams}
        self.module = SoftActorCritic(
            self.spec, self.settings.network_settings, streams, hyper.init_entcoef, self.generator
        )
        self.network = self.module.network
        return self.module

    @override
    def loss(self, batch: Transitions, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = losses(self.module, batch, noise[0], self.constants.gammas, self.hyperparameters.n_step)
        single = torch.stack((found.policy, found.value, found.entropy))
        total = found.policy + found.value + found.q.sum() + found.coefficients
        return total, torch.cat((single, found.q, found.values))

    @override
    def descend(self, learning_rate: float) -> None:
        self.parameters.descend(learning_rate)
        self._follow(self.constants.tau)

    @override
    def report(self, means: Sequence[float]) -> dict[str, float]:
        policy, value, entropy, q1, q2, *values = means
        return {
            keys.POLICY_LOSS: policy,
            keys.VALUE_LOSS: value,
            keys.Q1_LOSS: q1,
            keys.Q2_LOSS: q2,
            keys.POLICY_ENTROPY: entropy,
            **self.coefficients_by_key(),
            **{keys.value(stream.name): mean for stream, mean in zip(self.streams, values, strict=True)},
        }
