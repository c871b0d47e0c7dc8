"""The networks of deterministic policy gradients: an actor without a sigma, Qs, and slowly following copies of both."""

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
    """All networks that DDPG, TD3 and MADDPG train.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: shape of all networks.
        exploration: how the actor's best action is disturbed.
        streams: number of reward streams.
        estimates: number of Qs.
        generator: source of the initial weights.
        joint: the behavior that a central Q sees, if that is more than the actor sees; its actions are all continuous.
    """

    PARTS = ("network.", "q.", "target.", "q_target.")
    """Prefixes of the names of its parameters: the trained ones, and in the same order the ones that follow them."""

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
        """Its inputs are prepared by :attr:`network`."""
        self.target.normalizer = None  # its inputs are normalised already
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
