"""Reward and losses of runs as one PNG: what the report's charts show, of several runs beside each other.

Runs that differ in nothing but their seed are drawn as one line, their mean, with a band from the lowest to the
highest of them; the band of a run that stands alone is over its pairs, or one standard deviation.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tau_trainer.errors import TauError
from tau_trainer.metrics import keys
from tau_trainer.metrics.history import Curve, History, moving_mean
from tau_trainer.metrics.plot import COLORS, legend, new_figure, style
from tau_trainer.report.configuration import Configuration
from tau_trainer.report.curves import Line, chart_of
from tau_trainer.runs.folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

What = Literal["reward", "loss", "both"]
Along = Literal["decisions", "time"]
_SEED_ALONE = ("env_settings.seed", "env_settings.base_port", "checkpoint_settings.", "sampler_parameters.seed")
"""In the keys in which runs of one thing may differ."""
_LOSSES = "Losses/"
_HOUR, _MINUTE = 3600.0, 60.0


def draw_runs(folders: Sequence[Path], what: What = "reward", along: Along = "decisions", smooth: int = 1) -> Figure:
    """The picture.

    Args:
        folders: of the runs.
        what: the reward, each of the losses, or both, each in a panel of its own.
        along: what the horizontal axis counts.
        smooth: points of a curve that are averaged; 1: none.

    Raises:
        TauError: a run has no log, or nothing of what is asked for is in any.
    """
    groups = _groups(folders)
    histories = {name: [_history(folder, along) for folder in members] for name, members in groups.items()}
    every = [one for members in histories.values() for one in members]
    panels = [key for key in _keys(every, what) if any(one.overall(key) for one in every)]
    if not panels:
        raise TauError(f"{' '.join(map(str, folders))}: no {'reward' if what == 'both' else what} is in the log yet")
    figure, axes = new_figure(", ".join(groups), len(panels))
    for key, panel in zip(panels, axes, strict=True):
        _panel(panel, key, histories, smooth)
    _x_axis(axes[-1], along)
    return figure


def _history(folder: Path, along: Along) -> History:
    log = RunFolder(folder, resumed=True).log
    if not log.is_file():
        raise TauError(f"'{folder}' has no {log.name}, so there is nothing to plot; name a run of Tau Trainer")
    history = replace(History.load(folder), run_id=folder.resolve().name)
    return (history.over_time() if along == "time" else history).merge_independent()


def _groups(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """Runs of one thing together, under a name."""
    alike: dict[object, list[Path]] = {}
    for folder in folders:
        told = Configuration.load(RunFolder(folder, resumed=True).configuration)
        values = [(one.place, repr(one.value)) for one in told.settings.values() if not _may_differ(one.place)]
        alike.setdefault(tuple(values) if told.fault is None else folder, []).append(folder)
    named: dict[str, list[Path]] = {}
    for members in alike.values():
        names = [folder.resolve().name for folder in members]
        common = _beginning(names) or names[0]
        name = names[0] if len(names) == 1 else f"{common} ({len(names)} runs)"
        named[name if name not in named else str(members[0])] = members
    return named


def _beginning(names: Sequence[str]) -> str:
    """Of all names."""
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike).rstrip("-_. ")


def _may_differ(place: str) -> bool:
    return any(part in place for part in _SEED_ALONE)


def _keys(histories: Sequence[History], what: What) -> list[str]:
    """The scalars of the panels, from top to bottom."""
    task = next((one.task for one in histories if one.task), {})
    there = [
        key for key in (task.get("reward", ""), *keys.EPISODE_REWARDS) if any(one.overall(key) for one in histories)
    ]
    rewards = [*(there[:1] or [""]), *(key for key in there[1:] if key == keys.GROUP_CUMULATIVE_REWARD)]
    known = dict.fromkeys(key for one in histories for key in one.curves)
    losses = sorted(key for key in known if key.startswith(_LOSSES))
    return [*(rewards if what != "loss" else []), *(losses if what != "reward" else [])]


def _panel(axes: Axes, key: str, histories: Mapping[str, Sequence[History]], smooth: int) -> None:
    number = 0
    for group, members in histories.items():
        chart = chart_of(members, {key: ""})
        for line in chart.lines if chart is not None else ():
            parts = [part for part in (group if len(histories) > 1 else "", line.name) if part]
            _draw(axes, _smoothed(line, smooth), COLORS[number % len(COLORS)], ", ".join(parts))
            number += 1
    style(axes, key.removeprefix(_LOSSES).replace("Environment/", "").lower())
    if number > 1:
        legend(axes)


def _smoothed(line: Line, smooth: int) -> Line:
    curve = Curve(line.curve.x, moving_mean(line.curve.y, smooth))
    return replace(line, curve=curve, low=moving_mean(line.low, smooth), high=moving_mean(line.high, smooth))


def _draw(axes: Axes, line: Line, color: str, label: str) -> None:
    x, y = line.curve.x, line.curve.y
    if line.low:
        axes.fill_between(x, line.low, line.high, color=color, alpha=0.16, linewidth=0)
    axes.plot(x, y, color=color, linewidth=2.2, label=label, marker="o" if len(x) == 1 else None)


def _x_axis(axes: Axes, along: Along) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter

    axes.set_xlim(left=0.0)
    if along == "decisions":
        axes.set_xlabel("agent decisions", fontsize=10)
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
        return
    last = axes.get_xlim()[1]
    unit, length = ("hours", _HOUR) if last > 2 * _HOUR else ("minutes", _MINUTE) if last > 2 * _MINUTE else ("s", 1.0)
    axes.set_xlabel(f"time ({unit})", fontsize=10)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / length:g}"))
