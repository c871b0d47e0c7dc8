"""What a settings file can ask for and this version cannot train: each gets a sentence, none is passed over."""

from __future__ import annotations

from collections.abc import Iterator

from tau_trainer.settings.batched import BatchedSettings
from tau_trainer.settings.document import Location
from tau_trainer.settings.engines import EDITOR
from tau_trainer.settings.hyperparameters import OffPolicyHyperparameters
from tau_trainer.settings.parameters import Curriculum
from tau_trainer.settings.problems import did_you_mean
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.signals import LEARNED, LEARNED_BESIDE
from tau_trainer.settings.trainers import OfflineTrainerSettings, PPOTrainerSettings, TrainerSettings, trainer_type

Finding = tuple[Location, str]
"""Where something stands, and what to say about it."""

_YET = "which this version does not train yet"


def untrainable(file: RunSettings) -> Iterator[Finding]:
    """Everything in ``file`` that this version cannot do."""
    if isinstance(file, BatchedSettings):
        return  # its sections refuse that themselves
    if file.default_settings is not None:
        yield from _behavior(("default_settings",), file.default_settings)
    for name, settings in file.behaviors.items():
        yield from _behavior(("behaviors", name), settings)
    kinds = {isinstance(settings, OfflineTrainerSettings): name for name, settings in file.behaviors.items()}
    if len(kinds) > 1:
        text = f"learns from recordings alone, and {kinds[False]} does not; put them into files of their own"
        yield ("behaviors", kinds[True], "trainer_type"), text
    yield from _lessons(file)
    yield from _actors(file)


def _behavior(place: Location, settings: TrainerSettings) -> Iterator[Finding]:
    if trainer_type(settings.trainer_type).algorithm is None:
        text = f"asks for {settings.trainer_type}, {_YET}; use trainer_type: ppo"
        yield (*place, "trainer_type"), text
        return
    if settings.self_play is not None:
        yield (*place, "self_play"), f"asks for self-play, {_YET}; remove it"
    if settings.behavioral_cloning is not None:
        yield (*place, "behavioral_cloning"), f"asks for imitation, {_YET}; remove it"
    yield from _signals(place, settings)


def _actors(file: RunSettings) -> Iterator[Finding]:
    """What does not go with actors in processes of their own."""
    if file.execution != "async":
        return
    if file.env_settings.num_envs > 1:
        yield ("env_settings", "num_envs"), "is for execution: sync; with async, async_trainer.actors (--actors) counts"
    if file.env_settings.env_path in (None, EDITOR):
        text = "is async, and there is only one Unity editor; name a build with env_path (--env)"
        yield ("execution",), text
    if file.collection.deterministic:
        text = "goes with execution: sync; async_trainer.mode: lock_step lets actors and learning take turns"
        yield ("collection", "deterministic"), text
    named: list[tuple[Location, TrainerSettings]] = [(("behaviors", name), one) for name, one in file.behaviors.items()]
    if file.default_settings is not None or not named:
        named.append((("default_settings",), file.default_settings or PPOTrainerSettings()))
    for place, one in named:
        if not isinstance(one.hyperparameters, OffPolicyHyperparameters):
            text = (
                f"is {one.trainer_type}, which learns only from what its newest policy did, and actors run ahead of "
                "that; use execution: sync, or an off-policy trainer such as sac"
            )
            yield (*place, "trainer_type"), text


def _lessons(file: RunSettings) -> Iterator[Finding]:
    """Lessons that would never end, for the behavior that they wait for does not exist."""
    if not file.behaviors or file.default_settings is not None:
        return
    for name, value in (file.environment_parameters or {}).items():
        for i, lesson in enumerate(value.curriculum[:-1] if isinstance(value, Curriculum) else ()):
            criteria = lesson.completion_criteria
            if criteria is not None and criteria.behavior not in file.behaviors:
                place = "environment_parameters", name, "curriculum", i, "completion_criteria", "behavior"
                near = did_you_mean(criteria.behavior, file.behaviors)
                yield place, f"asks for behavior {criteria.behavior}, which `behaviors` does not have; {near}"


def _signals(place: Location, settings: TrainerSettings) -> Iterator[Finding]:
    for name in settings.reward_signals:
        where = (*place, "reward_signals", name)
        if name not in ("extrinsic", *LEARNED):
            yield where, f"asks for the reward signal {name}, {_YET}; remove it"
        elif name in LEARNED and settings.trainer_type not in LEARNED_BESIDE:
            text = f"is learned beside {' and '.join(LEARNED_BESIDE)} alone, not beside {settings.trainer_type}"
            yield where, f"{text}; remove it, or change trainer_type"
        elif name in LEARNED and settings.network_settings.memory is not None:
            yield where, "is not for a policy with a memory, for it sees no past; remove it, or network_settings.memory"
    if not {"extrinsic", *LEARNED} & settings.reward_signals.keys():
        text = "has no extrinsic signal and none that is learned; add `extrinsic: {}`"
        yield (*place, "reward_signals"), text
