"""`tau-train match`: what it shows, and what it refuses."""

from __future__ import annotations

import json

import pytest

from tau_trainer.cli import main
from tau_trainer.metrics.games import Games
from tests.cli.conftest import Refused
from tests.training.fakes import Stage

STRONG = "tau_trainer.headless.scenes.soccer:strong"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage.opened(monkeypatch)


def test_the_command_shows_a_table(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["match", STRONG, "random", "--env", "headless:soccer", "--games", "8"]
    assert main([*words, "--env-args", "--agents", "16"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split()[:7] == ["match,", "actions", "drawn", "games", "won", "drawn", "lost"]
    assert out[0].split()[7:] == ["score", "95", "%", "interval"]
    assert out[1].startswith(f"{STRONG} - random")
    assert len(out) == 2
    assert main([*words, "--json", "--env-args", "--agents", "16"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [entry["first"] for entry in told["matches"]] == [STRONG]
    assert [entry["opponent"] for entry in told["standings"]] == [STRONG, "random"]
    assert told["matches"][0]["played"] == 8
    assert told["deterministic"] is False


def test_the_table_says_that_most_likely_actions_were_taken(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def match(*_: object, deterministic: bool, **__: object) -> dict[tuple[str, str], Games]:
        asked.append(deterministic)
        return {("A", "B"): Games("A - B", won=1)}

    monkeypatch.setattr("tau_trainer.training.matching.match", match)
    words = ["match", STRONG, "random", "builtins:print", "--env", "headless:soccer"]
    for flag, said in (([], "actions drawn"), (["--deterministic"], "most likely actions")):
        assert main([*words, *flag]) == 0
        out = capsys.readouterr().out.splitlines()
        assert [line.split("  ")[0] for line in out if "games" in line] == [
            f"match, {said}",
            f"player, all games, {said}",
        ]
    assert asked == [False, True]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["random"], "a match needs at least two players"),
        (["random", "random"], "each named once"),
        (["random", "nobody"], "nobody: no run of this name"),
        (["random", STRONG, "--games", "0"], "--games 0: must be at least 1"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], said: str, refused: Refused) -> None:
    assert said in refused(["match", *words, "--env", "headless:soccer"])
