"""Soft actor-critic with layer normalisation in its Qs and returns in a unit of their own: few decisions, few settings.

- Soft actor-critic as in Haarnoja et al. 2018 (arXiv 1812.05905): a policy and twin Qs, whose targets follow at
  ``tau``.
  ``y = r + gamma (min Q'(s', a') - alpha log pi(a'))`` with a newly drawn action. It has no V, unlike ``sac`` here.
- Layer normalisation before each activation of the Qs, which is ReLU, keeps the values of actions that were never
  taken from growing (Ball et al. 2023, RLPD, section 4.2), so the target may follow ten times as fast as SAC's.
- Returns are divided by their size so far (:mod:`.return_scale`), so settings do not depend on the size of rewards. If
  the size changes, the Qs' heads are rescaled and give the same values as before (van Hasselt et al. 2016, PopArt).
- Ours: the entropy coefficient does not fall below ``least_entcoef``, in units of the deviation of returns (but at
  least a tenth of it in the unit above). Without this floor the policy follows differences between Qs that are smaller
  than their errors, and becomes worse after it has learned everything. If it follows the largest return instead, one
  punishment for a fall makes random actions worth more than the rewards of single steps.
- Ours: entropy coefficients move three times as fast as weights, and those of branches ten times, down to a tenth of
  that floor. Otherwise, with few gradient steps, the policy acts at random long after it has learned better, because
  it is paid for the entropy of a branch, which is never below 0.
- Targets sum three rewards before they add a value (``n_step``), so late rewards reach early decisions in fewer
  gradient steps.
- Policy and Qs share one encoder of images, lists and goals, which learns from the Qs alone (Yarats et al. 2021,
  SAC-AE, section 4.3, without its decoder).
- Continuous actions, branches, levels, masks, hybrid actions, memory, weights of prioritized transitions: as in
  :mod:`.sac`; the target too uses the expectation over a branch's values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from typing_extensions import override

from tau_trainer.algorithms.accelerators.fused_sac_ln import FusedNormalizedSteps, SACLNCoefficients, hasten
from tau_trainer.algorithms.base import Setup, State
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.algorithms.off_policy.return_scale import ReturnScale
from tau_trainer.algorithms.off_policy.sac import (
    DISCRETE_TARGET,
    coefficients_by_key,
    draw,
    half_squares,
    of_drawn,
    of_taken,
)
from tau_trainer.algorithms.off_policy.transitions import Transitions, in_order, minibatches, targets, values_after
from tau_trainer.algorithms.parameters import fitting, follower
from tau_trainer.columns import Arrays
from tau_trainer.memory import Rollout, TensorRollout
from tau_trainer.metrics import keys
from tau_trainer.models.distributions import branch_bounds
from tau_trainer.models.observation_encoder import TowerFeatures
from tau_trainer.models.soft_actor_critic import NormalizedSoftActorCritic
from tau_trainer.settings import SACLNHyperparameters

PACE, BRANCH_PACE = 3.0, 10.0
"""Speed of the logarithms of entropy coefficients, as a multiple of the weights' speed: of continuous actions, and of
branches."""
BRANCH_LEAST = 0.1
"""Floor of branches' entropy coefficients, as a share of ``least_entcoef``."""
_STATE = "return_scale."


class Losses(NamedTuple):
    """Losses of one minibatch, each [].

    Returns and coefficients in the unit of :attr:`NormalizedSoftActorCritic.scale`.
    """

    policy: torch.Tensor
    q: torch.Tensor
    """[2], of both Qs."""
    coefficients: torch.Tensor
    entropy: torch.Tensor
    """As :attr:`.sac.SACLosses.entropy`."""
    values: torch.Tensor
    """[S], mean of the Qs of the stored actions."""


