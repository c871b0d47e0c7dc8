"""Games at the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.games.polyhedra.table import Game, Table
from tests.games.polyhedra.hironaka import train


def test_a_game_is_told_turn_by_turn() -> None:
    game = Game("zeillinger", "choose_first", start=((0, 0, 4), (5, 0, 1), (1, 5, 1), (0, 25, 0)))
    lines = list(Table(game).play())
    # systems.md 2.4: Zeillinger names {0,2} here; then the first coordinate becomes the sum of both.
    assert lines[:4] == [
        "host zeillinger against agent choose_first: 4 points in 3 dimensions, as given",
        "start  4 points: (5, 0, 1) (1, 5, 1) (0, 25, 0) (0, 0, 4)",
        "    1  host names {0,2}, agent takes 0",
        "       4 points: (6, 0, 1) (4, 0, 4) (2, 5, 1) (0, 25, 0)",
    ]
    assert lines[-1].startswith("over after ")
    assert lines[-2].strip().startswith("1 point: ")
    short = list(Table(Game("all_coord", "choose_first", seed=3, max_steps=2)).play())
    assert len(short) == 7
    assert short[-1] == "not over after 2 turns: the agent holds out (--max-steps)"
    assert short == list(Table(Game("all_coord", "choose_first", seed=3, max_steps=2)).play())


@pytest.mark.usefixtures("unmeasured")
def test_networks_play_games_that_they_have_learned(values: dict[str, Any], tmp_path: Path) -> None:
    folder = str(train(values, tmp_path, "both", default_settings__max_steps=400).folder)
    results = str(tmp_path / "results")
    lines = list(Table(Game("both", "both", seed=5, results_dir=results)).play())
    assert "5 points in 3 dimensions, entries 0 to 20, seed 5" in lines[0]
    assert len(lines) > 3
    assert len(list(Table(Game(folder, "random", points=3)).play())) > 3
    for given in ({"points": 6}, {"dimension": 4}, {"start": ((1, 2), (2, 1))}):
        with pytest.raises(SettingsError, match="games of up to 5 points in 3 dimensions"):
            Table(Game(folder, "random", **given))
    with pytest.raises(SettingsError, match="--host nobody: neither a run nor a fixed host; known here: random"):
        Table(Game("nobody", "random"))
    for path in (tmp_path / "results" / "both" / "checkpoints").rglob("*"):
        if path.is_file():
            path.unlink()
    with pytest.raises(CheckpointError, match="the run has saved no host"):
        Table(Game(folder, "random"))


def test_playoffs_count_games() -> None:
    [games] = Table(Game("random_pair", "choose_first", points=20)).playoff(400)
    assert 5 <= games <= 60
