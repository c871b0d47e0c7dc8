"""Evaluation of a Tau policy on the test rows, compared with baselines (tau.md 5.6).

The test rows were not used to choose the policy or its pair. Every row is shown once, with the deterministic action,
and an answer is right if it is the nearest one to the output. Reward is reported too, but it is not accuracy: in
``tau384``, an all-zeros policy already gets about +0.9.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tau_trainer.errors import NonFiniteError
from tau_trainer.metrics import BaselineScore
from tau_trainer.specs import BoolArray, Float64Array
from tau_trainer.tau.baselines import (
    BLIND,
    Act,
    ConfiguredFormula,
    baselines,
    require_evaluation,
    right_rows,
    rivals,
    score,
    strongest,
)
from tau_trainer.tau.dataset import TauDataset, TauSplit
from tau_trainer.tau.decoding import nearest
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.profiles import Profile
from tau_trainer.tau.standing import Standing
from tau_trainer.tau.targets import targets


@dataclass(frozen=True, slots=True)
class TauEvaluation:
    """Scores of one policy; accuracies and rates lie in [0, 1]."""

    profile: str
    formula: str
    """Reward formula that ``reward`` is measured in."""
    encoder: str
    """Text encoder behind the prompts; a stand-in says so in its name."""
    rows: int
    """Test rows."""
    rows_validation: int
    rows_train: int
    reward: float
    """Mean reward on test rows."""
    reward_train: float
    accuracy: float
    """Right answers on test rows, decoded among the training answers."""
    accuracy_all: float
    """Right answers on test rows, decoded among all answers of the data set."""
    accuracy_seen: float | None
    """Accuracy on test rows whose answer occurs in training; ``None`` if there is no such row."""
    accuracy_train: float
    within_threshold: float
    """Share of test rows with every component within the threshold: the strict binary success."""
    mean_abs_error: float
    accuracy_by_domain: dict[str, float]
    baselines: dict[str, BaselineScore]
    """Scores of the baselines on the same rows, by name."""
    standings: dict[str, Standing]
    """Comparison of the policy with each baseline, row by row."""

    @property
    def blind(self) -> BaselineScore:
        """The highest reward and the highest accuracy of baselines that ignore the prompt."""
        known = [self.baselines[name] for name in BLIND]
        return BaselineScore(max(scored.reward for scored in known), max(scored.accuracy for scored in known))

    @property
    def beats_blind(self) -> bool:
        """Whether reward and accuracy are above those of every baseline that ignores the prompt.

        The difference in accuracy must be significant.
        """
        more = all(self.standings[name].verdict == "beats" for name in BLIND)
        return more and self.reward > self.blind.reward

    @property
    def strongest(self) -> str:
        """Name of the baseline with the most right answers."""
        return strongest(self.baselines)

    def sentence(self) -> str:
        """Comparison with the strongest baseline, and with those that ignore the prompt, in one sentence."""
        rival, standing = self.baselines[self.strongest].accuracy, self.standings[self.strongest]
        verb = {"beats": "beats", "equals": "equals", "below": "stays below"}[standing.verdict]
        looks = "beats" if self.beats_blind else "does not beat"
        return (
            f"The policy gets {100 * self.accuracy:.1f} % of {self.rows} test answers right and {verb} the strongest "
            f"baseline, {self.strongest} ({100 * rival:.1f} %; {standing.sentence()}); it {looks} the best baseline "
            f"that ignores the prompt ({100 * self.blind.accuracy:.1f} %), with reward {self.reward:+.3f} "
            f"against {self.blind.reward:+.3f}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Content for ``evaluation.json``."""
        tables = "baselines", "standings"
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in tables}
        table = {
            name: asdict(scored)
            | {"verdict": self.standings[name].verdict, "p_value": self.standings[name].p_value}
            | asdict(self.standings[name])
            for name, scored in self.baselines.items()
        }
        return {**fields, "beats_blind": self.beats_blind, "strongest": self.strongest, "baselines": table}


def evaluate(
    act: Act,
    dataset: TauDataset,
    profile: Profile,
    formula: ConfiguredFormula | None = None,
) -> TauEvaluation:
    """Show every test row and every training row to ``act`` once and score the answers.

    Args:
        act: the policy's deterministic action; its output is clipped to [-1, 1], as in the environment.
        dataset: the data set, loaded once.
        profile: determines the targets and the width of the action.
        formula: the reward formula; ``None`` = the profile's own formula.

    Raises:
        DataError: the data set has no evaluation rows.
        NonFiniteError: an action is NaN or infinite.
        ValueError: the actions do not have the profile's shape.
    """
    formula = formula or ConfiguredFormula(profile.reward)
    require_evaluation(dataset)
    rows = dataset.test
    centres = targets(dataset, profile)
    output = _actions(act, rows, profile)
    train_output = _actions(act, dataset.train, profile)
    train = score(lambda prompts: train_output, dataset, profile, formula, dataset.train)
    wanted = centres[rows.answer_index]
    right = right_rows(lambda prompts: output, dataset, profile, rows)
    seen = rows.answer_index < dataset.training_answers
    return TauEvaluation(
        profile=profile.name,
        formula=formula.name,
        encoder=dataset.encoder,
        rows=len(rows),
        rows_validation=len(dataset.validation),
        rows_train=len(dataset.train),
        reward=float(formula(output, wanted).mean()),
        reward_train=train.reward,
        accuracy=float(right.mean()),
        accuracy_all=float((nearest(output, centres) == rows.answer_index).mean()),
        accuracy_seen=float(right[seen].mean()) if seen.any() else None,
        accuracy_train=train.accuracy,
        within_threshold=float(REWARDS["binary01"](output, wanted, formula.threshold, formula.columns).mean()),
        mean_abs_error=float(np.abs(output - wanted).mean()),
        accuracy_by_domain=_by_domain(rows, right),
        baselines=baselines(dataset, profile, formula),
        standings={
            name: Standing.of(right, right_rows(rival, dataset, profile, rows))
            for name, rival in rivals(dataset, profile, formula).items()
        },
    )


def _actions(act: Act, split: TauSplit, profile: Profile) -> Float64Array:
    output = np.asarray(act(split.prompts), np.float64)
    if output.shape != (len(split), profile.action_size):
        raise ValueError(f"actions have shape {output.shape}, not {(len(split), profile.action_size)}")
    if not np.isfinite(output).all():
        row = int(split.row[np.flatnonzero(~np.isfinite(output).all(axis=1))[0]])
        raise NonFiniteError(
            f"The policy's action for {split.name} row {row} is not finite; the policy cannot be evaluated."
        )
    clipped: Float64Array = np.clip(output, -1.0, 1.0)
    return clipped


def _by_domain(split: TauSplit, right: BoolArray) -> dict[str, float]:
    domains = np.array(split.domain)
    return {str(name): float(right[domains == name].mean()) for name in np.unique(domains)}
