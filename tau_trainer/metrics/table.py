"""The live table: a pure function from a :class:`RunSnapshot`, and the trends so far, to something rich can draw.

It adapts when it is drawn: columns that do not fit are left out, pairs that do not fit are one row of aggregates,
and on a console without Unicode (Windows' legacy console) nothing but ASCII is used. Rows are laid out by hand
instead of by ``rich.table``, which makes a drawing about five times cheaper.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.panel import Panel
from rich.text import Text

from tau_trainer.metrics.format import (
    format_bytes,
    format_count,
    format_loss,
    format_percent,
    format_reward,
    format_seconds,
    format_speed,
)
from tau_trainer.metrics.snapshot import BehaviorSnapshot, PairMetrics, PairState, RunSnapshot, Usage
from tau_trainer.metrics.trend import Trend, mean_losses, sparkline
from tau_trainer.shown import shown

STATE_STYLES = {
    PairState.IDLE: "dim",
    PairState.PREPARING: "blue",
    PairState.TRAINING: "green",
    PairState.PLAYING: "green",
    PairState.EVALUATING: "cyan",
    PairState.COMPLETED: "bold green",
    PairState.FAILED: "bold red",
    PairState.CANCELLED: "yellow",
}
RANKS = {PairState.FAILED: 1, PairState.IDLE: 2, PairState.COMPLETED: 3, PairState.CANCELLED: 3}
"""Order of the rows: pairs that run, then failed ones, then those that need no attention."""
MAX_WIDTH = 200
"""Maximum width in characters: longer lines are hard to follow."""
MAX_BEHAVIORS = 8
TREND = "reward so far"
MAX_TREND = 60
LEAST_CURVE = 8
"""Minimum width of a pair's curve, in characters, without its lowest and highest value."""
GAP = "  "


@dataclass(frozen=True, slots=True)
class Marks:
    """Characters that are not plain ASCII, or their replacements."""

    dot: str = "·"
    more: str = "…"
    done: str = "━"
    left: str = "─"
    levels: str = "▁▂▃▄▅▆▇█"
    """Heights of a trend's characters, the lowest first."""
    box: box.Box = box.ROUNDED


UNICODE = Marks()
ASCII = Marks("|", "...", "#", "-", "_.-=*#", box.ASCII)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One right-aligned column: heading, width, content of a cell, and the console width from which it is shown."""

    heading: str
    width: int
    cell: Callable[[PairMetrics], str]
    min_width: int = 0
    of_task: bool = False
    """Whether it is only shown if the run's task asks for it."""
    of_groups: bool = False
    """Whether it is only shown if groups get rewards."""


COLUMNS = (
    TableColumn("decisions", 12, lambda pair: format_count(pair.decisions), 48),
    TableColumn("reward", 8, lambda pair: format_reward(pair.mean_reward)),
    TableColumn("group", 8, lambda pair: format_reward(pair.mean_group_reward), 48, of_groups=True),
    TableColumn("success", 8, lambda pair: format_percent(pair.success_rate), 40, of_task=True),
    TableColumn("validation", 10, lambda pair: format_percent(pair.validation_accuracy), 110, of_task=True),
    TableColumn("episodes", 10, lambda pair: format_count(pair.episodes), 130),
    TableColumn("decisions/s", 11, lambda pair: format_speed(pair.decisions_per_second), 64),
)


