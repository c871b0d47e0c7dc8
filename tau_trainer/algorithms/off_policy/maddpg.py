"""Multi-agent deterministic policy gradients (Lowe et al. 2017): each actor sees its own agent, Q sees all of them.

- A *moment* is a decision of every agent of a group: agents of one behavior with the same group id that asked at the
  same time. The replay memory holds moments; missing agents do not count in them.
- All agents of the behavior share one actor and one Q. Q takes the agent in question first and then the others, in the
  order of their rows in memory. So agents differ only by their observations, share what they learn, may come and go,
  and there is one model file. The paper has an actor and a Q for each agent.
- Q learns the agent's own ``r + gamma Q'(s', a')`` with all agents' target actions. The actor climbs Q with its own new
  action in place of the stored one, and the others' stored actions.
- Discrete actions are straight-through Gumbel-softmax samples (Jang et al. 2017), one-hot for Q. Acting draws from the
  same distribution.
- As in the authors' code, the actor's raw outputs have a small cost, so that they do not grow until gradients vanish.

Agents of other behaviors are not seen: each behavior learns separately.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from tau_trainer.algorithms.base import Counters, Setup
from tau_trainer.algorithms.off_policy.ddpg import DDPG
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.columns import GROUP, MOMENT, Column, Rows
from tau_trainer.errors import SettingsError
from tau_trainer.memory import Links, Replay, Rollout, Work, together
from tau_trainer.models.actor_critic import as_tensor
from tau_trainer.models.distributions import MASKED_LOGIT, branch_bounds
from tau_trainer.models.observation_encoder import TowerFeatures
from tau_trainer.settings import MADDPGHyperparameters
from tau_trainer.settings.exploration import NOISES, GaussianWhiteNoiseSettings, GumbelSoftmaxSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, IntArray, ObservationSpec

if TYPE_CHECKING:
    from tau_trainer.settings.exploration import ExplorationSettings

OUTPUT_COST = 1e-3
"""Weight of the mean square of the actor's raw outputs."""


