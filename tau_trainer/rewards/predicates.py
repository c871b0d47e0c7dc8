"""Predicates of success: by the reward of a step, the outcome of its episode, or the distance to a target.

A step is that of ``n`` agents with ``r`` reward components, each of which is judged. Nothing is stored here; the caller
keeps the sum of an episode.
"""

from __future__ import annotations

from dataclasses import dataclass

from tau_trainer.settings import RewardSettings
from tau_trainer.specs import BoolArray, Float64Array


@dataclass(frozen=True, slots=True)
class StepData:
    """Inputs of a predicate: one step of ``n`` agents."""

    reward: Float64Array
    """float64 ``[n, r]``: reward of this step."""
    episode_return: Float64Array
    """float64 ``[n, r]``: reward since the start of the episode, including this step."""
    error: Float64Array | None
    """float64 ``[n, r]``: absolute error of each component, if a target is known."""
    done: BoolArray
    """bool ``[n]``: the episode ended with this step."""


def succeeded(inputs: StepData, settings: RewardSettings) -> BoolArray | None:
    """Bool ``[n, r]`` by the settings' predicate; None if there is none.

    Raises:
        ValueError: ``distance`` without a known target.
    """
    match settings.predicate:
        case "none":
            return None
        case "positive":
            return inputs.reward > 0.0
        case "threshold":
            return inputs.reward >= settings.success_threshold
        case "outcome":  # False before the end
            return inputs.done[:, None] & (inputs.episode_return > settings.success_threshold)
        case "distance":
            if inputs.error is None:
                raise ValueError("predicate `distance` needs a target")
            return inputs.error <= settings.success_distance
