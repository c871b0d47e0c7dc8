"""Soft actor-critic with layer normalisation in its Qs and returns in a unit of their own: few decisions, few settings.

- Soft actor-critic as in Haarnoja et al. 2018 (arXiv 1812.05905): a policy and twin Qs, whose targets follow at
  ``tau``.
  ``y = r + gamma (min Q'(s', a') - alpha log pi(a'))`` with a newly drawn action. It has no V, unlike ``sac`` here.
- A policy of continuous actions follows the mean of both Qs (Chen et al. 2021, REDQ, section 2), whose errors differ.
  With branches it follows the first: LunarLander then hovered with fewer seeds.
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

from tau_trainer.algorithms.accelerators.fused_sac_ln import NormalizedNumbers, followed, hasten, normalized_steps
from tau_trainer.algorithms.base import Setup, State
from tau_trainer.algorithms.off_policy.return_scale import ReturnScale
from tau_trainer.algorithms.off_policy.sac import (
    SoftAlgorithm,
    draw,
    of_drawn,
    of_taken,
)
from tau_trainer.algorithms.off_policy.transitions import Transitions, half_squares, in_order, targets, values_after
from tau_trainer.algorithms.parameters import fitting, follower
from tau_trainer.columns import Arrays
from tau_trainer.memory import Rollout, TensorRollout
from tau_trainer.metrics import keys
from tau_trainer.models.blocks import Past
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
    network, head, q = module.network, module.network.action, module.q
    noise_after = in_order(noise[0], noise[1], batch)
    forbidden_after = in_order(batch.forbidden, batch.forbidden_after, batch)

    def worth(inputs: list[torch.Tensor], past: Past) -> torch.Tensor:
        """[rows, S]: min Q'(s', a') - alpha log pi(a')."""
        outputs = network.outputs(inputs, past)
        drawn = draw(head, module.log_coefficients, outputs, noise_after, forbidden_after)
        said = of_drawn(module.q_target(module.q_target.see(inputs), drawn.actions, past.begins), head, drawn)
        return torch.minimum(said[0], said[1]) - drawn.cost[:, None]

    with torch.no_grad():
        backup = targets(batch, gammas, values_after(worth, batch), n_step)  # [n, S]
    seen = q.see(batch.inputs)
    # The encoder, which they share, learns from the Qs alone.
    outputs = head(network.features(TowerFeatures(*(values.detach() for values in seen[0])), batch.past))
    drawn = draw(head, module.log_coefficients, outputs, noise[0], batch.forbidden)
    said = of_taken(q(seen, batch.continuous, batch.past.begins), head, batch.discrete)  # [2, n, S]
    # [2, n, S], of which the first counts if there are branches. No gradient at Qs' weights through the drawn actions.
    of_policy = of_drawn(q(seen, drawn.actions, batch.past.begins, frozen=True), head, drawn)
    return Losses(
        policy=(drawn.cost - of_policy[: followed(list(head.choices.discrete_branches))].mean(dim=(0, 2))).mean(),
        q=half_squares(said - backup, batch),
        coefficients=drawn.coefficients,
        entropy=drawn.entropy,
        values=said.detach().mean(dim=(0, 1)),
    )


class SACLN(SoftAlgorithm):
    """The learner of one behavior.

    Args:
        setup: see :class:`.Setup`.
        fused: plain networks learn through hand-written steps; False = torch's own differentiation throughout, the
            same numbers.
    """

    name = "sac_ln"
    masks_after = True
    draws = 2
    module: NormalizedSoftActorCritic

    def __init__(self, setup: Setup, *, fused: bool = True) -> None:
        super().__init__(setup)
        self._returns = self._new_returns()
        least = math.log(max(SACLNHyperparameters.of(self.hyperparameters).least_entcoef, 1e-8))
        continuous, branches = bool(self.constants.continuous), len(self.constants.branches)
        each = [(PACE, least)] * continuous + [(BRANCH_PACE, least + math.log(BRANCH_LEAST))] * branches
        pace, self._least = torch.tensor(each, device=self.device).T.contiguous()  # [1 + b] each
        self._numbers = NormalizedNumbers(self.constants, pace, self._least.clone())
        self._follow = follower(self.module.q_target, self.module.q)
        if fused:
            self.fuse(lambda: normalized_steps(self.module, self.parameters, self._numbers))

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
        torch.add(self._least, spread.log(), out=self._numbers.least)
        return super().learn(drawn, steps, learning_rate)

    @override
    def loss(self, batch: Transitions, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = losses(self.module, batch, noise, self.constants.gammas, self.hyperparameters.n_step)
        numbers = torch.cat((torch.stack((found.policy, found.entropy)), found.q, found.values))
        return found.policy + found.q.sum() + found.coefficients, numbers

    @override
    def descend(self, learning_rate: float) -> None:
        logarithms = self.module.log_coefficients.data
        before = logarithms.clone()
        self.parameters.descend(learning_rate)
        hasten(logarithms, before, self._numbers.pace, self._numbers.least)
        self._follow(self.constants.tau)

    @override
    def report(self, means: Sequence[float]) -> dict[str, float]:
        policy, entropy, q1, q2, *values = means
        scale = float(self.module.scale)
        named = zip(self.streams, values, strict=True)
        return {
            keys.POLICY_LOSS: policy,
            keys.Q1_LOSS: q1,
            keys.Q2_LOSS: q2,
            keys.POLICY_ENTROPY: entropy,
            keys.RETURN_SCALE: scale,
            **self.coefficients_by_key(),
            **{keys.value(stream.name): mean * scale for stream, mean in named},
        }

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
