"""The Tau task as a run needs it: held-out scores while it learns, and the evaluation at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from tau_trainer.errors import SettingsError
from tau_trainer.metrics import BaselineScore, keys
from tau_trainer.models.policy import Policy, to_env
from tau_trainer.settings import TauSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, FloatArray
from tau_trainer.tau.baselines import baselines, require_evaluation
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.decoding import nearest
from tau_trainer.tau.evaluation import TauEvaluation, evaluate
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.profiles import EMBEDDING_SIZE, PROFILES
from tau_trainer.tau.targets import targets


def acting(policy: Policy) -> Callable[[FloatArray], FloatArray]:
    """A policy's deterministic action, as the engine gets it: prompts [n, 384] to [n, A] in [-1, 1]."""
    rng = np.random.default_rng(0)  # a deterministic action draws nothing from it
    # A copy, because torch warns of the data set's read-only arrays.
    return lambda prompts: to_env(policy.act((prompts.copy(),), None, rng, deterministic=True).continuous)


class TauTask:
    """The data set, its targets and baselines, loaded once for all pairs."""

    def __init__(self, settings: TauSettings) -> None:
        """Raises DataError (also where there is nothing to evaluate on), SettingsError."""
        self.dataset = load_dataset(settings.data)
        self.profile = PROFILES[settings.profile]
        self.formula = settings.reward.formula or self.profile.reward
        self._reward = settings.reward
        self._targets = targets(self.dataset, self.profile)
        require_evaluation(self.dataset)

    def check(self, spec: BehaviorSpec) -> None:
        """Raises SettingsError for a behavior that cannot be shown the held-out rows."""
        shapes, actions = [sensor.shape for sensor in spec.observations], spec.actions
        wanted = self.profile.action_size
        if shapes != [(EMBEDDING_SIZE,)] or actions != ActionSpec(continuous_size=wanted):
            raise SettingsError(
                f"behavior '{spec.short_name}' does not take a prompt of {EMBEDDING_SIZE} numbers and answer with "
                f"{wanted}, so it cannot be evaluated on held-out prompts; add --no-evaluate, or use `tau-train learn`"
            )

    @cached_property
    def baselines(self) -> Mapping[str, BaselineScore]:
        """What a policy that knows nothing gets, and supervised regression."""
        reward = self._reward
        scores = baselines(self.dataset, self.profile, self.formula, threshold=reward.threshold, columns=reward.columns)
        return {name: BaselineScore(score.reward, score.accuracy) for name, score in scores.items()}

    def quick_scores(self, policy: Policy) -> Mapping[str, float]:
        """Reward and accuracy on the held-out rows, by metric key: cheap enough for every update."""
        split = self.dataset.split("evaluation")
        output = np.clip(acting(policy)(split.prompts), -1.0, 1.0)
        right = nearest(output, self._targets[: self.dataset.training_answers]) == split.answer_index
        wanted = self._targets[split.answer_index]
        reward = REWARDS[self.formula](output, wanted, self._reward.threshold, self._reward.columns)
        return {keys.HELD_OUT_ACCURACY: float(right.mean()), keys.HELD_OUT_REWARD: float(reward.mean())}

    def evaluate(self, policy: Policy) -> TauEvaluation:
        """Every held-out row once, with the deterministic action, beside the baselines."""
        reward = self._reward
        return evaluate(
            acting(policy),
            self.dataset,
            self.profile,
            self.formula,
            threshold=reward.threshold,
            columns=reward.columns,
        )
