"""Computes the reward for a learner, and the binary success for reports, for one step of many agents.

Two sources: ``engine`` (the reward as it was sent) and ``trainer`` (a formula of the action and the target, which the
engine shows in a sensor that the policy never sees). If the target is known, there is a reward for every action
component, and ``credit: component`` passes them on separately: averaging them only adds noise to the advantages.

A predicate turns rewards into binary ones, worth 1/0 or +1/-1; those are aggregated over a window of the agent's steps
for the report and, with ``learn_from: aggregate``, for the learner.
"""

from __future__ import annotations

import numpy as np

from tau_trainer.columns import Column, ColumnTable, Rows
from tau_trainer.errors import SettingsError
from tau_trainer.rewards.aggregation import WindowAggregator
from tau_trainer.rewards.predicates import StepData, succeeded
from tau_trainer.rewards.rewarder import RewardResult, check_finite
from tau_trainer.settings import RewardSettings
from tau_trainer.specs import Actions, BoolArray, Float64Array, FloatArray, Observations
from tau_trainer.tau.formulas import REWARDS, checked_columns


class RewardComputer:
    """Converts engine rewards, actions and targets to rewards. Implements :class:`~tau_trainer.rewards.Rewarder`."""

    def __init__(self, settings: RewardSettings, formula: str, components: int, target: int = 0) -> None:
        """Check the settings against the behavior.

        Args:
            settings: ``tau.reward``.
            formula: name in :data:`tau_trainer.tau.formulas.REWARDS`, for ``source: trainer``.
            components: continuous actions plus discrete branches of the behavior.
            target: index of the sensor with the target, for ``source: trainer``.

        Raises:
            SettingsError: a value contradicts the others or the behavior.
        """
        self._paid = checked_columns(settings.columns, components)
        if settings.source == "engine" and settings.predicate == "distance":
            raise SettingsError(
                "Success predicate `distance` compares actions with a target, which only `source: trainer` knows; "
                "set it, or choose `positive`, `threshold` or `outcome`."
            )
        self._settings = settings
        self._formula = REWARDS[formula]
        self._components = components
        self._target = target
        self._from_engine = settings.source == "engine"
        self._by_component = settings.credit == "component" and not self._from_engine
        self.width = components if self._by_component else 1
        self._outcome = settings.predicate == "outcome"
        self._report = WindowAggregator(settings)
        self._learned = WindowAggregator(settings, self.width)
        # Returns of the running episodes; rewards that are known as an agent acts and wait for its next message.
        self._agents = ColumnTable((Column("return", (self.width,), np.float64), Column("waiting", (self.width,))))

    def decided(self, rows: Rows, actions: Actions, obs: Observations) -> RewardResult | None:
        """With ``source: trainer`` the reward of the action.

        Raises:
            NonFiniteError: an action or a target is NaN or infinite.
            SettingsError: the target has another width than the action.
        """
        if self._from_engine:
            return None
        result = self.judge(rows, *self._by_formula(actions.continuous, obs[self._target]))
        self._agents["waiting"][rows] = result.reward
        return result

    def answered(
        self, rows: Rows, engine_reward: FloatArray, *, acted: BoolArray, ended: bool
    ) -> tuple[FloatArray, RewardResult | None]:
        """Raises NonFiniteError if the engine's reward is NaN or infinite, with ``source: engine``."""
        if self._from_engine:
            base = np.asarray(engine_reward, np.float64)[:, None]
            check_finite(base, "engine's reward")
            result = self.judge(rows, base, done=np.full(len(rows), ended), acted=acted)
            return result.reward, result
        self._agents.fit(rows)
        outcome = self.conclude(rows) if ended else None
        return self._agents["waiting"][rows] if outcome is None else outcome.reward, outcome

    def judge(
        self,
        rows: Rows,
        base: Float64Array,
        error: Float64Array | None = None,
        *,
        done: BoolArray | None = None,
        acted: BoolArray | None = None,
    ) -> RewardResult:
        """Judge one step.

        Args:
            rows: integers ``[n]``, distinct, not negative.
            base: ``[n, R]``, reward before any predicate.
            error: ``[n, d]``, absolute error of each component, where a target is known.
            done: bool ``[n]``, whether the episode ended with this step; ``None`` = none did.
            acted: bool ``[n]``, whether the reward answers a decision; the first message of an episode answers none
                and enters no window. ``None`` = all do.

        Raises:
            ValueError: rows repeat.
        """
        if len(rows) > 1 and int(np.bincount(rows).max()) > 1:
            raise ValueError("a row appears twice in one step; compute the rewards of ended episodes first")
        ended = np.zeros(len(rows), np.bool_) if done is None else done
        counts = np.ones(len(rows), np.bool_) if acted is None else acted
        self._agents.fit(rows)
        returns: Float64Array = self._agents["return"][rows] + base
        self._agents["return"][rows] = returns
        result = self._result(rows, StepData(base, returns, error, ended), counts & ended if self._outcome else counts)
        result.mean[~counts] = np.nan
        if ended.any():
            self.forget(rows[ended])
        return result

    def conclude(self, rows: Rows) -> RewardResult | None:
        """Judge episodes that ended after their last step was judged, then forget them.

        With ``source: trainer``, a step is rewarded when the action is chosen, before the end of the episode is known.
        The outcome of the episode then replaces the last reward.

        Returns:
            The last step's rewards by outcome; ``None`` if the predicate is not ``outcome``: nothing is replaced.
        """
        result = None
        if self._outcome:
            returns, every = self._agents["return"][rows], np.ones(len(rows), np.bool_)
            result = self._result(rows, StepData(np.zeros_like(returns), returns, None, every), every)
        self.forget(rows)
        return result

    def forget(self, rows: Rows) -> None:
        """Reset the sums and windows of ``rows``, whose episodes ended (windows of outcomes continue)."""
        self._agents.fit(rows)
        self._agents["return"][rows] = 0.0
        if not self._outcome:
            self._report.clear(rows)
            self._learned.clear(rows)

    def clear(self) -> None:
        """Forget all agents, including windows of outcomes."""
        self._agents.clear()
        self._report.clear()
        self._learned.clear()

    def _by_formula(self, output: FloatArray, target: FloatArray) -> tuple[Float64Array, Float64Array]:
        """Reward before any predicate ``[n, R]`` and absolute errors ``[n, d]``; the engine clips actions as here."""
        if target.ndim != 2 or target.shape != output.shape or target.shape[1] != self._components:
            raise SettingsError(
                f"The sensor `target` has {target.shape[-1]} numbers but the behavior has {self._components} action "
                "components; a target needs one number for each, or use `source: engine`."
            )
        wanted, action = target.astype(np.float64), np.clip(output.astype(np.float64), -1.0, 1.0)
        error: Float64Array = np.abs(wanted - action)
        check_finite(error, "distance between action and target")
        if self._by_component:
            return self._formula.components(action, wanted, self._settings.threshold, self._paid), error
        return self._formula(action, wanted, self._settings.threshold, self._paid)[:, None], error

    def _result(self, rows: Rows, inputs: StepData, decided: BoolArray) -> RewardResult:
        """Success, windows and the learned reward; only ``decided`` rows have a success and enter a window."""
        reward = inputs.reward
        won = self._success(inputs)
        if won is None:
            return RewardResult(reward.astype(np.float32), self._mean(reward), None, None)
        every = np.asarray(won[:, : self._paid].all(axis=1, keepdims=True))
        wide = won if won.shape[1] == self.width else every
        if self._settings.predicate != "none":
            reward = np.where(decided[:, None], np.where(wide, self._report.high, self._report.low), 0.0)
        mean = self._mean(reward)
        if self._settings.learn_from == "aggregate":
            reward = self._pushed(self._learned, rows, wide, decided, 0.0)
        if self._by_component:
            reward[:, self._paid :] = 0.0
        success, aggregated = None, None
        if decided.any():
            success = np.where(decided, every[:, 0], np.nan).astype(np.float32)
            aggregated = self._pushed(self._report, rows, every, decided, np.nan)[:, 0].astype(np.float32)
        return RewardResult(reward.astype(np.float32), mean, success, aggregated)

    @staticmethod
    def _pushed(window: WindowAggregator, rows: Rows, won: BoolArray, decided: BoolArray, fill: float) -> Float64Array:
        """Aggregates of ``decided`` rows after their successes were appended, ``fill`` elsewhere."""
        aggregates = np.full(won.shape, fill)
        aggregates[decided] = window.push(rows[decided], won[decided])
        return aggregates

    def _success(self, inputs: StepData) -> BoolArray | None:
        """Success of each component: bool ``[n, r]``; ``None`` where neither a predicate nor a target is given."""
        won = succeeded(inputs, self._settings)
        return inputs.error < self._settings.threshold if won is None and inputs.error is not None else won

    def _mean(self, reward: Float64Array) -> FloatArray:
        """One number per agent: the mean over the components that are paid."""
        return np.asarray(reward[:, : self._paid].mean(axis=1), np.float32)
