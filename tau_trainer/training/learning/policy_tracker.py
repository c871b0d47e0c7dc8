"""Scores a learner's policies during training, keeps the best, and knows when it is good enough."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tau_trainer.algorithms import Algorithm
from tau_trainer.columns import Arrays
from tau_trainer.evaluation.candidates import (
    UPDATES_IN_RANK,
    ScoredPolicy,
    best_to_keep,
    rank_of,
    stored_best,
    validation_after,
)
from tau_trainer.metrics import keys
from tau_trainer.models import Policy
from tau_trainer.runs.callbacks import Callbacks, EvaluationInfo
from tau_trainer.training.learning.progress import Progress
from tau_trainer.training.learning.returns import EpisodeReturns

EPISODES: Final = 10
"""Number of episodes by which policies are compared if a learner may lose what it has learned.

Half of them end before the policy is scored, half after it. The usual newest 100 episodes lag behind: on CartPole they
choose policies that have lost it already (docs/benchmarks.md).
"""
Validator = Callable[[Policy], Mapping[str, float]]
"""Scores a policy, by metric key; called in the learner's thread."""


class PolicyTracker:
    """Validates the policies of one learner, and keeps the best of them.

    Attributes:
        best: the policy with the best validation scores so far, in resumed runs too; None: no policy is chosen. With
            ``save_best_only`` and without validation, the one with the best mean reward when a checkpoint was due.
        scores: of the newest validation, by metric key.
        accuracies: of all validations so far, in order.
        returns: of the newest episodes.
        watches: whether policies are compared while they learn: if there is a validator, or if they may become worse at
            any time and returns are comparable over the whole run. Without validation, the best is then the one with
            the highest mean return of the :data:`EPISODES` around it.
    """

    def __init__(
        self, progress: Progress, returns: EpisodeReturns, validator: Validator | None, callbacks: Callbacks
    ) -> None:
        """``validator``: called after updates, as :func:`.validation_after` says; None: no validation."""
        self.best: ScoredPolicy | None = None
        self.scores: Mapping[str, float] = {}
        self.accuracies: list[float] = []
        self.returns = returns
        self.watches = validator is not None
        self._progress, self._validator, self._callbacks = progress, validator, callbacks
        self._judging = threading.Lock()
        self._recent: list[Mapping[str, float]] = []
        self._newest: ScoredPolicy | None = None
        """The last policy that was validated or played."""
        self._waiting: tuple[ScoredPolicy, int] | None = None
        """A policy that waits for its episodes to end, and the number of episodes that had ended before it."""
        self._next = 0
        """Number of decisions at which the next validation is due."""

    def validate_if_due(self, policy: Policy) -> Mapping[str, float]:
        """Scores of a policy if a validation is due, otherwise empty. Call in the learner's threads, if it watches."""
        with self._judging:
            decisions = self._progress.decisions
            if decisions < self._next:
                return {}
            self._next = validation_after(decisions, self._progress.max_steps)
            if self._validator is None:
                self._follow(policy)
                return {}
            self._recent = self._validate(policy, self._validator)
            known = keys.VALIDATION_ACCURACY in self.scores
            self.accuracies += [self.scores[keys.VALIDATION_ACCURACY]] if known else []
            return self.scores

    def _follow(self, policy: Policy) -> None:
        """Compare the waiting policy once half of its episodes have ended after it; then ``policy`` waits."""
        ended = self.returns.ended
        if self._waiting is not None:
            waiting, since = self._waiting
            if ended - since < EPISODES // 2:
                return
            mean = self.returns.mean_of(EPISODES)
            if mean is not None and (self.best is None or (mean, 0.0) >= self.best.rank):
                # If returns have a limit, many policies reach it: of equal ones, the newest has learned the most.
                self.best = replace(waiting, rank=(mean, 0.0))
        self._waiting = ScoredPolicy(policy, self._progress.decisions), ended

    def _validate(self, policy: Policy, validator: Validator) -> list[Mapping[str, float]]:
        """Score ``policy``, and keep it if it is the best so far; returns the scores that rank it."""
        info = EvaluationInfo(self._progress.name, policy.version, self._progress.decisions)
        self._callbacks.soon("on_evaluation_begin", info)
        self.scores = validator(policy)
        self._callbacks.soon("on_evaluation_end", replace(info, scores=self.scores))
        recent = [*self._recent, self.scores][-UPDATES_IN_RANK:]
        self._newest = ScoredPolicy(policy, info.decisions, self.scores, rank_of(recent))
        self.best = self._newest.or_kept(self.best)
        return recent

    def validate_last(self, policy: Policy) -> Mapping[str, float]:
        """Score the current policy like those before it, unless that is done: the run ends with it.

        It does not change what a resumed run would validate. Call in the learner's thread.

        Returns:
            Its scores by metric key; empty if it was scored already, or there is no validation.
        """
        if self._validator is None or self.last(policy).scores:
            return {}
        self._validate(policy, self._validator)
        return self.scores

    def take(self, scored: ScoredPolicy) -> None:
        """Keep a policy that was scored elsewhere if it is the best so far."""
        self._newest = scored
        self.best = scored.or_kept(self.best)

    def last(self, policy: Policy) -> ScoredPolicy:
        """The current policy, with its scores if they are known."""
        if self._newest is not None and self._newest.policy.version == policy.version:
            return replace(self._newest, decisions=self._progress.decisions)
        return ScoredPolicy(policy, self._progress.decisions)

    def evaluate_returns(self, policy: Policy) -> None:
        """Without validation, compare the current policy with the best so far by ``trial_count`` episodes."""
        mean = self.returns.mean
        if self._validator is None and mean is not None:
            self.take(ScoredPolicy(policy, self._progress.decisions, rank=(mean, 0.0)))

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """The state that a checkpoint keeps: the best policy's weights, and the rest.

        It clears the waiting policy, so that this run and one that is resumed compare the same.
        """
        self._waiting = None
        weights, best = best_to_keep(self.best)
        return weights, {
            "best": best,
            "recent_scores": [dict(scores) for scores in self._recent],
            "accuracies": list(self.accuracies),
            "next_evaluation": self._next,
            "recent_returns": self.returns.state(),
        }

    def load(self, algorithm: Algorithm, arrays: Arrays, values: Mapping[str, Any]) -> None:
        """Restore :meth:`state`, with the :class:`Progress` that belongs to it."""
        self.best = stored_best(algorithm, arrays, values)
        self._recent = list(values.get("recent_scores", []))
        self.accuracies = list(values.get("accuracies", []))
        self.returns.load(values.get("recent_returns", ()))
        # An earlier version or an earlier max_steps may have set the next validation far away.
        due = validation_after(self._progress.decisions, self._progress.max_steps)
        self._next = min(values.get("next_evaluation", due), due)
