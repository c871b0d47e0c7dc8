"""Snapshots of pairs and their learners, for recorders and for ``Session.status()``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tau_trainer.metrics import BehaviorSnapshot, PairMetrics, PairState, RateMeter, keys
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.pairs.pair import AgentTrainerPair

if TYPE_CHECKING:
    from tau_trainer.training.pairs.collector import PairsCollector


_ACTING = (PairState.TRAINING, PairState.PLAYING)
_RUN_HALF_LIFE_S = 15.0
"""Longer than a pair's, so that the change from one pair to the next does not look like a stop."""


class Snapshots:
    """Takes snapshots of pairs, and keeps their speed between two snapshots."""

    def __init__(self, collector: PairsCollector) -> None:
        self._collector = collector
        pairs = collector.parallel.pairs
        self._rates = [RateMeter() for _ in pairs]
        self._first_decisions = [pair.trainer.decisions for pair in pairs]
        self._rate: RateMeter | None = None
        self._begin = collector.steps

    @property
    def fields(self) -> Mapping[str, Any]:
        """Fields of a snapshot of the run, in addition to those of every run."""
        collector, learners = self._collector, self._collector.learners
        accuracies = [learner.judge.scores.get(keys.VALIDATION_ACCURACY) for learner in learners]
        actors = collector.actors.trainers if collector.actors is not None else []
        return {
            "decisions_per_second": self._speed(collector.steps),
            "policy_version": sum(learner.progress.updates for learner in learners),
            "policy_age": max((learner.progress.policy_age for learner in learners), default=0.0),
            "held_seconds": sum(learner.bound.held_seconds for learner in learners),
            "update_seconds": sum(learner.progress.update_seconds for learner in learners),
            "columns": collector.plan.task.columns if collector.plan.task is not None else (),
            "validation_accuracy": max((accuracy for accuracy in accuracies if accuracy is not None), default=None),
            "baselines": collector.baselines,
            "lessons": collector.overseer.lessons.told,
            "figures": tuple(figure for trainer in actors for figure in trainer.figures),
            "message": next((pair.absent for pair in collector.parallel.pairs if pair.absent), None),
        }

    @property
    def most(self) -> int:
        """Decisions of the whole run; pairs that have not started have no learner of their own yet."""
        collector, learners = self._collector, self._collector.learners
        pairs, most = collector.parallel.pairs, sum(learner.progress.max_steps for learner in learners)
        if collector.plan.shared or not learners:
            return most
        begun = sum(bool(collector.overseer.pool.of_pair(pair.id)) for pair in pairs)
        return most * len(pairs) // begun

    @property
    def pairs(self) -> tuple[PairMetrics, ...]:
        """Snapshots of the pairs, with their speed."""
        return tuple(self._pair(pair) for pair in self._collector.parallel.pairs)

    @property
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        """Snapshots of the learners."""
        return tuple(self._behavior(learner) for learner in self._collector.learners)

    def _speed(self, decisions: int) -> float:
        """Decisions per second of the whole run, including the time in which pairs wait or engines start."""
        if self._rate is None and decisions > self._begin:  # leave out the start of the first engines
            self._rate, self._begin = RateMeter(_RUN_HALF_LIFE_S), decisions
        if self._rate is None:
            return 0.0
        self._rate.add(decisions - self._begin - self._rate.total)
        return self._rate.rate()

    def _pair(self, pair: AgentTrainerPair) -> PairMetrics:
        """Snapshot of a pair. Its mean reward is per decision if a task counts those, otherwise per episode."""
        collector = self._collector
        names = collector.plan.task.keys if collector.plan.task is not None else None
        rewards = [learner.progress.rewards for learner in collector.overseer.pool.of_pair(pair.id)]

        def mean(key: str) -> float | None:
            """Mean over its behaviors."""
            known = [value for of_learner in rewards if (value := of_learner.of_pair(pair.id, key)) is not None]
            return sum(known) / len(known) if known else None

        metrics = pair.metrics(
            mean(keys.CUMULATIVE_REWARD if names is None else names.reward),
            mean(keys.GROUP_CUMULATIVE_REWARD),
            None if names is None else mean(names.success),
            collector.overseer.accuracies.get(pair.id),
        )
        meter = self._rates[pair.id]
        meter.add(metrics.decisions - self._first_decisions[pair.id] - meter.total)
        return replace(metrics, decisions_per_second=meter.rate() if metrics.state in _ACTING else 0.0)

    def _behavior(self, learner: Learner) -> BehaviorSnapshot:
        pairs = self._collector.parallel.pairs
        played = [scores.episodes for pair in pairs for scores in pair.trainer.episodes_of(learner)]
        return BehaviorSnapshot(
            name=learner.name,
            step=learner.decisions,
            max_steps=learner.progress.max_steps,
            episodes=sum(played),
            mean_reward=learner.progress.rewards.mean,
            mean_group_reward=learner.progress.rewards.group_mean,
            window_episodes=learner.progress.rewards.episodes,
            steps_per_decision=learner.progress.steps_per_decision,
            elo=None if learner.opponents is None else learner.opponents.rating.value,
            games=self._collector.overseer.pool.self_play.table(learner.name),
        )
