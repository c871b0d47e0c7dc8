"""A settings file to start from: commented YAML for the behaviors that an environment announced, or for any."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from tau_trainer import plugins
from tau_trainer.settings.document import parse_document
from tau_trainer.settings.engines import HEADLESS_PREFIX
from tau_trainer.settings.hyperparameters import OffPolicyHyperparameters
from tau_trainer.settings.kinds import Section
from tau_trainer.settings.networks import MemorySettings
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.signals import SelfPlaySettings
from tau_trainer.settings.trainers import TrainerSettings, trainer_type
from tau_trainer.specs import BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType, StepBatch
from tau_trainer.training.advice import USUAL, read_advised

GROUPS = "poca"
"""The trainer type for agents that are paid together."""

_COPIES = "pettingzoo:"
"""Environments whose groups are copies: their agents are paid one by one, and may be rivals."""
_SMALL, _OF_GROUPS = (128, 2048), (512, 4096)
"""``batch_size`` and ``buffer_size`` of PPO for discrete actions or images, and of groups, of which a minibatch holds
several: those of ``docs/guides/hyperparameters.md`` and of ``configs/DungeonEscape.yaml``."""
_PICTURES = 50_000
"""Decisions that a replay memory keeps of images: of 84 x 84 x 3 they take 1 GB."""
_ENCODERS = ("simple", "match3", "fully_connected")
"""Image encoders, from the usual one to the one that reads the smallest images."""
_COLUMN = 40
"""At which comments start, if there is room."""
_LONGEST_KEY = 1000
"""Characters; YAML reads longer ones only after a question mark."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]*")
"""Texts that need no quotes, unless YAML reads them as something else."""

_HEADING = """Made by tau-train init. Change what you like, then run:

  tau-train check FILE      shows what it would train
  tau-train learn FILE      trains

docs/settings.md lists every key, docs/guides/hyperparameters.md says which ones to try first."""
_NUMBERS = {
    "batch_size": "decisions in one gradient step; raise it if the reward is unsteady",
    "buffer_size": "decisions of all agents before an update; 10 to 20 times batch_size",
    "learning_rate": "size of a gradient step; lower it if the reward collapses, raise it if it rises slowly",
    "learning_rate_schedule": "linear: falls to 0 until max_steps; constant: stays",
    "beta": "bonus for trying things out; raise it if the policy settles too early",
    "epsilon": "how far an update may move the policy; lower it if the reward jumps up and down",
    "lambd": "0.9 trusts the critic more, 0.99 the rewards that came",
    "num_epoch": "how often an update uses each decision; lower it if the reward jumps up and down",
    "steps_per_update": "decisions for each gradient step; auto: as many steps as fit while the game is busy",
    "init_entcoef": "how much it tries things out at the start",
}
_KEPT_DECISIONS = "newest decisions that are kept to learn from; lower it if memory is short"
_NETWORK = {
    "normalize": "scales observations to one size; use true for positions and velocities",
    "hidden_units": "units in each hidden layer; raise it if the task is complex",
    "num_layers": "hidden layers",
    "vis_encode_type": "reads images: simple, nature_cnn, resnet, match3, fully_connected",
}
_MEMORY = {
    "memory_size": "numbers that an agent remembers",
    "sequence_length": "decisions that it learns to remember over; at most batch_size",
}
_REWARDS = {
    "gamma": "how far it looks ahead: 0.9 about 10 decisions, 0.99 about 100",
    "strength": "factor on the reward; lower it if episodes earn hundreds",
}
_RIVALS = {
    "save_steps": "decisions between two snapshots; snapshots become opponents",
    "team_change": "decisions before another team learns",
    "swap_steps": "decisions between two draws of an opponent; several games long",
    "window": "newest snapshots that are kept",
    "play_against_latest_model_ratio": "share of draws that are the newest policy",
    "initial_elo": "rating at the start",
}
_LENGTHS = {
    "max_steps": "decisions of all agents together; then the run ends",
    "time_horizon": "longest piece of an episode that is learned from at once",
    "summary_freq": "decisions between two points of a curve; auto chooses",
    "checkpoint_interval": "decisions between two checkpoints",
    "keep_checkpoints": "newest checkpoints that are kept",
}
_ENVIRONMENT = {
    "env_path": "what it plays; a relative path starts where you run the command",
    "env_args": "arguments of the game",
    "num_envs": "games side by side; raise it if the game is slow",
    "num_areas": "copies of the game; more give more decisions in each step",
    "time_scale": "game seconds in a real second; lower it if physics changes",
}


