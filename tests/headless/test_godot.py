"""The headless engine as a Godot game, against a trainer of plain sockets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.godot.dialect import GREETING
from tau_trainer.bridge.godot.server import framed
from tau_trainer.headless.args import build_arguments, parse_args
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import create_scene
from tests.headless.conftest import EngineThread
from tests.waiting import HANG_S


class Trainer:
    """Greets one game and speaks with it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(HANG_S)
        self.port = self._listener.getsockname()[1]

    def greet(self) -> dict[str, Any]:
        self._game, _ = self._listener.accept()
        self._game.settimeout(HANG_S)
        self._reader = self._game.makefile("rb")
        self._game.sendall(b"".join(map(framed, GREETING)))
        return self.hear()

    def hear(self) -> dict[str, Any]:
        size = int.from_bytes(self._reader.read(4), "little")
        found: dict[str, Any] = json.loads(self._reader.read(size))
        return found

    def say(self, **message: Any) -> None:
        self._game.sendall(framed(json.dumps(message).encode()))

    def close(self) -> None:
        self._listener.close()
        if hasattr(self, "_game"):
            self._reader.close()
            self._game.close()


@pytest.fixture
def trainer() -> Iterator[Trainer]:
    found = Trainer()
    yield found
    found.close()


def start(trainer: Trainer, *flags: str) -> EngineThread:
    game = EngineThread(["--dialect", "godot", f"--port={trainer.port}", *flags])
    game.start()
    return game


def test_a_game_as_the_plugin_plays_it(trainer: Trainer) -> None:
    game = start(trainer, "--scene", "balance", "--agents", "2", "--max-decisions", "1", "--env_seed=5")
    said = trainer.greet()
    assert (said["type"], said["n_agents"]) == ("env_info", 2)
    assert said["agent_policy_names"] == ["3DBall?team=0"] * 2
    assert said["action_space"] == [{"move": {"size": 2, "action_type": "continuous"}}] * 2
    ((sensor, described),) = said["observation_space"][0].items()
    assert described == {"size": [8], "space": "box"}
    trainer.say(type="reset")
    first = trainer.hear()
    assert (first["type"], first["info"]) == ("reset", [{}, {}])
    twin = create_scene(parse_args(["--scene", "balance", "--agents", "2"]), EnvironmentParameters(), seed=5)
    (batch,) = twin.reset(EnvironmentParameters())
    np.testing.assert_array_equal(np.array([seen[sensor] for seen in first["obs"]], np.float32), batch.obs[0])
    trainer.say(type="action", action=[{"move": [0.0, 0.5]}] * 2)
    step = trainer.hear()
    assert (step["type"], step["done"]) == ("step", [True, True])
    assert step["reward"] == pytest.approx([0.1, 0.1])
    assert step["obs"] != first["obs"]
    trainer.say(type="close")
    assert game.finish() == 0


def test_pictures_are_godots(trainer: Trainer) -> None:
    game = start(trainer, "--scene", "gridworld", "--agents", "1")
    space = trainer.greet()["observation_space"][0]
    ((name, described),) = [(key, entry) for key, entry in space.items() if "2d" in key]
    trainer.say(type="reset")
    channels, height, width = described["size"]
    picture = np.frombuffer(bytes.fromhex(trainer.hear()["obs"][0][name]), np.uint8)
    assert picture.reshape(height, width, channels).any()
    (batch,) = create_scene(parse_args(["--scene", "gridworld", "--agents", "1"]), EnvironmentParameters()).reset(
        EnvironmentParameters()
    )
    (wanted,) = [sensor[0] for sensor in batch.obs if sensor.dtype == np.uint8]
    np.testing.assert_array_equal(picture.reshape(height, width, channels).transpose(2, 0, 1), wanted)
    trainer.say(type="close")
    assert game.finish() == 0


@pytest.mark.parametrize(
    ("said", "code"), [({"type": "close"}, 0), ({"type": "call", "method": "x"}, 2)], ids=["close", "call"]
)
def test_other_messages(trainer: Trainer, said: dict[str, Any], code: int) -> None:
    game = start(trainer, "--scene", "basic")
    trainer.greet()
    trainer.say(**said)
    assert game.finish() == code


def test_agents_that_change_their_behavior_are_not_for_godot(trainer: Trainer) -> None:
    game = start(trainer, "--scene", "walljump", "--agents", "16", "--max-decisions", "1")
    space = trainer.greet()["action_space"][0]
    trainer.say(type="reset")
    trainer.hear()
    trainer.say(type="action", action=[dict.fromkeys(space, 0)] * 16)
    assert game.finish() == 2


def test_a_godot_builds_flags() -> None:
    given = ["--port=6000", "--env_seed=4", "--speedup=3", "--action_repeat=2", "--headless", "--disable-render-loop"]
    options = parse_args([*given, "--level=3"])
    assert (options.port, options.trainer_seed, options.unknown) == (6000, 4, ("--level=3",))
    assert build_arguments(given) == []
