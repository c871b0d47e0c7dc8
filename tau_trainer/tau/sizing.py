"""Defaults that depend on the data set: components, levels, decisions, and hyperparameters.

Each answer gets a level of one number. If a policy is undecided between two answers, it samples one of them, as a
classifier does. With many components, each one is sampled independently, and together they may decode as a third.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tau_trainer.errors import SettingsError
from tau_trainer.settings import PPOHyperparameters, RunSettings, TauSettings, TrainerSettings
from tau_trainer.tau.dataset import TauDataset, load_dataset
from tau_trainer.tau.profiles import PROFILES, Profile, places_for, profile_named
from tau_trainer.tau.targets import targets

BATCHED = "batched:tau"
OWN_ENGINES = ("headless:tau", BATCHED)
"""Engines whose number of actions depends on the profile; a build's number is fixed."""
DECISIONS_PER_ROW, DECISIONS_PER_PLACE = 300, 2
"""Decisions for each training row, and for each possible answer of it, because random actions find one in that many."""
LEVELS_LEARN_BY = {"beta": 0.4, "epsilon": 10.0, "learning_rate": 6e-4, "num_epoch": 1}
"""PPO's hyperparameters if each answer has a level, so that at first only one in K decisions is right, for K answers.

A clip range of 0.2 lets what was found by chance become likelier by a fifth in an update, and then it is forgotten: 10
lets it count in full. That is much, so the entropy bonus is large: no answer is given up before it was tried. Decisions
are cheap here, and new ones tell more than a second look at old ones: each is learned from once, in longer steps.
"""
SHRINK_AT = 0.7
"""Value of ``shrink_at``, if PPO supports it: most of what a policy learned at first was noise."""
BEHAVIOR = "TauAgent"
"""Name of the scene's behavior."""
LEAST_DECISIONS = 400_000
"""Minimum decisions, even for few rows."""


def sized(settings: RunSettings) -> RunSettings:
    """Settings completed with ``tau.profile``, ``action_levels``, ``max_steps`` and hyperparameters of PPO.

    Given values are kept. With the user's own data, one of our engines and PPO, the others depend on the training rows;
    otherwise the profile is ``tau3``.

    Raises:
        DataError: the data set cannot be read.
        SettingsError: ``action_levels`` are not the profile's levels, or it has fewer points than there are answers.
    """
    tau = settings.tau
    behaviors = settings.behaviors or {BEHAVIOR: settings.of_behavior(BEHAVIOR)}
    if tau is None or (tau.profile is not None and profile_named(tau.profile).levels is None):
        return settings
    follows = tau.data is not None and settings.env_settings.env_path in OWN_ENGINES
    follows = follows and all(found.trainer_type == "ppo" for found in behaviors.values())
    if tau.profile is None and not follows:
        return _with_profile(settings, tau, PROFILES["tau3"])
    dataset = load_dataset(tau.data)
    if tau.profile is None:
        written = [found.network_settings.action_levels for found in behaviors.values()]
        profile = places_for(dataset.training_answers, next(filter(None, written), None))
    else:
        profile = profile_named(tau.profile)
        targets(dataset, profile)  # raises if there are too few points, before an engine starts
    shrinks = settings.env_settings.env_path != BATCHED and settings.strategy == "mirrored"
    numbers = LEVELS_LEARN_BY | ({"shrink_at": SHRINK_AT} if shrinks else {})
    sizes = {name: _sized(name, found, profile, dataset, numbers) for name, found in behaviors.items()}
    return _with_profile(settings, tau, profile).model_copy(update={"behaviors": sizes})


def size_sentence(dataset: TauDataset, profile: Profile, settings: RunSettings) -> str:
    """The size of the task: answers, rows, components and decisions, in a line."""
    components = "1 component" if profile.action_size == 1 else f"{profile.action_size} components"
    behavior = settings.of_behavior(next(iter(settings.behaviors), BEHAVIOR))
    levels = behavior.network_settings.action_levels
    share: float | None = getattr(behavior.hyperparameters, "shrink_at", None)
    shrinks = "" if share is None else f"; weights shrink once, after {share * behavior.max_steps:,.0f}"
    return (
        f"{dataset.training_answers} answers in {len(dataset.train):,} training rows, as {components}"
        f"{'' if levels is None else f' of {levels} levels'} ({profile.name}), "
        f"{behavior.max_steps:,} decisions{shrinks}"
    )


def decisions_for(dataset: TauDataset) -> int:
    """Default decisions, suitable for small sets; at its end, a run reports if more would help (docs/benchmarks.md)."""
    each = DECISIONS_PER_ROW + DECISIONS_PER_PLACE * dataset.training_answers
    return max(LEAST_DECISIONS, round(len(dataset.train) * each, -4))


def _with_profile(settings: RunSettings, tau: TauSettings, profile: Profile) -> RunSettings:
    return settings.model_copy(update={"tau": tau.model_copy(update={"profile": profile.name})})


def _sized(
    name: str, found: TrainerSettings, profile: Profile, dataset: TauDataset, unsaid: Mapping[str, float]
) -> TrainerSettings:
    network, changed = found.network_settings, dict[str, Any]()
    if "action_levels" not in network.model_fields_set:
        changed["network_settings"] = network.model_copy(update={"action_levels": profile.levels})
    elif network.action_levels != profile.levels:
        raise SettingsError(
            f"behaviors.{name}.network_settings.action_levels is {network.action_levels}, but tau.profile "
            f"{profile.name} has {profile.levels} levels; leave one of the two out"
        )
    if "max_steps" not in found.model_fields_set:
        changed["max_steps"] = decisions_for(dataset)
    hyper = found.hyperparameters
    if isinstance(hyper, PPOHyperparameters):
        update = {key: value for key, value in unsaid.items() if key not in hyper.model_fields_set}
        changed["hyperparameters"] = hyper.model_copy(update=update)
    return found.model_copy(update=changed)
