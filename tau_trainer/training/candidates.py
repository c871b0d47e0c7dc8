"""Which of a run's policies is exported: the best by validation, or the last; and of independent ones the best.

Rows that choose (:meth:`~tau_trainer.training.task.Task.quick_scores`) and rows that are reported
(:meth:`~tau_trainer.training.task.Task.evaluate`) are never the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tau_trainer.metrics import keys
from tau_trainer.settings import ExportChoice
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training.task import Evaluation, Task

if TYPE_CHECKING:
    from tau_trainer.models import Policy

UPDATES_IN_RANK = 3
"""Validation scores of so many updates in a row are averaged before policies are compared: a few dozen rows are a noisy
judge, and of many policies judged once the luckiest would win."""
_GROWTH = 50
"""Policies are validated at decisions of which each is one part in so many, 2 %, more than the one before."""
_VALIDATIONS = 200
"""Of the decisions of a whole run at least so many, evenly spread, are among them."""
Rank = tuple[float, float]
"""Validation accuracy, then reward."""
_UNKNOWN: Rank = (-math.inf, -math.inf)


@dataclass(frozen=True, slots=True)
class ScoredPolicy:
    """A policy, how many decisions it is made from, and how it did on rows that choose between policies."""

    policy: Policy
    decisions: int
    scores: Mapping[str, float] = field(default_factory=dict)
    """Its validation scores by metric key."""
    rank: Rank = _UNKNOWN
    """What it is compared by; below all others where nothing is known."""

    @property
    def judged_by(self) -> str:
        """What chose it, in words."""
        return "validation" if keys.VALIDATION_ACCURACY in self.scores else "mean reward"

    def beats(self, other: ScoredPolicy | None) -> bool:
        """Whether it is known to be better."""
        return self.rank > (_UNKNOWN if other is None else other.rank)


def rank_of(scores: Sequence[Mapping[str, float]]) -> Rank:
    """Means over the ``scores`` of policies that followed each other."""
    known = [one for one in scores if keys.VALIDATION_ACCURACY in one]
    if not known:
        return _UNKNOWN
    accuracy = sum(one[keys.VALIDATION_ACCURACY] for one in known) / len(known)
    return accuracy, sum(one.get(keys.VALIDATION_REWARD, 0.0) for one in known) / len(known)


def validation_after(decisions: int, max_steps: int) -> int:
    """At which decision after ``decisions`` a policy is due to be validated.

    Where the run ends, early or late, a policy that is little older than the last was looked at. As long as the steps
    are shorter than those that ``max_steps`` asks for they follow from decisions alone, so equal runs that are to end
    elsewhere look at the same policies.
    """
    widest, due = max(1, max_steps // _VALIDATIONS), 1
    while due <= decisions:
        step = max(1, due // _GROWTH)
        if step > widest:
            return (decisions // widest + 1) * widest
        due += step
    return due


@dataclass(frozen=True, slots=True)
class Candidate:
    """A learner's policies, which of them is exported, and what they get where the task has an evaluation."""

    name: str
    """The learner's."""
    spec: BehaviorSpec
    policies: Mapping[ExportChoice, ScoredPolicy]
    """``last``, and ``best`` where something chose."""
    exported: ExportChoice
    evaluations: Mapping[ExportChoice, Evaluation]

    @property
    def policy(self) -> Policy:
        """The one that is exported."""
        return self.policies[self.exported].policy

    @property
    def evaluation(self) -> Evaluation | None:
        """Its scores."""
        return self.evaluations.get(self.exported)

    @property
    def which(self) -> str:
        """The exported policy, in words."""
        best = self.policies.get("best")
        if best is None:
            return "the last policy"
        if best.policy.version == self.policies["last"].policy.version:
            return f"the last policy, which is the best by {best.judged_by} too"
        if self.exported == "last":
            return "the last policy"
        return f"the best by {best.judged_by}, of decision {best.decisions:,}"

    def sentence(self) -> str:
        """Which policy is exported, and what the other one gets."""
        other: ExportChoice = "last" if self.exported == "best" else "best"
        rival, scores = self.policies.get(other), self.evaluations.get(other)
        if rival is None or scores is None or rival.policy.version == self.policy.version:
            return f"Exported is {self.which}."
        name = "the last one" if other == "last" else f"the best by validation, of decision {rival.decisions:,},"
        return f"Exported is {self.which}; {name} gets {100 * scores.accuracy:.1f} %, reward {scores.reward:+.3f}."

    def to_dict(self) -> dict[str, Any]:
        """Content for ``evaluation.json``; empty without an evaluation."""
        if self.evaluation is None:
            return {}
        told = {name: self._told(name) for name in self.evaluations}
        return {**self.evaluation.to_dict(), "policy": self.name, "exported": self.exported, "policies": told}

    def _told(self, name: ExportChoice) -> dict[str, Any]:
        one, scores = self.policies[name], self.evaluations[name]
        return {
            "decisions": one.decisions,
            "validation_accuracy": one.scores.get(keys.VALIDATION_ACCURACY),
            "validation_reward": one.scores.get(keys.VALIDATION_REWARD),
            "accuracy": scores.accuracy,
            "reward": scores.reward,
        }


def make_candidate(
    name: str,
    spec: BehaviorSpec,
    last: ScoredPolicy,
    best: ScoredPolicy | None,
    wanted: ExportChoice,
    task: Task | None,
) -> Candidate:
    """Examine a learner's policies; ``task``: who evaluates, None: nobody."""
    if task is not None and not last.scores:
        scores = task.quick_scores(last.policy)
        last = ScoredPolicy(last.policy, last.decisions, scores, rank_of([scores]))
    policies: dict[ExportChoice, ScoredPolicy] = {"last": last}
    if best is not None:
        policies["best"] = best
    evaluations = {kind: task.evaluate(one.policy) for kind, one in policies.items()} if task is not None else {}
    return Candidate(name, spec, policies, wanted if wanted in policies else "last", evaluations)


def best_of(candidates: Iterable[Candidate]) -> Candidate | None:
    """The one whose exported policy has the best validation scores; the first where there are none."""
    return max(candidates, key=lambda one: one.policies[one.exported].rank, default=None)