@dataclass(frozen=True, slots=True)
class Announced:
    """A behavior that an environment announced, all teams together."""

    name: str
    """Without ``?team=``."""
    spec: BehaviorSpec
    """Of one team."""
    teams: tuple[int, ...]
    agents: int
    """That asked for a decision at the same time, at most."""
    groups: tuple[int, ...]
    """Agents of each group that has several and is paid together."""
    trainer: str = USUAL
    """The trainer type that suits it."""
    why: str = ""
    """A sentence about that."""

    def described(self) -> str:
        """One line about it, without a name that the environment chose."""
        sensors = [sensor for sensor in self.spec.observations if not sensor.hidden]
        branches = self.spec.actions.discrete_branches
        parts = [_counted(self.agents, "agent"), *_seen(sensors)]
        if self.spec.actions.continuous_size:
            parts.append(_counted(self.spec.actions.continuous_size, "continuous action"))
        if branches:
            choices = " and ".join(f"{size:,}" for size in branches)
            parts.append(f"{_counted(len(branches), 'discrete action')} ({choices} choices)")
        if self.groups:
            parts.append(f"{_counted(len(self.groups), 'group')} of up to {max(self.groups):,} agents")
        if len(self.teams) > 1:
            parts.append(f"{len(self.teams)} teams")
        return ", ".join(parts)


def announced(shown: Mapping[BehaviorSpec, StepBatch], env_path: str | None) -> list[Announced]:
    """The behaviors of an environment; those with groups have the trainer type for them.

    Args:
        shown: of each behavior and team the message with the most agents.
        env_path: of the environment.
    """
    found: dict[str, list[BehaviorSpec]] = {}
    for spec in shown:
        found.setdefault(spec.short_name, []).append(spec)
    return [
        _announced(specs, [shown[spec] for spec in specs], grouped=not (env_path or "").startswith(_COPIES))
        for specs in found.values()
    ]


def _announced(specs: list[BehaviorSpec], batches: list[StepBatch], *, grouped: bool) -> Announced:
    """One behavior, of which each team has a spec; ``grouped``: agents with the same group id are paid together."""
    groups = tuple(_groups(batches)) if grouped else ()
    teams = tuple(sorted(spec.team for spec in specs))
    trainer, why = (GROUPS, f"Its groups are paid together, which {GROUPS} is for.") if groups else (USUAL, "")
    return Announced(specs[0].short_name, specs[0], teams, sum(map(len, batches)), groups, trainer, why)


def _groups(batches: Iterable[StepBatch]) -> Iterator[int]:
    """Sizes of the groups with several agents; group 0 means: in none."""
    for batch in batches:
        ids, counts = np.unique(batch.group_id, return_counts=True)
        yield from counts[(ids != 0) & (counts > 1)].tolist()


def _seen(sensors: Iterable[ObservationSpec]) -> Iterator[str]:
    """What sensors send."""
    numbers = {True: 0, False: 0}
    for sensor in sensors:
        if len(sensor.shape) == 3:
            channels, height, width = sensor.shape
            yield f"an image of {height} x {width} pixels and {_counted(channels, 'channel')}"
        elif DimensionProperty.VARIABLE_SIZE in sensor.dimension_property:
            yield f"a list of up to {sensor.shape[0]:,} things"
        else:
            numbers[sensor.observation_type == ObservationType.GOAL_SIGNAL] += sensor.size
    for goal, count in numbers.items():
        if count:
            yield _counted(count, "number of a goal" if goal else "observation")


