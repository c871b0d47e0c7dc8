"""Deep Q-learning (Mnih et al. 2015) with the switches that Rainbow gathered (Hessel et al. 2018).

- ``double``: the network chooses the action that the target scores (van Hasselt et al. 2016). ``dueling``: see
  :mod:`tau_trainer.models.action_values`. ``noisy``: see :mod:`tau_trainer.models.noisy`. ``n_step`` and
  ``prioritized`` belong to every off-policy algorithm. All together are Rainbow but for its distribution.
- With several branches there is a number for each value of each branch, and a whole action is worth the mean over its
  branches, as with SAC's Qs. What was forbidden when the next decision was made is no candidate there.
- ``clip_td_err`` limits the error's gradient and its priority, not the loss's argument, behind whose limits there would
  be no gradient at all. So ``mse`` with a limit is Huber's loss, and ``smooth_l1`` is that with a limit of 1.
- Rewards of all streams are added up before anything is learned, so they share one discount.
- Noisy weights: every row of every pass has noise of its own, also where the target is asked.
- Recurrent networks learn from sequences that begin with the state that was stored.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.base import Setup
from tau_trainer.algorithms.fused_dqn import FusedValueSteps, ValueNumbers
from tau_trainer.algorithms.off_policy import OffPolicy
from tau_trainer.algorithms.parameters import follower
from tau_trainer.algorithms.transitions import Transitions, minibatches, values_after
from tau_trainer.errors import SettingsError
from tau_trainer.metrics import keys
from tau_trainer.models.action_values import ActionValues
from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.masks import MASKED_LOGIT, branch_bounds
from tau_trainer.models.noisy import Noise
from tau_trainer.specs import FloatArray

if TYPE_CHECKING:
    from tau_trainer.settings import DQNHyperparameters


def temporal_differences(
    module: ActionValues, batch: Transitions, gamma: float, *, double: bool, noise: Noise | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """How wrong the values of ``n`` actions are, differentiable, and these values; both [n].

    Args:
        module: the networks.
        batch: the transitions.
        gamma: discount.
        double: whether our network chooses what the target scores.
        noise: of noisy weights.
    """
    begins = batch.begins if len(batch.begins) else None
    state = batch.state if begins is not None else None
    bounds = branch_bounds(module.network.action.choices.discrete_branches)

    def after(network: ActorCritic) -> torch.Tensor:
        if begins is None:
            return module.values(network, batch.following, noise=noise)
        return values_after(lambda *asked: module.values(network, asked[0], asked[1], asked[2], noise), batch)

    with torch.no_grad():
        worth = after(module.target)
        scores = after(module.network) if double else worth
        scores = scores.masked_fill(batch.forbidden_after, MASKED_LOGIT)
        best = torch.stack([begin + scores[:, begin:end].argmax(dim=1) for begin, end in bounds], dim=1)
        following = worth.gather(1, best).mean(dim=1)
        goal = torch.addcmul(batch.rewards[:, 0], batch.goes_on[:, 0], following, value=gamma)
    # A device that is told numbers is waited for; of one branch there is nothing to tell.
    first = batch.discrete.new_tensor([begin for begin, _ in bounds]) if len(bounds) > 1 else 0
    values = module.values(module.network, batch.inputs, state, begins, noise)
    chosen = values.gather(1, batch.discrete + first).mean(dim=1)
    return chosen - goal, chosen.detach()


class DQN(OffPolicy):
    """The learner of one behavior.

    Args:
        setup: what it is made from.
        fused: plain networks learn through hand-written steps; False = torch's own differentiation throughout, the
            same numbers.

    Raises:
        SettingsError: actions are continuous, without levels; or rewards have several discounts.
    """

    name = "dqn"
    module: ActionValues
    masks_after = True
    rewards_kept = 1

    def __init__(self, setup: Setup, *, fused: bool = True) -> None:
        self._own = cast("DQNHyperparameters", setup.settings.hyperparameters)
        if setup.spec.actions.continuous_size and setup.settings.network_settings.action_levels is None:
            raise SettingsError(
                "dqn chooses among discrete actions, and this behavior has continuous ones; "
                "set network_settings.action_levels (5, say), or trainer_type: sac"
            )
        gammas = {stream.gamma for stream in setup.streams}
        if len(gammas) > 1:
            raise SettingsError("dqn adds up all rewards before it learns; give every reward signal the same gamma")
        super().__init__(setup)
        self._clip = math.inf if self._own.clip_td_err is None else self._own.clip_td_err
        self._limit = min(math.inf if self._own.loss == "mse" else 1.0, self._clip)
        self._follow = follower(self.module.target, self.module.network)
        self._fused = FusedValueSteps(self.module, self.parameters) if fused and self.network.plain else None
        self.large = len(self.network.encoders) > 0
        self.holds_lock = self._fused is None or not self._fused.scripted

    @override
    def build(self) -> ActionValues:
        own = self._own
        self.module = ActionValues(
            self.spec,
            self.settings.network_settings,
            own.exploration.over(self._setup.decisions),
            dueling=own.dueling,
            noisy=own.noisy,
            generator=self.generator,
        )
        self.network = self.module.network
        return self.module

    @override
    def paid(self, rewards: FloatArray) -> FloatArray:
        """float32 [n, 1]: of all streams together."""
        total: FloatArray = rewards.sum(axis=1, keepdims=True)
        limit = self._own.clip_reward
        return total if limit is None else np.clip(total, -limit, limit)

    @override
    def learn(self, drawn: Transitions, steps: int, learning_rate: float) -> torch.Tensor:
        own = self._own
        if self._fused is not None:
            gamma, target = float(self.gammas[0]), (own.tau, own.target_update_interval)
            numbers = ValueNumbers(gamma, self._limit, self._clip, own.double, *target, learning_rate)
            return self._fused.run(numbers, drawn, steps)
        return torch.stack([self._step(batch, learning_rate) for batch in minibatches(drawn, steps)])

    def _step(self, batch: Transitions, learning_rate: float) -> torch.Tensor:
        """A gradient step with torch's own differentiation."""
        optimizer, noise = self.parameters.optimizer, self._noise if self.network.noisy else None
        optimizer.gradient.zero_()
        with torch.enable_grad():
            wrong, values = temporal_differences(
                self.module, batch, float(self.gammas[0]), double=self._own.double, noise=noise
            )
            size = wrong.detach().abs()
            limited = wrong.detach().clamp(-self._limit, self._limit)
            weights = batch.weights if len(batch.weights) else torch.ones_like(size)
            (wrong * limited * weights).mean().backward()  # type: ignore[no-untyped-call]
        if len(batch.errors):
            batch.errors.copy_(size.clamp(max=self._clip))
        self.parameters.descend(learning_rate)
        if int(optimizer.step) % self._own.target_update_interval == 0:
            self._follow(self._own.tau)
        # Huber: x²/2, and beyond the limit d (x - d/2)
        loss = (limited.abs() * (size - 0.5 * limited.abs()) * weights).mean()
        return torch.stack((loss, values.mean()))

    def _noise(self, rows: int, size: int) -> torch.Tensor:
        return torch.randn(rows, size, generator=self.generator).to(self.device)

    @override
    def report(self, means: list[float]) -> dict[str, float]:
        loss, value = means
        found = {keys.Q_LOSS: loss, keys.value(self.streams[0].name): value}
        explored = self.network.exploring()
        return found | ({keys.POLICY_EPSILON: float(explored.mean())} if len(explored) else {})
