"""What commands that take long say on their way."""

from __future__ import annotations

import pytest

from tau_trainer.cli import main, progress
from tau_trainer.cli.progress import ProgressBar


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


def test_elsewhere_than_on_a_terminal_a_line_comes_now_and_then(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressBar() as shown:
        for second in range(14):
            clock.now = 100.0 + second
            shown.tell("playing", second / 13, f"{second} of 13")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["playing 8%: 1 of 13", "playing 46%: 6 of 13", "playing 85%: 11 of 13"]


def test_what_is_counted_has_a_speed_and_a_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(after_s=0.0) as shown:
        shown.count("embedding", 64, 1000, "texts")
        clock.now += 8.0
        shown.count("embedding", 160, 1000, "texts")
    assert capsys.readouterr().err.splitlines() == [
        "embedding 6%: 64 of 1,000 texts",
        "embedding 16%: 160 of 1,000 texts, 12 a second, 0:01:10 left",
    ]


def test_what_is_over_soon_or_silent_says_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar() as quick, ProgressBar(silent=True, after_s=0.0) as silent:
        for shown in (quick, silent):
            shown.tell("playing", 1.0, "all")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("play hironaka --host zeillinger --agent choose_first --points 3 --playoff 4", "playing 25%: 1 of 4 turns"),
        ("check-env cartpole --steps 4 --copies 2", "checking 25%: 1 of 4 steps"),
        ("check-env cartpole --steps 4 --copies 2", "comparing 25%: 1 of 4 steps"),
    ],
)
def test_long_commands_say_how_far_they_are(
    words: str, says: str, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ProgressBar.__init__

    def begun(self: ProgressBar, **_: object) -> None:
        before(self, after_s=0.0)

    monkeypatch.setattr(ProgressBar, "__init__", begun)
    assert main(words.split()) == 0
    assert says in capsys.readouterr().err.splitlines()
