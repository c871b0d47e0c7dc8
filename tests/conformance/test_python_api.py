"""The same scripts against mlagents-envs 1.1.0 and against our own API, which is a search and replace away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.headless.build import write_build
from tau_trainer.headless.scenes import SCENES
from tests.conformance.conftest import free_port
from tools.peers import ROOT

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

Json = dict[str, Any]
Peer = Callable[..., Json]
Play = Callable[..., Json]

SOUND = ("--fault", "slow-start", "--fault-seconds", "0")
"""A fault that is none."""
GAMES: dict[str, tuple[str, Sequence[str]]] = {scene: (scene, ("--agents", "4", *SOUND)) for scene in SCENES}
GAMES["tau384"] = ("tau", ("--agents", "3", "--tau-profile", "tau384"))
GAMES["areas"] = ("balance", ("--agents", "3"))


@pytest.fixture
def both(peer: Peer, ours: Peer, tmp_path: Path) -> Callable[..., tuple[Json, Json]]:
    """One script, once on either API; keywords as in peer/drive.py."""

    def run(scene: str, arguments: Sequence[str] = (), script: str = "drive.py", **wishes: Any) -> tuple[Json, Json]:
        request: Json = {"seed": 3, "areas": 1, "steps": 40, "resets": [], "parameters": {}, "uniform": {}, "later": {}}
        build = write_build(tmp_path / "build", scene, arguments)
        request |= {**wishes, "build": str(build), "port": free_port(), "log_folder": str(tmp_path)}
        theirs, own = peer(script, request), ours(script, request)
        for changing in ("exit_code", "close_seconds"):
            theirs.pop(changing, None)
            own.pop(changing, None)
        return theirs, own

    return run


@pytest.mark.parametrize("game", GAMES)
def test_the_same_script_sees_the_same_game(game: str, both: Callable[..., tuple[Json, Json]]) -> None:
    """Specs, ids, rewards, groups, masks, ends, statistics; observations by the hash of their float32 bytes."""
    scene, arguments = GAMES[game]
    theirs, own = both(
        scene,
        arguments,
        areas=2 if game == "areas" else 1,
        steps=60,
        resets=[7, 30],
        parameters={"max_decisions": 9.0},
        uniform={"gravity": (5.0, 12.0, 3)},
        later={"20": {"max_decisions": 5.0}},
    )
    assert list(own["specs"]) == list(theirs["specs"])
    assert own["specs"] == theirs["specs"]
    for step, (one, other) in enumerate(zip(own["exchanges"], theirs["exchanges"], strict=True)):
        assert one == other, f"exchange {step}"
    assert own["stats"] == theirs["stats"]
    assert any(part["ended"] for one in own["exchanges"] for part in one.values())


FAULTS = {
    "crash": "UnityEnvironmentException",
    "stall": "UnityTimeOutException",
    "nan-observation": "RuntimeError",
    "nan-reward": "RuntimeError",
    "exit": "UnityEnvironmentException",
    "wrong-version": "UnityEnvironmentException",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_script_catches_the_same_exceptions(fault: str, both: Callable[..., tuple[Json, Json]]) -> None:
    theirs, own = both("faulty", ["--fault", fault, "--fault-after", "3"], "catch.py", expected=FAULTS[fault])
    assert own == theirs
    assert own["caught"] == FAULTS[fault]


def test_names_and_meanings(peer: Peer, ours: Peer) -> None:
    theirs, own = peer("surface.py"), ours("surface.py")
    members, known = own["names"].pop("members"), theirs["names"].pop("members")
    for name in known:
        assert set(known[name]) <= set(members[name]), name
    for part in theirs:
        for name in theirs[part]:
            assert own[part][name] == theirs[part][name], f"{part}: {name}"


@pytest.mark.parametrize("scene", ["balance", "basic", "tau"])
def test_a_real_object_is_played_as_by_hand(scene: str, peer: Peer, tmp_path: Path) -> None:
    """`--env mlagents:MODULE:FUNCTION` with the real `UnityEnvironment`: what a pair sees is what the API tells."""
    build = write_build(tmp_path / "build", scene, ("--agents", "3"))
    seen = peer("trained.py", {"build": str(build), "port": free_port()}, PYTHONPATH=str(ROOT))
    assert seen["as_a_pair"] == seen["by_hand"]
    assert any(ended for _, _, ended, *_ in seen["as_a_pair"]["seen"])
