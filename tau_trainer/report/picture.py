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
from tau_trainer.metrics.charts import Chart, Line, chart_of
from tau_trainer.metrics.history import Curve, History, moving_mean
from tau_trainer.metrics.plot import COLORS, decisions_along, draw_line, finish, new_figure
from tau_trainer.report.configuration import Configuration
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
    every = [history for members in histories.values() for history in members]
    panels = _keys(every, what)
    if not panels:
        raise TauError(f"{' '.join(map(str, folders))}: no {'reward' if what == 'both' else what} is in the log yet")
    figure, axes = new_figure(", ".join(groups), len(panels))
    for key, panel in zip(panels, axes, strict=True):
        _panel(panel, key, histories, smooth)
    _time_along(axes[-1]) if along == "time" else decisions_along(axes[-1])
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
        configuration = Configuration.load(RunFolder(folder, resumed=True).configuration)
        settings = [(place, repr(setting.value)) for place, setting in configuration.settings.items()]
        values = tuple(pair for pair in settings if not any(part in pair[0] for part in _SEED_ALONE))
        alike.setdefault(values if configuration.fault is None else folder, []).append(folder)
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


def _keys(histories: Sequence[History], what: What) -> list[str]:
    """The scalars of the panels, from top to bottom."""
    task = next((history.task for history in histories if history.task), {})
    known = dict.fromkeys(key for history in histories for key in history.curves if history.overall(key))
    there = [key for key in (task.get("reward", ""), *keys.EPISODE_REWARDS) if key in known]
    rewards = [*there[:1], *(key for key in there[1:] if key == keys.GROUP_CUMULATIVE_REWARD)]
    losses = sorted(key for key in known if key.startswith(_LOSSES))
    return [*(rewards if what != "loss" else []), *(losses if what != "reward" else [])]


def _panel(axes: Axes, key: str, histories: Mapping[str, Sequence[History]], smooth: int) -> None:
    number = 0
    for group, members in histories.items():
        chart = chart_of(members, {key: ""})
        for line in chart.lines if chart is not None else ():
            parts = [part for part in (group if len(histories) > 1 else "", line.name) if part]
            draw_line(axes, _smoothed(line, ", ".join(parts), smooth), COLORS[number % len(COLORS)])
            number += 1
    finish(axes, Chart(key, ()))


def _smoothed(line: Line, name: str, smooth: int) -> Line:
    """Of runs beside each other the bands alone are drawn."""
    curve = Curve(line.curve.x, moving_mean(line.curve.y, smooth))
    return Line(name, curve, moving_mean(line.low, smooth), moving_mean(line.high, smooth))


def _time_along(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.set_xlim(left=0.0)
    last = axes.get_xlim()[1]
    unit, length = ("hours", _HOUR) if last > 2 * _HOUR else ("minutes", _MINUTE) if last > 2 * _MINUTE else ("s", 1.0)
    axes.set_xlabel(f"time ({unit})", fontsize=10)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / length:g}"))
