"""Which algorithm suits how slow a game: one rule, the file that follows it, and the line that a run says by itself."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tau_trainer.settings.document import Document
from tau_trainer.settings.hyperparameters import SACLNHyperparameters
from tau_trainer.settings.loading import apply_overrides, interpret
from tau_trainer.settings.outlook import pace, untrainable
from tau_trainer.settings.problems import Problems
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.trainers import OfflineTrainerSettings, TrainerSettings, trainer_type
from tau_trainer.specs import BehaviorSpec, DimensionProperty

SLOW = "sac_ln"
"""The trainer type for slow games, whose gradient steps fill the time in which the game plays."""
USUAL = "ppo"
"""What is learned with where the game is quicker than gradient steps."""
LEAST_STEPS = 1.0 / SACLNHyperparameters.auto_decisions[1]
"""Gradient steps a decision that the algorithm for slow games takes at least: with less room it holds the game."""
PPO_KINDS: tuple[str, ...] = ()
"""Kinds of task (:func:`kinds_of`) for which ``docs/guides/slow-games.md`` says: use PPO."""
HEADING = "Made by tau-train advise from {}."

_ALIKE = ("ppo", "sac", SLOW)
"""Trainer types that may take each other's place: for single agents, from the reward alone."""
_KEPT = ("save_replay_buffer", "hindsight")
"""Hyperparameters that say what is wanted, and not how it is learned."""
_AT_ONCE = 4
"""Engines that a run is reminded of."""
_TWICE = 2.0


def advised_trainer(room: float, kinds: Collection[str] = ()) -> str:
    """The trainer type for a game: this is the rule.

    The one for slow games where its gradient steps fit into the time in which the game plays: ``room`` is at least
    :data:`LEAST_STEPS`. Else the game is quicker than the learner, which would hold it, and decisions cost little:
    PPO, which learns more decisions in the same time. PPO too for the ``kinds`` of task in :data:`PPO_KINDS`.

    Args:
        room: gradient steps a decision that fit: 1 / (decisions a second x seconds of a gradient step), the sum over
            behaviors below the line where there are several.
        kinds: of the task.
    """
    fits = room >= LEAST_STEPS and not set(kinds) & set(PPO_KINDS)
    return SLOW if fits else USUAL


def kinds_of(spec: BehaviorSpec, trainer: TrainerSettings) -> frozenset[str]:
    """What kinds of task a behavior is, in words of the guide's table."""
    sensors, signals = spec.observations, set(trainer.reward_signals) - {"extrinsic"}
    lists = [DimensionProperty.VARIABLE_SIZE in sensor.dimension_property for sensor in sensors]
    found = {
        "continuous actions": spec.actions.continuous_size > 0,
        "discrete actions": spec.actions.discrete_size > 0,
        "images": any(len(sensor.shape) == 3 for sensor in sensors),
        "lists": any(lists),
        "memory": trainer.network_settings.memory is not None,
        "self-play": trainer.self_play is not None,
        **dict.fromkeys(signals, True),
    }
    return frozenset(kind for kind, is_so in found.items() if is_so)


def steps_a_decision(trainer: TrainerSettings) -> float:
    """Gradient steps for each decision, at least, as the settings say; 0 where they do not."""
    facts = pace(trainer)
    return facts["updates"] * facts["minibatches_per_update"] / trainer.max_steps if facts else 0.0


def trainers_of(settings: RunSettings) -> list[TrainerSettings]:
    """Settings of all behaviors, and of those that the file does not name."""
    defaults = settings.default_settings
    return [*settings.behaviors.values(), *([] if defaults is None else [defaults])]


def rewritten(
    data: Mapping[str, Any], settings: RunSettings, trainer: str | None, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """A file's ``data`` with another trainer type, if it is :func:`replaceable`, and with ``changes`` made.

    Everything is kept but the old algorithm's hyperparameters, and ``init_path``, which leads to its weights.

    Args:
        data: of the file.
        settings: that were read from it.
        trainer: the trainer type; None: those of the file.
        changes: settings by dotted key.
    """
    result, _ = apply_overrides(data, changes)
    if trainer is None:
        return result
    usual = settings.default_settings
    if usual is not None:
        result["default_settings"] = _retrained(result["default_settings"], usual, trainer)
    for name, read in settings.behaviors.items():
        section = _retrained(result["behaviors"][name], read, trainer)
        if usual is not None and read.trainer_type == trainer != usual.trainer_type:  # what it has from there goes
            numbers = read.hyperparameters.model_dump(mode="json", exclude_unset=True)
            section = {"trainer_type": trainer, **section, "hyperparameters": numbers}
        result["behaviors"][name] = section
    return result


def _retrained(section: dict[str, Any], read: TrainerSettings, trainer: str) -> dict[str, Any]:
    """A behavior's section for another trainer type, in its order."""
    if read.trainer_type == trainer:
        return section
    known = type(trainer_type(trainer).settings.model_validate({}).hyperparameters).model_fields
    numbers = section.get("hyperparameters") or {}
    kept = {name: numbers[name] for name in _KEPT if name in numbers and name in known}
    gone = ("trainer_type", "hyperparameters", "init_path")
    rest = {name: value for name, value in section.items() if name not in gone}
    return {"trainer_type": trainer, **({"hyperparameters": kept} if kept else {}), **rest}


def read_advised(data: Mapping[str, Any], name: str) -> RunSettings:
    """The settings that :func:`rewritten` data are. Raises SettingsError where ``learn`` would refuse them."""
    document = Document(name, copy.deepcopy(dict(data)))
    settings, _ = interpret(document, {}, False, {}, lambda text: None, batched=False)
    problems = Problems(document)
    for finding in untrainable(settings):
        problems.add(*finding)
    problems.raise_if_any()
    return settings


def replaceable(settings: RunSettings) -> bool:
    """Whether another algorithm can take the place of the file's: of all behaviors, as they may share defaults."""
    return all(trainer.trainer_type in _ALIKE for trainer in trainers_of(settings))


def hint(share: float, settings: RunSettings) -> str | None:
    """What a run says of itself once it has played for a minute; None: there is nothing to say.

    Only where other settings could be at least twice as fast, and are not in use: one engine plays, so that several
    would share out the time that it takes, or an algorithm learns that does not use that time.

    Args:
        share: of the time of its engine, 0 to 1, in which the game was waited for.
        settings: of the run.
    """
    env, trainers = settings.env_settings, trainers_of(settings)
    kinds = {trainer.trainer_type for trainer in trainers}
    if env.num_envs > 1 or env.attached or kinds == {SLOW} or _offline(trainers):
        return None
    if 1.0 / (1.0 - share + share / _AT_ONCE) < _TWICE:
        return None
    several = f"--num-envs {_AT_ONCE} plays {_AT_ONCE} at once where the machine has room for them"
    if env.env_path is None:
        several = f"a build (--env GAME) can play {_AT_ONCE} at once (--num-envs {_AT_ONCE})"
    slow = f", and trainer_type: {SLOW} learns while the game plays" if replaceable(settings) else ""
    return f"The game takes {share:.0%} of the time: {several}{slow}; `tau-train advise` measures what it brings."


def _offline(trainers: Iterable[TrainerSettings]) -> bool:
    return any(isinstance(trainer, OfflineTrainerSettings) for trainer in trainers)
