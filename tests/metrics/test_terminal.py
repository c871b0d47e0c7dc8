from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from tau_trainer.metrics import JsonStream, LiveTable, MetricsHub, PlainLines, QuietLines, RunReport, RunSnapshot
from tau_trainer.metrics.terminal import TerminalMode, Throttle, terminal_recorder

Consoles = Callable[..., Console]
TextOf = Callable[[Console], str]
Snapshots = Callable[..., RunSnapshot]


@pytest.mark.parametrize(
    ("mode", "terminal", "kind"),
    [
        ("auto", True, LiveTable),
        ("auto", False, PlainLines),
        ("live", False, LiveTable),
        ("plain", True, PlainLines),
        ("quiet", True, QuietLines),
        ("json", True, JsonStream),
    ],
)
def test_modes(
    mode: TerminalMode, terminal: bool, kind: type, console: Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    recorder = terminal_recorder(mode, console=console(terminal=terminal), stream=io.StringIO())
    assert type(recorder) is kind


def test_a_dumb_terminal_gets_plain_lines(console: Consoles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(terminal_recorder(console=console(terminal=True)), PlainLines)


def test_json_goes_to_the_stream(result: RunReport) -> None:
    stream = io.StringIO()
    with MetricsHub([terminal_recorder("json", stream=stream)]) as hub:
        hub.result(result)
    assert stream.getvalue().startswith('{"type":"result","run_id":"tau-01"')


def test_quiet_writes_errors_to_stderr(result: RunReport, capsys: pytest.CaptureFixture[str]) -> None:
    with MetricsHub([terminal_recorder("quiet")]) as hub:
        hub.warning("engine 3 crashed")
        hub.result(result)
    assert capsys.readouterr() == ("", "[ERROR] pair 2: the engine exited by itself\n")


class Times:
    """A wall clock and a CPU clock that move when told."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.cpu = 0.0

    def throttle(self) -> Throttle:
        return Throttle(0.25, 0.01, clock=lambda: self.wall, cpu_clock=lambda: self.cpu)

    def draw(self, cost: float) -> Callable[[], None]:
        def spend() -> None:
            self.cpu += cost

        return spend


def drawings(times: Times, cost: float, seconds: float) -> int:
    throttle = times.throttle()
    count = 0
    while times.wall < seconds:
        if throttle.ready():
            throttle.run(times.draw(cost))
            count += 1
        times.wall += 0.01
    return count


def test_at_most_four_drawings_a_second() -> None:
    assert 36 <= drawings(Times(), 0.0, 10.0) <= 40


def test_dear_drawings_are_rarer_and_cost_under_a_hundredth() -> None:
    times = Times()
    assert drawings(times, 0.02, 100.0) in (49, 50)
    assert times.cpu <= 0.0101 * times.wall


def test_the_last_snapshot_is_always_drawn(snapshot: Snapshots, console: Consoles, text_of: TextOf) -> None:
    times = Times()
    target = console(80, 30, terminal=True)
    table = LiveTable(target, times.throttle())
    for decisions in (1, 2, 3):
        table.on_snapshot(RunSnapshot("r", "parallel", decisions=decisions))
    assert "1 decisions" in text_of(target)
    assert "3 decisions" not in text_of(target)
    table.close()
    assert "2 decisions" not in text_of(target)
    assert "3 decisions" in text_of(target)


def test_a_whole_run_on_a_terminal(snapshot: Snapshots, result: RunReport, console: Consoles, text_of: TextOf) -> None:
    target = console(80, 30, terminal=True)
    with MetricsHub([LiveTable(target)]) as hub:
        hub.snapshot(snapshot())
        hub.drain()
        hub.warning("engine 3 crashed [1]")
        hub.event("checkpoint", step=1)
        hub.result(result)
    text = text_of(target)
    assert text.index("pair  state") < text.index("engine 3 crashed [1]") < text.index("tau-01 completed")
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1, "the cursor is given back"
    assert text.rstrip().endswith("╯")


def test_closing_twice_and_without_a_snapshot_is_fine(console: Consoles, text_of: TextOf) -> None:
    target = console(terminal=True)
    table = LiveTable(target)
    table.close()
    table.close()
    assert text_of(target) == ""
