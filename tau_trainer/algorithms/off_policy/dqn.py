"""Deep Q-learning (Mnih et al. 2015) with the options that Rainbow combined (Hessel et al. 2018).

- ``double``: the network chooses the action that the target scores (van Hasselt et al. 2016). ``dueling``: see
  :mod:`tau_trainer.models.action_values`. ``noisy``: see :mod:`tau_trainer.models.mlp`. ``n_step`` and
  ``prioritized`` belong to every off-policy algorithm. All together are Rainbow without its distribution.
- With several branches, there is a number for each value of each branch, and the value of a whole action is the mean
  over its branches, as with SAC's Qs. Values that were forbidden at the next decision are no candidates there.
- ``clip_td_err`` limits the error's gradient and its priority, but not the loss's argument, because there would be no
  gradient outside the limits. So ``mse`` with a limit is Huber's loss, and ``smooth_l1`` is that with a limit of 1.
- Rewards of all streams are added up before learning, so they share one discount.
- Noisy weights: every row of every pass has its own noise, for the target too.
- Recurrent networks learn from sequences that start with the stored state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from typing_extensions import override

from tau_trainer.algorithms.accelerators.fused_dqn import Branches, DQNConstants, value_steps
from tau_trainer.algorithms.base import Setup
from tau_trainer.algorithms.off_policy.base import Stepwise
from tau_trainer.algorithms.off_policy.earlier import of_earlier
from tau_trainer.algorithms.off_policy.q_learning import QLearning, names_of
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.columns import Arrays
from tau_trainer.errors import SettingsError
from tau_trainer.metrics import keys
from tau_trainer.models.action_values import ActionValues
from tau_trainer.models.heads import Acting
from tau_trainer.settings import DQNHyperparameters
from tau_trainer.specs import Json


class DQN(Stepwise):
    """The learner of one behavior.

    Args:
        setup: see :class:`.Setup`.
        fused: whether a plain network learns by the hand-written step.

    Raises:
        SettingsError: actions are continuous, without levels; or rewards have several discounts.
    """

    name = "dqn"
    data_parallel = True
    module: ActionValues
    masks_after = True
    rewards_kept = 1
    falls = True

    def __init__(self, setup: Setup, *, fused: bool = True) -> None:
        self._hyperparameters = DQNHyperparameters.of(setup.settings.hyperparameters)
        if setup.spec.actions.continuous_size and setup.settings.network_settings.action_levels is None:
            raise SettingsError(
                f"{self.name} chooses among discrete actions, but this behavior has continuous ones; "
                "set network_settings.action_levels (for example, to 5), or trainer_type: sac"
            )
        gammas = {stream.gamma for stream in setup.streams}
        if len(gammas) > 1:
            text = f"{self.name} adds up all rewards before it learns; give every reward signal the same gamma"
            raise SettingsError(text)
        super().__init__(setup)
        self._update = self.learning()
        if fused:
            self.fuse(lambda: value_steps(self.parameters, self._constants()))

    @override
    def unshared(self, ranks: int) -> str:
        return "noisy networks learn in one process" if self._hyperparameters.noisy else super().unshared(ranks)

    @override
    def build(self) -> ActionValues:
        self.module = ActionValues(
            self.spec,
            self.settings.network_settings,
            self.acting(),
            dueling=self._hyperparameters.dueling,
            generator=self.generator,
        )
        self.network = self.module.network
        return self.module

    def acting(self) -> Acting:
        """The way from the network's outputs to actions."""
        exploration = self._hyperparameters.exploration.over(self._setup.decisions)
        return Acting(exploration=exploration, noisy=self._hyperparameters.noisy)

    def learning(self) -> QLearning:
        """The object that takes gradient steps."""
        noise = self.normal if self.network.noisy else None
        gamma = float(self.gammas[0])
        return QLearning(self.module, self.parameters, self._hyperparameters, gamma, noise, self.ranks)

    @override
    def paid(self, rewards: Any) -> Any:
        """float32 [N, 1]: the sum of all streams."""
        total = rewards.sum(axis=1, keepdims=True)  # before learning, so all share one discount
        limit = self._hyperparameters.clip_reward
        return total if limit is None else total.clip(-limit, limit)

    @override
    def step(self, batch: Transitions, noise: torch.Tensor, learning_rate: float) -> torch.Tensor:
        return self._update.step(batch, learning_rate)

    def _constants(self) -> DQNConstants:
        """The numbers of the hand-written step."""
        hyper, sizes = self._hyperparameters, self.network.action.choices.discrete_branches
        first = torch.tensor([begin for begin, _ in self.network.action.bounds], device=self.device)
        return DQNConstants(
            gamma=float(self.gammas[0]),
            limit=self._update.limit,
            clip=self._update.clip,
            double=hyper.double,
            tau=hyper.tau,
            interval=hyper.target_update_interval,
            max_grad_norm=hyper.max_grad_norm or 0.0,
            branches=Branches(list(sizes), first, self.module.shares),
        )

    @override
    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        if "owed" in metadata:
            arrays, metadata = of_earlier(arrays, metadata, self.parameters.state(), self.hyperparameters)
        super().load(arrays, metadata, fresh=fresh)

    @override
    def report(self, means: Sequence[float]) -> dict[str, float]:
        found = dict(zip(names_of(self.streams[0].name), means, strict=True))
        explored = self.exploring()
        return found | ({keys.POLICY_EPSILON: float(explored.mean())} if len(explored) else {})
