"""Base of on-policy algorithms: a rollout memory, and experience that is learned from twice."""

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

    A subclass sets its :attr:`name`, declares further columns, and implements learning from a rollout.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._older: WorkData | None = None
        """Experience that was new in the last update, if the next update learns from it again."""
        self.network = self.build_network()
        self.parameters = FlatParameters(self.network, self.device, setup.settings.hyperparameters)
        self.memory: RolloutMemory = self.new_memory(self.rollout_size, self.settings.time_horizon)
        self.signals, self.cloning = self.make_signals(), self.make_cloning()

    def build_network(self) -> ActorCritic:
        """The network; its weights are drawn from :attr:`generator`."""
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
        older, self._older = self._older, None  # taken out first, so that nothing is reused after a failure
        self.check_input(rollout)
        everything = rollout if older is None else Rollout(joined(older, work))
        statistics = self._pay(everything, rollout) if self.signals else {}
        statistics |= self.learn(everything, progress, publish)
        if self.cloning is not None:
            statistics |= self.cloning.learn(progress)
        if self.rollout_size < self.settings.hyperparameters.buffer_size:
            kept = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in work.items()}
            for signal in self.signals:
                if signal.settings.novelty:
                    paid = rollout.rewards[signal.name]
                    kept[f"reward.{signal.name}"] = rollout.as_column(paid)
            self._older = kept
        return statistics

    def _pay(self, everything: Rollout, new: Rollout) -> dict[str, float]:
        """Let the learned reward streams learn from the new part and pay for everything.

        Paid novelty stays as it is.
        """
        statistics: dict[str, float] = {}
        experience = experience_of(everything, self.network, self.device)
        older = everything.older
        fresh = experience.part(slice(older, None))
        for signal in self.signals:
            found, losses = signal.learn_and_pay(fresh, experience, soft=self.soft)
            paid, statistics = found.cpu().numpy(), statistics | losses
            if signal.settings.novelty and older:
                earlier = everything.rewards[signal.name][:older]
                paid = np.concatenate((earlier, paid))
            everything.rewards[signal.name] = paid
            new.rewards[signal.name] = paid[older:]
        return statistics | self.earned(new)

    @abstractmethod
    def learn(self, rollout: Rollout, progress: float, publish: Publish | None) -> dict[str, float]:
        """Change the network. Raises NonFiniteError if values become NaN or infinite; then everything is restored.

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
    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        super().load(arrays, facts, fresh=fresh)
        if fresh:
            return
        older = {name.removeprefix("older."): values for name, values in arrays.items() if name.startswith("older.")}
        self._older = {name: values if values.ndim else values.item() for name, values in older.items()} or None
