"""The examples of docs/guides/python-api.md, run as they stand but for the place of the build."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.envs import UnityEnvironmentException

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "python-api.md"
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def run(mark: str, scene: str = "headless:balance") -> dict[str, Any]:
    """The block that holds ``mark``; its names."""
    (block,) = (block for block in BLOCKS if mark in block)
    block = block.replace('UnityEnvironment("path/to/Build")', f'UnityEnvironment("{scene}", base_port=0)')
    block = block.replace('UnityEnvironment(file_name="path/to/Build"', f'UnityEnvironment("{scene}", base_port=0')
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(block.replace("path/to/Build", scene), str(GUIDE), "exec"), names)
    return names


def test_there_are_no_others() -> None:
    assert len(BLOCKS) == 7


def test_the_script() -> None:
    names = run("random_action")
    assert len(names["decisions"]) == 12


def test_a_side_channel_of_ones_own() -> None:
    channel = run("class Words")["Words"]()
    channel.say("hello")
    assert bytes(channel.message_queue[0]) == b"\x05\x00\x00\x00hello"


def test_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    env = run("default_registry")["env"]
    assert "3DBall" in capsys.readouterr().out
    env.reset()
    assert list(env.behavior_specs) == ["3DBall?team=0"]
    env.close()


def test_gymnasium() -> None:
    names = run("make_vec", "headless:basic")
    assert names["envs"].num_envs == 4
    for made in (names["env"], names["envs"]):
        made.reset(seed=1)
        made.close()


def test_pettingzoo() -> None:
    env = run("UnityParallelEnv", "headless:balance")["env"]
    assert len(env.possible_agents) == 12
    env.close()


def test_a_function_that_makes_one() -> None:
    (block,) = (block for block in BLOCKS if "def build" in block)
    names: dict[str, Any] = {}
    exec(block.replace("mlagents_envs.", "tau_trainer.envs.mlagents."), names)
    with pytest.raises(UnityEnvironmentException, match="no program found at 'path/to/Build'"):
        names["build"](0, level=2)
