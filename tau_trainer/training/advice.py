"""Advice on the algorithm for a game's speed: the rule, the file that follows it, and the hint that a run prints."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from tau_trainer.settings.document import Document
from tau_trainer.settings.hyperparameters import SACLNHyperparameters
from tau_trainer.settings.loading import apply_overrides, interpret
from tau_trainer.settings.outlook import pace, untrainable
from tau_trainer.settings.problems import Problems
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.trainers import TrainerSettings, trainer_type
from tau_trainer.specs import BehaviorSpec, Json

SLOW = "sac_ln"
"""The trainer type for slow games, whose gradient steps fill the time in which the game plays."""
USUAL = "ppo"
"""The trainer type for games that are faster than gradient steps."""
LEAST_STEPS = 1.0 / SACLNHyperparameters.auto_decisions[1]
"""Fewest gradient steps per decision that the algorithm for slow games needs. With less time, it holds up the game."""
HEADING = "Made by tau-train advise from {}."

_ALIKE = ("ppo", "sac", SLOW)
"""Trainer types that can replace each other: they train single agents, from the reward alone."""
_KEPT = ("save_replay_buffer", "hindsight")
"""Hyperparameters that describe the goal, not the way to learn it. They survive a change of the algorithm."""
_SEARCHES = {"curiosity", "rnd"}
"""Reward signals that pay for what is new."""
_AT_ONCE = 4
"""Engines for which a run prints the hint."""
_TWICE = 2.0


def advised_trainer(room: float, reasons: Collection[str] = ()) -> str:
    """The rule: the trainer type for a game.

    If the gradient steps of the algorithm for slow games fit into the time in which the game plays (``room`` is at
    least :data:`LEAST_STEPS`), use that algorithm. Otherwise the game is faster than the learner, which would hold it
    up, and decisions are cheap: use PPO, which learns from more decisions in the same time. Use PPO also if there are
    ``reasons``.

    Args:
        room: number of gradient steps per decision that fit: 1 / (decisions per second x seconds per gradient step).
        With
            several behaviors, the product is summed over them.
        reasons: see :func:`reasons_for_ppo`.
    """
    return SLOW if room >= LEAST_STEPS and not reasons else USUAL


def reasons_for_ppo(spec: BehaviorSpec, trainer: TrainerSettings) -> frozenset[str]:
    """Why ``docs/guides/slow-games.md`` says to use PPO for a behavior at any speed, each as a clause; empty: no."""
    reasons = [f"rewards are so rare that agents need {name}" for name in trainer.reward_signals if name in _SEARCHES]
    if spec.has_goals and getattr(trainer.hyperparameters, "hindsight", None) is None:
        reasons.append("agents have a goal signal")
    return frozenset(reasons)


def steps_a_decision(trainer: TrainerSettings) -> float:
    """Minimum number of gradient steps per decision, according to the settings; 0 if they do not set it."""
    facts = pace(trainer)
    return facts["updates"] * facts["minibatches_per_update"] / trainer.max_steps if facts else 0.0


def trainers_of(settings: RunSettings) -> list[TrainerSettings]:
    """Settings of all named behaviors, and the default settings if there are any."""
    defaults = settings.default_settings
    return [*settings.behaviors.values(), *([] if defaults is None else [defaults])]


def rewritten(data: Json, settings: RunSettings, trainer: str | None, changes: Json) -> dict[str, Any]:
    """A file's ``data`` with another trainer type (if :func:`replaceable`) and with ``changes`` applied.

    Keeps everything except the old algorithm's hyperparameters and ``init_path``, which points to its weights.

    Args:
        data: content of the file.
        settings: the settings read from ``data``.
        trainer: the new trainer type; None keeps those of the file.
        changes: new values by dotted key.
    """
    result, _ = apply_overrides(data, changes)
    if trainer is None:
        return result
    usual = settings.default_settings
    if usual is not None:
        result["default_settings"] = _retrained(result["default_settings"], usual, trainer)
    for name, read in settings.behaviors.items():
        section = _retrained(result["behaviors"][name], read, trainer)
        if usual is not None and read.trainer_type == trainer != usual.trainer_type:  # drop the defaults' values
            numbers = read.hyperparameters.model_dump(mode="json", exclude_unset=True)
            section = {"trainer_type": trainer, **section, "hyperparameters": numbers}
        result["behaviors"][name] = section
    return result


def _retrained(section: dict[str, Any], read: TrainerSettings, trainer: str) -> dict[str, Any]:
    """A behavior's section for another trainer type; the order of its keys stays."""
    if read.trainer_type == trainer:
        return section
    known = type(trainer_type(trainer).settings.model_validate({}).hyperparameters).model_fields
    numbers = section.get("hyperparameters") or {}
    kept = {name: numbers[name] for name in _KEPT if name in numbers and name in known}
    gone = ("trainer_type", "hyperparameters", "init_path")
    rest = {name: value for name, value in section.items() if name not in gone}
    return {"trainer_type": trainer, **({"hyperparameters": kept} if kept else {}), **rest}


def read_advised(data: Json, name: str) -> RunSettings:
    """Read the data of :func:`rewritten` as settings. Raises SettingsError if ``learn`` would refuse them."""
    document = Document(name, copy.deepcopy(dict(data)))
    settings, _ = interpret(document, {}, False, {}, lambda text: None, batched=False)
    problems = Problems(document)
    problems.add_all(untrainable(settings))
    problems.raise_if_any()
    return settings


def replaceable(settings: RunSettings) -> bool:
    """Whether another algorithm can replace those of the file: all of them, because behaviors can share defaults."""
    return all(trainer.trainer_type in _ALIKE for trainer in trainers_of(settings))


def hint(share: float, settings: RunSettings) -> str | None:
    """The hint that a run prints after a minute of play; None if there is nothing to say.

    Given only if other settings could be at least twice as fast and are not in use yet: a single engine plays, so
    several engines could share the time that the game takes, or the algorithm does not learn during that time.

    Args:
        share: share of the engine's time, 0 to 1, spent waiting for the game.
        settings: settings of the run.
    """
    env, trainers = settings.env_settings, trainers_of(settings)
    kinds = {trainer.trainer_type for trainer in trainers}
    if env.num_envs > 1 or env.attached or kinds == {SLOW}:
        return None
    if 1.0 / (1.0 - share + share / _AT_ONCE) < _TWICE:
        return None
    several = f"--num-envs {_AT_ONCE} plays {_AT_ONCE} at once if the machine has room for them"
    if env.place is None:
        several = f"a build (--env GAME) can play {_AT_ONCE} at once (--num-envs {_AT_ONCE})"
    slow = f", and trainer_type: {SLOW} learns while the game plays" if replaceable(settings) else ""
    return f"The game takes {share:.0%} of the time: {several}{slow}; `tau-train advise` measures what it brings."
