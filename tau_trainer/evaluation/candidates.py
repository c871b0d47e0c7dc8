"""Which of a run's policies is exported: the best by validation, or the last; and of independent ones the best.

Rows that choose (:meth:`Evaluating.quick_scores`) and rows that are reported (:meth:`Evaluating.evaluate`) are
never the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from tau_trainer.metrics import BaselineScore, keys
from tau_trainer.settings import ExportChoice
from tau_trainer.specs import BehaviorSpec

if TYPE_CHECKING:
    from tau_trainer.algorithms import Algorithm
    from tau_trainer.columns import Arrays
    from tau_trainer.models import Policy

UPDATES_IN_RANK = 3
"""Validation scores of so many updates in a row are averaged before policies are compared: a few dozen rows are a noisy
judge, and of many policies judged once the luckiest would win."""
_RISE = 0.01
"""By how much accuracy rises where it is no accident: rows and policies of two quarters are nearly the same."""
_GROWTH = 50
"""Policies are validated at decisions of which each is one part in so many, 2 %, more than the one before."""
_VALIDATIONS = 200
"""Of the decisions of a whole run at least so many, evenly spread, are among them."""
BEST = "best."
"""What the names of the best policy's weights begin with in a checkpoint."""
Rank = tuple[float, float]
"""Validation accuracy, then reward."""
_UNKNOWN: Rank = (-math.inf, -math.inf)


class Evaluation(Protocol):
    """Scores of one policy on rows that it did not learn from and that chose nothing."""

    @property
    def accuracy(self) -> float:
        """Share of right answers, 0 to 1."""

    @property
    def reward(self) -> float:
        """Mean reward."""

    @property
    def baselines(self) -> Mapping[str, BaselineScore]:
        """The same of what it is compared with, by name, on the same rows."""

    def sentence(self) -> str:
        """Whether it beats what knows nothing, in one sentence."""

    def to_dict(self) -> dict[str, Any]:
        """Content for ``evaluation.json``: ``accuracy``, ``reward``, and more."""


class Evaluating(Protocol):
    """Who scores a policy on rows that it does not learn from; a task does."""

    def quick_scores(self, policy: Policy) -> Mapping[str, float]:
        """Scores by metric key on rows that choose between policies, cheap enough for every update.

        The best policy has the highest ``Validation/Accuracy``, then the highest ``Validation/Reward``; without these
        nothing is chosen.
        """

    def evaluate(self, policy: Policy) -> Evaluation:
        """All that can be said of a policy."""


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
    def chosen_by(self) -> str:
        """What chose it, in words."""
        return "validation" if keys.VALIDATION_ACCURACY in self.scores else "mean reward"

    @property
    def reward(self) -> float | None:
        """Its mean reward; None: nobody knows."""
        if keys.VALIDATION_ACCURACY in self.scores:
            return self.scores.get(keys.VALIDATION_REWARD)
        return None if self.rank == _UNKNOWN else self.rank[0]

    def named(self, name: str) -> str:
        """With the decisions that it is made from: ``name, of decision 1,000``."""
        return f"{name}, of decision {self.decisions:,}"

    def or_kept(self, best: ScoredPolicy | None) -> ScoredPolicy | None:
        """The best so far: this one where it is known to be better than ``best``, which stays where they are equal."""
        return self if self.rank > (_UNKNOWN if best is None else best.rank) else best


def best_to_keep(best: ScoredPolicy | None) -> tuple[Arrays, dict[str, Any] | None]:
    """What a checkpoint keeps of the best policy so far: weights beside the learner's own, and JSON-able facts."""
    if best is None:
        return {}, None
    facts = {"version": best.policy.version, "decisions": best.decisions, "rank": list(best.rank)}
    weights = {BEST + name: array for name, array in best.policy.weights.items()}
    return weights, {**facts, "scores": dict(best.scores)}


def stored_best(algorithm: Algorithm, arrays: Arrays, values: Mapping[str, Any]) -> ScoredPolicy | None:
    """The best policy of a checkpoint, whose ``values["best"]`` are :func:`best_to_keep`'s facts; None: it has none."""
    facts = values.get("best")  # checkpoints of earlier versions have none
    if facts is None:
        return None
    weights = {name.removeprefix(BEST): array for name, array in arrays.items() if name.startswith(BEST)}
    accuracy, reward = facts["rank"]
    policy = algorithm.policy(weights, facts["version"])
    return ScoredPolicy(policy, facts["decisions"], facts["scores"], (accuracy, reward))


def rank_of(scores: Sequence[Mapping[str, float]]) -> Rank:
    """Means over the ``scores`` of policies that followed each other."""
    known = [known_scores for known_scores in scores if keys.VALIDATION_ACCURACY in known_scores]
    if not known:
        return _UNKNOWN
    accuracy = sum(known_scores[keys.VALIDATION_ACCURACY] for known_scores in known) / len(known)
    return accuracy, sum(known_scores.get(keys.VALIDATION_REWARD, 0.0) for known_scores in known) / len(known)


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


def still_rises(accuracies: Sequence[float]) -> bool:
    """Whether validation accuracies [n], in order, rose to the end, so that more decisions would help.

    The median of the last quarter is above that of the quarter before by more than :data:`_RISE`, and there is room. A
    short fall, as where weights shrink, makes no rise.
    """
    part = len(accuracies) // 4
    before, after = accuracies[-2 * part : -part], accuracies[-part:]
    return part > 0 and median(after) - median(before) > _RISE and accuracies[-1] < 1.0


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
        """What a policy is worth on test rows, or by what chooses; empty: nobody knows."""
        scores, reward = self.evaluations.get(which), self.policies[which].reward
        if scores is not None:
            return f"{100 * scores.accuracy:.1f} %, reward {scores.reward:+.3f}"
        return "" if reward is None else f"mean reward {reward:.3f}"

    def described(self) -> str:
        """The exported policy with what it is worth, and the other one, if there is one, with what that is worth."""
        worth = self._worth(self.exported)
        text = f"{self.which}, with {worth}" if worth and self.evaluation is None else self.which
        other: ExportChoice = "last" if self.exported == "best" else "best"
        if other not in self.policies or self.policies[other].policy.version == self.policy.version:
            return text
        worth = self._worth(other)
        return f"{text}; {self._name(other)}, " + (f"gets {worth}" if worth else "was not evaluated")

    def sentence(self) -> str:
        """Which policy is exported, and what the other one gets."""
        return f"Exported: {self.described()}."

    def to_dict(self) -> dict[str, Any]:
        """Content for ``evaluation.json``; empty without an evaluation."""
        if self.evaluation is None:
            return {}
        policies = {name: self._told(name) for name in self.evaluations}
        return {**self.evaluation.to_dict(), "policy": self.name, "exported": self.exported, "policies": policies}

    def _told(self, name: ExportChoice) -> dict[str, Any]:
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
    """Evaluate a learner's policies; ``task``: who does, None: nobody."""
    if task is not None and not last.scores:
        scores = task.quick_scores(last.policy)
        last = ScoredPolicy(last.policy, last.decisions, scores, rank_of([scores]))
    policies: dict[ExportChoice, ScoredPolicy] = {"last": last}
    if best is not None:
        policies["best"] = best
    evaluations = {kind: task.evaluate(scored.policy) for kind, scored in policies.items()} if task is not None else {}
    return Candidate(name, spec, policies, wanted if wanted in policies else "last", evaluations)


def best_of(candidates: Iterable[Candidate]) -> Candidate | None:
    """The one whose exported policy has the best validation scores; the first where there are none."""
    return max(candidates, key=lambda one: one.policies[one.exported].rank, default=None)
