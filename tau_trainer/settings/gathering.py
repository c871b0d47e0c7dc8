"""The one table of what a way of gathering experience cannot do, and why: :data:`TABLE`.

A cell that is not in the table works. ``docs/architecture.md`` shows all of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from tau_trainer import plugins
from tau_trainer.settings.document import Document, Location
from tau_trainer.settings.kinds import Section
from tau_trainer.settings.problems import Problems
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.signals import LEARNED, LEARNED_BESIDE
from tau_trainer.settings.trainers import OfflineTrainerSettings, TrainerSettings

Finding = tuple[Location, str]
"""The location of a finding, and its message."""
BATCHED_PREFIX = "batched:"
"""Beginning of an ``env_path`` whose pairs are one computation."""


class Way(StrEnum):
    """A way of gathering experience, or of learning from it. A run has one of the first five, and often several."""

    ENGINES = "engines"
    """Engines, or environments of other packages, whose agents decide in this process."""
    ACTORS = "actors"
    """The same, in processes of their own: ``execution: async``."""
    POPULATION = "population"
    """Pairs as one computation: ``--env batched:...``."""
    RECORDINGS = "recordings"
    """Recordings alone."""
    TENSORS = "tensors"
    """Copies of a batched environment: ``environment``."""
    PAIRS = "pairs"
    """Pairs at a task: ``tau-train parallel``."""
    DEVICES = "devices"
    """Several processes that learn from one rollout."""
    RANKS = "ranks"
    """Several processes that have their own copies on tensors; it lacks what these lack."""
    SERVER = "parameter server"
    """Several processes that learn from their own rollouts: ``strategy: parameter_server``."""


_Finder = Callable[[TrainerSettings], Sequence[Location]]
"""Returns where a behavior asks for something."""
SettingsT = TypeVar("SettingsT", TrainerSettings, RunSettings)


@dataclass(frozen=True, slots=True)
class Row(Generic[SettingsT]):
    """A trainer type, key or feature of a behavior or of the whole file, and the ways that do not have it."""

    name: str
    """In Markdown."""
    found: Callable[[SettingsT], Sequence[Location]]
    """Where the behavior, or the file, asks for it; empty: it does not."""
    blanks: Mapping[Way, str]
    """What is said of it, by way; ``{type}`` and ``{env}`` are replaced by the trainer type and ``env_path``."""

    def reason(self, way: Way) -> str:
        """Why a way does not have it; empty: it does."""
        return self.blanks.get(way) or (self.blanks.get(Way.TENSORS, "") if way is Way.RANKS else "")


def ways_of(file: RunSettings) -> Iterator[Way]:
    """How a run gathers experience and learns from it, as far as its settings say."""
    several = file.devices > 1
    if file.environment is not None:
        yield from (Way.TENSORS, Way.RANKS) if several else (Way.TENSORS,)
        return
    if (file.env_settings.env_path or "").startswith(BATCHED_PREFIX):
        yield Way.POPULATION
    yield Way.ACTORS if file.execution == "async" else Way.ENGINES
    if file.strategy == "parameter_server":
        yield Way.SERVER
    elif several:
        yield Way.DEVICES


def trainers_of(file: RunSettings) -> list[tuple[Location, TrainerSettings]]:
    """Locations and trainer settings of all behaviors and of the defaults."""
    usual = file.default_settings
    found: list[tuple[Location, TrainerSettings]] = [] if usual is None else [(("default_settings",), usual)]
    return found + [(("behaviors", name), settings) for name, settings in file.behaviors.items()]


def blanks(file: RunSettings, *ways: Way) -> Iterator[Finding]:
    """Everything that a file asks for and these ways do not have; by default, the run's own ways."""
    env, asked = file.env_settings.env_path, {*(ways or ways_of(file))}
    yield from ((key, text.format(env=env)) for key, text in _missing(KEYS, file, asked))
    for place, trainer in trainers_of(file):
        here = {way for way in asked if trainer.learns or way is not Way.RANKS}
        if not ways and isinstance(trainer, OfflineTrainerSettings) and Way.TENSORS not in here:
            here = here - {Way.ENGINES, Way.ACTORS} | {Way.RECORDINGS}
        for key, text in _missing(TABLE, trainer, here):
            yield (*place, *key), text.format(type=trainer.trainer_type, env=env)


