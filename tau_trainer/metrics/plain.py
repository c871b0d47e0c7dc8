"""Plain lines, for pipes, log files and CI: ML-Agents' line a summary, with speed and ETA behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from tau_trainer.metrics import keys
from tau_trainer.metrics.format import format_reward, format_seconds, format_speed
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.report import result_lines
from tau_trainer.metrics.snapshot import RunReport
from tau_trainer.metrics.summary import Event, Summary

_NO_TASK: Mapping[str, Any] = {}
TAGS = {"warning": "WARNING", "error": "ERROR"}


class PlainLines(Recorder):
    """One line a summary, one a message, one a fact at the end. Never wrapped, never coloured."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._task = _NO_TASK
        self._last: dict[str, int] = {}
        """The step that each behavior's last line was about."""

    def on_summary(self, summary: Summary) -> None:
        """Print the line of :func:`summary_line`; a step that nothing has happened since has its line already."""
        again = self._last.get(summary.behavior) == summary.step
        self._last[summary.behavior] = summary.step
        if again and keys.CUMULATIVE_REWARD not in summary.statistics:
            return
        print_line(self._console, f"[INFO] {summary_line(summary, self._task)}")

    def on_event(self, event: Event) -> None:
        """Print the event's message, if it has one; remember what a task calls its scalars."""
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

    def __init__(self, console: Console) -> None:
        self._console = console

    def on_result(self, result: RunReport) -> None:
        """Print errors."""
        for error in result.errors:
            print_line(self._console, f"[ERROR] {error}")


def summary_line(summary: Summary, task: Mapping[str, Any] = _NO_TASK) -> str:
    """ML-Agents' console line, then speed and ETA.

    ``TauAgent. Step: 1000. Time Elapsed: 1.234 s. Mean Reward: 0.900. Std of Reward: 0.100. Training.
    Decisions/s: 810. ETA: 0:01:23.``; where no episode has ended, the mean reward of a decision stands in its place,
    and beside that of agents in groups, as there, ``Mean Group Reward: 1.250`` in place of the deviation.
    ``task``: fields of the event of that kind, with the names of its scalars.
    """
    parts = [summary.behavior.split("?", 1)[0], f"Step: {summary.step}", f"Time Elapsed: {summary.elapsed_s:0.3f} s"]
    parts += _reward_parts(summary, task)
    parts.append("Training" if summary.training else "Not Training")
    parts.append(f"Decisions/s: {format_speed(summary.decisions_per_second)}")
    parts.append(f"ETA: {format_seconds(summary.eta_s)}")
    return ". ".join(parts) + "."


def _reward_parts(summary: Summary, task: Mapping[str, Any]) -> list[str]:
    """Reward of episodes, with that of groups in the place of its deviation as ML-Agents has it, or of decisions.

    Binary success and accuracy come after it.
    """
    parts: list[str] = []
    for key, name in ((keys.CUMULATIVE_REWARD, "Reward"), (task.get("reward", ""), "Reward per Decision")):
        if (one := summary.statistics.get(key)) is not None:
            parts = [f"Mean {name}: {format_reward(one.mean)}", f"Std of {name}: {format_reward(one.std)}"]
            break
    else:
        parts = ["No episode was completed since last summary"]
    group = summary.statistics.get(keys.GROUP_CUMULATIVE_REWARD)
    if group is not None and keys.CUMULATIVE_REWARD in summary.statistics:
        parts[1:] = [f"Mean Group Reward: {format_reward(group.mean)}"]
    for key, name in ((task.get("success", ""), "Success Rate"), (keys.VALIDATION_ACCURACY, "Validation Accuracy")):
        if (one := summary.statistics.get(key)) is not None:
            parts.append(f"{name}: {format_reward(one.value)}")
    return parts


def print_line(console: Console, text: str) -> None:
    """One line as it is: no wrapping, markup, highlighting or colour. What the console cannot encode becomes ``?``."""
    encoding = console.encoding or "utf-8"
    safe = text.encode(encoding, "replace").decode(encoding)
    console.print(safe, soft_wrap=True, markup=False, highlight=False, emoji=False)
