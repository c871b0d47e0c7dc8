"""YAML files: what is read, on which line it stands, and what a file that cannot be read gets told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import SettingsError
from tau_trainer.settings.document import Location, edited, parse_document, read_document


def test_lines_are_known_by_location() -> None:
    document = parse_document("a:\n  b:\n    - c: 1\n    - c: 2\n", "x.yaml")
    assert document.data == {"a": {"b": [{"c": 1}, {"c": 2}]}}
    assert document.lines[("a",)] == 1
    assert document.lines[("a", "b", 1, "c")] == 4
    assert document.line(("a", "b", 0, "missing")) == 3
    assert document.line(("other",)) is None


def test_keys_are_texts_as_they_stand_in_the_file() -> None:
    data = parse_document("3: x\non: y\n1.50: z\nnull: n\n", "x.yaml").data
    assert data == {"3": "x", "on": "y", "1.50": "z", "null": "n"}


def test_anchors_and_merge_keys_work() -> None:
    document = parse_document("a: &base {x: 1, y: 2}\nb:\n  <<: *base\n  y: 3\n", "x.yaml")
    assert document.data["b"] == {"x": 1, "y": 3}
    assert document.duplicates == ()


def test_repeated_keys_are_found_with_the_later_line() -> None:
    assert parse_document("a:\n  b: 1\n  c: 2\n  b: 3\n", "x.yaml").duplicates == ((("a", "b"), 4),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "x.yaml: is empty; it needs at least `behaviors:` or `default_settings:`"),
        ("# only a remark\n", "x.yaml: is empty"),
        ("- a\n- b\n", "x.yaml: must be a mapping"),
        ("just words\n", "x.yaml: must be a mapping"),
        ("a:\n\tb: 1\n", "x.yaml:2: is not valid YAML .* indent with spaces, not tabs"),
        ("a: [1, 2\n", "x.yaml:2: is not valid YAML"),
        ("a: !Weapon {damage: 3}\n", "x.yaml:1: is not valid YAML"),
        ("a: !!binary 3\n", "x.yaml:1: is not valid YAML"),
        ("a: 2001-99-99\n", "x.yaml: is not valid YAML"),
        ("a: 1\n---\nb: 2\n", "x.yaml:2: is not valid YAML"),
        ("? [a, b]\n: 1\n", "x.yaml:1: is not valid YAML .a key must be a plain text"),
        ("a: &a {b: *a}\n", "x.yaml:1: is not valid YAML .* an alias contains itself"),
        ("a: \x01\n", "x.yaml: is not valid YAML"),
        ("[" * 3000, "x.yaml: is nested too deeply"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_cannot_be_read_is_told_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence) as error:
        parse_document(text, "x.yaml")
    assert "\n" not in str(error.value)


TAGGED = {
    "a defaultdict of mlagents-learn 0.20 to 0.25": (
        "a: !!python/object/apply:mlagents.trainers.settings.DefaultTrainerDict\n"
        "  args:\n  - !!python/name:mlagents.trainers.settings.TrainerSettings ''\n"
        "  dictitems:\n    b:\n      c: 1\n",
        {"b": {"c": 1}},
    ),
    "an empty one": ("a: !!python/object/apply:collections.defaultdict\n- !!python/name:builtins.dict ''\n", {}),
    "an ordered one": ("a: !!python/object/apply:collections.OrderedDict\n- - - 3\n    - 1\n", {"3": 1}),
    "what only looks ordered": ("a: !!python/object/apply:collections.OrderedDict [[5, 6, 7]]", [[5, 6, 7]]),
    "an enum": ("a: !!python/object/apply:mlagents.trainers.settings.TrainerType\n- ppo\n", "ppo"),
    "an enum as a key": (
        "a:\n  ? !!python/object/apply:x.SignalType [extrinsic]\n  : {gamma: 1}",
        {"extrinsic": {"gamma": 1}},
    ),
    "a tuple": ("a: !!python/tuple [1, !!python/tuple [2]]", [1, [2]]),
    "an object with attributes": ("a: !!python/object:x.Settings {args: 1, seed: 2}", {"args": 1, "seed": 2}),
    "its state": ("a: !!python/object/new:x.Settings {state: {seed: 2}}", {"seed": 2}),
    "a list of its own kind": ("a: !!python/object/new:x.List {listitems: [1, 2]}", [1, 2]),
    "several arguments": ("a: !!python/object/apply:x.f [[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
    "texts and numbers": (
        "a: [!!python/str 12, !!python/unicode 'b', !!python/long 12, !!python/float 1.5, !!python/none ~]",
        ["12", "b", 12, 1.5, None],
    ),
    "a name": ("a: !!python/name:os.system ''", "os.system"),
}


@pytest.mark.parametrize("name", TAGGED)
def test_what_python_wrote_with_its_tags_is_read_as_the_data_in_it(name: str) -> None:
    text, value = TAGGED[name]
    assert parse_document(text, "x.yaml").data == {"a": value}


def test_lines_and_aliases_lead_to_the_data_in_a_tag() -> None:
    text = (
        "a: &a !!python/object/apply:x.Dict\n  args: [!!python/name:x.y '']\n  dictitems:\n    b: 1\n    b: 2\nc: *a\n"
    )
    document = parse_document(text, "x.yaml")
    assert document.data == {"a": {"b": 2}, "c": {"b": 2}}
    assert document.lines[("a", "b")] == 5
    assert (("a", "b"), 5) in document.duplicates


@pytest.mark.parametrize(
    "call",
    [
        "!!python/object/apply:os.mkdir [{place}]",
        "!!python/object/apply:os.mkdir {{args: [{place}], kwds: {{}}}}",
        "!!python/object/apply:os.mkdir {{args: {place}}}",
        "!!python/object/new:os.mkdir {{args: [{place}], state: 3}}",
        "!!python/object/apply:os.mkdir {place}",
        "!!python/module:antigravity ''",
    ],
)
def test_no_tag_is_executed(call: str, tmp_path: Path) -> None:
    place = tmp_path / "made"
    parse_document(f"a: {call.format(place=place.as_posix())}", "x.yaml")
    assert not place.exists()
    assert "antigravity" not in sys.modules


def test_a_file_called_json_is_json() -> None:
    text = '{\n\t"behaviors":{"3":\t{\n\t\t"max_steps": 1e5,\n\t\t"a\\/b": "\\ud83d\\ude00"}},\n\t"a": 1,\n\t"a": null}'
    document = parse_document(text, "x.JSON")
    assert document.data == {"behaviors": {"3": {"max_steps": 1e5, "a/b": "\U0001f600"}}, "a": None}
    assert document.line(("behaviors", "3", "max_steps")) == 3
    assert document.duplicates == ((("a",), 6),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (" \n", "x.json: is empty"),
        ("[1]", "x.json: must be a mapping"),
        ('{"a": 1,\n}', "x.json:[12]: is not valid JSON .*; correct this line"),
        ('{"a":\n "b\tc"}', "x.json:2: is not valid JSON .Invalid control character at.; correct this line"),
        ("a: 1", "x.json:1: is not valid JSON"),
        ('{"a": ' + "9" * 5000 + "}", "x.json: is not valid JSON"),
        ('{"a": ' + "[" * 100_000, "x.json: is nested too deeply"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_is_no_json_is_told_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence) as error:
        parse_document(text, "x.json")
    assert "\n" not in str(error.value)


def test_an_edited_file_of_json_stays_json() -> None:
    text, kept = edited('{\n\t"a": {"b": 1}\n}', "x.json", {("a", "b"): 2, ("c", "d"): 3})
    assert (json.loads(text), kept) == ({"a": {"b": 2}, "c": {"d": 3}}, True)


def test_an_alias_bomb_is_refused_quickly() -> None:
    levels = ["a0: &a0 {x: 1, y: 2}"]
    levels += [f"a{i}: &a{i} {{{', '.join(f'k{j}: *a{i - 1}' for j in range(9))}}}" for i in range(1, 12)]
    with pytest.raises(SettingsError, match="too large"):
        parse_document("\n".join(levels), "x.yaml")


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfbehaviors: {}\r\n")
    assert read_document(path).data == {"behaviors": {}}


def test_missing_binary_and_folder(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        read_document(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        read_document(tmp_path / "binary.yaml")
    with pytest.raises(SettingsError, match=r"cannot be read|no such file"):
        read_document(tmp_path)


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
    with pytest.raises(SettingsError, match=r"it\.yaml: cannot set environment\.name\.first; add it to the file"):
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
