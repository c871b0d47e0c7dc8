"""Names of the scalars, in one place. ``docs/metrics.md`` explains each of them.

Names in ``Environment/``, ``Policy/`` and ``Losses/`` are ML-Agents' own, letter by letter, so that old TensorBoard
dashboards keep working. ``Tau/``, ``Evaluation/``, ``Train/`` and ``Perf/`` are ours.
"""

from __future__ import annotations

CUMULATIVE_REWARD = "Environment/Cumulative Reward"
GROUP_CUMULATIVE_REWARD = "Environment/Group Cumulative Reward"
EPISODE_LENGTH = "Environment/Episode Length"

POLICY_ENTROPY = "Policy/Entropy"
LEARNING_RATE = "Policy/Learning Rate"
POLICY_EPSILON = "Policy/Epsilon"
POLICY_BETA = "Policy/Beta"
EXTRINSIC_REWARD = "Policy/Extrinsic Reward"
EXTRINSIC_VALUE = "Policy/Extrinsic Value Estimate"
POLICY_LOSS = "Losses/Policy Loss"
VALUE_LOSS = "Losses/Value Loss"

MEAN_REWARD = "Tau/Mean Reward"
"""Mean reward of one decision."""
SUCCESS_RATE = "Tau/Success Rate"
"""Share of binary rewards that are positive, 0 to 1."""
AGGREGATED_REWARD = "Tau/Aggregated Reward"
"""Binary reward aggregated over the window of `reward.window` decisions."""
ENGINE_ACCURACY = "Tau/Accuracy"
WITHIN_THRESHOLD = "Tau/Within Threshold"
MEAN_ABSOLUTE_ERROR = "Tau/Mean Abs Error"
ENGINE_DECISIONS = "Tau/Decisions"

HELD_OUT_ACCURACY = "Evaluation/Accuracy"
HELD_OUT_REWARD = "Evaluation/Reward"

APPROXIMATE_KL = "Train/KL"
CLIP_FRACTION = "Train/Clip Fraction"
EXPLAINED_VARIANCE = "Train/Explained Variance"
GRADIENT_NORM = "Train/Gradient Norm"
MINIBATCHES = "Train/Minibatches"
TRAIN_SECONDS = "Train/Update Seconds"

DECISIONS_PER_SECOND = "Perf/Decisions per Second"
POLICY_AGE = "Perf/Policy Age"
HELD_SECONDS = "Perf/Held Seconds"
UPDATE_SECONDS = "Perf/Update Seconds"


def pair_key(key: str, pair: str) -> str:
    """The name of one pair's own scalar: ``Tau/Mean Reward`` of pair ``3`` is ``Pair 3/Mean Reward``.

    ``Tau/Pair 3/...`` is what a Tau game itself reports of its agent 3.
    """
    return f"Pair {pair}/{key.rpartition('/')[2]}"
