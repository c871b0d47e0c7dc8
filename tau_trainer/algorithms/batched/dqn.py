"""Deep Q-learning on tensors: stores transitions for the gradient steps of ``off_policy/q_learning.py``.

The steps of all copies go to a :class:`Ring` one after another; every ``steps_per_update`` decisions earn a gradient
step. With action masks, transitions that a limit cut are not learned from, because the mask after them is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.base import Counters, Publish, Setup, State
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.algorithms.off_policy.q_learning import QLearning, names_of
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.algorithms.parameters import FlatParameters, fitting
from tau_trainer.columns import Arrays, Column
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.memory import TensorRollout, Work, WorkData
from tau_trainer.memory.ring import Ring
from tau_trainer.metrics import keys
from tau_trainer.models.action_values import ActionValues
from tau_trainer.models.actor_critic import CLOCK
from tau_trainer.models.distributions import forbidden_of
from tau_trainer.models.heads import Acting
from tau_trainer.rewards.streams import EXTRINSIC
from tau_trainer.settings.hyperparameters import DQNHyperparameters
from tau_trainer.specs import FloatArray, Json

_REPLAY, _TARGET = "replay.", "target."


class DQNLearner(GradientAlgorithm):
    """The learner of one policy in copies on tensors.

    Raises:
        SettingsError: actions are continuous.
    """

    name = "dqn"
    module: ActionValues

    def __init__(self, setup: Setup) -> None:
        assert setup.copies is not None
        if setup.spec.actions.continuous_size:
            raise SettingsError(
                f"behaviors.{setup.spec.name}: dqn chooses among discrete actions, but these are continuous; "
                "use trainer_type: ppo"
            )
        super().__init__(setup)
        self._hyperparameters = hyperparameters = DQNHyperparameters.of(setup.settings.hyperparameters)
        # Copies step together, so a gradient step that needs fewer decisions than one step of all has to wait.
        self.horizon = max(1, math.ceil(hyperparameters.decisions_per_step[1] / setup.copies.decisions))
        self.module = ActionValues(
            setup.spec,
            setup.settings.network_settings,
            Acting(exploration=hyperparameters.exploration.over(setup.decisions)),
            dueling=hyperparameters.dueling,
            generator=self.generator,
        ).to(self.device)
        self.generator = torch.Generator(self.device).manual_seed(setup.seed)
        self.network = self.module.network
        assert self.network.exploration is not None
        self._exploration = self.network.exploration
        self.parameters = FlatParameters(self.network, self.device, hyperparameters)
        self._update = QLearning(self.module, self.parameters, hyperparameters, self.streams[0].gamma)
        self.ring: Ring | None = None
        """Made when its columns are known: only the environment tells whether anything is masked."""
        self._held = 0
        """Number of decisions put into it, including those of agents that had left."""
        self._owed = 0.0
        """Number of gradient steps that were earned but not taken."""
        self._steps = 0.0
        """Steps of the run at the newest update; exploration depends on it."""

    @property
    def _branches(self) -> tuple[int, ...]:
        return self.network.action.choices.discrete_branches

    @property
    def epsilon(self) -> float:
        """Current probability of a random action; 0 if exploration has no such number that changes."""
        numbers = self.exploring()
        return float(numbers[0]) if len(numbers) else 0.0

    def exploring(self) -> FloatArray:
        """The current values of exploration's changing numbers."""
        return self._exploration.numbers(self._steps, np.zeros(0))

    @override
    def ready(self, counters: Counters) -> Work | None:
        return None  # the collector of tensors counts the steps

    @property
    @override
    def missing(self) -> str:
        return f"{self._least:,} decisions"

    @override
    @torch.no_grad()
    def update(self, work: WorkData, progress: float, publish: Publish | None) -> dict[str, Any]:
        rollout, hyperparameters = Work.of(work).tensors, self._hyperparameters
        assert rollout is not None
        self._remember(rollout)
        self._steps = progress * self._setup.decisions
        self.version += 1
        self.network.get_buffer(CLOCK)[0].fill_(self._steps)  # exploration depends on it
        statistics = dict[str, Any]({keys.POLICY_EPSILON: self.epsilon})
        if self._held < self._least:
            return statistics
        # Agents that had left count too, because counting the others would wait for the device.
        self._owed += rollout.decisions / hyperparameters.decisions_per_step[1]
        steps, self._owed = int(self._owed), self._owed % 1.0  # the fraction is left for the next update
        if not steps:
            return statistics
        rate = self.learning_rate(progress)
        # [3], means over the steps.
        learned = torch.stack([self._update.step(self._drawn(), rate) for _ in range(steps)]).mean(dim=0)
        statistics |= dict(zip(names_of(EXTRINSIC), learned.unbind(), strict=True))
        return statistics | self.parameters.layer_statistics() | {keys.LEARNING_RATE: rate}

    def _remember(self, rollout: TensorRollout) -> None:
        """Put a rollout's transitions into the ring."""
        size, after = self.spec.observations[0].size, rollout.final
        # Without limits, the next observations follow a decision; after a real end they are not used.
        if after is None:
            after = torch.cat((rollout.observations[1:], rollout.after[None]))
        kept = rollout.present  # bool [T, E, A]
        rewards = rollout.rewards * self.streams[0].strength
        if limit := self._hyperparameters.clip_reward:
            rewards = rewards.clamp(-limit, limit)
        actions = rollout.actions.reshape(*rollout.rewards.shape, -1)  # int64 [T, E, A, b]
        columns = {
            "observation": rollout.observations.reshape(-1, size),
            "action": actions.flatten(0, 2),
            "reward": rewards.reshape(-1, 1),
            # [T E A, 1]; 1 after a cut by a limit: the value continues.
            "goes_on": 1.0 - rollout.terminated.reshape(-1, 1).to(torch.float32),
            "following": after.reshape(-1, size),
        }
        if rollout.mask is not None and rollout.after_mask is not None:
            # bool [T E A, M], allowed.
            following = torch.cat((rollout.mask[1:], rollout.after_mask[None])).flatten(0, 2)
            columns["forbidden_after"] = forbidden_of(following, self._branches)
            kept = kept & ~rollout.truncated  # after a cut, the next mask belongs to the new episode
        if self.ring is None:
            self.ring = self._new_ring(columns)
        if self.network.normalizer is not None:
            # A single agent is always there.
            there = rollout.present.flatten() if rollout.present.shape[2] > 1 else slice(None)
            self.network.normalizer.take_in(columns["observation"][there])
        self.ring.append(columns, kept.flatten())  # rows in order of time: [T E A]
        self._held += rollout.decisions

    def _drawn(self) -> Transitions:
        """A minibatch."""
        assert self.ring is not None
        drawn = self.ring.draw(self._hyperparameters.batch_size, self.generator)
        nothing = drawn["reward"].new_zeros(0)  # columns that Q-learning does not read
        # bool [n, M]: nothing forbidden.
        none = torch.zeros(len(drawn["reward"]), sum(self._branches), dtype=torch.bool, device=self.device)
        return Transitions(
            inputs=self.network.normalize([drawn["observation"]]),
            following=self.network.normalize([drawn["following"]]),
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

    @override
    def state(self) -> State:
        arrays, metadata = super().state()
        arrays |= {_TARGET + name: values.to("cpu", copy=True).numpy() for name, values in self._targets().items()}
        metadata |= {"steps": self._steps, "owed": self._owed, "held": 0}
        if self._hyperparameters.save_replay_buffer and self.ring is not None:
            arrays |= {_REPLAY + name: values for name, values in self.ring.state().items()}
            metadata["held"] = self._held
        return arrays, metadata

    @override
    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        ring, targets = self.ring, dict[str, Any]()
        if not fresh:
            for name, values in self._targets().items():
                targets[name] = fitting(arrays, _TARGET + name, tuple(values.shape))
        if not fresh and metadata["held"]:
            stored = {name.removeprefix(_REPLAY): arrays[name] for name in arrays if name.startswith(_REPLAY)}
            ring = self._new_ring(stored)
            try:
                ring.load(stored)
            except ValueError as error:
                raise CheckpointError(f"{error}; use the settings that the run was started with") from error
        super().load(arrays, metadata, fresh=fresh)
        for name, values in self._targets().items():
            # A fresh run's target starts as a copy of the network.
            values.copy_(self.network.state_dict()[name] if fresh else torch.from_numpy(targets[name].copy()))
        self.ring = ring
        if fresh:
            self.network.begin_anew()
        else:
            self._steps, self._owed, self._held = (
                float(metadata["steps"]),
                float(metadata["owed"]),
                int(metadata["held"]),
            )

    @override
    def lost(self, metadata: Json) -> str:
        if metadata["held"]:
            return ""
        return (
            f"the replay memory of '{self.spec.name}' was not saved, so learning continues once "
            f"{self._least:,} new decisions are made; save_replay_buffer: true keeps it"
        )

    @property
    def _least(self) -> int:
        """Number of decisions to collect before learning starts."""
        return max(self._hyperparameters.buffer_init_steps, self._hyperparameters.batch_size)

    def _targets(self) -> dict[str, torch.Tensor]:
        """The target's weights and statistics, by name; may be written to."""
        return self.module.target.state_dict()

    def _new_ring(self, names: Container[str]) -> Ring:
        """An empty ring with columns of these names."""
        size, branches = self.spec.observations[0].size, self._branches
        columns = (
            Column("observation", (size,)),
            Column("action", (len(branches),), np.int64),
            Column("reward", (1,)),
            Column("goes_on", (1,)),
            Column("following", (size,)),
            Column("forbidden_after", (sum(branches),), np.bool_),
        )
        there = [column for column in columns if column.name in names]
        return Ring(there, self._hyperparameters.buffer_size, self.device)
