"""Seeds that were left to chance, drawn and written down so that a run can be repeated."""

from __future__ import annotations

import secrets

from tau_trainer.settings.parameters import AnyParameter, Curriculum
from tau_trainer.settings.run import RunSettings

RANDOM_SEEDS = 10000
"""A seed of -1 becomes one of 0 ... 9999, as in ML-Agents."""


def resolve_seed(settings: RunSettings) -> RunSettings:
    """Settings whose run seed, and that of every sampler, is a fixed number of at least 0.

    Samplers without a seed get the run's seed plus a running index over all such parameters, as in ML-Agents.
    """
    seed = settings.env_settings.seed
    seed = secrets.randbelow(RANDOM_SEEDS) if seed < 0 else seed
    return settings.model_copy(
        update={
            "env_settings": settings.env_settings.model_copy(update={"seed": seed}),
            "environment_parameters": _seeded(settings.environment_parameters, seed),
        }
    )


def _seeded(parameters: dict[str, AnyParameter] | None, seed: int) -> dict[str, AnyParameter] | None:
    if parameters is None:
        return None
    result: dict[str, AnyParameter] = {}
    index = 0
    for name, value in parameters.items():
        result[name] = value
        if not isinstance(value, float | Curriculum):
            if value.sampler_parameters.seed != -1:
                continue
            fixed = value.sampler_parameters.model_copy(update={"seed": seed + index})
            result[name] = value.model_copy(update={"sampler_parameters": fixed})
        index += 1
    return result