def _missing(rows: Sequence[Row[SettingsT]], given: SettingsT, ways: set[Way]) -> Iterator[Finding]:
    for row in rows:
        texts = [text for way in Way if way in ways and (text := row.reason(way))]
        if texts:
            yield from ((key, texts[0]) for key in row.found(given))


def check_trainable(findings: Iterator[Finding]) -> None:
    """Raise SettingsError with all of them, if there are any."""
    problems = Problems(Document("", {}))
    problems.add_all(findings)
    problems.raise_if_any()


def _foreign(trainer: TrainerSettings) -> Sequence[Location]:
    return [] if trainer.trainer_type in plugins.own("trainers") else [("trainer_type",)]


def _with_replay(found: _Finder) -> _Finder:
    """What is ``found`` of a behavior with a replay memory."""
    return lambda trainer: found(trainer) if trainer.hyperparameters.replays else []


def _changed(*keys: str) -> Callable[[Section], Sequence[Location]]:
    """Those of these dotted keys that have other values than their defaults."""

    def found(settings: Section) -> Sequence[Location]:
        asked = list[Location]()
        for *sections, key in (dotted.split(".") for dotted in keys):
            section: Section = functools.reduce(getattr, sections, settings)
            if key in type(section).model_fields and section.changed(key):
                asked.append((*sections, key))
        return asked

    return found


def _valued(key: str, value: object) -> _Finder:
    """This hyperparameter, if it has that value."""
    return lambda trainer: [(*_NUMBERS, key)] if getattr(trainer.hyperparameters, key, None) == value else []


def _learned_signals(trainer: TrainerSettings) -> Sequence[Location]:
    return [("reward_signals", name) for name in sorted(trainer.reward_signals.keys() & LEARNED.keys())]


def _supported_signals(trainer: TrainerSettings) -> Sequence[Location]:
    return _learned_signals(trainer) if trainer.trainer_type in LEARNED_BESIDE else []


def _no_extrinsic(trainer: TrainerSettings) -> Sequence[Location]:
    return [] if "extrinsic" in trainer.reward_signals else [("reward_signals",)]


def _with_state(trainer: TrainerSettings) -> Sequence[Location]:
    exploration = getattr(trainer.hyperparameters, "exploration", None)
    kinds = "boltzmann_gumbel", "ornstein_uhlenbeck"
    return [(*_NUMBERS, "exploration", "type")] if getattr(exploration, "type", "") in kinds else []


def _sums_rewards(trainer: TrainerSettings) -> Sequence[Location]:
    return [(*_NUMBERS, "n_step")] if getattr(trainer.hyperparameters, "n_step", 1) > 1 else []


def _written(*keys: str) -> Callable[[RunSettings], Sequence[Location]]:
    """Those of these keys of the file that are written."""
    return lambda file: [(key,) for key in keys if key in file.model_fields_set]


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _types(blanks: Mapping[Way, str], *names: str) -> Row[TrainerSettings]:
    """The row of these trainer types."""
    here = [("trainer_type",)]
    return Row(_listed(names), lambda trainer: here if trainer.trainer_type in names else [], blanks)


def _keys(blanks: Mapping[Way, str], *keys: str) -> Row[Any]:
    """The row of these dotted keys, for other values than their defaults."""
    return Row(_listed(keys), _changed(*keys), blanks)