def losses(
    module: NormalizedSoftActorCritic, batch: Transitions, noise: torch.Tensor, gammas: torch.Tensor, n_step: int = 1
) -> Losses:
    """The losses, differentiable.

    Args:
        module: the networks.
        batch: ``n`` transitions, rewards divided by the module's scale.
        noise: float32 [2, n, c], standard normal, to draw actions now and after the transition.
        gammas: float32 [S].
        n_step: see :func:`.transitions.targets`.
    """
    state, begins = batch.past
    network, head, q = module.network, module.network.action, module.q
    noise_after = in_order(noise[0], noise[1], batch)
    forbidden_after = in_order(batch.forbidden, batch.forbidden_after, batch)

    def worth(inputs: list[torch.Tensor], state: torch.Tensor | None, begins: torch.Tensor | None) -> torch.Tensor:
        """[rows, S]: min Q'(s', a') - alpha log pi(a')."""
        outputs = network.outputs(inputs, state, begins)
        drawn = draw(head, module.log_coefficients, outputs, noise_after, forbidden_after)
        said = of_drawn(module.q_target(module.q_target.see(inputs), drawn.actions, begins), head, drawn)
        return torch.minimum(said[0], said[1]) - drawn.cost[:, None]

    with torch.no_grad():
        backup = targets(batch, gammas, values_after(worth, batch), n_step)  # [n, S]
    seen = q.see(batch.inputs)
    # The encoder, which they share, learns from the Qs alone.
    outputs = head(network.features(TowerFeatures(*(values.detach() for values in seen[0])), state, begins))
    drawn = draw(head, module.log_coefficients, outputs, noise[0], batch.forbidden)
    said = of_taken(q(seen, batch.continuous, begins), head, batch.discrete)  # [2, n, S]
    # No gradient at Qs' weights through the drawn actions.
    of_policy = of_drawn(q(seen, drawn.actions, begins, frozen=True), head, drawn)[0]  # [n, S], of the first Q
    return Losses(
        policy=(drawn.cost - of_policy.mean(dim=1)).mean(),
        q=half_squares(said - backup, batch),
        coefficients=drawn.coefficients,
        entropy=drawn.entropy,
        values=said.detach().mean(dim=(0, 1)),
    )


