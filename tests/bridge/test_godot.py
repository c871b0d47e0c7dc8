from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.bridge.godot import Godot
from tau_trainer.bridge.godot_codec import GodotCodec
from tau_trainer.bridge.godot_server import GodotServer
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.errors import VersionError
from tests.bridge.test_godot_codec import introduction


def test_the_flags_of_a_build_are_the_plugins(tmp_path: Path) -> None:
    build = tmp_path / "Game.x86_64"
    build.touch(0o755)
    spec = LaunchSpec.of(str(tmp_path / "Game"), Godot(7, 8.0), env_args=("--level=3",))
    assert spec.argv(6000, 2)[-5:] == [str(build), "--port=6000", "--env_seed=9", "--speedup=8", "--level=3"]
    spec = LaunchSpec.of(str(build), Godot(7, 0.5, action_repeat=4), no_graphics=True)
    assert spec.argv(6000, 0)[-4:] == ["--speedup=0.5", "--action_repeat=4", "--headless", "--disable-render-loop"]


def test_the_headless_engine_can_stand_for_a_build() -> None:
    argv = LaunchSpec.of("headless:balance", Godot()).argv(6000, 0)
    assert argv[argv.index("--dialect") + 1] == "godot"
    assert "--dialect" not in LaunchSpec.of("headless:balance").argv(6000, 0)


def test_its_games_have_a_server_of_their_own() -> None:
    assert isinstance(EngineOptions(godot=Godot()).server(), GodotServer)
    assert not isinstance(EngineOptions().server(), GodotServer)


@pytest.mark.parametrize(("order", "flat"), [("auto", False), ("channels_last", False), ("declared", True)])
def test_meeting_a_game(order: Any, flat: bool) -> None:
    dialect = Godot(truncate_after=5)
    picture = {"camera_2d": {"size": [1, 1, 2], "space": "box"}}
    first = dialect.parse(json.dumps(introduction(1, observation_space=picture)).encode())
    package, codec, answer = dialect.meet(first, EngineOptions(image_order=order), 0)
    assert answer is None  # the reset answers it
    assert isinstance(codec, GodotCodec)
    assert package.notes == []
    (group,) = codec._groups.values()
    assert (group.sensors[0].kind == "flat picture") is flat
    assert codec._limit == 5


def test_a_game_with_unknown_spaces_is_refused() -> None:
    first = Godot().parse(json.dumps(introduction(1, action_space={})).encode())
    with pytest.raises(VersionError, match="has no actions"):
        Godot().meet(first, EngineOptions(), 0)