@dataclass(frozen=True, slots=True)
class RunView:
    """The live table at this moment, as an object that rich can draw."""

    snapshot: RunSnapshot
    trends: Mapping[str, Trend] = field(default_factory=dict)
    """Trends of the behaviors that have a summary, by name."""
    max_rows: int | None = None
    """Maximum number of pairs; None: as many as fit on the console."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, MAX_WIDTH)
        inner = max(width - 4, 8)
        marks = marks_for(options)
        head = list(_head(self.snapshot, self.trends, inner, marks))
        foot = list(_foot(self.snapshot, inner, marks))
        # Lines other than head and foot: two borders, headings, sums, the row "and more", the line of the cursor.
        fitting = options.max_height - len(head) - len(foot) - 6
        rows = max(fitting if self.max_rows is None else self.max_rows, 1)
        table = _pair_rows(self.snapshot, self.trends, width, rows, marks) if self.snapshot.pairs else ()
        yield Panel(
            Group(*head, *table, *foot),
            title=_title(self.snapshot, inner, marks),
            title_align="left",
            box=marks.box,
            border_style="dim",
            width=width,
        )


def _title(snapshot: RunSnapshot, width: int, marks: Marks) -> Text:
    parts = [snapshot.command, snapshot.subject, "" if snapshot.seed is None else f"seed {snapshot.seed}"]
    run_id = shown(snapshot.run_id)
    text = f" {marks.dot} ".join([run_id, *map(shown, filter(None, parts))])
    title = Text(text if len(text) <= width else text[: width - len(marks.more)] + marks.more)
    title.stylize("bold", 0, len(run_id))
    return title


def marks_for(options: ConsoleOptions) -> Marks:
    """The marks that this console can show."""
    return ASCII if options.ascii_only or options.legacy_windows else UNICODE


def state_counts(pairs: Sequence[PairMetrics]) -> str:
    """Number of pairs in each state, the most frequent first; if all pairs are in one state, its name."""
    states = Counter(pair.state for pair in pairs)
    return pairs[0].state if len(states) == 1 else ", ".join(f"{n} {name}" for name, n in states.most_common())


def merge_pairs(pairs: Sequence[PairMetrics]) -> PairMetrics:
    """Pairs as one: counts and speeds added, means weighted by decisions. Its number and state have no meaning."""
    sums = {name: sum(getattr(pair, name) for pair in pairs) for name in _SUMMED}
    means = {name: _weighted_mean(pairs, name) for name in _AVERAGED}
    scores = [pair.validation_accuracy for pair in pairs if pair.validation_accuracy is not None]
    return PairMetrics(-1, pairs[0].state, **sums, **means, validation_accuracy=max(scores, default=None))


_SUMMED = ("decisions", "decisions_per_second", "episodes")
_AVERAGED = ("mean_reward", "mean_group_reward", "success_rate")


def _weighted_mean(pairs: Sequence[PairMetrics], name: str) -> Any:
    """Mean over the pairs that have a value; unweighted if none has made a decision yet."""
    known = [pair for pair in pairs if getattr(pair, name) is not None]
    weights = [pair.decisions for pair in known] if any(pair.decisions for pair in known) else [1] * len(known)
    return statistics.fmean((getattr(pair, name) for pair in known), weights) if known else None


def _pair_rows(
    snapshot: RunSnapshot, trends: Mapping[str, Trend], width: int, max_rows: int, marks: Marks
) -> Iterator[Text]:
    """Headings, the most important pairs, one row for those that do not fit, and the sums."""
    pairs = sorted(snapshot.pairs, key=lambda pair: (RANKS.get(pair.state, 0), pair.id))
    groups = any(pair.mean_group_reward is not None for pair in pairs)
    known = [column for column in COLUMNS if groups or not column.of_groups]
    known = [column for column in known if not column.of_task or column.heading in snapshot.columns]
    columns = [column for column in known if width >= column.min_width]
    shown = pairs if len(pairs) <= max_rows else pairs[: max(max_rows - 1, 1)]
    first = "pair" if snapshot.command == "parallel" else "engine"
    # The remaining width is for states and trends; the reason of a failed pair takes all of it.
    room = max(width - len(first) - 6 - sum(column.width + len(GAP) for column in columns), 4)
    state_width = max((len(_state(pair)) for pair in shown if pair.error is None), default=0)
    trend_width = room - max(state_width, len(PairState.PREPARING)) - len(GAP)
    state_width = room - trend_width - len(GAP) if trend_width >= len(TREND) else room

    def row(name: str, state: str, trend: str, cells: Sequence[str], style: str = "", state_style: str = "") -> Text:
        line = Text(name.rjust(len(first)) + GAP, style=style, no_wrap=True, overflow="crop")
        if len(state) > state_width or state_width == room:
            line.append(_fit(state, room, marks), style=state_style or None)
        else:
            line.append(state.ljust(state_width), style=state_style or None)
            line.append(GAP + trend.ljust(trend_width), style="cyan" if state_style else None)
        for column, cell in zip(columns, cells, strict=True):
            line.append(GAP + cell.rjust(column.width))
        return line

    def cells(pair: PairMetrics) -> list[str]:
        return [column.cell(pair) for column in columns]

    def trend(pair: PairMetrics) -> str:
        rewards = next((known.pairs[str(pair.id)] for known in trends.values() if str(pair.id) in known.pairs), [])
        ends = f" {_span(rewards)}" if rewards else ""
        ends = ends if trend_width - len(ends) >= LEAST_CURVE else ""
        return sparkline(rewards, min(trend_width, MAX_TREND) - len(ends), marks.levels) + ends

    yield row(first, "state", TREND, [column.heading for column in columns], "dim")
    for pair in shown:
        yield row(str(pair.id), _state(pair), trend(pair), cells(pair), state_style=STATE_STYLES[pair.state])
    if hidden := pairs[len(shown) :]:
        more = f"{marks.more} and {len(hidden)} more: {state_counts(hidden)}"
        yield row("", more, "", cells(merge_pairs(hidden)), "dim")
    if len(pairs) > 1:
        yield row("all", state_counts(pairs), "", cells(merge_pairs(pairs)), "bold")


def _state(pair: PairMetrics) -> str:
    """The state, with the reason of a failure, the machine, and the number of the engine's restarts."""
    if pair.error is not None:
        return f"{pair.state}: {shown(pair.error)}"
    restarts = "1 restart" if pair.restarts == 1 else f"{pair.restarts} restarts"
    where = f" on {shown(pair.node)}" if pair.node and not pair.state.ended else ""
    return f"{pair.state}{where}, {restarts}" if pair.restarts else f"{pair.state}{where}"


