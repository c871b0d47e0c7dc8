"""``tau-train play``: what is printed, what is drawn, and what is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.cli import main

GAME = ["play", "hironaka", "--host", "zeillinger", "--agent", "choose_first"]


def test_a_game_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tree = tmp_path / "tree.png"
    assert main([*GAME, "--start", "2,0,0 0,3,0 0,0,5", "--tree", str(tree)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "start  3 points: (2, 0, 0) (0, 3, 0) (0, 0, 5)"
    assert lines[2] == "    1  host names {0,1}, agent takes 0"
    assert lines[3].strip() == "2 points: (2, 0, 0) (0, 0, 5)"  # (3, 3, 0) is nowhere less than (2, 0, 0)
    assert lines[-1].startswith(f"written: {tree} (")
    assert tree.read_bytes()[:4] == b"\x89PNG"


def test_games_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GAME, "--playoff", "100", "--points", "4", "--seed", "2"]) == 0
    assert capsys.readouterr().out.startswith("host zeillinger against agent choose_first: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--start", "1,2 3"], "--start '1,2 3': must be points of whole numbers"),
        (["--start", "1,-2 3,4"], "must be points of whole numbers"),
        (["--points", "0"], "--points 0: must be at least 1"),
        (["--dimension", "1"], "--dimension 1: must be at least 2"),
        (["--dimension", "40", "--points", "3"], "dimension is 40, in which a host has 2^40 choices; use at most 16"),
        (["--tree", "nowhere/tree.png"], "the folder nowhere does not exist"),
        (["--tree", "tree.txt"], "a tree cannot be drawn as 'tree.txt'; end its name with .png or .svg"),
        (["--host", "zeilinger"], "--host zeilinger: neither a run nor a fixed host; did you mean zeillinger?"),
    ],
)
def test_what_is_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = GAME if words[0] != "--host" else [word for word in GAME if word not in ("--host", "zeillinger")]
    assert main([*given, *words]) == 2
    printed, told = capsys.readouterr()
    assert says in " ".join(told.split())
    assert "turn" not in printed
    assert "Traceback" not in told
