from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.bridge.demonstrations import read_demonstration
from tau_trainer.bridge.godot.demos import read_godot_demonstration, read_kinds
from tau_trainer.cli.look.demo import convert_command
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.specs import NamedAction

EPISODES = [
    [[[1, 2], [3, 4], [5, 6]], [[0.5, 1], [-0.5, 0]]],
    [[[7, 8], [9, 10]], [[0.25, 2]]],
]


def recorded(folder: Path, content: Any = EPISODES) -> Path:
    path = folder / "expert.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_a_recording_is_converted_whole(tmp_path: Path) -> None:
    target = tmp_path / "expert.demo"
    assert convert_command(str(recorded(tmp_path)), str(target), actions="1,d3", behavior="Ship") == 0
    found = read_demonstration(target)
    assert found.spec.short_name == "Ship"
    assert [(sensor.name, sensor.shape) for sensor in found.spec.observations] == [("obs", (2,))]
    assert (found.spec.actions.continuous_size, found.spec.actions.discrete_branches) == (1, (3,))
    assert found.obs[0].tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
    assert found.actions.continuous.ravel().tolist() == [0.5, -0.5, 0, 0.25, 0]
    assert found.actions.discrete.ravel().tolist() == [1, 0, 0, 2, 0]
    assert found.begins.tolist() == [True, False, False, True, False]
    assert found.ended.tolist() == [False, False, True, False, True]
    assert not found.reward.any()


def test_actions_are_continuous_unless_described(tmp_path: Path) -> None:
    found = read_godot_demonstration(recorded(tmp_path))
    assert (found.spec.short_name, found.spec.actions.continuous_size) == ("shared_policy", 2)
    assert found.actions.continuous[0].tolist() == [0.5, 1]


def test_kinds() -> None:
    assert read_kinds("2, d3") == (NamedAction("action 0", 2, False), NamedAction("action 1", 3, True))
    for text in ("", "x", "0", "d", "1,,2", "-1"):
        with pytest.raises(SettingsError, match="write the actions in their order"):
            read_kinds(text)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        "[[]]",
        "[1]",
        "[[[[1]], [[1]]]]",
        "[[[[1], [2]], [[NaN]]]]",
        '[[[["a"], [2]], [[1]]]]',
        "[[[[1], [2, 3]], [[1]]]]",
        "[[[[1], [2]], [[1]]], [[[1, 2], [2, 3]], [[1]]]]",
        "[" * 100_000,
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match="is not a recording of Godot RL Agents"):
        read_godot_demonstration(recorded(tmp_path, content))
    with pytest.raises(DataError, match="cannot be read"):
        read_godot_demonstration(tmp_path / "none.json")


@pytest.mark.parametrize(("kinds", "said"), [("1", "actions of 2 values, --actions describes 1"), ("1,d2", "one of 2")])
def test_actions_that_are_otherwise_described_are_refused(tmp_path: Path, kinds: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_godot_demonstration(recorded(tmp_path), read_kinds(kinds))


def test_what_convert_cannot_do(tmp_path: Path) -> None:
    source = str(recorded(tmp_path))
    with pytest.raises(SettingsError, match=r"must end in \.demo"):
        convert_command(source, "minari:ship")
    with pytest.raises(SettingsError, match=r"describe a \.json recording"):
        convert_command("minari:ship", "x.demo", actions="2")