def _fit(text: str, width: int, marks: Marks) -> str:
    """``text`` left-aligned to exactly ``width``; longer text is cut and gets a mark."""
    return text.ljust(width) if len(text) <= width else text[: max(width - len(marks.more), 0)] + marks.more


def _head(snapshot: RunSnapshot, trends: Mapping[str, Trend], width: int, marks: Marks) -> Iterator[Text]:
    """Progress, speed, shares of time, age of the acting policy, and rewards and losses."""
    yield _progress(snapshot, width, marks)
    speed = [
        f"{format_speed(snapshot.decisions_per_second)} {snapshot.unit}/s",
        f"elapsed {format_seconds(snapshot.elapsed_s)}",
        f"left {format_seconds(snapshot.eta_s)}",
    ]
    yield from _pack(speed[: 3 if snapshot.learning else 2], width, marks)
    yield from _pack([*_time_parts(snapshot.time_shares), *_usage_parts(snapshot.usage)], width, marks)
    if snapshot.learning:
        yield from _pack(_policy_parts(snapshot), width, marks)
    if snapshot.command == "parallel":
        trend = next(iter(trends.values())) if len(trends) == 1 else Trend()
        yield from _pack([*_trend_parts(trend, width, marks), *_loss_parts(mean_losses(trends))], width, marks)
    else:
        for behavior in snapshot.behaviors[:MAX_BEHAVIORS]:
            trend = trends.get(behavior.name, Trend())
            parts = [*_behavior_parts(behavior), *_trend_parts(trend, width, marks), *_loss_parts(trend.losses)]
            yield from _pack(parts, width, marks)
    yield from _pack(snapshot.figures, width, marks)
    yield from _pack(snapshot.lessons, width, marks)
    if snapshot.pairs:
        yield Text()


def _progress(snapshot: RunSnapshot, width: int, marks: Marks) -> Text:
    """Decisions, a bar and a share. Without a limit: only the decisions. Without room: no bar."""
    share = snapshot.progress
    limit = f" / {format_count(snapshot.max_decisions)}" if share is not None else ""
    line = Text(f"{format_count(snapshot.decisions)}{limit} {snapshot.unit}", no_wrap=True, overflow="ellipsis")
    percent = f"{100 * share:.0f} %" if share is not None else ""
    room = width - len(line) - len(percent) - 2
    if share is not None and room >= 5:
        done = int(share * room)
        line.append(" ").append(marks.done * done, style="green").append(marks.left * (room - done), style="dim")
        line.append(f" {percent}")
    return line


