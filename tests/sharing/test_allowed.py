"""The list of what a pulled run may say: every setting is in it, and whatever may be a text has a reason to stay."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import gymnasium
import pytest
from pydantic import BaseModel
from typing_extensions import is_typeddict

from tau_trainer import plugins
from tau_trainer.envs.batched import registry
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.headless.args import parse_args
from tau_trainer.settings.exploration import NOISES, VALUE_EXPLORATIONS
from tau_trainer.settings.hyperparameters import Hyperparameters
from tau_trainer.settings.kinds import TableSchema
from tau_trainer.settings.run import RunSettings
from tau_trainer.settings.trainers import TrainerSettings, trainer_type
from tau_trainer.sharing.allowed import (
    GYMNASIUM_ARGUMENTS,
    HEADLESS_ARGUMENTS,
    NAME,
    NAMES,
    NUMBER,
    NUMBERS,
    SETTINGS,
    WORD,
    Goes,
    Rule,
    Stays,
    arguments_kept,
    is_played_here,
)

Leaf = tuple[tuple[str, ...], Any]
TRAINERS = [trainer_type(name).settings for name in plugins.own("trainers")]
NAMES_OF = {
    "behavior": "a behavior that is compared with",
    "name": "a lesson, in curves",
    "achieved": "a sensor that is looked for",
    "goal": "a sensor that is looked for",
    "flat_sensors": "sensors that are compared with",
    "agents": "agents that are compared with",
    "player": "a fixed player of the environment's own table",
}
"""Settings that hold any text, and what it is used for: none of them is opened, started, imported or connected to."""
CHECKED = {
    "trainer_type": "names of ours alone",
    "vis_encode_type": "names of ours alone",
    "type": "names of ours alone, or a word",
    "env_path": "environments that come along",
    "profile": "by its pattern",
    "net_arch": "words and numbers",
    "environment.name": "names of ours alone",
}
"""Settings whose annotation takes any text, and what their rule asks of it."""


EXPLORATIONS = {key for kind in {**VALUE_EXPLORATIONS, **NOISES}.values() for key in kind.model_fields}


def leaves(annotation: Any, place: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Every place of a settings file below an annotation, with what its value may be."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        tables = [entry.table for entry in metadata if isinstance(entry, TableSchema)]
        yield from leaves(tables[0] if tables else inner, place)
    elif get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from leaves(member, place)
    elif get_origin(annotation) is dict:
        yield from leaves(get_args(annotation)[1], (*place, "*"))
    elif get_origin(annotation) is tuple:
        for member in get_args(annotation):
            if member is not Ellipsis:
                yield from leaves(member, place)
    elif isinstance(annotation, type) and issubclass(annotation, TrainerSettings):
        for kind in TRAINERS:
            yield from _fields(kind, place)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _fields(annotation, place)
    elif is_typeddict(annotation):
        for key, entry in get_type_hints(annotation, include_extras=True).items():
            yield from leaves(entry, (*place, key))
    else:
        yield place, annotation


def _fields(model: type[BaseModel], place: tuple[str, ...]) -> Iterator[Leaf]:
    for key, entry in model.model_fields.items():
        annotation = entry.rebuild_annotation()
        if key == "hyperparameters" and issubclass(model, TrainerSettings):
            annotation = entry.annotation
        yield from leaves(annotation, (*place, key))


def rule_at(place: tuple[str, ...]) -> Any:
    here: Any = SETTINGS
    for part in place:
        if isinstance(here, Goes):
            return here
        if not isinstance(here, Mapping):
            return None
        here = here.get(part, here.get("*"))
    return here


LEAVES: dict[tuple[str, ...], list[Any]] = {}
"""Every place of a settings file, and what its value may be, but for None."""
for found_place, found_kind in _fields(RunSettings, ()):
    kinds_there = LEAVES.setdefault(found_place, [])
    if found_kind is not NoneType and found_kind not in kinds_there:
        kinds_there.append(found_kind)


def is_text(kind: Any) -> bool:
    """Whether a value of this kind may be any text."""
    return kind not in (int, float, bool) and get_origin(kind) is not Literal


def test_the_walk_finds_what_there_is() -> None:
    places = {".".join(place) for place in LEAVES}
    assert len(places) > 250
    assert {
        "behaviors.*.hyperparameters.hindsight.reward_done",
        "behaviors.*.reward_signals.gail.demo_path",
        "behaviors.*.demo_path",
        "environment_parameters.*.curriculum.completion_criteria.behavior",
        "environment.arguments.*",
    } < places
    assert Hyperparameters.model_fields.keys() <= {place[-1] for place in LEAVES}


@pytest.mark.parametrize("place", LEAVES, ids=".".join)
def test_every_setting_stays_for_a_reason_or_goes(place: tuple[str, ...]) -> None:
    if place in (("environment", "arguments", "*"), ("async_trainer", "exploration", "*")):
        return  # of both each key is looked at below
    rule, name = rule_at(place), ".".join(place)
    assert rule is not None, f"say in tau_trainer/sharing/allowed.py whether {name} of a stranger's may stay"
    if isinstance(rule, Goes):
        return
    texts = [kind for kind in LEAVES[place] if is_text(kind)]
    if isinstance(rule, Mapping):  # a number or a schedule, whose keys have rules of their own
        assert texts == [], name
    elif texts:
        assert Path not in texts, f"{name}: a path stays nowhere"
        assert rule not in (NUMBER, NUMBERS), f"{name} takes texts, and a number alone would stay"
        assert place[-1] in (NAMES_OF if rule in (NAME, NAMES) else CHECKED) or name in CHECKED, name
    else:
        closer = place[-1] in CHECKED
        assert closer or rule in (NUMBER, NUMBERS, WORD), f"{name} takes numbers and words, and so should its rule"


def test_no_rule_is_of_a_setting_that_is_not_there() -> None:
    known = {part for place in LEAVES for part in place} | EXPLORATIONS
    earlier = {"gamma", "encoding_size", "transport"}  # keys of earlier versions, which are read as today's

    def keys(rules: Mapping[str, Rule]) -> Iterator[str]:
        for key, rule in rules.items():
            yield key
            if isinstance(rule, Mapping) and key != "arguments":
                yield from keys(rule)

    assert set(keys(SETTINGS)) - known - earlier - {"*"} == set()
    assert rule_at(("async_trainer", "exploration")).keys() == EXPLORATIONS


@pytest.mark.parametrize("name", plugins.own("batched"))
def test_every_argument_of_our_environments_is_listed(name: str) -> None:
    rules = rule_at(("environment", "arguments"))
    shared = inspect.signature(BatchedEnv.__init__).parameters
    for key, parameter in registry._parameters(registry.environment(name)).items():
        if key in shared:
            continue
        rule = rules[key]
        numbers = parameter.annotation in ("int", "float", "bool", "int | None", "float | None")
        assert isinstance(rule, Goes | Stays)
        assert numbers == (rule == NUMBER), f"{name}: {key}"
        assert ("Path" in parameter.annotation) == isinstance(rule, Goes), f"{name}: {key}"


GYMNASIUM_LEFT = {"self", "desc", "render_mode", "verbose", "xml_file", "main_body", "default_camera_config", "kwargs"}
"""Maps as texts; windows and files; lines on the terminal; of MuJoCo, files and what is not a number."""


def test_arguments_of_gymnasiums_environments_are_listed() -> None:
    found = set[str]()
    for spec in gymnasium.registry.values():
        if not str(spec.entry_point).startswith("gymnasium.envs."):
            continue
        module, _, name = str(spec.entry_point).partition(":")
        try:
            made = getattr(importlib.import_module(module), name)
        except ImportError:  # needs a package more (gymnasium.error.DependencyNotInstalled is none of these)
            continue
        except gymnasium.error.DependencyNotInstalled:
            continue
        found |= inspect.signature(made).parameters.keys()
    assert {"continuous", "map_name"} <= found
    assert found - GYMNASIUM_LEFT <= set(GYMNASIUM_ARGUMENTS.split())


def test_our_engine_knows_every_argument_that_may_stay() -> None:
    for flag, holds in HEADLESS_ARGUMENTS.items():
        words = {"--tau-profile": "tau3", "--tau-reward": "binary", "--tau-split": "train"}
        value = [] if holds is None else [words.get(flag, "1")]
        assert parse_args([flag, *value]).unknown == (), flag
        assert arguments_kept("headless:tau", [flag, *value]) == ([flag, *value], [])


@pytest.mark.parametrize(
    ("played", "words", "kept"),
    [
        ("headless:tau", ["--agents", "/etc/passwd", "--seed", "-1"], ["--seed", "-1"]),
        ("headless:tau", ["--write-build", "evil", "--agents", "4", "--agents=5"], ["--agents", "4", "--agents=5"]),
        ("headless:tau", ["--write-build=evil", "--report-file", "f", "-logFile", "f"], []),
        ("headless:tau", ["--fault", "crash", "--fault-once", "f", "--tau-data", "d", "--scene", "faulty"], []),
        ("headless:tau", ["--tau-target-sensor", "--tau-target-sensor=x"], ["--tau-target-sensor"]),
        ("headless:tau", ["--tau-profile", "../x", "--tau-profile", "2x16"], ["--tau-profile", "2x16"]),
        ("headless:tau", ["evil", "--agents"], []),
        ("headless:tau", ["--agents", "--write-build", "4"], []),
        (
            "gym:LunarLander-v3",
            ["continuous=true", "gravity=-9.8", "xml_file=/etc/x"],
            ["continuous=true", "gravity=-9.8"],
        ),
        ("gym:FrozenLake-v1", ["map_name=8x8", "map_name=../x", "desc=[SF]"], ["map_name=8x8"]),
        ("gym:FrozenLake-v1", ["render_mode=human", "vector_kwargs={a: b}", "is_slippery"], []),
        (
            "gym:CliffWalking-v1",
            ["reward_schedule=[1, 0, 0]", "gravity=!!python/name:os.system"],
            ["reward_schedule=[1, 0, 0]"],
        ),
        ("gym:FrozenLake-v1", ["gravity=!!int ''", "gravity=[", "gravity=a.b", "gravity={a: 1}"], []),
        ("attach:2", ["--agents", "4"], []),
        ("headless:tau", "--write-build", []),
        ("headless:tau", [{"a": 1}, ["b"], None], []),
    ],
)
def test_arguments_come_from_a_list(played: object, words: object, kept: list[str]) -> None:
    stay, left = arguments_kept(played, words)
    assert stay == kept
    given = words if isinstance(words, list) else [words]
    assert sorted(stay + left) == sorted(map(str, given)), "nothing is lost unsaid"


ALONG = """
    editor attach attach:3 godot godot:attach:3 godot:headless:tau headless:tau headless:soccer batched:tau
    gym:CartPole-v1 gym:CartPole gym:phys2d/CartPole-v1
    gym:tau_trainer.games.worlds:GoalWorld-v0 gym:tau_trainer.envs.worlds:BitFlipping-v0