def _counted(count: int, what: str) -> str:
    several = what.replace("number", "numbers") if what.startswith("number") else f"{what}s"
    return f"{count:,} {what if count == 1 else several}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of the file."""

    key: str
    value: Any
    """A scalar, a list, or the entries below the key."""
    comment: str = ""
    above: tuple[str, ...] = ()
    """Comments on lines of their own."""
    off: bool = False
    """Written as a comment, for the user to switch on."""


def starting_text(settings: RunSettings, behaviors: Sequence[Announced]) -> str:
    """A file that ``learn`` takes, as YAML with comments.

    Args:
        settings: with what was said about the environment; the rest is not looked at.
        behaviors: that it announced; none: a ``default_settings`` for all there will be.

    Raises:
        SettingsError: nothing can train these behaviors in one run.
    """
    any_behavior = ("For every behavior of your game. `tau-train init --env GAME` writes what fits each of them.",)
    entries = [Entry("default_settings", _behavior(None, USUAL, rivals=False), above=any_behavior)]
    if behaviors:
        rivals = len({team for behavior in behaviors for team in behavior.teams}) > 1
        entries = [Entry("behaviors", [_named(behavior, rivals=rivals) for behavior in behaviors])]
    heading = "".join(f"# {line}".rstrip() + "\n" for line in _HEADING.splitlines())
    sections = [*entries, *_environment(settings)]
    text = heading + "".join("\n" + "".join(f"{line}\n" for line in _lines(entry, "")) for entry in sections)
    read_starting(text)
    return text


def read_starting(text: str) -> RunSettings:
    """The settings that a :func:`starting_text` is. Raises SettingsError where ``learn`` would refuse it."""
    return read_advised(parse_document(text, "the new file").data, "the new file")


def _named(behavior: Announced, *, rivals: bool) -> Entry:
    above = (f"Seen: {behavior.described()}.", *([behavior.why] if behavior.why else []))
    return Entry(behavior.name, _behavior(behavior, behavior.trainer, rivals=rivals), above=above)


def _behavior(behavior: Announced | None, trainer: str, *, rivals: bool) -> list[Entry]:
    """The section of a behavior; None: of any."""
    usual = trainer_type(trainer).settings.model_validate({})
    replayed = isinstance(usual.hyperparameters, OffPolicyHyperparameters)
    fits = {} if behavior is None else _fitting(behavior, usual)
    numbers = _NUMBERS | ({"buffer_size": _KEPT_DECISIONS} if replayed else {})
    network = dict(_NETWORK)
    if behavior is not None and not _images(behavior):
        del network["vis_encode_type"]
    lengths = {key: text for key, text in _LENGTHS.items() if not (replayed and key == "time_horizon")}
    remembers = ('If agents must remember what they no longer see, remove the first "# " of the next three lines.',)
    memory = Entry("memory", _entries(_MEMORY, MemorySettings()), above=remembers, off=True)
    extrinsic = Entry("extrinsic", _entries(_REWARDS, usual.reward_signals["extrinsic"]))
    plays = [Entry("self_play", _entries(_RIVALS, SelfPlaySettings()), above=("Teams play against earlier policies.",))]
    return [
        Entry("trainer_type", trainer, "the algorithm; docs/algorithms.md lists all"),
        Entry("hyperparameters", _entries(numbers, usual.hyperparameters, fits)),
        Entry("network_settings", [*_entries(network, usual.network_settings, fits), memory]),
        Entry("reward_signals", [extrinsic]),
        *(plays if rivals else []),
        *_entries(lengths, usual),
    ]


def _entries(comments: Mapping[str, str], section: Section, fits: Mapping[str, Any] | None = None) -> list[Entry]:
    """Of a section the keys that have a comment, with its values, or those that fit better."""
    values = {key: getattr(section, key) for key in comments if key in type(section).model_fields} | {
        key: value for key, value in (fits or {}).items() if key in comments and key in type(section).model_fields
    }
    return [Entry(key, value, comments[key]) for key, value in values.items()]