_NUMBERS = ("hyperparameters",)
_NOTHING_RECORDED = "is {type}, which learns from its own decisions; use bc, iql or awac"
_RECORDED = "is {type}, which learns only from recordings; use another, such as ppo"
_ONE_COMPUTATION = "is {type}, but --env {env} trains only with ppo; set ppo, or use --env headless:tau"
_ON_TENSORS = "is {type}, which is not supported on tensors; use ppo, a2c, dqn or sac"
_NO_GROUPS = "is {type}, which learns from groups, but batched environments have none; use ppo, a2c, dqn or sac"
_NO_ROLLOUTS = "does not learn from rollouts, which a parameter server requires; use strategy: mirrored"
_ALONE = "is {type}, which learns in one process only; remove devices (--devices), or change it"
_FOR_COPIES = "is for a batched environment (`environment`), which the file does not have; remove it"
_IN_ONE_PROCESS = "is learned in one process only; remove it, or devices (--devices)"
_SEQUENCES = "is learned from whole sequences, in one process only; remove it, or devices (--devices)"
_NOT_ON_TENSORS = "is not supported on tensors; remove it"
_FOR_ENGINES = "works only with engines; remove it"
_NOT_TOGETHER = "is not supported with --env {env}; remove it, or use --env headless:tau"
_NOT_SERVED = "does not work with strategy: parameter_server; remove one of them"
_OWN_REWARD = (
    "is not for --env {env}, which learns only from its own reward; remove behavioral_cloning and all signals except "
    "extrinsic in reward_signals, or use --env headless:tau"
)
_WITHOUT_COPIES = dict.fromkeys(set(Way) - {Way.TENSORS, Way.RANKS}, _FOR_COPIES)
_LEARNS_ONLINE = {Way.POPULATION: _ONE_COMPUTATION, Way.RECORDINGS: _NOTHING_RECORDED}
_LEARNS_REPLAY = {**_LEARNS_ONLINE, Way.SERVER: _NO_ROLLOUTS}


