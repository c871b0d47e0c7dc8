"""The real `UnityEnvironment` (mlagents-envs 1.1.0) launches the Unity project without Unity as its build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import Json, Peer, play_build, play_here

pytestmark = pytest.mark.conformance

BEHAVIOR = "TauAgent?team=0"

Play = Callable[..., Json]


@pytest.fixture
def play(player: Path, peer: Peer, tmp_path: Path) -> Play:
    """Lets `UnityEnvironment` launch the player and play it; keywords as in peer/drive.py.

    `UnityEnvironment` gets no arguments for its build here, so a launcher of one more line passes them.
    """

    def run(arguments: Sequence[str] = (), **wishes: Any) -> Json:
        build = tmp_path / "Game.x86_64"
        build.write_text(f'#!/bin/sh\nexec "{player}" -batchmode {" ".join(arguments)} "$@"\n', encoding="utf-8")
        build.chmod(0o755)
        return play_build(peer, build, tmp_path, **wishes)

    return run


def exchanges(seen: Json) -> list[Json]:
    """The exchanges of the only behavior, without its masks."""
    return [{key: value for key, value in one[BEHAVIOR].items() if key != "masks"} for one in seen["exchanges"]]


def test_the_game_is_our_scenes_bit_for_bit(play: Play) -> None:
    """Ids, rewards, observations, ends and resets as the reference sees them, and as our Python scene has them."""
    wishes: Json = {"areas": 2, "resets": [7, 30], "parameters": {"num_agents": 15.0, "max_decisions": 9.0}}
    seen = play(["--tau-seed", "3"], **wishes)
    assert list(seen["specs"]) == [BEHAVIOR]
    assert all(one["finite"] for one in exchanges(seen))
    assert exchanges(seen) == exchanges(play_here("tau", **wishes))
    ((value, kind),) = seen["stats"]["Averaged Reward"]
    assert (seen["stats"]["Tau/Decisions"], kind) == ([[1020.0, 1]], 0)
    assert -3.0 <= value <= 1.0


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
