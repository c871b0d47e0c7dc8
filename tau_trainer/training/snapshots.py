"""What a run looks like at this moment, for recorders and for ``Session.status()``."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tau_trainer.metrics import BehaviorSnapshot, PairMetrics, PairState, RateMeter, RunSnapshot, keys
from tau_trainer.training.learner import Learner
from tau_trainer.training.pair import AgentTrainerPair

if TYPE_CHECKING:
    from tau_trainer.training.run import TrainingRun


_ACTING = (PairState.TRAINING, PairState.PLAYING)
_RUN_HALF_LIFE_S = 15.0
"""Longer than a pair's, so that the change from one pair to the next does not look like a stop."""


def _figures(run: TrainingRun) -> tuple[str, ...]:
    trainers = run.actors.trainers if run.actors is not None else []
    return tuple(figure for trainer in trainers for figure in trainer.figures)


def pair_metrics(run: TrainingRun, pair: AgentTrainerPair) -> PairMetrics:
    """What a pair has done so far; its mean reward is of a decision where a task counts those, else of an episode."""
    names = run.plan.task.keys if run.plan.task is not None else None
    rewards = [learner.rewards for learner in run.pool.of_pair(pair.id)]

    def mean(key: str) -> float | None:
        """Over its behaviors."""
        known = [one for said in rewards if (one := said.of_pair(pair.id, key)) is not None]
        return sum(known) / len(known) if known else None

    return pair.metrics(
        mean(keys.CUMULATIVE_REWARD if names is None else names.reward),
        mean(keys.GROUP_CUMULATIVE_REWARD),
        None if names is None else mean(names.success),
        run.validation_accuracy.get(pair.id),
    )


class Snapshots:
    """Takes pictures of a run, and keeps the speed of its pairs between them."""

    def __init__(self, run: TrainingRun) -> None:
        self._run = run
        self._rates = [RateMeter() for _ in run.pairs]
        self._first_decisions = [pair.trainer.decisions for pair in run.pairs]
        self._rate: RateMeter | None = None
        self._begin = run.decisions

    def take(self) -> RunSnapshot:
        """The run now."""
        run = self._run
        pairs = tuple(self._pair(pair) for pair in run.pairs)
        learners = run.learners
        rate = self._speed(run.decisions)
        most = self._most(learners)
        left = max(most - run.decisions, 0)
        accuracies = [learner.evaluation.get(keys.VALIDATION_ACCURACY) for learner in learners]
        return RunSnapshot(
            run_id=run.run_id,
            command=run.plan.command,
            subject=run.plan.subject,
            seed=run.plan.seed,
            elapsed_s=time.monotonic() - run.started,
            decisions=run.decisions,
            max_decisions=most,
            decisions_per_second=rate,
            eta_s=left / rate if rate > 0 and most else None,
            policy_version=sum(learner.updates for learner in learners),
            policy_age=max((learner.policy_age for learner in learners), default=0.0),
            held_seconds=sum(learner.held_seconds for learner in learners),
            update_seconds=sum(learner.update_seconds for learner in learners),
            pairs=pairs,
            columns=run.plan.task.columns if run.plan.task is not None else (),
            behaviors=tuple(self._behavior(learner) for learner in learners),
            validation_accuracy=max((accuracy for accuracy in accuracies if accuracy is not None), default=None),
            baselines=run.baselines,
            lessons=run.lessons.told,
            figures=_figures(run),
            message=next((pair.absent for pair in run.pairs if pair.absent), None),
            learning=not run.plan.inference,
        )

    def _most(self, learners: list[Learner]) -> int:
        """Decisions of the whole run; pairs that have not begun have no learner of their own yet."""
        most = sum(learner.max_steps for learner in learners)
        if self._run.plan.shared or not learners:
            return most
        begun = sum(bool(self._run.pool.of_pair(pair.id)) for pair in self._run.pairs)
        return most * len(self._run.pairs) // begun

    def _speed(self, decisions: int) -> float:
        """Decisions a second of the whole run, over pairs that wait for their turn and engines that start."""
        if self._rate is None and decisions > self._begin:  # how long the first engines took says nothing
            self._rate, self._begin = RateMeter(_RUN_HALF_LIFE_S), decisions
        if self._rate is None:
            return 0.0
        self._rate.add(decisions - self._begin - self._rate.total)
        return self._rate.rate()

    def _pair(self, pair: AgentTrainerPair) -> PairMetrics:
        metrics = pair_metrics(self._run, pair)
        meter = self._rates[pair.id]
        meter.add(metrics.decisions - self._first_decisions[pair.id] - meter.total)
        return replace(metrics, decisions_per_second=meter.rate() if metrics.state in _ACTING else 0.0)

    def _behavior(self, learner: Learner) -> BehaviorSnapshot:
        played = [one.episodes for pair in self._run.pairs for one in pair.trainer.episodes_of(learner)]
        return BehaviorSnapshot(
            name=learner.name,
            step=learner.decisions,
            max_steps=learner.max_steps,
            episodes=sum(played),
            mean_reward=learner.rewards.mean,
            mean_group_reward=learner.rewards.group_mean,
            window_episodes=learner.rewards.episodes,
        )
