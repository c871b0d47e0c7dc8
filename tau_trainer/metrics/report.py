"""The result of a run for the user: a panel on a terminal, otherwise plain lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tau_trainer.metrics.format import format_count, format_percent, format_reward, format_seconds, format_speed
from tau_trainer.metrics.games import HEADINGS, Games, lines
from tau_trainer.metrics.snapshot import BehaviorSnapshot, RunReport
from tau_trainer.metrics.table import marks_for, rewards
from tau_trainer.shown import shown

MAX_WIDTH = 110
"""A wider panel would be mostly empty."""
BORDER_STYLES = {"completed": "green", "cancelled": "yellow", "failed": "red"}


def result_lines(result: RunReport) -> Iterator[str]:
    """The result of a run, one fact on each line, in ASCII except for names that the user chose."""
    yield headline(result)
    for name, reward, accuracy in scores(result):
        known = [] if reward is None else [f"reward {format_reward(reward)}"]
        known += [] if accuracy is None else [f"accuracy {format_percent(accuracy)}"]
        yield f"{name}: {', '.join(known) or 'not evaluated'}"
    if not scores(result):
        for behavior in result.behaviors:
            means = f"{', '.join(rewards(behavior))} {window(behavior)}"
            yield f"{behavior.name}: {means}, after {format_count(behavior.step)} {result.unit}"
            if behavior.games:
                yield f"{behavior.name} at self-play, of all its policies so far{_elo(behavior)}:"
                yield from (f"  {line}" for line in lines(behavior.games))
    yield from (f"error: {error}" for error in result.errors)
    yield from (f"{name}: {path}" for name, path in result.files.items())
    if result.verdict:
        yield from result.verdict.split("\n")


def headline(result: RunReport) -> str:
    """Outcome, decisions, time and speed, on one line."""
    return (
        f"{result.run_id} {result.outcome}: {format_count(result.decisions)} {result.unit} in "
        f"{format_seconds(result.wall_seconds)} ({format_speed(result.decisions_per_second)}/s while "
        f"{'playing' if result.outcome == 'played' else 'learning'})"
    )


def scores(result: RunReport) -> list[tuple[str, float | None, float | None]]:
    """Name, reward and accuracy of the policy and each baseline on test rows; empty: no evaluation."""
    reward, accuracy, seen = (result.score(name) for name in ("reward", "accuracy", "accuracy_train"))
    if reward is None and accuracy is None and not result.baselines:
        return []
    baselines = [(name, score.reward, score.accuracy) for name, score in result.baselines.items()]
    trained = [("policy, training rows", None, seen)] if seen is not None else []
    return [("policy", reward, accuracy), *baselines, *trained]


def window(behavior: BehaviorSnapshot) -> str:
    """The episodes that the means are of, in words."""
    count, where = behavior.window_episodes, f"in its last {behavior.window}"
    return f"{where} ({format_count(count)} {'episode' if count == 1 else 'episodes'})" if count else where


class ResultView:
    """The last panel, as an object that rich can draw: evaluation and baselines, verdict, paths of files."""

    def __init__(self, result: RunReport) -> None:
        self.result = result

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        result = self.result
        parts: list[RenderableType] = [Text(shown(headline(result)), style="bold")]
        parts += [Text(shown(error), style="red") for error in result.errors]
        if scores(result):
            parts += [Text(), _score_table(result)]
        elif result.behaviors:
            windows = dict.fromkeys(f"its last {behavior.window}" for behavior in result.behaviors)
            note = f"mean rewards: of the episodes in {' or '.join(windows)}"
            parts += [Text(), _behavior_table(result), Text(shown(note), style="dim")]
            for behavior in result.behaviors:
                if behavior.games:
                    title = f"{behavior.name} at self-play, of all its policies so far{_elo(behavior)}"
                    parts += [Text(), Text(shown(title)), games_table(behavior.games)]
        if result.files:
            parts += [Text(), _file_table(result)]
        if result.verdict:
            parts += [Text(), Text(shown(result.verdict, lines=True), style="bold")]
        yield Panel(
            Group(*parts),
            box=marks_for(options).box,
            border_style=BORDER_STYLES.get(result.outcome, "dim"),
            width=min(options.max_width, MAX_WIDTH),
        )


def _score_table(result: RunReport) -> Table:
    table = _table("test rows", "reward", "accuracy")
    for name, reward, accuracy in scores(result):
        style = "bold" if name == "policy" else "dim"
        table.add_row(Text(shown(name)), format_reward(reward), format_percent(accuracy), style=style)
    return table


def _behavior_table(result: RunReport) -> Table:
    groups = any(behavior.mean_group_reward is not None for behavior in result.behaviors)
    table = _table("behavior", result.unit, "episodes", "mean reward", *(["mean group reward"] if groups else []))
    for behavior in result.behaviors:
        counts = map(format_count, (behavior.step, behavior.episodes))
        means = map(format_reward, [behavior.mean_reward, *([behavior.mean_group_reward] if groups else [])])
        table.add_row(Text(shown(behavior.name)), *counts, *means)
    return table


def _elo(behavior: BehaviorSnapshot) -> str:
    return "" if behavior.elo is None else f"; Elo {behavior.elo:.1f}"


def games_table(games: Sequence[Games]) -> Table:
    """Results by opponent, as an object that rich can draw."""
    table = _table(*HEADINGS)
    for some in games:
        table.add_row(*(Text(shown(cell)) for cell in some.cells))
    return table


def _file_table(result: RunReport) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, path in result.files.items():
        grid.add_row(Text(shown(name)), Text(shown(str(path))))
    return grid


def _table(first: str, *others: str) -> Table:
    """A table with these headings; all columns but the first are aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
