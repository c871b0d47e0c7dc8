"""Chooses which of a run's policies to export: the best by validation, or the last; and the best independent policy.

Rows for choosing (:meth:`Evaluating.quick_scores`) and rows for reporting (:meth:`Evaluating.evaluate`) are always
different.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from tau_trainer.columns import Arrays, prefixed, unprefixed
from tau_trainer.metrics import BaselineScore, keys
from tau_trainer.settings import ExportChoice
from tau_trainer.specs import BehaviorSpec, Json

if TYPE_CHECKING:
    from tau_trainer.algorithms import Algorithm
    from tau_trainer.models import Policy

UPDATES_IN_RANK = 3
"""Number of updates in a row whose validation scores are averaged before policies are compared: a few dozen rows are
noisy, and with single scores the luckiest of many policies would win."""
_RISE = 0.01
"""Minimum rise of accuracy that is not by chance: rows and policies of two quarters are nearly the same."""
_GROWTH = 50
"""Each validation follows after 1/50 (2 %) more decisions than the previous one."""
_VALIDATIONS = 200
"""Minimum number of validations in a whole run, evenly spaced."""
BEST = "best."
"""Prefix of the best policy's weights in a checkpoint."""
Rank = tuple[float, float]
"""Validation accuracy, then reward."""
_UNKNOWN: Rank = (-math.inf, -math.inf)


class Evaluation(Protocol):
    """Scores of one policy on rows that were not used to train or choose it."""

    @property
    def accuracy(self) -> float:
        """Share of right answers, 0 to 1."""

    @property
    def reward(self) -> float:
        """Mean reward."""

    @property
    def baselines(self) -> Mapping[str, BaselineScore]:
        """Scores of the baselines, by name, on the same rows."""

    def sentence(self) -> str:
        """Whether it beats baselines that use no input, in one sentence."""

    def to_dict(self) -> dict[str, Any]:
        """Content for ``evaluation.json``: ``accuracy``, ``reward``, and more."""


class Evaluating(Protocol):
    """Scores a policy on rows that it does not learn from; tasks implement it."""

    def quick_scores(self, policy: Policy) -> Mapping[str, float]:
        """Scores by metric key on rows for choosing between policies, fast enough for every update.

        The best policy has the highest ``Validation/Accuracy``, then the highest ``Validation/Reward``; without these
        scores no policy is chosen.
        """

    def evaluate(self, policy: Policy) -> Evaluation:
        """The full evaluation of a policy."""


@dataclass(frozen=True, slots=True)
class ScoredPolicy:
    """A policy, its number of decisions, and its scores on rows for choosing between policies."""

    policy: Policy
    decisions: int
    scores: Mapping[str, float] = field(default_factory=dict)
    """Validation scores by metric key."""
    rank: Rank = _UNKNOWN
    """Rank for comparison; unknown ranks are lowest."""

    @property
    def chosen_by(self) -> str:
        """The criterion that chose the policy, in words."""
        return "validation" if keys.VALIDATION_ACCURACY in self.scores else "mean reward"

    @property
    def reward(self) -> float | None:
        """The policy's mean reward; None if unknown."""
        if keys.VALIDATION_ACCURACY in self.scores:
            return self.scores.get(keys.VALIDATION_REWARD)
        return None if self.rank == _UNKNOWN else self.rank[0]

    def named(self, name: str) -> str:
        """``name`` with the policy's number of decisions: ``name, after 1,000 decisions``."""
        return f"{name}, after {self.decisions:,} decisions"

    def or_kept(self, best: ScoredPolicy | None) -> ScoredPolicy | None:
        """The best so far: this policy if it is known to be better than ``best``, otherwise ``best``."""
        return self if self.rank > (_UNKNOWN if best is None else best.rank) else best


def best_to_keep(best: ScoredPolicy | None) -> tuple[Arrays, dict[str, Any] | None]:
    """Data of the best policy for a checkpoint: its weights, and facts in JSON types."""
    if best is None:
        return {}, None
    metadata = {"version": best.policy.version, "decisions": best.decisions, "rank": list(best.rank)}
    return prefixed(BEST, best.policy.weights), {**metadata, "scores": dict(best.scores)}


def stored_best(algorithm: Algorithm, arrays: Arrays, values: Json) -> ScoredPolicy | None:
    """The best policy of a checkpoint, from the facts of :func:`best_to_keep` in ``values["best"]``; None if none."""
    metadata = values.get("best")  # checkpoints of earlier versions have none
    if metadata is None:
        return None
    accuracy, reward = metadata["rank"]
    policy = algorithm.policy(unprefixed(BEST, arrays), metadata["version"])
    return ScoredPolicy(policy, metadata["decisions"], metadata["scores"], (accuracy, reward))


def rank_of(scores: Sequence[Mapping[str, float]]) -> Rank:
    """Means over the ``scores`` of consecutive policies."""
    known = [known_scores for known_scores in scores if keys.VALIDATION_ACCURACY in known_scores]
    if not known:
        return _UNKNOWN
    accuracy = sum(known_scores[keys.VALIDATION_ACCURACY] for known_scores in known) / len(known)
    return accuracy, sum(known_scores.get(keys.VALIDATION_REWARD, 0.0) for known_scores in known) / len(known)


