"""The terminal's recorders: a live table, plain lines, errors only, or JSON lines."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from typing import Literal, TextIO

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.text import Text

from tau_trainer.console import Console
from tau_trainer.metrics import keys
from tau_trainer.metrics.format import format_reward, format_seconds, format_speed
from tau_trainer.metrics.jsonl import JsonStream
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.report import ResultView, result_lines
from tau_trainer.metrics.snapshot import RunReport, RunSnapshot
from tau_trainer.metrics.summary import Event, Summary
from tau_trainer.metrics.table import RunView
from tau_trainer.metrics.timers import Clock
from tau_trainer.metrics.trend import Trend
from tau_trainer.shown import shown
from tau_trainer.specs import Json

TerminalMode = Literal["auto", "live", "plain", "quiet", "json"]

REDRAW_SECONDS = 0.25
MAX_SHARE = 0.01
"""Maximum share of one core for drawing."""

_NO_TASK: Json = {}
TAGS = {"warning": "WARNING", "error": "ERROR"}
EVENT_STYLES = {"warning": "yellow", "error": "bold red"}


def terminal_recorder(
    mode: TerminalMode = "auto", *, console: RichConsole | None = None, stream: TextIO | None = None
) -> Recorder:
    """The recorder for a terminal.

    :param mode: ``auto`` is ``live`` on a terminal and ``plain`` when piped.
    :param console: where lines and tables go; default: standard output, and standard error for ``quiet``.
    :param stream: where ``json`` goes; default: standard output.
    """
    console = console if console is not None else _Stream(stderr=mode == "quiet")
    match mode:
        case "json":
            return JsonStream(stream if stream is not None else sys.stdout)
        case "quiet":
            return QuietLines(console)
        case "live":
            return LiveTable(console)
        case "plain":
            return PlainLines(console)
        case "auto":
            can_redraw = console.is_terminal and not console.is_dumb_terminal
            return LiveTable(console) if can_redraw else PlainLines(console)


class _Stream(Console):
    """A console that raises if its reader has gone; rich's own would end the thread that writes for all recorders."""

    def on_broken_pipe(self) -> None:
        """Raises BrokenPipeError."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Throttle:
    """Decides when to draw again: at most four times a second, and with less than 1 % of a core."""

    def __init__(self, clock: Clock = time.monotonic, cpu_clock: Clock = time.thread_time) -> None:
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._next = -float("inf")

    def ready(self) -> bool:
        """True if it is time to draw."""
        return self._clock() >= self._next

    def run(self, draw: Callable[[], None]) -> None:
        """Draw, and delay the next drawing in proportion to the time that this one took."""
        before = self._cpu_clock()
        draw()
        cost = self._cpu_clock() - before
        self._next = self._clock() + max(REDRAW_SECONDS, cost / MAX_SHARE)


class LiveTable(Recorder):
    """The table, redrawn in place; messages scroll by above it; the last panel below."""

    shows = True

    def __init__(self, console: RichConsole, throttle: Throttle | None = None) -> None:
        self._console = console
        self._throttle = throttle if throttle is not None else Throttle()
        self._live: Live | None = None
        self._pending: RunSnapshot | None = None
        self._trends: dict[str, Trend] = {}
        self._task_reward: str | None = None

    def on_summary(self, summary: Summary) -> None:
        """Keep its reward and losses for the next drawing."""
        self._trends.setdefault(summary.behavior, Trend()).add(summary, self._task_reward)

    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        """Draw it, unless the last drawing was too recent: then it is drawn by the next call, or at the end."""
        self._pending = snapshot
        if self._throttle.ready():
            self._throttle.run(self._draw)

    def on_event(self, event: Event) -> None:
        """Print the event's message above the table, if it has one; remember the task's name of the reward."""
        if event.kind == "task":
            self._task_reward = str(event.fields["reward"])
        if event.message is not None:
            self._console.print(Text(shown(event.message), style=EVENT_STYLES.get(event.kind, "")))

    def on_result(self, result: RunReport) -> None:
        """Draw the table for the last time, then how the run ended."""
        self.close()
        self._console.print(ResultView(result))

    def close(self) -> None:
        """Draw pending changes and show the cursor again."""
        self._draw()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        if self._pending is None:
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="ellipsis")
            self._live.start()
        # The empty line is for the terminal's echo of ^C: next to the table, it would move everything above.
        self._live.update(Group(RunView(self._pending, self._trends), Text()), refresh=True)
        self._pending = None


class PlainLines(Recorder):
    """One line for each summary, message, and fact at the end, without wrapping and colours."""

    shows = True

    def __init__(self, console: RichConsole) -> None:
        self._console = console
        self._task = _NO_TASK
        self._last: dict[str, int] = {}
        """The step of each behavior's last line."""

    def on_summary(self, summary: Summary) -> None:
        """Print the line of :func:`summary_line`, unless the behavior's last line is of the same step."""
        again = self._last.get(summary.behavior) == summary.step
        self._last[summary.behavior] = summary.step
        if again and keys.CUMULATIVE_REWARD not in summary.statistics:
            return
        print_line(self._console, f"[INFO] {summary_line(summary, self._task)}")

    def on_event(self, event: Event) -> None:
        """Print the event's message, if it has one; remember the task's names of scalars."""
        if event.kind == "task":
            self._task = event.fields
        if event.message is not None:
            print_line(self._console, f"[{TAGS.get(event.kind, 'INFO')}] {event.message}")

    def on_result(self, result: RunReport) -> None:
        """Print how the run ended."""
        for line in result_lines(result):
            print_line(self._console, f"[INFO] {line}")


