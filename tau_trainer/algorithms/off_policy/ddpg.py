"""Deep deterministic policy gradients (Lillicrap et al. 2016), with the numbers of Stable-Baselines3.

- The actor gives one action for an observation, tanh of its last layer; noise is added during acting, not during
  learning (:mod:`tau_trainer.exploration`).
- Q learns ``r + gamma Q'(s', pi'(s'))``; then the actor climbs the new Q. Q' and pi' follow at ``tau``.
- Q has a head for each reward stream; the actor follows their mean. After a limit the value continues, after a real
  end it does not.
- Different from the paper: swish instead of ReLU with batch normalisation, actions are inputs together with the
  observations and not a layer later, and there is no weight decay. Heads of Q start at zero.

TD3 (:mod:`tau_trainer.algorithms.off_policy.td3`) is this with two Qs, a delay and noise in the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.algorithms.accelerators.fused_ddpg import DDPGConstants, ddpg_steps
from tau_trainer.algorithms.base import Setup
from tau_trainer.algorithms.off_policy.base import Stepwise
from tau_trainer.algorithms.off_policy.transitions import Transitions, half_squares
from tau_trainer.algorithms.parameters import follower, optimizer_step
from tau_trainer.errors import SettingsError
from tau_trainer.metrics import keys
from tau_trainer.models.deterministic_actor_critic import DeterministicActorCritic
from tau_trainer.settings import DDPGHyperparameters

if TYPE_CHECKING:
    from tau_trainer.settings.exploration import ExplorationSettings
    from tau_trainer.specs import BehaviorSpec


class DDPG(Stepwise):
    """The learner of one behavior.

    Args:
        setup: see :class:`.Setup`.
        fused: plain networks learn through hand-written steps; False = torch's own differentiation throughout, the
            same numbers.
    """

    name = "ddpg"
    data_parallel = True
    estimates = 1
    """Number of Qs."""
    delay = 1
    """Steps of the Qs for one step of the actor and of the targets."""
    parts = DeterministicActorCritic.PARTS
    module: DeterministicActorCritic

    def __init__(self, setup: Setup, *, fused: bool = True) -> None:
        super().__init__(setup)
        self._tau = DDPGHyperparameters.of(self.hyperparameters).tau
        actor, q, *_ = self.parts
        self._actor, self._q = self.parameters.part(actor), self.parameters.part(q)
        module = self.module
        self._follow = follower(module.target, module.network), follower(module.q_target, module.q)
        if fused:
            self.fuse(lambda: ddpg_steps(self.parameters, DDPGConstants(self.discounts, self._tau, self.delay)))

    @override
    def build(self) -> DeterministicActorCritic:
        network = self.settings.network_settings
        if network.action_levels is not None:
            raise SettingsError(f"{self.name} does not support action levels; remove network_settings.action_levels")
        acting = self.spec, network, self.exploration(), len(self.streams), self.estimates, self.generator
        self.module = DeterministicActorCritic(*acting, self.joint())
        self.network = self.module.network
        return self.module

    def exploration(self) -> ExplorationSettings:
        """How the actor's best action is disturbed. Raises SettingsError for actions that it cannot learn."""
        if self.spec.actions.discrete_size:
            raise SettingsError(
                f"{self.name} learns only continuous actions, but there are discrete branches "
                f"{list(self.spec.actions.discrete_branches)}; use trainer_type: "
                f"{'sac or ppo' if self.spec.actions.continuous_size else 'dqn'}"
            )
        return DDPGHyperparameters.of(self.hyperparameters).exploration.over(self._setup.decisions)

    def joint(self) -> BehaviorSpec | None:
        """The behavior that Q sees, if that is more than the actor sees."""
        return None

    @override
    def noise(self, drawn: Transitions) -> torch.Tensor:
        """Noise to add to the target's actions, [1, n, c]."""
        return torch.zeros_like(drawn.continuous)[None]

    def q_losses(self, batch: Transitions, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The losses of the Qs, differentiable.

        Args:
            batch: ``n`` transitions.
            noise: their part of :meth:`noise`, [n, ...].

        Returns:
            Half of each Q's squared error, [E], and the Qs of the stored actions, [E, n, S].
        """
        module = self.module
        with torch.no_grad():
            after = (torch.tanh(module.target.outputs(batch.following)) + noise).clamp(-1.0, 1.0)  # [n, c] in [-1, 1]
            # [n, S]; the smaller one, see td3.
            value = module.q_target(module.q_target.see(batch.following), after).squeeze(3).amin(dim=0)
            goal = torch.addcmul(batch.rewards, batch.goes_on * self.discounts, value)  # [n, S]
        q = module.q(module.q.see(batch.inputs), batch.continuous).squeeze(3)  # [E, n, S]
        return half_squares(q - goal, batch), q

    def policy_loss(self, batch: Transitions, noise: torch.Tensor) -> torch.Tensor:
        """The loss of the actor, []: minus the first Q of its actions; no gradient reaches the Qs."""
        q = self.module.q
        with torch.no_grad():  # the Qs' encoders learn only from their own losses
            seen = q.see(batch.inputs)
        actions = torch.tanh(self.network.outputs(batch.inputs))  # [n, c]; gradients go through them
        first: torch.Tensor = q(seen, actions, frozen=True)[0]
        return -first.mean()

    @override
    def step(self, batch: Transitions, noise: torch.Tensor, learning_rate: float) -> torch.Tensor:
        """Take a gradient step with torch's own differentiation.

        Returns:
            The policy's loss and whether there is one, the Qs' losses, and the mean Q of each stream, [2 + E + S].
        """
        optimizer = self.parameters.optimizer
        optimizer.gradient.zero_()
        with torch.enable_grad():
            losses, q = self.q_losses(batch, noise[0])
            losses.sum().backward()  # type: ignore[no-untyped-call]
        self.ranks.mean(self._q.gradient)  # losses are means over rows; all ranks have equally many
        step = int(optimizer.step.add_(1))  # one count for both; see the actor's below
        optimizer_step(self._q, learning_rate, step)
        policy = losses.new_zeros(2)  # loss, and whether there is one
        if step % self.delay == 0:
            with torch.enable_grad():
                loss = self.policy_loss(batch, noise[0])
                loss.backward()  # type: ignore[no-untyped-call]
            self.ranks.mean(self._actor.gradient)
            optimizer_step(self._actor, learning_rate, step // self.delay)  # with its own count, for Adam's bias
            for follow in self._follow:
                follow(self._tau)
            policy[0], policy[1] = loss.detach(), 1.0
        return torch.cat((policy, losses, q.flatten(0, -2).mean(dim=0))).detach()  # q as [E n, S]

    @override
    def report(self, means: Sequence[float]) -> dict[str, float]:
        policy, learned, *others = means  # `learned`: share of the steps that moved the actor
        names = [*(keys.Q1_LOSS, keys.Q2_LOSS)[: self.estimates], *(keys.value(stream.name) for stream in self.streams)]
        result = {keys.POLICY_LOSS: policy / learned} if learned else {}
        return result | dict(zip(names, others, strict=True))