def validation_after(decisions: int, max_steps: int) -> int:
    """The next decision after ``decisions`` at which to validate a policy.

    Whenever the run ends, a policy that is only a little older than the last was validated. While the steps are shorter
    than those from ``max_steps``, they depend only on decisions, so equal runs with other ``max_steps`` validate the
    same policies.
    """
    widest, due = max(1, max_steps // _VALIDATIONS), 1
    while due <= decisions:
        step = max(1, due // _GROWTH)
        if step > widest:
            return (decisions // widest + 1) * widest
        due += step
    return due


def still_rises(accuracies: Sequence[float]) -> bool:
    """Whether validation accuracies [n], in order, still rise at the end, so that more decisions would help.

    True if the median of the last quarter is above that of the quarter before by more than :data:`_RISE`, and the last
    is below 1. A recovery from a short fall, such as after shrinking weights, does not count.
    """
    part = len(accuracies) // 4
    before, after = accuracies[-2 * part : -part], accuracies[-part:]
    return part > 0 and median(after) - median(before) > _RISE and accuracies[-1] < 1.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A learner's policies, the choice to export, and their evaluations if the task has any."""

    name: str
    """The learner's name."""
    spec: BehaviorSpec
    policies: Mapping[ExportChoice, ScoredPolicy]
    """``last``, and ``best`` if one was chosen."""
    exported: ExportChoice
    evaluations: Mapping[ExportChoice, Evaluation]

    @property
    def policy(self) -> Policy:
        """The exported policy."""
        return self.policies[self.exported].policy

    @property
    def evaluation(self) -> Evaluation | None:
        """The exported policy's scores."""
        return self.evaluations.get(self.exported)

    @property
    def which(self) -> str:
        """The exported policy, in words."""
        best, last = self.policies.get("best"), self.policies["last"]
        if best is None:
            return last.named("the last policy")
        if best.policy.version == last.policy.version:
            return f"{self.policies[self.exported].named('the last policy')}, which is the best by {best.chosen_by} too"
        return self._name(self.exported)

    def _name(self, which: ExportChoice) -> str:
        scored = self.policies[which]
        return scored.named("the last policy" if which == "last" else f"the best by {scored.chosen_by}")

    def _worth(self, which: ExportChoice) -> str:
        """Scores of a policy on test rows, or those that chose it, in words; empty if unknown."""
        scores, reward = self.evaluations.get(which), self.policies[which].reward
        if scores is not None:
            return f"{100 * scores.accuracy:.1f} %, reward {scores.reward:+.3f}"
        return "" if reward is None else f"mean reward {reward:.3f}"

    def described(self) -> str:
        """The exported policy with its scores, and the other one, if there is one, with its scores."""
        worth = self._worth(self.exported)
        text = f"{self.which}, with {worth}" if worth and self.evaluation is None else self.which
        other: ExportChoice = "last" if self.exported == "best" else "best"
        if other not in self.policies or self.policies[other].policy.version == self.policy.version:
            return text
        worth = self._worth(other)
        return f"{text}; {self._name(other)}, " + (f"gets {worth}" if worth else "was not evaluated")

    def sentence(self) -> str:
        """A sentence about the exported policy, and the score of the other one."""
        return f"Exported: {self.described()}."

    def to_dict(self) -> dict[str, Any]:
        """Content for ``evaluation.json``; empty without an evaluation."""
        if self.evaluation is None:
            return {}
        policies = {name: self._as_dict(name) for name in self.evaluations}
        return {**self.evaluation.to_dict(), "policy": self.name, "exported": self.exported, "policies": policies}

    def _as_dict(self, name: ExportChoice) -> dict[str, Any]:
        scored, scores = self.policies[name], self.evaluations[name]
        return {
            "decisions": scored.decisions,
            "validation_accuracy": scored.scores.get(keys.VALIDATION_ACCURACY),
            "validation_reward": scored.scores.get(keys.VALIDATION_REWARD),
            "accuracy": scores.accuracy,
            "reward": scores.reward,
        }


def make_candidate(
    name: str,
    spec: BehaviorSpec,
    last: ScoredPolicy,
    best: ScoredPolicy | None,
    wanted: ExportChoice,
    task: Evaluating | None,
) -> Candidate:
    """Evaluate a learner's policies with ``task``; None: no evaluation."""
    if task is not None and not last.scores:
        scores = task.quick_scores(last.policy)
        last = ScoredPolicy(last.policy, last.decisions, scores, rank_of([scores]))
    policies: dict[ExportChoice, ScoredPolicy] = {"last": last}
    if best is not None:
        policies["best"] = best
    evaluations = {kind: task.evaluate(scored.policy) for kind, scored in policies.items()} if task is not None else {}
    return Candidate(name, spec, policies, wanted if wanted in policies else "last", evaluations)


def best_of(candidates: Iterable[Candidate]) -> Candidate | None:
    """The candidate whose exported policy has the best validation scores; the first if there are no scores."""
    return max(candidates, key=lambda one: one.policies[one.exported].rank, default=None)
