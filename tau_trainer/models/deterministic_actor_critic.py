"""The networks of deterministic policy gradients: an actor without a sigma, Qs, and copies of both that lag behind."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.heads import Acting
from tau_trainer.models.soft_actor_critic import TwinQ

if TYPE_CHECKING:
    from tau_trainer.settings import NetworkSettings
    from tau_trainer.settings.exploration import ExplorationSettings
    from tau_trainer.specs import BehaviorSpec


class DeterministicActorCritic(torch.nn.Module):
    """Everything that DDPG, TD3 and MADDPG learn.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: shape of all networks.
        exploration: how the actor's best action is disturbed.
        streams: how many reward streams there are.
        estimates: of Q.
        generator: source of the initial weights.
        joint: what a central Q sees, if that is more than the actor does; its actions are all continuous.
    """

    PARTS = ("network.", "q.", "target.", "q_target.")
    """What the names of its parameters begin with: what is learned, and in the same order what follows it."""

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        exploration: ExplorationSettings,
        streams: int,
        estimates: int,
        generator: torch.Generator,
        joint: BehaviorSpec | None = None,
    ) -> None:
        super().__init__()
        self.network = ActorCritic(
            spec,
            settings,
            {},  # the Qs take the place of its values
            shared_critic=True,
            acting=Acting(deterministic=True, exploration=exploration),
            generator=generator,
        )
        seen = joint or spec
        self.q = TwinQ(seen, seen.actions, settings, streams, generator, estimates)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        """What goes in, :attr:`network` has prepared."""
        self.target.normalizer = None  # what goes in is normalised already
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
