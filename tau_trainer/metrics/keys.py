"""Names of the scalars, in one place. ``docs/metrics.md`` explains each of them.

Names in ``Environment/``, ``Policy/`` and ``Losses/`` are ML-Agents' own, letter by letter, so that old TensorBoard
dashboards keep working. ``Validation/``, ``Train/`` and ``Perf/`` are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

CUMULATIVE_REWARD = "Environment/Cumulative Reward"
GROUP_CUMULATIVE_REWARD = "Environment/Group Cumulative Reward"
EPISODE_LENGTH = "Environment/Episode Length"
EPISODE_REWARDS = (CUMULATIVE_REWARD, GROUP_CUMULATIVE_REWARD)
"""Reward of an agent itself, and of its group."""

ELO = "Self-play/ELO"

POLICY_ENTROPY = "Policy/Entropy"
LEARNING_RATE = "Policy/Learning Rate"
POLICY_EPSILON = "Policy/Epsilon"
POLICY_BETA = "Policy/Beta"
CONTINUOUS_COEFFICIENT = "Policy/Continuous Entropy Coeff"
DISCRETE_COEFFICIENT = "Policy/Discrete Entropy Coeff"
RETURN_SCALE = "Policy/Return Scale"
POLICY_LOSS = "Losses/Policy Loss"
VALUE_LOSS = "Losses/Value Loss"
PRETRAINING_LOSS = "Losses/Pretraining Loss"
BASELINE_LOSS = "Losses/Baseline Loss"
Q_LOSS = "Losses/Q Loss"
Q1_LOSS = "Losses/Q1 Loss"
Q2_LOSS = "Losses/Q2 Loss"

VALIDATION_ACCURACY = "Validation/Accuracy"
VALIDATION_REWARD = "Validation/Reward"

APPROXIMATE_KL = "Train/KL"
CLIP_FRACTION = "Train/Clip Fraction"
EXPLAINED_VARIANCE = "Train/Explained Variance"
GRADIENT_NORM = "Train/Gradient Norm"
MINIBATCHES = "Train/Minibatches"
STEPS_PER_DECISION = "Train/Gradient Steps per Decision"
TRAIN_SECONDS = "Train/Update Seconds"

DECISIONS_PER_SECOND = "Perf/Decisions per Second"
POLICY_AGE = "Perf/Policy Age"
STALENESS = "Perf/Staleness"
HELD_SECONDS = "Perf/Held Seconds"
UPDATE_SECONDS = "Perf/Update Seconds"

ENVIRONMENT_STEPS_PER_SECOND = "Perf/Environment Steps per Second"
AGENT_STEPS_PER_SECOND = "Perf/Agent Steps per Second"

POLICY_LAG = "Perf/Policy Lag"
SAMPLES_PER_SECOND = "Perf/Samples per Second"
OPTS_PER_SECOND = "Perf/Opts per Second"
SAMPLES_PER_OPT = "Perf/Samples per Opt"
AVERAGE_OPT_TIME = "Perf/average_opt_time"
AVERAGE_SAMPLE_TIME = "Perf/average_sample_time"
EPISODE_RETURN = "Evaluation/Episode return"


@dataclass(frozen=True, slots=True)
class TaskKeys:
    """Names under which a task counts the rewards of single decisions."""

    reward: str
    """Mean reward of one decision."""
    success: str
    """Share of binary rewards that are positive, 0 to 1."""
    aggregated: str
    """Binary reward aggregated over a window of decisions."""


def share_of_time(part: str) -> str:
    """``Perf/Share of Acting``, ...: share of a batched run's time for acting, stepping or learning, 0 to 1."""
    return f"Perf/Share of {part.capitalize()}"


def episode_reward(stream: str) -> str:
    """``Policy/Extrinsic Reward``, ``Policy/Curiosity Reward``, ...: the sum of an episode's rewards."""
    return f"Policy/{stream.capitalize()} Reward"


def return_size(stream: str) -> str:
    """``Train/Extrinsic Return Size``, ...: the mean absolute sum of an episode's rewards, to compare streams."""
    return f"Train/{stream.capitalize()} Return Size"


def held_out(key: str) -> str:
    """``Validation/Policy Loss``, ...: a loss on the episodes that were set aside."""
    return f"Validation/{key.rpartition('/')[2]}"


def lesson_number(parameter: str) -> str:
    """``Environment/Lesson Number/...``: the lesson of an environment parameter with a curriculum, from 0."""
    return f"Environment/Lesson Number/{parameter}"


def value_estimate(stream: str) -> str:
    """``Policy/Extrinsic Value Estimate``, ...: mean value of a stream."""
    return f"Policy/{stream.capitalize()} Value Estimate"


def baseline_estimate(stream: str) -> str:
    """``Policy/Extrinsic Baseline Estimate``, ...: mean estimate of a stream's value without the agent's own action."""
    return f"Policy/{stream.capitalize()} Baseline Estimate"


def value(stream: str) -> str:
    """``Policy/Extrinsic Value``, ...: the same under SAC's name."""
    return f"Policy/{stream.capitalize()} Value"


def layer(parameter: str, what: str) -> str:
    """``Layers/body.0.weight Mean``, ...: a statistic of a network's parameter, or of its gradient."""
    return f"Layers/{parameter} {what}"


def pair_key(key: str, pair: str) -> str:
    """The name of one pair's own scalar: ``Tau/Mean Reward`` of pair ``3`` is ``Pair 3/Mean Reward``.

    ``Tau/Pair 3/...`` is what a Tau game itself reports of its agent 3.
    """
    return f"Pair {pair}/{key.rpartition('/')[2]}"
