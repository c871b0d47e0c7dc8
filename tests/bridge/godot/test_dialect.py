from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.godot.codec import GodotCodec
from tau_trainer.bridge.godot.dialect import Godot
from tau_trainer.bridge.godot.server import GodotServer, framed
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.errors import EngineStoppedError, VersionError
from tests.bridge.conftest import free_port
from tests.bridge.godot.games import introduction
from tests.bridge.test_server import until
from tests.waiting import HANG_S


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


def test_a_game_that_the_editor_stops_leaves_without_a_word() -> None:
    async def main() -> None:
        engine = Engine(0, free_port(), None, EngineOptions(godot=Godot(), timeout_s=HANG_S))
        starting = asyncio.create_task(engine.start())
        try:
            await until(lambda: engine._server.port > 0)
            _, game = await asyncio.open_connection("127.0.0.1", engine._server.port)
            game.write(framed(json.dumps(introduction()).encode()))
            await starting
            resetting = asyncio.create_task(engine.reset({"gravity": 3.0}))
            await asyncio.sleep(0)
            game.close()
            with pytest.raises(EngineStoppedError, match=r"^the Godot editor closed the connection$"):
                await resetting
            assert engine.notes == ["gravity: no effect, because Godot games receive no parameters"]
        finally:
            await engine.kill()

    asyncio.run(asyncio.wait_for(main(), HANG_S))
