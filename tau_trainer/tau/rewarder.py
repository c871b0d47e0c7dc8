"""The reward that a learner sees, and the binary success that people see, for one step of many agents.

Two sources: ``engine`` (the reward as it was sent) and ``trainer`` (a formula over the action and the target that the
engine shows in a sensor the policy never sees). Where the target is known, a reward exists for every action component,
and ``credit: component`` hands them on one by one: averaging them first only adds noise to each component's advantage.

A predicate turns rewards into binary ones, worth 1/0 or +1/-1; those are aggregated over a window of the agent's steps
for the report and, with ``learn_from: aggregate``, for the learner.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from tau_trainer.columns import Column, ColumnTable, Rows
from tau_trainer.errors import SettingsError
from tau_trainer.rewards.aggregation import WindowAggregator
from tau_trainer.rewards.predicates import Limits, StepFacts, get_predicate
from tau_trainer.rewards.rewarder import RewardResult, check_finite
from tau_trainer.specs import Actions, BoolArray, Float64Array, FloatArray, Observations
from tau_trainer.tau.formulas import DEFAULT_THRESHOLD, component_reward, get_reward, has_components

Source = Literal["engine", "trainer"]
Credit = Literal["component", "aggregate"]
LearnFrom = Literal["reward", "aggregate"]


class RewardComputer:
    """Turns engine rewards, actions and targets into rewards. Fulfils :class:`~tau_trainer.rewards.Rewarder`."""

    def __init__(
        self,
        *,
        source: Source = "trainer",
        target: int = 0,
        action_components: int = 1,
        formula: str | None = None,
        credit: Credit = "component",
        threshold: float = DEFAULT_THRESHOLD,
        columns: int | None = None,
        predicate: str = "none",
        success_threshold: float = 0.0,
        success_distance: float = 0.1,
        values: str = "01",
        aggregate: str = "mean",
        window: int = 1,
        learn_from: LearnFrom = "reward",
    ) -> None:
        """Check the settings against each other.

        Args:
            source: ``engine``, or ``trainer``: from action and target.
            target: which sensor holds the target, for ``trainer``.
            action_components: continuous actions plus discrete branches of the behavior.
            formula: name in :data:`tau_trainer.tau.formulas.REWARDS`; needed for ``trainer`` (not by ``distance``).
            credit: pay every action component its own reward, or all of them the mean; the engine's reward is one.
            threshold: error strictly below which a component counts as right in binary formulas.
            columns: only the first so many components are paid and judged; ``None`` = all.
            predicate: ``none`` keeps the reward as it is; ``positive``, ``threshold``, ``outcome`` and ``distance``
                replace it by a binary one.
            success_threshold: for ``threshold`` (reward at least this) and ``outcome`` (return above this).
            success_distance: for ``distance`` (error at most this).
            values: ``01`` or ``pm1``: what failure and success are worth.
            aggregate: ``mean``, ``sum``, ``any``, ``all`` or ``majority`` over the window.
            window: steps of one agent in a window; windows end with the episode, except those of outcomes.
            learn_from: the reward itself or the aggregate.

        Raises:
            SettingsError: a value is unknown or does not go with the others.
        """
        self._source: Source = source
        self._target = target
        self._formula = formula
        self._predicate = None if predicate == "none" else get_predicate(predicate)
        self._outcome = predicate == "outcome"
        self._distance = predicate == "distance"
        self._learn_aggregate = learn_from == "aggregate"
        self._by_component = credit == "component" and source == "trainer"
        self._threshold = threshold
        self._limits = Limits(success_threshold, success_distance)
        self._paid = action_components if columns is None else columns
        self._actions = action_components
        self.width = action_components if self._by_component else 1
        self._check(credit, columns)
        self._report = WindowAggregator(aggregate, window, values)
        self._learned = WindowAggregator(aggregate, window, values, self.width)
        # Returns of the running episodes; rewards that are known as an agent acts and wait for its next message.
        self._agents = ColumnTable((Column("return", (self.width,), np.float64), Column("waiting", (self.width,))))

    def decided(self, rows: Rows, actions: Actions, obs: Observations) -> RewardResult | None:
        """Raises as :meth:`compute` does."""
        if self._source == "engine":
            return None
        result = self.compute(rows, output=actions.continuous, target=obs[self._target])
        self._agents["waiting"][rows] = result.reward
        return result

    def answered(
        self, rows: Rows, engine_reward: FloatArray, *, acted: BoolArray, ended: bool
    ) -> tuple[FloatArray, RewardResult | None]:
        """Raises as :meth:`compute` does."""
        if self._source == "engine":
            done = np.full(len(rows), ended)
            result = self.compute(rows, engine_reward=engine_reward, done=done, answered=acted)
            return result.reward, result
        self._agents.fit(rows)
        outcome = self.conclude(rows) if ended else None
        return self._agents["waiting"][rows] if outcome is None else outcome.reward, outcome

    def compute(
        self,
        rows: Rows,
        engine_reward: ArrayLike | None = None,
        output: ArrayLike | None = None,
        target: ArrayLike | None = None,
        done: ArrayLike | None = None,
        answered: ArrayLike | None = None,
    ) -> RewardResult:
        """Rewards of one step.

        Args:
            rows: integers ``[n]``, distinct, not negative.
            engine_reward: ``[n]``, for ``source: engine``.
            output: ``[n, d]`` actions as the engine gets them (clipped to [-1, 1] here as it does), for ``trainer``.
            target: ``[n, d]``, for ``trainer``.
            done: bool ``[n]``, whether the episode ended with this step; ``None`` = none did.
            answered: bool ``[n]``, whether the reward answers a decision; the first message of an episode answers none
                and enters no window. ``None`` = all do.

        Raises:
            NonFiniteError: a reward, an action or a target is NaN or infinite.
            SettingsError: the target has another width than the action.
            ValueError: an input that the source needs is missing, or rows repeat.
        """
        rows = np.asarray(rows)
        if len(rows) > 1 and int(np.bincount(rows).max()) > 1:
            raise ValueError("a row stands twice in one step; compute the rewards of ended episodes first")
        ended = np.zeros(len(rows), np.bool_) if done is None else np.asarray(done, np.bool_)
        counts = np.ones(len(rows), np.bool_) if answered is None else np.asarray(answered, np.bool_)
        if self._source == "trainer":
            base, error = self._from_target(output, target)
        else:
            base, error = self._from_engine(engine_reward), None
        facts = StepFacts(base, self._accumulate(rows, base), error, ended)
        result = self._judge(rows, facts, counts & ended if self._outcome else counts)
        result.mean[~counts] = np.nan
        if ended.any():
            self.forget(rows[ended])
        return result

    def conclude(self, rows: Rows) -> RewardResult | None:
        """Judge episodes that ended after their last step was computed, then forget them.

        With ``source: trainer`` a step is rewarded when the action is chosen, before it is known that the episode ends
        with it. Then the outcome of the episode replaces that last reward.

        Returns:
            The last step's rewards by outcome; ``None`` if the predicate is not ``outcome``: nothing is replaced.
        """
        rows = np.asarray(rows)
        result = None
        if self._outcome:
            self._agents.fit(rows)
            returns = self._agents["return"][rows]
            every = np.ones(len(rows), np.bool_)
            result = self._judge(rows, StepFacts(np.zeros_like(returns), returns, None, every), every)
        self.forget(rows)
        return result

    def forget(self, rows: Rows) -> None:
        """The episodes in ``rows`` are over: their sums and windows start anew (windows of outcomes go on)."""
        rows = np.asarray(rows)
        self._agents.fit(rows)
        self._agents["return"][rows] = 0.0
        if not self._outcome:
            self._report.clear(rows)
            self._learned.clear(rows)

    def clear(self) -> None:
        """Forget every slot, windows of outcomes included: all agents are new."""
        self._agents.clear()
        self._report.clear()
        self._learned.clear()

    def _check(self, credit: str, columns: int | None) -> None:
        if columns is not None and not 1 <= columns <= self._actions:
            raise SettingsError(
                f"Reward `columns` is {columns} but must lie between 1 and the {self._actions} action components."
            )
        if self._learn_aggregate and self._predicate is None:
            raise SettingsError(
                "Reward `learn_from: aggregate` aggregates successes but no `predicate` says what a success is; "
                "choose `positive`, `threshold`, `outcome` or `distance`."
            )
        if self._source == "engine":
            if self._distance:
                raise SettingsError(
                    "Success predicate `distance` compares actions with a target, which only `source: trainer` knows; "
                    "set it, or choose `positive`, `threshold` or `outcome`."
                )
            return
        if self._formula is None and not self._distance:
            raise SettingsError("Reward `source: trainer` computes a formula; name one with `formula`.")
        if self._formula is not None:
            get_reward(self._formula)
        if credit == "component" and not self._distance and not has_components(str(self._formula)):
            raise SettingsError(
                f"Reward formula `{self._formula}` judges all components together, so it has no credit for each; "
                "set `credit: aggregate` or choose another formula."
            )

    def _from_engine(self, engine_reward: ArrayLike | None) -> Float64Array:
        """Reward before any predicate: float64 ``[n, 1]``."""
        if engine_reward is None:
            raise ValueError("source `engine` needs engine_reward")
        reward: Float64Array = np.asarray(engine_reward, np.float64).reshape(-1, 1)
        check_finite(reward, "engine's reward")
        return reward

    def _from_target(self, output: ArrayLike | None, target: ArrayLike | None) -> tuple[Float64Array, Float64Array]:
        """Reward before any predicate ``[n, R]`` and absolute errors ``[n, d]``, both float64."""
        if output is None or target is None:
            raise ValueError("source `trainer` needs output and target")
        wanted = np.asarray(target, np.float64)
        if wanted.ndim != 2 or wanted.shape != np.shape(output) or wanted.shape[1] != self._actions:
            raise SettingsError(
                f"The sensor `target` has {wanted.shape[-1]} numbers but the behavior has {self._actions} action "
                "components; a target needs one number for each, or use `source: engine`."
            )
        action = np.clip(np.asarray(output, np.float64), -1.0, 1.0)
        error: Float64Array = np.abs(wanted - action)
        check_finite(error, "distance between action and target")
        return self._by_formula(action, wanted), error

    def _by_formula(self, action: Float64Array, wanted: Float64Array) -> Float64Array:
        if self._formula is None:
            return np.zeros((len(action), self.width))
        if self._by_component and has_components(self._formula):
            return component_reward(self._formula, action, wanted, self._threshold, self._paid)
        scalar = get_reward(self._formula)(action, wanted, self._threshold, self._paid)
        return np.repeat(scalar[:, None], self.width, axis=1)

    def _accumulate(self, rows: Rows, base: Float64Array) -> Float64Array:
        """Add this step to the running episodes: their returns, float64 ``[n, R]``."""
        self._agents.fit(rows)
        total: Float64Array = self._agents["return"][rows] + base
        self._agents["return"][rows] = total
        return total

    def _judge(self, rows: Rows, facts: StepFacts, decided: BoolArray) -> RewardResult:
        """Success, windows and the learned reward; only ``decided`` rows have a success and enter a window."""
        base = facts.reward
        won = self._success(facts)
        if won is None:
            return RewardResult(base.astype(np.float32), self._mean(base).astype(np.float32), None, None)
        every = np.asarray(won[:, : min(self._paid, won.shape[1])].all(axis=1, keepdims=True))
        wide = won if won.shape[1] == self.width else np.repeat(every, self.width, axis=1)
        reward = base
        if self._predicate is not None:
            worth = np.where(wide, self._report.high, self._report.low)
            reward = self._paid_only(np.where(decided[:, None], worth, 0.0))
        mean = self._mean(reward)
        if self._learn_aggregate:
            reward = self._paid_only(self._pushed(self._learned, rows, wide, decided, 0.0))
        success, aggregated = None, None
        if decided.any():
            success = np.where(decided, every[:, 0], np.nan).astype(np.float32)
            aggregated = self._pushed(self._report, rows, every, decided, np.nan)[:, 0].astype(np.float32)
        return RewardResult(reward.astype(np.float32), mean.astype(np.float32), success, aggregated)

    @staticmethod
    def _pushed(window: WindowAggregator, rows: Rows, won: BoolArray, decided: BoolArray, fill: float) -> Float64Array:
        """Aggregates of ``decided`` rows after their successes were appended, ``fill`` elsewhere."""
        aggregates = np.full(won.shape, fill)
        aggregates[decided] = window.push(rows[decided], won[decided])
        return aggregates

    def _success(self, facts: StepFacts) -> BoolArray | None:
        """Success of each component: bool ``[n, r]``; ``None`` where neither a predicate nor a target is given."""
        if self._predicate is not None:
            return self._predicate(facts, self._limits)
        return None if facts.error is None else facts.error < self._threshold

    def _paid_only(self, reward: Float64Array) -> Float64Array:
        """Components beyond ``columns`` earn nothing."""
        if self._by_component:
            reward[:, self._paid :] = 0.0
        return reward

    def _mean(self, reward: Float64Array) -> Float64Array:
        """One number per agent: the mean over the components that are paid."""
        return np.asarray(reward[:, : self._paid].mean(axis=1), np.float64)
