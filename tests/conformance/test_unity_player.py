"""The real `UnityEnvironment` (mlagents-envs 1.1.0) launches the Unity project without Unity as its build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.bridge.ports import is_free
from tools.csharp import build_player, ensure_toolchain, unsupported

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

BEHAVIOR = "TauAgent?team=0"
FIRST_PORT = 25_000

Json = dict[str, Any]
Mirror = Callable[..., Json]
Play = Callable[..., Json]


@pytest.fixture(scope="session")
def player(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The player's launcher; where the compiler cannot run the test is skipped."""
    if reason := unsupported():
        pytest.skip(reason)
    return build_player(ensure_toolchain(), tmp_path_factory.mktemp("player"))


@pytest.fixture
def play(player: Path, peer: Callable[..., Json], tmp_path: Path) -> Play:
    """Lets `UnityEnvironment` launch the player and play it; keywords as in peer/drive.py.

    `UnityEnvironment` gets no arguments for its build here, so a launcher of one more line passes them.
    """

    def run(arguments: Sequence[str] = (), **wishes: Any) -> Json:
        build = tmp_path / "Game.x86_64"
        build.write_text(f'#!/bin/sh\nexec "{player}" -batchmode {" ".join(arguments)} "$@"\n', encoding="utf-8")
        build.chmod(0o755)
        request: Json = {"seed": 3, "areas": 1, "steps": 45, "resets": [], "parameters": {}, "uniform": {}, "later": {}}
        port = next(port for port in range(FIRST_PORT, FIRST_PORT + 2000) if is_free(port))
        seen = peer("drive.py", {**request, **wishes, "build": str(build), "port": port, "log_folder": str(tmp_path)})
        assert seen["exit_code"] == 0, (tmp_path / "Player-0.log").read_text()
        return seen

    return run


def exchanges(seen: Json) -> list[Json]:
    """The exchanges of the only behavior, without its masks."""
    return [{key: value for key, value in one[BEHAVIOR].items() if key != "masks"} for one in seen["exchanges"]]


GAMES: dict[str, tuple[list[str], Json]] = {
    "tau3": (["--tau-agents", "5"], {"steps": 60, "resets": [7, 30], "parameters": {"max_decisions": 9.0}}),
    "tau384": (["--tau-agents", "3", "--tau-profile", "tau384"], {"resets": [11], "parameters": {"threshold": 0.3}}),
    "parameters": ([], {"areas": 2, "parameters": {"num_agents": 3.0, "max_decisions": 4.0}}),
}


@pytest.mark.parametrize("name", GAMES)
def test_the_game_is_our_scenes_bit_for_bit(name: str, play: Play, mirror: Mirror) -> None:
    """Ids, rewards, observations, ends and resets as the reference sees them, and as our Python scene has them."""
    arguments, wishes = GAMES[name]
    seen = play([*arguments, "--tau-seed", "3"], **wishes)
    assert list(seen["specs"]) == [BEHAVIOR]
    assert all(one["finite"] for one in exchanges(seen))
    assert exchanges(seen) == exchanges(mirror("tau", arguments, **{"steps": 45, **wishes}))
    assert seen["close_seconds"] < 10.0


def test_statistics_arrive_in_the_stats_channel(play: Play) -> None:
    stats = play(["--tau-agents", "50"])["stats"]
    assert [value for value, _ in stats["Tau/Decisions"]] == [1000.0, 2000.0]
    assert {kind for _, kind in stats["Tau/Decisions"]} == {1}
    assert {kind for _, kind in stats["Averaged Reward"]} == {0}
    assert all(-3.0 <= value <= 1.0 for value, _ in stats["Averaged Reward"])


def test_pairs_come_and_go(play: Play) -> None:
    """Two of four pairs at a time: agents that leave are ended, and others take their place, as in the reference."""
    arguments = ["--tau-pairs", "4", "--tau-max-concurrent", "2", "--tau-decisions", "10"]
    seen = exchanges(play(arguments, steps=44))
    assert [one["ids"] for one in seen] == [[2 * (step // 10), 2 * (step // 10) + 1] for step in range(45)]
    assert {step: one["ended"] for step, one in enumerate(seen) if one["ended"]} == {
        10: [0, 1],
        20: [2, 3],
        30: [4, 5],
        40: [6, 7],
    }
