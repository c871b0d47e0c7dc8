from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable

import pytest
from rich.console import Console

from tau_trainer.metrics import (
    Event,
    JsonStream,
    LiveTable,
    MetricsHub,
    PlainLines,
    QuietLines,
    RunReport,
    RunSnapshot,
    TaskKeys,
    keys,
)
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.terminal import TerminalMode, Throttle, summary_line, terminal_recorder

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
    stream = io.StringIO()
    recorder = terminal_recorder(mode, console=console(terminal=terminal), stream=stream)
    assert type(recorder) is kind
    recorder.on_event(Event("note", 0.0))
    assert stream.getvalue().startswith('{"type":"event"') == (mode == "json")
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(terminal_recorder(console=console(terminal=True)), PlainLines)


class Times:
    """A wall clock and a CPU clock that move when told."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.cpu = 0.0

    def throttle(self) -> Throttle:
        return Throttle(clock=lambda: self.wall, cpu_clock=lambda: self.cpu)

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


def test_at_most_four_drawings_a_second_and_dear_ones_are_rarer_and_cost_under_a_hundredth() -> None:
    assert 36 <= drawings(Times(), 0.0, 10.0) <= 40
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
    nothing = console(terminal=True)
    table = LiveTable(nothing)
    for _ in range(2):
        table.close()
    assert text_of(nothing) == ""


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


TASK = TaskKeys("Tau/Mean Reward", "Tau/Success Rate", "Tau/Aggregated Reward")
GOLDEN = """\
[INFO] TauAgent. Step: 100. Time Elapsed: 2.000 s. No episode was completed since last summary. Training. Decisions/s: \
50. ETA: 0:00:38.
[INFO] TauAgent. Step: 300. Time Elapsed: 4.000 s. Mean Reward: 2.000. Std of Reward: 1.000. Training. Decisions/s: 100\
. ETA: 0:00:17.
[INFO] TauAgent. Step: 2000. Time Elapsed: 6.000 s. Mean Reward per Decision: 0.500. Std of Reward per Decision: 0.500.\
 Success Rate: 0.250. Validation Accuracy: 0.913. Not Training. Decisions/s: 850. ETA: 0:00:00.
[WARNING] engine 3 crashed; it is restarted [1 of 5]
[INFO] exported TauAgent.onnx
[INFO] tau-01 completed: 200,000 decisions in 0:01:01 (3,279/s while learning)
[INFO] policy: reward 0.700, accuracy 93.0 %
[INFO] zeros: reward -0.100, accuracy 3.3 %
[INFO] constant: reward 0.120, accuracy 16.7 %
[INFO] majority: reward 0.100, accuracy 16.7 %
[INFO] ridge: reward 0.720, accuracy 96.0 %
[INFO] policy, training rows: accuracy 97.0 %
[INFO] error: pair 2: the engine exited by itself
[INFO] policy: results/tau-01/TauAgent.onnx
[INFO] The policy beats every baseline.
"""


def run(recorder: Recorder, result: RunReport) -> None:
    """A whole run, with a clock that moves two seconds a summary."""
    now = [0.0]
    with MetricsHub([recorder], clock=lambda: now[0]) as hub:
        hub.task(TASK)
        hub.begin("TauAgent?team=0", max_steps=2000, hyperparameters={"gamma": 0.0})
        now[0] = 2.0
        hub.flush("TauAgent?team=0", 100)
        now[0] = 4.0
        hub.episode("TauAgent?team=0", 0, [1.0, 3.0], [10, 10])
        hub.flush("TauAgent?team=0", 300)
        now[0] = 6.0
        hub.add("TauAgent?team=0", "Tau/Mean Reward", [0.0, 1.0])
        hub.add("TauAgent?team=0", "Tau/Success Rate", [False, True, False, False])
        hub.add("TauAgent?team=0", "Validation/Accuracy", 0.913)
        hub.flush("TauAgent?team=0", 2000, training=False)
        hub.warning("engine 3 crashed; it is restarted [1 of 5]")
        hub.event("exported", message="exported TauAgent.onnx")
        hub.event("checkpoint", step=3)
        hub.result(result)


@pytest.mark.parametrize("terminal", [False, True])
def test_golden(console: Consoles, text_of: TextOf, result: RunReport, terminal: bool) -> None:
    """Without escape codes also on a terminal."""
    target = console(40, 10, terminal=terminal)
    run(PlainLines(target), result)
    assert text_of(target).replace("\\", "/") == GOLDEN


def test_what_the_console_cannot_write_becomes_a_question_mark(console: Consoles, text_of: TextOf) -> None:
    target = console(ascii_only=True)
    with MetricsHub([PlainLines(target)]) as hub:
        hub.warning("Übung")
    assert text_of(target) == "[WARNING] ?bung\n"


def test_quiet_writes_nothing_but_errors_to_stderr(result: RunReport, capsys: pytest.CaptureFixture[str]) -> None:
    run(terminal_recorder("quiet"), result)
    assert capsys.readouterr() == ("", "[ERROR] pair 2: the engine exited by itself\n")


@pytest.mark.parametrize("mode", ["plain", "json"])
def test_a_reader_that_has_gone_is_an_error_as_of_any_file(mode: TerminalMode, monkeypatch: pytest.MonkeyPatch) -> None:
    """rich would end the thread that calls all recorders, and point stdout elsewhere."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Gone())
    recorder = terminal_recorder(mode)
    assert recorder.shows
    with pytest.raises(BrokenPipeError):
        recorder.on_event(Event("note", 0.0, {"message": "a"}))


def test_groups_have_mlagents_words() -> None:
    hub = MetricsHub()
    hub.episode("A", 0, [0.0, 0.0], [5, 5], [2.0, float("nan")])
    line = summary_line(hub.flush("A", 10))
    assert ". Mean Reward: 0.000. Mean Group Reward: 2.000. Training." in line
    hub.add("A", keys.ELO, [1201.0, 1202.0])
    assert "ELO: 1201.500. Training." in summary_line(hub.flush("A", 20))
    assert "Std" not in line
    assert "Gradient" not in line
    hub.add("A", keys.STEPS_PER_DECISION, 0.126)
    assert ". Gradient Steps/Decision: 0.13. ETA: " in summary_line(hub.flush("A", 30))


def test_a_step_is_told_of_once_unless_episodes_ended_since(console: Consoles, text_of: TextOf) -> None:
    target = console(ascii_only=True)
    with MetricsHub([PlainLines(target)]) as hub:
        for step, episodes in ((100, 1), (100, 0), (100, 1), (200, 0), (100, 0)):
            hub.episode("A", 0, [float(step)] * episodes, [1] * episodes)
            hub.flush("A", step)
    assert [line.split("Step: ")[1][:3] for line in text_of(target).splitlines()] == ["100", "100", "200", "100"]