TABLE: tuple[Row[TrainerSettings], ...] = (
    _types({Way.RECORDINGS: _NOTHING_RECORDED}, "ppo"),
    _types(_LEARNS_ONLINE, "a2c"),
    _types({**_LEARNS_ONLINE, Way.TENSORS: _NO_GROUPS}, "poca", "mappo"),
    _types({**_LEARNS_REPLAY, Way.RANKS: _ALONE}, "dqn", "sac", "sac_ln", "ddpg", "td3"),
    _types({**_LEARNS_REPLAY, Way.RANKS: _ALONE, Way.DEVICES: _ALONE}, "iqn"),
    _types({**_LEARNS_REPLAY, Way.TENSORS: _NO_GROUPS, Way.DEVICES: _ALONE}, "maddpg"),
    _types(
        {
            **dict.fromkeys((Way.ENGINES, Way.ACTORS, Way.POPULATION, Way.TENSORS), _RECORDED),
            **{Way.DEVICES: _ALONE, Way.SERVER: _NO_ROLLOUTS},
            Way.PAIRS: "is {type}, which learns from recordings, but `parallel` trains pairs; use `learn`",
        },
        *("bc", "iql", "awac"),
    ),
    Row("of other packages", _foreign, {Way.POPULATION: _ONE_COMPUTATION, Way.TENSORS: _ON_TENSORS}),
    Row("of other packages, with a replay memory", _with_replay(_foreign), {Way.SERVER: _NO_ROLLOUTS}),
    _keys(_WITHOUT_COPIES, "agents", "to_train", "player"),
    _keys(
        {
            Way.POPULATION: _NOT_TOGETHER,
            Way.RANKS: _SEQUENCES,
            Way.DEVICES: _SEQUENCES,
        },
        "network_settings.memory",
    ),
    Row(
        "`network_settings.memory`, with a replay memory",
        _with_replay(_changed("network_settings.memory")),
        {Way.TENSORS: "is supported on tensors only with ppo and a2c; remove it"},
    ),
    Row(
        "`reward_signals` that learn",
        _learned_signals,
        {
            Way.POPULATION: _OWN_REWARD,
            Way.RANKS: _IN_ONE_PROCESS,
            Way.SERVER: _NOT_SERVED,
        },
    ),
    Row(
        "`reward_signals` that learn, with a replay memory",
        _with_replay(_supported_signals),
        {Way.TENSORS: "is supported on tensors only with ppo and a2c; remove it, or change trainer_type"},
    ),
    Row(
        "no `reward_signals.extrinsic`",
        _no_extrinsic,
        {Way.TENSORS: "has no extrinsic, which is required on tensors; add it, with strength: 0 if not used"},
    ),
    _keys(
        {
            Way.TENSORS: _FOR_ENGINES,
            Way.POPULATION: _OWN_REWARD,
            Way.SERVER: _NOT_SERVED,
        },
        "behavioral_cloning",
    ),
    _keys(
        {
            Way.ACTORS: "needs execution: sync, where one process knows which team learns; remove it, or change "
            "execution",
            Way.RECORDINGS: "needs an engine, but the behavior learns only from recordings; remove it",
            Way.TENSORS: _FOR_ENGINES,
            Way.PAIRS: "is for teams in a game, but `parallel` trains pairs at a task; use `learn`",
            Way.SERVER: _NOT_SERVED,
        },
        "self_play",
    ),
    _keys({Way.TENSORS: _FOR_ENGINES}, "time_horizon", "save_param_only", "threaded"),
    _keys(
        {
            Way.TENSORS: _FOR_ENGINES,
            Way.POPULATION: _NOT_TOGETHER,
            Way.SERVER: _NOT_SERVED,
        },
        "hyperparameters.shrink_at",
    ),
    _keys({Way.POPULATION: _NOT_TOGETHER}, "hyperparameters.target_kl"),
    _keys({Way.POPULATION: _NOT_TOGETHER}, "hyperparameters.layer_statistics"),
    Row("`hyperparameters.optimizer: nadam`", _valued("optimizer", "nadam"), {Way.POPULATION: _NOT_TOGETHER}),
    Row("`hyperparameters.updates_per_buffer: 2`", _valued("updates_per_buffer", 2), {Way.TENSORS: _FOR_ENGINES}),
    _keys({Way.TENSORS: _NOT_ON_TENSORS}, "hyperparameters.prioritized"),
    _keys({Way.TENSORS: _NOT_ON_TENSORS}, "hyperparameters.hindsight"),
    Row("`hyperparameters.n_step` above 1", _sums_rewards, {Way.TENSORS: _NOT_ON_TENSORS}),
    _keys({Way.TENSORS: _NOT_ON_TENSORS, Way.DEVICES: _IN_ONE_PROCESS}, "hyperparameters.noisy"),
    Row(
        "`hyperparameters.exploration.type: boltzmann_gumbel`, `ornstein_uhlenbeck`",
        _with_state,
        {Way.TENSORS: _NOT_ON_TENSORS},
    ),
    Row(
        "`hyperparameters.steps_per_update: auto`",
        _valued("steps_per_update", "auto"),
        {Way.TENSORS: "is auto, but on tensors no game keeps learning waiting; set a number, such as 64"},
    ),
)
"""What behaviors ask for, in the order of the documentation. If several ways of a run lack it, the first says so."""
KEYS: tuple[Row[RunSettings], ...] = (
    Row(
        _listed(RunSettings.for_engines),
        _written(*RunSettings.for_engines),
        {Way.TENSORS: "is for engines, but the file has a batched environment; remove it"},
    ),
    Row("`evaluation`, `compile`", _written("evaluation", "compile"), _WITHOUT_COPIES),
    Row(
        "`environment_parameters`",
        lambda file: [("environment_parameters",)] if file.environment_parameters else [],
        {Way.POPULATION: "is not used by --env {env}; remove it"},
    ),
    Row(
        "`env_settings.env_args`",
        lambda file: [("env_settings", "env_args")] if file.env_settings.env_args else [],
        {Way.POPULATION: "is for engines, but --env {env} starts none; remove it (--env-args)"},
    ),
    _keys(
        {Way.POPULATION: "is for several processes, but --env {env} trains all pairs in one; remove it (--devices)"},
        "devices",
    ),
    _keys(
        {
            Way.ACTORS: "needs execution: sync; with async, set async_trainer.mode: lock_step to let actors and "
            "learning take turns",
        },
        "collection.deterministic",
    ),
)
"""What the whole file asks for."""