def _images(behavior: Announced) -> list[ObservationSpec]:
    return [sensor for sensor in behavior.spec.observations if len(sensor.shape) == 3]


def _fitting(behavior: Announced, usual: TrainerSettings) -> dict[str, Any]:
    """What fits this behavior better than the defaults do, by key."""
    continuous, images = behavior.spec.actions.continuous_size > 0, _images(behavior)
    fits: dict[str, Any] = {}
    if continuous and any(len(sensor.shape) == 1 for sensor in behavior.spec.observations):
        fits["normalize"] = True
    if images:
        side = min(min(sensor.shape[1:]) for sensor in images)
        least = {name: plugins.load("encoders", f"visual:{name}").least for name in _ENCODERS}
        fits["vis_encode_type"] = next(name for name in _ENCODERS if least[name] <= side)
    numbers = usual.hyperparameters
    if isinstance(numbers, OffPolicyHyperparameters):
        return fits | ({"buffer_size": _PICTURES} if images else {})
    batch, buffer = numbers.batch_size, numbers.buffer_size
    if not continuous or images:
        batch, buffer = _OF_GROUPS if behavior.groups else _SMALL
    # Each agent needs a piece of an episode in a buffer, however many there are.
    buffer = max(buffer, -(-behavior.agents * usual.time_horizon // batch) * batch)
    return {**fits, "batch_size": batch, "buffer_size": buffer}


def _environment(settings: RunSettings) -> Iterator[Entry]:
    """What is played, with the most used keys."""
    env, path = settings.env_settings, settings.env_settings.env_path
    found = {name: _given(getattr(settings, name)) for name in ("env_settings", "engine_settings", "collection")}
    of_python = path is not None and path.partition(":")[0] in plugins.names("environments")
    if of_python:
        found["env_settings"].setdefault("num_areas", env.num_areas)
    elif not env.awaited:
        found["env_settings"].setdefault("num_envs", env.num_envs)
    if not of_python and not (path or "").startswith(HEADLESS_PREFIX):
        found["engine_settings"].setdefault("time_scale", settings.engine_settings.time_scale)
    for name, values in found.items():
        below = [Entry(key, value, _ENVIRONMENT.get(key, "")) for key, value in values.items()]
        alone, above = not below, tuple[str, ...]()
        if name == "env_settings" and path is None:
            below.insert(0, Entry("env_path", "path/to/Build", _ENVIRONMENT["env_path"], off=not alone))
            above = ("Without env_path, `learn` waits until you press Play in the Unity editor.",)
        if below:
            yield Entry(name, below, above=above, off=alone)


def _given(section: Section) -> dict[str, Any]:
    """What flags said of a section, in its order; each run has a seed of its own."""
    return section.model_dump(mode="json", include=section.model_fields_set - {"seed"}, exclude_none=True)


def _lines(entry: Entry, indent: str) -> Iterator[str]:
    """An entry as YAML."""
    for text in entry.above:
        yield f"{indent}# {_shown(text)}"
    nested = bool(entry.value) and isinstance(entry.value, list) and isinstance(entry.value[0], Entry)
    lead, key = indent + ("# " if entry.off else ""), _scalar(entry.key)
    head = f"{lead}{key}:" if len(key) < _LONGEST_KEY else f"{lead}? {key}\n{lead}:"
    written = head if nested else f"{head} {_scalar(entry.value)}"
    yield f"{written:<{_COLUMN - 2}}  # {_shown(entry.comment)}" if entry.comment else written
    for below in entry.value if nested else ():
        yield from _lines(below, f"{lead}  ")


def _shown(text: str) -> str:
    """``text`` as one line that an editor, a terminal and YAML only show."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _scalar(value: Any) -> str:
    """A value on one line; texts that YAML would read as something else are quoted."""
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if not isinstance(value, str):
        return str(yaml.safe_dump(value)).splitlines()[0]
    if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    shown = value.isprintable()
    return str(yaml.safe_dump(value, default_style='"', allow_unicode=shown, width=float("inf"))).rstrip("\n")
