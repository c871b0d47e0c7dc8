"""A settings file to start from: commented YAML for the behaviors that an environment announced, or for any.

``starting.yaml`` beside this file has the keys in their order, with their comments; values come from here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import (
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tau_trainer import plugins
from tau_trainer.settings.document import parse_document
from tau_trainer.settings.engines import HEADLESS_PREFIX, plays_unreal
from tau_trainer.settings.hyperparameters import OffPolicyHyperparameters
from tau_trainer.settings.kinds import Section
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.signals import SelfPlaySettings
from tau_trainer.settings.trainers import TrainerSettings, trainer_type
from tau_trainer.specs import (
    BehaviorSpec,
    DimensionProperty,
    Json,
    ObservationSpec,
    ObservationType,
    StepBatch,
)
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
_COLUMN = 38
"""Column of comments, unless the value is longer."""
_LONGEST_KEY = 1000
"""Characters; YAML reads longer ones only after a question mark."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]*")
"""Texts that need no quotes, unless YAML reads them as something else."""
_LINE = re.compile(r"(?P<indent> *)(?P<key>\w+):(?P<comment>  # .*)?")
"""A key of ``starting.yaml``; any other line is taken as it is."""
_ANY = "# For every behavior of your game. `tau-train init --env GAME` writes what fits each of them."
_EDITOR = """
# Without env_settings.env_path, `learn` waits until you press Play in the editor.
# --env, or `env_path: path/to/Build` in env_settings, plays a build.
"""
_GROUPED = f"Its groups are paid together, which {GROUPS} is for."


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
        continuous = self.spec.actions.continuous_size
        parts = [_counted(self.agents, "agent"), *_seen(sensors)]
        if continuous:
            parts.append(_counted(continuous, "continuous action"))
        if branches:
            discrete = _counted(len(branches), "discrete action")
            choices = " and ".join(f"{size:,}" for size in branches)
            parts.append(f"{discrete} ({choices} choices)")
        if self.groups:
            groups = _counted(len(self.groups), "group")
            parts.append(f"{groups} of up to {max(self.groups):,} agents")
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
    copies = (env_path or "").startswith(_COPIES)
    behaviors = []
    for name, specs in found.items():
        batches = [shown[spec] for spec in specs]
        teams = tuple(sorted(spec.team for spec in specs))
        agents = sum(map(len, batches))
        groups = () if copies else tuple(_groups(batches))
        behavior = Announced(name, specs[0], teams, agents, groups)
        if groups:
            behavior = replace(behavior, trainer=GROUPS, why=_GROUPED)
        behaviors.append(behavior)
    return behaviors


def _groups(batches: Iterable[StepBatch]) -> Iterator[int]:
    """Sizes of the groups with several agents; group 0 means: in none."""
    for batch in batches:
        ids, counts = np.unique(batch.group_id, return_counts=True)
        yield from counts[(ids != 0) & (counts > 1)].tolist()


def _seen(sensors: Iterable[ObservationSpec]) -> Iterator[str]:
    """What sensors send."""
    numbers = Counter[ObservationType]()
    for sensor in sensors:
        if len(sensor.shape) == 3:
            channels, height, width = sensor.shape
            depth = _counted(channels, "channel")
            yield f"an image of {height} x {width} pixels and {depth}"
        elif DimensionProperty.VARIABLE_SIZE in sensor.dimension_property:
            yield f"a list of up to {sensor.shape[0]:,} things"
        else:
            numbers[sensor.observation_type] += sensor.size
    if count := numbers[ObservationType.DEFAULT]:
        yield _counted(count, "observation")
    if count := numbers[ObservationType.GOAL_SIGNAL]:
        yield f"a goal of {_counted(count, 'number')}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def starting_text(settings: RunSettings, behaviors: Sequence[Announced]) -> str:
    """A file that ``learn`` takes, as YAML with comments.

    Args:
        settings: with what was said about the environment; the rest is not looked at.
        behaviors: that it announced; none: a ``default_settings`` for all there will be.

    Raises:
        SettingsError: nothing can train these behaviors in one run.
    """
    template = Path(__file__).with_name("starting.yaml").read_text("utf-8")
    heading, behavior, environment = template.split("---\n")
    lines = [heading]
    if behaviors:
        teams = {team for each in behaviors for team in each.teams}
        lines.append("behaviors:")
        for each in behaviors:
            lines += _head(each)
            values = _values(each, rivals=len(teams) > 1)
            lines += _filled(behavior, values, "    ")
    else:
        lines += [_ANY, "default_settings:"]
        defaults = trainer_type(USUAL).settings.model_validate({})
        lines += _filled(behavior, _plain(defaults), "  ")
    played = _environment(settings)
    lines += ["", *_filled(environment, played, "")]
    if settings.env_settings.env_path is None:
        lines.append(_EDITOR.rstrip())
    text = "\n".join(lines) + "\n"
    read_starting(text)
    return text


def read_starting(text: str) -> RunSettings:
    """The settings in a :func:`starting_text`. Raises SettingsError if ``learn`` would refuse them."""
    name = "the new file"
    return read_advised(parse_document(text, name).data, name)


