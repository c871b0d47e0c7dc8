"""``tau-train learn``: train the behaviors of an ordinary ML-Agents file, with mlagents-learn's flags."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tau_trainer.cli.options import ActorFlags, EngineFlags, LearningFlags, LegacyFlags, NumEnvs, OutputFlags, RunFlags
from tau_trainer.cli.running import prepare, train

Config = Annotated[
    str | None, Parameter(help="ML-Agents YAML file, or the name of a shipped one. [default: ML-Agents' defaults]")
]


def learn(
    config: Config = None,
    /,
    *,
    num_envs: NumEnvs = None,
    run: RunFlags | None = None,
    engines: EngineFlags | None = None,
    learning: LearningFlags | None = None,
    actors: ActorFlags | None = None,
    output: OutputFlags | None = None,
    legacy: LegacyFlags | None = None,
) -> int:
    """Resolve the settings, train, and show the report; returns the exit code."""
    from tau_trainer.cli.resolving import learn_request, learn_settings

    shown = prepare(output)
    flags = (learning or LearningFlags(), actors or ActorFlags(), shown)
    known = (run or RunFlags(), engines or EngineFlags(), num_envs, legacy or LegacyFlags())
    settings = learn_settings(learn_request(config, *known, *flags))
    return train("learn", settings, shown)
