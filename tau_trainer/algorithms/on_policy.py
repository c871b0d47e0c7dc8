"""What on-policy algorithms share: a rollout memory, and what is learned from twice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import override

from tau_trainer.algorithms.base import Counters, Publish, Setup, State
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.algorithms.signals import experience_of
from tau_trainer.columns import Arrays, Column
from tau_trainer.memory import Rollout, RolloutMemory, Work, WorkData, joined
from tau_trainer.models import ActorCritic


class OnPolicy(GradientAlgorithm):
    """Learns from the newest ``buffer_size`` transitions, of which :attr:`rollout_size` are new in every update.

    A subclass names its :attr:`name`, declares further columns, and says how it learns from a rollout.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._older: WorkData | None = None
        """What the last update learned from first, where this one learns from it again."""
        self.network = self.build_network()
        self.parameters = FlatParameters(self.network, self.device, setup.settings.hyperparameters)
        self.memory: RolloutMemory = self.new_memory(self.rollout_size, self.settings.time_horizon)
        self.signals = self.make_signals()

    def build_network(self) -> ActorCritic:
        """The network; weights come from :attr:`generator`."""
        return ActorCritic(
            self.spec,
            self.settings.network_settings,
            {stream.name: stream.width for stream in self.streams},
            shared_critic=getattr(self.settings.hyperparameters, "shared_critic", False),
            generator=self.generator,
        )

    @cached_property
    @override
    def rollout_size(self) -> int:  # all of the buffer, or a half of it
        return self.settings.hyperparameters.buffer_size

    @property
    @override
    def columns(self) -> tuple[Column, ...]:
        return (Column("log_prob", (self.spec.actions.components,)), *super().columns)

    @override
    def ready(self, counters: Counters) -> Work | None:
        return self.memory.take() if self.memory.completed >= (counters.push or self.rollout_size) else None

    @property
    @override
    def missing(self) -> str:
        return f"a buffer of {self.rollout_size:,}"

    @override
    def learn_from(
        self, work: WorkData, rollout: Rollout, progress: float, publish: Publish | None
    ) -> dict[str, float]:
        older, self._older = self._older, None  # taken out first: after a failure there is nothing to learn from again
        self.check_input(rollout)
        rollout = rollout if older is None else Rollout(joined(older, work))  # older transitions first
        rewarded = self._pay(rollout)
        result = self.learn(rollout, progress, publish) | rewarded
        if self.rollout_size < self.settings.hyperparameters.buffer_size:
            # Copies: the memory's arrays are given back after this update.
            self._older = {
                name: value.copy() if isinstance(value, np.ndarray) else value for name, value in work.items()
            }
        return result

    def _pay(self, rollout: Rollout) -> dict[str, float]:
        """Teach the learned reward streams with what is new, and let them pay for everything."""
        statistics: dict[str, float] = {}
        if self.signals:
            experience = experience_of(rollout, self.network, self.device)
            for signal in self.signals:
                # Of older ones it learned then.
                statistics |= signal.passes(experience.part(slice(rollout.older, None)))
                # [N, 1], as of now.
                rollout.rewards[signal.name] = signal.rewards(experience, soft=self.soft).cpu().numpy()
        return statistics

    @abstractmethod
    def learn(self, rollout: Rollout, progress: float, publish: Publish | None) -> dict[str, float]:
        """Change the network. What becomes NaN or infinite is a NonFiniteError; then everything is put back.

        Args:
            rollout: the first :attr:`Rollout.older` of its transitions were learned from before.
            progress: see :meth:`Algorithm.update`.
            publish: see :meth:`Algorithm.update`.
        """

    @override
    def state(self) -> State:
        arrays, facts = super().state()
        older = {} if self._older is None else self._older
        return arrays | {f"older.{name}": np.asarray(value) for name, value in older.items()}, facts

    @override
    def load(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        super().load(arrays, facts)
        if "version" not in facts:
            return
        older = {name.removeprefix("older."): values for name, values in arrays.items() if name.startswith("older.")}
        self._older = {name: values if values.ndim else values.item() for name, values in older.items()} or None