def _head(behavior: Announced) -> Iterator[str]:
    """The comment about a behavior, and its key."""
    yield f"  # Seen: {behavior.described()}."
    if behavior.why:
        yield f"  # {_shown(behavior.why)}"
    key = _scalar(behavior.name)
    if len(key) >= _LONGEST_KEY:
        yield f"  ? {key}"
        key = ""
    yield f"  {key}:"


def _plain(section: Section) -> dict[str, Any]:
    return section.model_dump(mode="json")


def _values(behavior: Announced, *, rivals: bool) -> dict[str, Any]:
    """The section of a behavior: the defaults of its trainer type, changed to fit the behavior."""
    usual = trainer_type(behavior.trainer).settings.model_validate({})
    values = _plain(usual)
    numbers, network = values["hyperparameters"], values["network_settings"]
    if isinstance(numbers["learning_rate"], dict):  # a schedule of its own
        del numbers["learning_rate_schedule"]
    values["self_play"] = _plain(SelfPlaySettings()) if rivals else None
    vectors = any(len(each.shape) == 1 for each in behavior.spec.observations)
    if vectors and behavior.spec.actions.continuous_size:
        network["normalize"] = True
    images = _images(behavior)
    if images:
        network["vis_encode_type"] = _encoder(images)
    else:
        del network["vis_encode_type"]
    if not isinstance(usual.hyperparameters, OffPolicyHyperparameters):
        numbers |= _sizes(behavior, usual)
        return values
    del values["time_horizon"]
    if images:
        numbers["buffer_size"] = _PICTURES
    return values


def _images(behavior: Announced) -> list[ObservationSpec]:
    sensors = behavior.spec.observations
    return [sensor for sensor in sensors if len(sensor.shape) == 3]


def _encoder(images: Iterable[ObservationSpec]) -> str:
    """The first encoder that can read the smallest image."""
    side = min(min(sensor.shape[1:]) for sensor in images)
    for name in _ENCODERS:
        if plugins.load("encoders", f"visual:{name}").least <= side:
            break
    return name


def _sizes(behavior: Announced, usual: TrainerSettings) -> dict[str, int]:
    """Sizes of PPO's minibatch and buffer, which holds a piece of an episode of each agent."""
    hyper = usual.hyperparameters
    batch, buffer = hyper.batch_size, hyper.buffer_size
    if not behavior.spec.actions.continuous_size or _images(behavior):
        batch, buffer = _OF_GROUPS if behavior.groups else _SMALL
    pieces = behavior.agents * usual.time_horizon
    whole = -(-pieces // batch) * batch
    return {"batch_size": batch, "buffer_size": max(buffer, whole)}


def _environment(settings: RunSettings) -> dict[str, dict[str, Any]]:
    """The environment: values of flags, and the most used keys."""
    env, path = settings.env_settings, settings.env_settings.env_path or ""
    engine = settings.engine_settings
    found = {
        "env_settings": _given(env),
        "engine_settings": _given(engine),
        "collection": _given(settings.collection),
    }
    of_python = path.partition(":")[0] in plugins.names("environments")
    if of_python:
        found["env_settings"]["num_areas"] = env.num_areas
    elif not env.awaited:
        found["env_settings"]["num_envs"] = env.num_envs
    if not (of_python or path.startswith(HEADLESS_PREFIX) or (path and plays_unreal(path))):
        found["engine_settings"]["time_scale"] = engine.time_scale
    return found


def _given(section: Section) -> dict[str, Any]:
    """Values of a section that flags set; each run draws its own seed."""
    said = section.model_fields_set - {"seed"}
    return section.model_dump(mode="json", include=said, exclude_none=True)


def _filled(template: str, values: Json, indent: str) -> Iterator[str]:
    """The lines of a template: keys that ``values`` have, and comments."""
    path: list[str] = []
    for line in template.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            yield f"{indent}{line}"
            continue
        path[len(found["indent"]) // 2 :] = [found["key"]]
        value = _at(values, path)
        if value is None:
            continue
        nested = isinstance(value, dict) and "mode" not in value  # a schedule stays on one line
        written = f"{indent}{found['indent']}{found['key']}:"
        written += "" if nested else f" {_scalar(value)}"
        comment = found["comment"] or ""
        yield f"{written:<{_COLUMN}}{comment}" if comment else written


def _at(values: Any, path: Iterable[str]) -> Any:
    """The value at a path of keys; None: there is none, or it is empty."""
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return None if values == {} else values


def _shown(text: str) -> str:
    """``text`` as one line without characters that control an editor, a terminal or YAML."""
    return "".join(map(_character, text))


def _character(each: str) -> str:
    return each if each.isprintable() else each.encode("unicode_escape").decode()


def _scalar(value: Any) -> str:
    """A value on one line; texts that YAML would read as something else are quoted."""
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if not isinstance(value, str):
        return str(yaml.safe_dump(value, default_flow_style=True, sort_keys=False)).splitlines()[0]
    if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    quoted = yaml.safe_dump(
        value,
        default_style='"',
        allow_unicode=value.isprintable(),
        width=float("inf"),
    )
    return str(quoted).rstrip("\n")
