"""Deep Q-learning on tensors (Mnih et al. 2015), with double targets (van Hasselt et al. 2016).

One step of all copies after the other goes to a :class:`Ring`; every ``steps_per_update`` decisions earn a gradient
step: errors are the house's (:func:`temporal_differences`), the loss is Huber's, gradients are scaled down to
``max_grad_norm``, and the target, statistics of BatchNorm included, follows by ``tau``.

Where actions are masked, what a limit cut is not learned from: it is not known what was allowed afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from typing_extensions import override

from tau_trainer.algorithms.base import State
from tau_trainer.algorithms.batched.acting import forbidden_of
from tau_trainer.algorithms.batched.contract import Acted, BatchedLearner, LearnerSetup, TensorRollout
from tau_trainer.algorithms.batched.ring import Ring
from tau_trainer.algorithms.dqn import temporal_differences
from tau_trainer.algorithms.parameters import FlatParameters, fitting, follower
from tau_trainer.algorithms.schedules import LEARNING_RATE_FLOOR, scheduled
from tau_trainer.algorithms.transitions import Transitions
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.exploration.values import Greedy
from tau_trainer.metrics import keys
from tau_trainer.models import Policy, make_policy
from tau_trainer.models.action_values import ActionValues
from tau_trainer.models.actor_critic import CLOCK
from tau_trainer.settings.hyperparameters import BatchedDQNHyperparameters
from tau_trainer.specs import FloatArray

_REPLAY, _TARGET = "replay.", "target."


class DQNLearner(BatchedLearner):
    """The learner of one policy. Use: :meth:`act` ``horizon`` times, then :meth:`learn`.

    Raises:
        SettingsError: actions are continuous.
    """

    def __init__(self, setup: LearnerSetup) -> None:
        if isinstance(setup.action_space, spaces.Box):
            raise SettingsError(
                f"policies.{setup.spec.name}: dqn chooses among discrete actions, and these are continuous; "
                "use trainer_type: ppo"
            )
        self._setup, self.device, self._gamma = setup, setup.device, setup.settings.gamma
        self._own = own = cast("BatchedDQNHyperparameters", setup.settings.hyperparameters)
        each = setup.num_envs * setup.agents
        self.horizon = max(1, math.ceil(own.steps_per_update / each))
        self._both = ActionValues(
            setup.spec,
            setup.settings.network_settings,
            own.exploration.over(setup.max_steps),
            dueling=own.dueling,
            noisy=False,
            generator=torch.Generator().manual_seed(setup.seed),
        ).to(self.device)
        self._network = self._both.network
        assert self._network.exploration is not None
        self._exploration = self._network.exploration
        self._greedy = Greedy(own.exploration, setup.spec.actions)
        self.parameters = FlatParameters(self._network, self.device, own)
        self._follow = follower(self._both.target, self._network)
        self.generator = torch.Generator(self.device).manual_seed(setup.seed)
        """Of exploration and of what is drawn from the ring."""
        self.ring: Ring | None = None
        self._held = 0
        """Decisions that the ring has seen."""
        self._owed = 0.0
        """Gradient steps that decisions have earned and that are not taken yet."""
        self._steps = 0.0
        """Of the run, as of the newest update: what exploration goes by."""
        self._taken = 0
        """Gradient steps so far."""

    @property
    def _branches(self) -> tuple[int, ...]:
        return self._network.action.choices.discrete_branches

    @property
    def epsilon(self) -> float:
        """How often any action is taken, now; 0 where exploration has no such number that changes."""
        return float(self._numbers()[0]) if len(self._numbers()) else 0.0

    def _numbers(self) -> FloatArray:
        """What of exploration changes with time, now."""
        return self._exploration.numbers(self._steps, np.zeros(0))

    @property
    @override
    def module(self) -> ActionValues:
        return self._both

    @override
    @torch.no_grad()
    def act(
        self,
        observations: torch.Tensor,
        mask: torch.Tensor | None,
        present: torch.Tensor | None = None,
        *,
        deterministic: bool = False,
    ) -> Acted:
        envs, agents = observations.shape[:2]
        rows = observations.reshape(envs * agents, -1)
        forbidden = torch.zeros(len(rows), sum(self._branches), dtype=torch.bool, device=self.device)
        if mask is not None:
            forbidden = forbidden_of(mask.reshape(envs * agents, -1), self._branches)
        values = self._network.outputs(self._network.normalize([rows]))
        exploration = self._greedy if deterministic else self._exploration
        chosen = exploration.decide(values, forbidden, self._numbers(), self.generator)
        space = self._setup.action_space
        shape = space.nvec.shape if isinstance(space, spaces.MultiDiscrete) else ()
        return Acted(chosen.view(envs, agents, *shape))

    @override
    @torch.no_grad()
    def learn(self, rollout: TensorRollout, progress: float) -> Mapping[str, torch.Tensor]:
        own = self._own
        self._remember(rollout)
        self._steps = progress * self._setup.max_steps
        self._network.get_buffer(CLOCK)[0].fill_(self._steps)
        told = {keys.POLICY_EPSILON: self._number(self.epsilon)}
        if self._held < self._least:
            return told
        self._owed += rollout.decisions / own.steps_per_update
        steps, self._owed = int(self._owed), self._owed % 1.0
        if not steps:
            return told
        rate = scheduled(
            own.learning_rate, own.learning_rate_schedule, progress, LEARNING_RATE_FLOOR, self._setup.max_steps
        )
        loss, value, norm = torch.stack([self._step(rate) for _ in range(steps)]).mean(dim=0).unbind()
        return told | {
            keys.Q_LOSS: loss,
            keys.value("extrinsic"): value,
            keys.GRADIENT_NORM: norm,
            keys.LEARNING_RATE: self._number(rate),
        }

    def _remember(self, rollout: TensorRollout) -> None:
        """Put a rollout's transitions into the ring."""
        size, after = self._setup.spec.observations[0].size, rollout.final
        if after is None:
            after = torch.cat((rollout.observations[1:], rollout.after[None]))
        kept = rollout.present
        rewards = rollout.rewards
        if own := self._own.clip_reward:
            rewards = rewards.clamp(-own, own)
        actions = rollout.actions.reshape(*rollout.rewards.shape, -1)
        columns = {
            "observation": rollout.observations.reshape(-1, size),
            "action": actions.flatten(0, 2),
            "reward": rewards.reshape(-1, 1),
            "goes_on": 1.0 - rollout.terminated.reshape(-1, 1).to(torch.float32),
            "following": after.reshape(-1, size),
        }
        if rollout.mask is not None and rollout.after_mask is not None:
            following = torch.cat((rollout.mask[1:], rollout.after_mask[None])).flatten(0, 2)
            columns["forbidden_after"] = forbidden_of(following, self._branches)
            kept = kept & ~rollout.truncated
        if self.ring is None:
            self.ring = self._new_ring(columns)
        if self._network.normalizer is not None:
            there = rollout.present.flatten() if rollout.present.shape[2] > 1 else slice(None)
            self._network.normalizer.take_in(columns["observation"][there])
        self.ring.append(columns, kept.flatten())
        self._held += rollout.decisions

    def _step(self, rate: float) -> torch.Tensor:
        """A gradient step: loss, mean value and norm of the gradient, [3]."""
        assert self.ring is not None
        own, gradient = self._own, self.parameters.optimizer.gradient
        batch = self._transitions(self.ring.draw(own.batch_size, self.generator))
        gradient.zero_()
        with torch.enable_grad():
            wrong, values = temporal_differences(self._both, batch, self._gamma, double=own.double)
            limit = min(math.inf if own.loss == "mse" else 1.0, own.clip_td_err or math.inf)
            limited = wrong.detach().clamp(-limit, limit)
            (wrong * limited).mean().backward()  # type: ignore[no-untyped-call]
        norm = torch.linalg.vector_norm(gradient)
        if own.max_grad_norm is not None:
            gradient.mul_(torch.clamp(own.max_grad_norm / (norm + 1e-6), max=1.0))
        self.parameters.descend(rate)
        self._taken += 1
        if self._taken % own.target_update_interval == 0:
            self._follow(own.tau)
        # Huber: x²/2, and beyond the limit d (x - d/2)
        loss = (limited.abs() * (wrong.detach().abs() - 0.5 * limited.abs())).mean()
        return torch.stack((loss, values.mean(), norm))

    def _transitions(self, drawn: Mapping[str, torch.Tensor]) -> Transitions:
        nothing = drawn["reward"].new_zeros(0)
        none = torch.zeros(len(drawn["reward"]), sum(self._branches), dtype=torch.bool, device=self.device)
        return Transitions(
            inputs=self._network.normalize([drawn["observation"]]),
            following=self._network.normalize([drawn["following"]]),
            continuous=nothing,
            discrete=drawn["action"],
            forbidden=none,
            rewards=drawn["reward"],
            goes_on=drawn["goes_on"],
            state=nothing,
            begins=nothing,
            forbidden_after=drawn.get("forbidden_after", none),
            weights=nothing,
            errors=nothing,
        )

    def _number(self, value: float) -> torch.Tensor:
        return torch.full((), value, device=self.device)

    @override
    def policy(self, version: int) -> Policy:
        weights = {name: one.detach().to("cpu", copy=True).numpy() for name, one in self._network.state_dict().items()}
        return make_policy(self._network, weights, version)

    @override
    def state(self) -> State:
        arrays = self.parameters.state()
        arrays |= {_TARGET + name: one.to("cpu", copy=True).numpy() for name, one in self._targets().items()}
        arrays["random.generator"] = self.generator.get_state().numpy()
        facts: dict[str, Any] = {"trainer_type": "dqn", "optimizer": self.parameters.optimizer.kind}
        facts |= {"steps": self._steps, "gradient_steps": self._taken, "owed": self._owed, "held": 0}
        if self._own.save_replay_buffer and self.ring is not None:
            arrays |= {_REPLAY + name: values for name, values in self.ring.state().items()}
            facts["held"] = self._held
        return arrays, facts

    @override
    def load(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        kind, again = self.parameters.optimizer.kind, "trainer_type" in facts
        if again and (facts["trainer_type"], facts.get("optimizer")) != ("dqn", kind):
            raise CheckpointError(
                f"The checkpoint of policy '{self._setup.spec.name}' is of {facts['trainer_type']} with optimizer "
                f"{facts.get('optimizer')}, the settings ask for dqn with {kind}; use those of the run that wrote it."
            )
        targets, generator, ring = {}, None, self.ring
        if again:
            targets = {name: fitting(arrays, _TARGET + name, tuple(one.shape)) for name, one in self._targets().items()}
            generator = fitting(arrays, "random.generator", tuple(self.generator.get_state().shape))
            if facts["held"]:
                stored = {name.removeprefix(_REPLAY): arrays[name] for name in arrays if name.startswith(_REPLAY)}
                ring = self._new_ring(stored)
                ring.load(stored)
        else:  # moments of an optimizer are a run's own
            own = {name: tensor.numpy(force=True) for name, tensor in self.parameters.moments().items()}
            arrays = {**arrays, **own}
        with torch.no_grad():
            self.parameters.load(arrays)
            for name, one in self._targets().items():
                source = self._network.state_dict()[name]
                one.copy_(torch.from_numpy(targets[name].copy()) if again else source)
        self.ring = ring
        if not again:
            self._network.begin_anew()
            return
        assert generator is not None
        self.generator.set_state(torch.from_numpy(generator.copy()))
        self._steps, self._taken = float(facts["steps"]), int(facts["gradient_steps"])
        self._owed, self._held = float(facts["owed"]), int(facts["held"])

    @override
    def lost(self, facts: Mapping[str, Any]) -> str:
        if facts["held"]:
            return ""
        return (
            f"the replay memory of '{self._setup.spec.name}' was not kept, so learning goes on once "
            f"{self._least:,} new decisions are made; save_replay_buffer: true keeps it"
        )

    @property
    def _least(self) -> int:
        """Decisions that have to be held before anything is learned from them."""
        return max(self._own.buffer_init_steps, self._own.batch_size)

    def _targets(self) -> dict[str, torch.Tensor]:
        """The target's weights and statistics, by name; to be written to."""
        return self._both.target.state_dict()

    def _new_ring(self, names: Container[str]) -> Ring:
        """An empty one with columns of these names."""
        size = self._setup.spec.observations[0].size
        rows = {
            "observation": torch.zeros(1, size),
            "action": torch.zeros(1, len(self._branches), dtype=torch.int64),
            "reward": torch.zeros(1, 1),
            "goes_on": torch.zeros(1, 1),
            "following": torch.zeros(1, size),
            "forbidden_after": torch.zeros(1, sum(self._branches), dtype=torch.bool),
        }
        return Ring(self._own.buffer_size, {name: rows[name].to(self.device) for name in rows if name in names})
