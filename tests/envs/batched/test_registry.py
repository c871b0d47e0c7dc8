"""Batched environments by name, their arguments, and their twins."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tau_trainer import plugins
from tau_trainer.envs.batched import registry
from tau_trainer.errors import SettingsError
from tests.envs.batched.counting import Counting

HERE = __name__
COUNTING = "tests.envs.batched.counting:Counting"


class Larger(Counting):
    """Hands everything on but one argument of its own, without which it cannot be made."""

    def __init__(self, num_envs: int, *, largest: int, **options: Any) -> None:
        super().__init__(num_envs, **options)
        self.largest = 12 // largest


class Default(Larger):
    """Has a default for it."""

    def __init__(self, num_envs: int, *, largest: int = 6, **options: Any) -> None:
        super().__init__(num_envs, largest=largest, **options)


class Alone(Counting):
    """Hands nothing on."""

    def __init__(self, num_envs: int, seed: int = 0, device: str = "cpu", starts: Any = "drawn", pool: int = 9) -> None:
        super().__init__(num_envs, seed=seed, device=device, starts=starts, pool=pool)


class CountingTwin:
    def __init__(self, *, limit: int = 6) -> None:
        self.limit = limit


def test_a_class_of_ones_own_is_named_by_its_place() -> None:
    env = registry.make(COUNTING, 3, seed=5, starts="pool", pool=7, limit=4)
    assert isinstance(env, Counting)
    assert (env.num_envs, env.limit, env.starts, env.device) == (3, 4, "pool", torch.device("cpu"))
    wanted = Counting(3, seed=5, starts="pool", pool=7)
    assert (env.reset() == wanted.reset()).all()


def test_arguments_that_are_handed_on_are_arguments_too() -> None:
    env = registry.make(f"{HERE}:Larger", 1, largest=3, limit=2)
    assert isinstance(env, Larger)
    assert (env.largest, env.limit) == (4, 2)
    other = registry.make(f"{HERE}:Default", 1)
    assert isinstance(other, Default)
    assert other.largest == 2
    registry.make(f"{HERE}:Alone", 1)


def test_who_says_nothing_of_starts_has_the_environments_own() -> None:
    assert registry.make("tag_continuous", 1).starts == "fixed"
    assert registry.make("tag_continuous", 1, starts="drawn").starts == "drawn"
    assert registry.make("tag_gridworld", 1).starts == "pool"


def test_a_package_names_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_found", lambda kind: {"counting": COUNTING})
    assert isinstance(registry.make("counting", 1), Counting)
    assert "counting" in registry.names()


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("cartpol", {}, "no batched environment is named 'cartpol'; did you mean cartpole?"),
        ("zzz", {}, "no batched environment is named 'zzz'; known here: tag_gridworld, .*MODULE:CLASS of your own"),
        ("nowhere:Env", {}, "'nowhere:Env' cannot be loaded: ModuleNotFoundError: .* Python's path"),
        (f"{HERE}:HERE", {}, "is not a subclass of tau_trainer.envs.batched.BatchedEnv; name a class that is"),
        (f"{HERE}:CountingTwin", {}, "is not a subclass of tau_trainer.envs.batched.BatchedEnv"),
        (COUNTING, {"limits": 4}, "Counting has no argument 'limits'; did you mean limit?"),
        (f"{HERE}:Alone", {"limit": 4}, "Alone has no argument 'limit'; remove it"),
        (f"{HERE}:Larger", {}, "Larger needs the argument 'largest'; give it a value"),
        (f"{HERE}:Larger", {"largest": 0, "limit": 1}, "cannot be made with largest=0 limit=1: ZeroDivisionError: "),
        (COUNTING, {"starts": "never"}, "starts is 'never'; use drawn, fixed, pool"),
        (COUNTING, {"device": "gpu"}, "device is 'gpu', which torch does not know; use cpu or cuda"),
        (COUNTING, {"pool": 0}, "pool is 0; at least 1 is needed"),
    ],
)
def test_what_cannot_be_made_is_one_sentence(name: str, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        registry.make(name, 2, **arguments)


def test_no_copies_are_too_few() -> None:
    with pytest.raises(SettingsError, match="num_envs is 0; at least 1 is needed"):
        registry.make(COUNTING, 0)


def test_what_every_environment_takes_is_no_argument_of_one() -> None:
    with pytest.raises(SettingsError, match="'seed' is not one of its arguments; set it next to the name"):
        registry.check_arguments(COUNTING, {"seed": 3})


def test_twins_by_the_same_name_and_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"batched": COUNTING, "twins": f"{HERE}:CountingTwin"}
    monkeypatch.setattr(plugins, "_found", lambda kind: {"counting": places[kind]})
    twin = registry.twin("counting", limit=3)
    assert isinstance(twin, CountingTwin)
    assert twin.limit == 3
    with pytest.raises(SettingsError, match=r"counting has no argument 'limt'; did you mean limit\?"):
        registry.twin("counting", limt=3)
    with pytest.raises(SettingsError, match=f"{COUNTING} has no twin; those that have one: tag_gridworld, "):
        registry.twin(COUNTING)


def test_every_environment_that_comes_along_has_a_twin() -> None:
    both_sides = {"hironaka"}  # is two of `polyhedra`
    assert plugins._OWN["twins"].keys() == plugins._OWN["batched"].keys() - both_sides