class MADDPG(DDPG):
    """The learner of one behavior. ``N`` is ``group_size``, ``A`` the size of an agent's actions for Q."""

    name = "maddpg"
    data_parallel = False
    masks_after = True
    largest = 0
    """Largest number of agents that decided together; only the collecting side counts."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, fused=False)
        self._temperature = getattr(self.exploration(), "temperature", 1.0)
        others = [[other for other in range(self._agents) if other != agent] for agent in range(self._agents)]
        # int64 [N, N]: an agent, then the others.
        self._order = torch.tensor([[agent, *rest] for agent, rest in enumerate(others)], device=self.device)

    @property
    def _agents(self) -> int:
        return MADDPGHyperparameters.of(self.hyperparameters).group_size

    @override
    def joint(self) -> BehaviorSpec:
        spec = self.spec
        if any(len(sensor.shape) != 1 for sensor in spec.observations):
            raise SettingsError("maddpg reads only vectors, but there are images or lists; use trainer_type: ppo")
        seen = ObservationSpec("everybody", (self._agents * sum(sensor.size for sensor in spec.observations),))
        return BehaviorSpec(spec.name, (seen,), ActionSpec(self._agents * spec.actions.width))

    @override
    def exploration(self) -> ExplorationSettings:
        actions = self.spec.actions
        given = MADDPGHyperparameters.of(self.hyperparameters).exploration
        if actions.continuous_size and actions.discrete_size:
            raise SettingsError(
                "maddpg learns either continuous or discrete actions, but there are both; use trainer_type: ppo"
            )
        if given is None:
            return GaussianWhiteNoiseSettings(sigma=0.1) if actions.continuous_size else GumbelSoftmaxSettings()
        if (given.type in NOISES) != bool(actions.continuous_size):
            kind = "continuous" if actions.continuous_size else "discrete"
            raise SettingsError(f"exploration {given.type} is not for {kind} actions; remove it")
        return given.over(self._setup.decisions)

    @cached_property
    @override
    def columns(self) -> tuple[Column, ...]:
        return (*super().columns, MOMENT, GROUP)

    @override
    def ready(self, counters: Counters) -> Work | None:
        """Raises SettingsError if groups are larger than the settings say, or there are none."""
        if not self.largest and len(self.memory):  # check at the first message, not only at the first work
            self._count(self.memory.waiting(MOMENT), self.memory.waiting(GROUP))
        work = super().ready(counters)
        if work is None:
            return None
        self._count(work[MOMENT.name][1:], work[GROUP.name][1:])
        if self.largest < 2 <= self._agents:
            raise SettingsError(
                f"behavior '{self.spec.short_name}': no two agents of a group decide together, but maddpg needs that; "
                "give them a group in the engine, or use trainer_type: td3 or ppo"
            )
        return work

    def _count(self, moment: NDArray[np.int64], group: IntArray) -> None:
        """Count agents that decide together, [k]; raises SettingsError if they are more than ``group_size``."""
        self.largest = max(self.largest, int(np.bincount(together(moment, group)).max()))
        if self.largest > self._agents:
            raise SettingsError(
                f"behavior '{self.spec.short_name}': {self.largest} agents of a group decide together, but "
                f"hyperparameters.group_size is {self._agents}; set it to {self.largest}"
            )

    @override
    def _new_replay(self) -> Replay:
        actions = self.spec.actions
        vectors = sum(sensor.size for sensor in self.spec.observations)

        def of_all(name: str, *shape: int, dtype: Any = np.float32) -> Column:
            return Column(name, (self._agents, *shape), dtype)

        columns = [
            of_all("input", vectors),
            of_all("next", vectors),
            of_all("continuous", actions.continuous_size),
            of_all("discrete", actions.discrete_size, dtype=np.int32),
            of_all("forbidden", actions.mask_size, dtype=np.bool_),
            of_all("next_forbidden", actions.mask_size, dtype=np.bool_),
            of_all("rewards", len(self.gammas)),
            of_all("terminated", dtype=np.bool_),
            of_all("here", dtype=np.bool_),
        ]
        return Replay(columns, self.hyperparameters.buffer_size)

    @override
    def _links(self, rollout: Rollout) -> Links | None:
        return None

    @override
    def _rows(self, rollout: Rollout) -> dict[str, NDArray[Any]]:
        """Moments in the ring's form, [m, N, ...]."""
        moment = together(rollout.column(MOMENT.name), rollout.column(GROUP.name))  # [k], 0 ... m - 1
        moments = int(moment.max(initial=-1)) + 1
        order = np.lexsort((rollout.rows, moment))  # by moments; within each by rows in memory
        first = np.searchsorted(moment[order], np.arange(moments))  # [m]: start of each moment in that order
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order)) - first[moment[order]]  # seat of each agent in its moment
        following = tuple(rollout.next_observations(i) for i in range(len(self.spec.observations)))
        values = {
            "input": self.network.vectors(rollout.observations),
            "next": self.network.vectors(following),
            "continuous": rollout.column("continuous"),
            "discrete": rollout.column("discrete"),
            "forbidden": self.network.action.forbids(rollout.mask, len(rollout)),
            "next_forbidden": self.network.action.forbids(rollout.next_mask, len(rollout)),
            "rewards": self.streamed(rollout),
            "terminated": rollout.terminated,
            "here": np.ones(len(rollout), np.bool_),
        }
        # Zeros for missing agents.
        rows = {column.name: np.zeros((moments, *column.shape), column.dtype) for column in self.replay.columns}
        for name, of_agents in values.items():
            rows[name][moment, place] = of_agents  # [m, N, ...]
        return rows

    @override
    def _taken(self, places: Rows) -> Transitions:
        """Moments: values per agent have the shape [n, N, ...], and missing agents have weight 0."""
        rows = {name: as_tensor(values, self.device) for name, values in self.replay.take(places).items()}
        here = rows["here"].float()  # [n, N]
        # After normalisation, because a normalised 0 would not be 0.
        inputs, following = (self.network.normalize([rows[side]])[0] * here[..., None] for side in ("input", "next"))
        nothing = torch.zeros(0, device=self.device)
        return Transitions(
            inputs=[inputs],
            following=[following],
            continuous=rows["continuous"],
            discrete=rows["discrete"].long(),
            forbidden=rows["forbidden"],
            rewards=rows["rewards"],
            goes_on=1.0 - rows["terminated"].float()[..., None],  # [n, N, 1]
            state=nothing,
            begins=nothing,
            forbidden_after=rows["next_forbidden"],
            weights=here,
            errors=nothing,
        )

    @override
    def noise(self, drawn: Transitions) -> torch.Tensor:
        """Gumbel noise for the target's choices and the actor's, [1, n, 2, N, M]."""
        count, agents, size = drawn.forbidden.shape
        exponential = torch.empty(1, count, 2, agents, size).exponential_(generator=self.generator)  # Exp(1)
        return -exponential.clamp_(min=1e-30).log_().to(self.device)  # its -log is Gumbel; clamped to avoid log 0

    @override
    def q_losses(self, batch: Transitions, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        module, weights = self.module, batch.weights
        with torch.no_grad():
            outputs = module.target.outputs([batch.following[0].flatten(0, 1)])  # [n N, c + M]
            after = self._actions(outputs, batch.forbidden_after, noise[:, 0])  # [n, N, A]
            # [n, N, S].
            value = self._central(module.q_target, batch.following[0], self._ordered(after, weights)).amin(dim=0)
            goal = torch.addcmul(batch.rewards, batch.goes_on * self.discounts, value)  # [n, N, S]
        q = self._central(module.q, batch.inputs[0], self._ordered(self._done(batch), weights))  # [E, n, N, S]
        error = (q - goal).square().mean(dim=3) * weights  # [E, n, N]
        return 0.5 * error.sum(dim=(1, 2)) / weights.sum(), q  # mean over the agents that were there

    @override
    def policy_loss(self, batch: Transitions, noise: torch.Tensor) -> torch.Tensor:
        outputs = self.network.outputs([batch.inputs[0].flatten(0, 1)])
        actions = self._actions(outputs, batch.forbidden, noise[:, 1])  # [n, N, A], with gradients
        others = self._ordered(self._done(batch), batch.weights)[:, :, 1:]  # [n, N, N - 1, A], as stored
        # Its own action comes first.
        q = self._central(self.module.q, batch.inputs[0], torch.cat((actions[:, :, None], others), dim=2), frozen=True)
        weights = batch.weights / batch.weights.sum()  # sum to 1
        cost = OUTPUT_COST * outputs.square().mean(dim=1).view_as(weights)  # [n, N]
        return ((cost - q[0].mean(dim=2)) * weights).sum()

    def _actions(self, outputs: torch.Tensor, forbidden: torch.Tensor, gumbel: torch.Tensor) -> torch.Tensor:
        """Agents' actions from their actor's ``outputs`` [n N, c + M]: [n, N, A], differentiable."""
        outputs = outputs.view(*forbidden.shape[:2], -1)  # [n, N, c + M]
        if self.spec.actions.continuous_size:
            return torch.tanh(outputs)
        # One draw of Gumbel softmax.
        scores = (outputs.masked_fill(forbidden, MASKED_LOGIT) + gumbel) / self._temperature
        choices = []
        for begin, end in branch_bounds(self.spec.actions.discrete_branches):
            soft = torch.softmax(scores[..., begin:end], dim=2)
            hard = torch.nn.functional.one_hot(soft.argmax(dim=2), end - begin)  # one-hot, without gradient
            choices.append(hard + soft - soft.detach())  # its value is hard, its gradient that of soft
        return torch.cat(choices, dim=2)

    def _done(self, batch: Transitions) -> torch.Tensor:
        """The stored actions of agents, [n, N, A]."""
        parts = [batch.continuous]
        for branch, size in enumerate(self.spec.actions.discrete_branches):
            parts.append(torch.nn.functional.one_hot(batch.discrete[..., branch], size))
        return torch.cat(parts, dim=2)

    def _ordered(self, actions: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """[n, N, N, A]: for each agent its own actions, then the others'; zeros for missing agents."""
        return (actions * weights[..., None])[:, self._order]  # rows of the actions, in each agent's order

    def _central(self, q: Any, obs: torch.Tensor, actions: torch.Tensor, *, frozen: bool = False) -> torch.Tensor:
        """Q [E, n, N, S] of all agents' observations, [n, N, D], and actions, [n, N, N, A]."""
        count, agents = obs.shape[:2]
        everybody = obs[:, self._order].reshape(count * agents, -1)  # [n N, N D]
        seen = [TowerFeatures(everybody, everybody)] * self.estimates
        found: torch.Tensor = q(seen, actions.reshape(count * agents, -1), frozen=frozen)
        return found.view(self.estimates, count, agents, -1)