"""
NOT_ALONG = """
    mlagents:pydoc:pipepager pettingzoo:evil batched:os:system /usr/bin/python3 python3 attach:evil
    gym: gym:os:CartPole-v1 gym:GymV21Environment-v0 gym:GymV26Environment-v0 gym:Nope-v0 GYM:CartPole-v1
    headless: headless:../x godot:../x godot:headless:../x
"""


def test_environments_that_come_along_and_others() -> None:
    assert [env for env in (None, *ALONG.split()) if not is_played_here(env)] == []
    others: list[object] = [*NOT_ALONG.split(), " gym:CartPole-v1", "", 5, True, ["headless:tau"], {"a": 1}]
    assert [env for env in others if is_played_here(env)] == []


def test_an_id_that_another_package_registers_is_none_of_gymnasiums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gymnasium.registry, "Evil-v0", gymnasium.spec("CartPole-v1").__class__("Evil-v0", "evil:Env"))
    assert not is_played_here("gym:Evil-v0")
    assert not is_played_here("gym:Evil")
    own = gymnasium.spec("CartPole-v1").__class__("CartPole-v9", "evil:Env")
    monkeypatch.setitem(gymnasium.registry, "CartPole-v9", own)
    assert not is_played_here("gym:CartPole"), "the newest version would be another package's"
