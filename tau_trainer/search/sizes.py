"""Settings that are sizes: copies of a batched environment, buffers and batches."""

from __future__ import annotations

from collections.abc import Mapping

from tau_trainer.settings import RunSettings
from tau_trainer.settings.document import Location
from tau_trainer.settings.hyperparameters import A2CHyperparameters, Hyperparameters
from tau_trainer.settings.loading import put

Sizes = dict[Location, int]
"""Settings by their place in the file."""


def with_copies(settings: RunSettings, num_envs: int) -> Sizes:
    """Sizes for a number of copies: on-policy buffers scale, so that copies play as many steps between updates.

    If a batch is the whole buffer, it stays so. A buffer without a given size grows by itself.
    """
    sizes: Sizes = {("environment", "num_envs"): num_envs}
    for name, policy in _on_policy(settings).items():
        place = ("behaviors", name, "hyperparameters")
        if settings.behaviors[name].hyperparameters.buffer_size is None:
            continue
        buffer = max(1, policy["buffer_size"] * num_envs // settings.played.num_envs)
        sizes[*place, "buffer_size"] = buffer
        if policy["batch_size"] >= min(policy["buffer_size"], buffer):
            sizes[*place, "batch_size"] = buffer
    return sizes


def with_batch(settings: RunSettings, batch_size: int) -> Sizes:
    """Sizes for the largest batch of a policy: the batches of others scale in proportion, up to their buffers."""
    policies = _on_policy(settings)
    largest = max(policy["batch_size"] for policy in policies.values())
    return {
        ("behaviors", name, "hyperparameters", "batch_size"): min(
            max(1, policy["batch_size"] * batch_size // largest), policy["buffer_size"]
        )
        for name, policy in policies.items()
    }


def batch_range(settings: RunSettings) -> tuple[int, int] | None:
    """The largest batch of a policy, and the largest that its buffer allows; None if there is nothing to choose."""
    policies = _on_policy(settings)
    if not policies:
        return None
    first = max(policy["batch_size"] for policy in policies.values())
    most = max(policy["buffer_size"] * first // policy["batch_size"] for policy in policies.values())
    return None if most <= first else (first, most)


def resized(settings: RunSettings, sizes: Mapping[Location, int]) -> RunSettings:
    """``settings`` with these sizes."""
    data = settings.model_dump(mode="json")
    for location, value in sizes.items():
        put(data, location, value)
    return RunSettings.model_validate(data)


def _on_policy(settings: RunSettings) -> dict[str, dict[str, int]]:
    """Batch and buffer sizes of on-policy policies."""
    return {
        name: {"batch_size": numbers.batch_size, "buffer_size": _gathered(numbers, settings.played.num_envs)}
        for name, policy in settings.behaviors.items()
        if policy.learns and not (numbers := policy.hyperparameters).replays
    }


def _gathered(numbers: Hyperparameters, num_envs: int) -> int:
    """Decisions before an update; the default counts one agent per copy."""
    return numbers.gathered(num_envs) if isinstance(numbers, A2CHyperparameters) else numbers.buffer_size