class QuietLines(Recorder):
    """``--quiet``: nothing but errors, at the end."""

    shows = True

    def __init__(self, console: RichConsole) -> None:
        self._console = console

    def on_result(self, result: RunReport) -> None:
        """Print errors."""
        for error in result.errors:
            print_line(self._console, f"[ERROR] {error}")


def summary_line(summary: Summary, task: Json = _NO_TASK) -> str:
    """ML-Agents' console line, then speed and ETA.

    ``TauAgent. Step: 1000. Time Elapsed: 1.234 s. Mean Reward: 0.900. Std of Reward: 0.100. Training.
    Decisions/s: 810. ETA: 0:01:23.``; where no episode has ended, the mean reward of a decision stands in its place,
    and beside that of agents in groups, as there, ``Mean Group Reward: 1.250`` in place of the deviation. At self-play
    ``ELO: 1203.125`` follows, and with a replay memory ``Gradient Steps/Decision: 0.42`` after the speed.
    ``task``: fields of the event of that kind, with the names of its scalars.
    """
    parts = [summary.behavior.split("?", 1)[0], f"Step: {summary.step}", f"Time Elapsed: {summary.elapsed_s:0.3f} s"]
    parts += _reward_parts(summary, task)
    parts.append("Training" if summary.training else "Not Training")
    parts.append(f"{summary.unit.title()}/s: {format_speed(summary.decisions_per_second)}")
    if (ratio := summary.statistics.get(keys.STEPS_PER_DECISION)) is not None:
        parts.append(f"Gradient Steps/Decision: {ratio.value:.2f}")
    parts.append(f"ETA: {format_seconds(summary.eta_s)}")
    return ". ".join(parts) + "."


def _reward_parts(summary: Summary, task: Json) -> list[str]:
    """Reward of episodes or decisions. With groups, theirs replaces the deviation, as in ML-Agents.

    Binary success and accuracy come after it.
    """
    for key, name in ((keys.CUMULATIVE_REWARD, "Reward"), (task.get("reward", ""), "Reward per Decision")):
        if (statistics := summary.statistics.get(key)) is not None:
            parts = [
                f"Mean {name}: {format_reward(statistics.mean)}",
                f"Std of {name}: {format_reward(statistics.std)}",
            ]
            break
    else:
        parts = ["No episode was completed since last summary"]
    group = summary.statistics.get(keys.GROUP_CUMULATIVE_REWARD)
    if group is not None and keys.CUMULATIVE_REWARD in summary.statistics:
        parts[1:] = [f"Mean Group Reward: {format_reward(group.mean)}"]
    if (elo := summary.statistics.get(keys.ELO)) is not None:
        parts.append(f"ELO: {format_reward(elo.mean)}")
    for key, name in ((task.get("success", ""), "Success Rate"), (keys.VALIDATION_ACCURACY, "Validation Accuracy")):
        if (share := summary.statistics.get(key)) is not None:
            parts.append(f"{name}: {format_reward(share.value)}")
    return parts


def print_line(console: RichConsole, text: str) -> None:
    """Print one line unchanged: no wrapping, markup, highlighting or colour. Unencodable characters become ``?``."""
    encoding = console.encoding or "utf-8"
    safe = shown(text).encode(encoding, "replace").decode(encoding)
    console.print(safe, soft_wrap=True, markup=False, highlight=False, emoji=False)
