from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import SettingsError
from tau_trainer.settings.document import Location
from tau_trainer.settings.editing import edited

FILE = """\
# how many, and why
environment:
  name: cartpole     # the task
  num_envs: 64       # to be found
policies:
  all:
    hyperparameters: {batch_size: 32, gamma: 0.9}  # short
  "other one":
    trainer_type: ppo
"""


def test_what_stands_there_is_written_over_and_comments_stay() -> None:
    values: dict[Location, Any] = {
        ("environment", "num_envs"): 4096,
        ("policies", "all", "hyperparameters", "batch_size"): 8192,
    }
    text, kept = edited(FILE, "it.yaml", values)
    assert kept
    assert text == FILE.replace("64 ", "4096 ").replace("batch_size: 32", "batch_size: 8192")


def test_what_is_missing_is_put_first_with_its_parents() -> None:
    values: dict[Location, Any] = {
        ("policies", "other one", "hyperparameters", "batch_size"): 16,
        ("environment", "pool"): 3,
        ("policies", "all", "hyperparameters", "epsilon"): 0.1,
        ("seed",): 1,
    }
    text, kept = edited(FILE, "it.yaml", values)
    assert kept
    assert "  pool: 3\n  name: cartpole     # the task" in text
    assert '    hyperparameters: {"batch_size": 16}\n    trainer_type: ppo\n' in text
    assert "{epsilon: 0.1, batch_size: 32, gamma: 0.9}  # short" in text
    assert text.count("#") == FILE.count("#")


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("a: &x {n: 1}\nb: *x\n", ("b", "n")),
        ("a: {n: [1, 2]}  # c\n", ("a", "n")),
        ("a:  # c\n", ("a", "n")),
        ("base: &x\n  n: 1\na:\n  <<: *x\n  m: 2\n", ("base", "n")),
    ],
    ids=["an alias", "a list", "nothing", "a merge"],
)
def test_what_cannot_be_said_in_place_is_written_anew(text: str, location: Location) -> None:
    found, kept = edited(text, "it.yaml", {location: 7})
    wanted = yaml.safe_load(text)
    inner = wanted
    for key in location[:-1]:
        inner[key] = dict(inner[key] or {})
        inner = inner[key]
    inner[location[-1]] = 7
    assert yaml.safe_load(found) == wanted
    assert not kept
    assert "#" not in found


def test_the_same_value_again_changes_nothing() -> None:
    assert edited(FILE, "it.yaml", {("environment", "num_envs"): 64}) == (FILE, True)


def test_where_there_is_no_place_it_is_said() -> None:
    with pytest.raises(SettingsError, match=r"it\.yaml: has no place for environment\.name\.first; write it there"):
        edited(FILE, "it.yaml", {("environment", "name", "first"): 1})


LEAVES = st.one_of(st.integers(), st.booleans(), st.text("ab #:'\"-", max_size=5))
TREES = st.recursive(
    LEAVES, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3) | st.lists(inner, max_size=2)
)


@given(st.dictionaries(st.sampled_from("abcd"), TREES, min_size=1), st.booleans(), st.integers(0, 9))
def test_whatever_the_file_only_that_value_changes(data: dict[str, Any], flow: bool, value: int) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, sort_keys=False)
    key = next(iter(data))
    location = (key, "z") if isinstance(data[key], dict) else (key,)
    found, _ = edited(text, "it.yaml", {location: value})
    wanted = dict(data)
    wanted[key] = {**data[key], "z": value} if isinstance(data[key], dict) else value
    assert yaml.safe_load(found) == wanted