class SACLN(OffPolicy):
    """The learner of one behavior.

    Args:
        setup: see :class:`.Setup`.
        fused: plain networks learn through hand-written steps; False = torch's own differentiation throughout, the
            same numbers.
    """

    name = "sac_ln"
    data_parallel = True
    soft = True
    masks_after = True
    module: NormalizedSoftActorCritic

    def __init__(self, setup: Setup, *, fused: bool = True) -> None:
        super().__init__(setup)
        self._own = SACLNHyperparameters.of(setup.settings.hyperparameters)
        self._gammas = torch.tensor([stream.gamma for stream in self.streams], device=self.device)
        self._returns = self._new_returns()
        choices = self.network.action.choices
        branches, continuous = choices.discrete_branches, bool(choices.continuous_size)
        least = math.log(max(self._own.least_entcoef, 1e-8))
        each = [(PACE, least)] * continuous + [(BRANCH_PACE, least + math.log(BRANCH_LEAST))] * len(branches)
        self._pace, self._least = torch.tensor(each, device=self.device).T.contiguous()  # [1 + b] each
        self._branches = list(branches)
        self._aims = torch.tensor([DISCRETE_TARGET * math.log(size) for size in branches], device=self.device)
        self._begins = torch.tensor(
            [begin for begin, _ in branch_bounds(branches)], dtype=torch.int64, device=self.device
        )
        self._follow = follower(self.module.q_target, self.module.q)
        fused = fused and self.network.plain and self.ranks.alone
        self._fused = FusedNormalizedSteps(self.module, self.parameters) if fused else None
        self.large = len(self.network.encoders) > 0
        self.holds_lock = self._fused is None or not self._fused.scripted or bool(self._beside)

    @override
    def build(self) -> NormalizedSoftActorCritic:
        hyper = SACLNHyperparameters.of(self.hyperparameters)
        self.module = NormalizedSoftActorCritic(
            self.spec, self.settings.network_settings, len(self.streams), hyper.init_entcoef, self.generator
        )
        self.network = self.module.network
        return self.module

    def _new_returns(self) -> ReturnScale:
        """The sizes of returns, none yet."""
        if self.copies is None:
            return ReturnScale(self.gammas)
        exact = torch.float32 if self.device.type == "mps" else torch.float64
        shape = self.copies.num_envs, self.copies.agents, len(self.gammas)
        return ReturnScale(self.gammas, torch.zeros(shape, dtype=exact, device=self.device))

    @override
    def _store(self, rollout: Rollout | TensorRollout, source: int) -> Callable[[], None]:
        forget = self._returns.add(rollout, self.streamed(rollout), source)
        take_out = super()._store(rollout, source)

        def undo() -> None:
            take_out()
            forget()

        return undo

    @override
    def learn(self, drawn: Transitions, steps: int, learning_rate: float) -> torch.Tensor:
        if self.signals or self.hindsight is not None:  # rewards may be new since the transitions were played
            self._returns.meet(float(drawn.rewards.abs().max()))
        self.module.rescale(self._returns.value)
        drawn = drawn._replace(rewards=drawn.rewards / self.module.scale)
        spread = torch.as_tensor(self._returns.spread, dtype=torch.float32, device=self.device)
        least = self._least + spread.log()  # [1 + b]: lower bounds of the logarithms of entropy coefficients
        # For all steps at once: one call.
        noise = self.normal(2, *drawn.continuous.shape)  # [2, rows, c]
        if self._fused is not None:
            return self._fused.run(self._numbers(least, learning_rate), drawn, noise, steps)
        each = zip(minibatches(drawn, steps, self.ranks), noise.chunk(steps, dim=1), strict=True)
        here = self.ranks.part(noise.shape[1] // steps)  # of each minibatch
        return torch.stack([self._step(batch, part[:, here], least, learning_rate) for batch, part in each])

    def _numbers(self, least: torch.Tensor, learning_rate: float) -> SACLNCoefficients:
        """The numbers of the hand-written step."""
        size, tau = self.network.action.choices.continuous_size, self._own.tau
        shared = self._branches, self._gammas, self._aims, self._begins
        return SACLNCoefficients(size, *shared, tau, self._pace, least, learning_rate)

    def _step(self, batch: Transitions, noise: torch.Tensor, least: torch.Tensor, learning_rate: float) -> torch.Tensor:
        """A gradient step with torch's own differentiation."""
        self.parameters.optimizer.gradient.zero_()
        with torch.enable_grad():
            found = losses(self.module, batch, noise, self._gammas, self._own.n_step)
            # All use the weights before the step, so one backward and one step serve all.
            (found.policy + found.q.sum() + found.coefficients).backward()  # type: ignore[no-untyped-call]
        self.ranks.mean(self.parameters.optimizer.gradient)  # losses are means over rows, all ranks have equally many
        logarithms = self.module.log_coefficients.data
        before = logarithms.clone()
        self.parameters.descend(learning_rate)
        hasten(logarithms, before, self._pace, least)
        self._follow(self._own.tau)
        return torch.cat(
            (torch.stack((found.policy, found.coefficients, found.entropy)), found.q, found.values)
        ).detach()

    @override
    def report(self, means: Sequence[float]) -> dict[str, float]:
        policy, _, entropy, q1, q2, *values = means
        scale = float(self.module.scale)
        result = {
            keys.POLICY_LOSS: policy,
            keys.Q1_LOSS: q1,
            keys.Q2_LOSS: q2,
            keys.POLICY_ENTROPY: entropy,
            keys.RETURN_SCALE: scale,
        }
        coefficients = self.module.log_coefficients.detach().exp().tolist()
        result |= coefficients_by_key(coefficients, self.network.action.choices.discrete_size)
        named = zip(self.streams, values, strict=True)
        return result | {keys.value(stream.name): mean * scale for stream, mean in named}

    @override
    def state(self) -> State:
        arrays, metadata = super().state()
        return arrays | {_STATE + name: values for name, values in self._returns.state().items()}, metadata

    @override
    def load(self, arrays: Arrays, metadata: Mapping[str, Any], *, fresh: bool) -> None:
        returns = self._new_returns()
        if metadata.get("algorithm") == self.name and not fresh:  # for others, the check below reports the name
            returns.load({name: fitting(arrays, _STATE + name, kept.shape) for name, kept in returns.state().items()})
        super().load(arrays, metadata, fresh=fresh)
        if not fresh:
            self._returns = returns
        self._returns.least = float(self.module.scale)