def _time_parts(shares: Mapping[str, float]) -> list[str]:
    """``time: game 62 %, acting 30 %, waiting 8 %, learning 45 %``."""
    return [f"time: {', '.join(f'{name} {100 * share:.0f} %' for name, share in shares.items())}"] if shares else []


def _usage_parts(usage: Usage | None) -> list[str]:
    """``CPU 1.4 of 2 cores`` and ``memory 412 MB``."""
    if usage is None:
        return []
    cores = "cores" if usage.cores is None else f"of {usage.cores} cores"
    memory = [] if usage.memory_bytes is None else [f"memory {format_bytes(usage.memory_bytes)}"]
    return [f"CPU {usage.cpu_cores:.1f} {cores}", *memory]


def _policy_parts(snapshot: RunSnapshot) -> list[str]:
    """Updates and their time; with engines, the age of the acting policy, and the time that engines waited for it."""
    parts = [f"policy updates {format_count(snapshot.policy_version)}, taking {snapshot.update_seconds:.1f} s"]
    if snapshot.pairs:
        parts.append(f"acting policy {snapshot.policy_age:.2f} updates behind")
        parts.append(f"engines waited {snapshot.held_seconds:.1f} s for updates")
    return parts


def _span(values: Sequence[float]) -> str:
    """``0.102 to 0.812``: the lowest and the highest."""
    return f"{format_reward(min(values))} to {format_reward(max(values))}"


def _trend_parts(trend: Trend, width: int, marks: Marks) -> list[str]:
    """The mean reward of each summary as a curve, with the newest, lowest and highest; the same for groups."""
    return [
        f"{name} {sparkline(values, max(width // 4, 8), marks.levels)} {format_reward(values[-1])} ({_span(values)})"
        for name, values in (("reward", trend.rewards), ("group reward", trend.groups))
        if values
    ]


def _loss_parts(losses: Mapping[str, float]) -> list[str]:
    return [f"{name} {format_loss(value)}" for name, value in losses.items()]


def rewards(behavior: BehaviorSnapshot) -> list[str]:
    """``mean reward 0.812``, and for agents in groups ``mean group reward 1.250``."""
    parts = [f"mean reward {format_reward(behavior.mean_reward)}"]
    group = behavior.mean_group_reward
    return parts if group is None else [*parts, f"mean group reward {format_reward(group)}"]


def _behavior_parts(behavior: BehaviorSnapshot) -> list[str]:
    limit = f" / {format_count(behavior.max_steps)}" if behavior.max_steps else ""
    ratio = behavior.steps_per_decision
    return [
        behavior.name,
        f"step {format_count(behavior.step)}{limit}",
        f"{format_count(behavior.episodes)} episodes",
        *rewards(behavior),
        *([] if behavior.mean_length is None else [f"episode length {format_count(round(behavior.mean_length))}"]),
        *([] if ratio is None else [f"{ratio:.2f} gradient steps a decision"]),
    ]


def _foot(snapshot: RunSnapshot, width: int, marks: Marks) -> Iterator[Text]:
    """Validation accuracy next to the baselines, and the message."""
    if snapshot.validation_accuracy is not None or snapshot.baselines:
        yield Text()
        parts = [f"validation accuracy {format_percent(snapshot.validation_accuracy)}"]
        parts += [f"{name} {format_percent(score.accuracy)}" for name, score in (snapshot.baselines or {}).items()]
        lines = _pack(parts, width, marks)
        lines[0].stylize("bold", 0, len(parts[0]))
        yield from lines
    if snapshot.message:
        yield Text(shown(snapshot.message), style="yellow", no_wrap=True, overflow="ellipsis")


def _pack(parts: Sequence[str], width: int, marks: Marks) -> list[Text]:
    """Lines of parts with dots between them, as many in each line as fit."""
    separator = f" {marks.dot} "
    lines: list[str] = []
    for part in map(shown, parts):
        if lines and len(lines[-1]) + len(separator) + len(part) <= width:
            lines[-1] += separator + part
        else:
            lines.append(part)
    return [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]
