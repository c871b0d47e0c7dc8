"""Reward and losses of runs as one PNG: the report's charts with several runs side by side.

Each kind of reward has a panel of its own, and a run has the same colour in every panel. Runs that differ in nothing
but their seed are drawn as one line, their mean, with a band from the lowest to the highest of them; the band of a run
that stands alone is over its pairs, or one standard deviation.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tau_trainer.errors import TauError
from tau_trainer.metrics import keys
from tau_trainer.metrics.charts import Chart, Line, chart_of
from tau_trainer.metrics.history import Curve, History, moving_mean
from tau_trainer.metrics.plot import decisions_along, draw_line, finish, legend, new_figure
from tau_trainer.report.configuration import Configuration
from tau_trainer.runs.folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)
What = Literal["reward", "loss", "both"]
Along = Literal["decisions", "time"]
_SEED_ALONE = ("env_settings.seed", "env_settings.base_port", "checkpoint_settings.", "sampler_parameters.seed")
"""Settings that may differ between runs of one group."""
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
    _tell_differences(every, panels, what)
    figure, axes = new_figure(", ".join(groups), len(panels))
    charts = {
        key: {name: chart for name, members in histories.items() if (chart := chart_of(members, {key: ""}))}
        for key in panels
    }
    drawn = [(name, line) for drawing in charts.values() for name, chart in drawing.items() for line in chart.lines]
    places = dict.fromkeys((name, line.behavior) for name, line in drawn)
    colors = {place: number for number, place in enumerate(places)}
    labels = _labels(places, several=len(groups) > 1)
    for key, panel in zip(panels, axes, strict=True):
        lines = [
            _smoothed(line, labels[place], smooth, colors[place])
            for name, chart in charts[key].items()
            for line in chart.lines
            for place in [(name, line.behavior)]
        ]
        for line in lines:
            draw_line(panel, line)
        bands = dict.fromkeys(chart.band for chart in charts[key].values() if chart.band)
        left_out = sum(chart.left_out for chart in charts[key].values())
        finish(panel, Chart(key, tuple(lines), " or ".join(bands), left_out=left_out))
        if any(labels.values()) and panel.get_legend() is None:  # others have several lines
            legend(panel)
    _time_along(axes[-1]) if along == "time" else decisions_along(axes[-1])
    return figure


def _history(folder: Path, along: Along) -> History:
    log = RunFolder(folder, resumed=True).log
    if not log.is_file():
        raise TauError(f"'{folder}' has no {log.name}, so there is nothing to plot; name a run of Tau Trainer")
    history = replace(History.load(folder), run_id=folder.resolve().name)
    return (history.over_time() if along == "time" else history).merge_independent()


def _groups(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """Groups of runs by name; the runs of a group differ only in their seeds."""
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
    """The common start of all names."""
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike).rstrip("-_. ")


def _keys(histories: Sequence[History], what: What) -> list[str]:
    """The scalars of the panels, from top to bottom: the reward of each kind of run, then the losses."""
    known = dict.fromkeys(key for history in histories for key in history.curves if history.overall(key))
    main = [history.reward_key for history in histories if history.overall(history.reward_key)]
    rewards = list(dict.fromkeys([*main, *(key for key in known if key == keys.GROUP_CUMULATIVE_REWARD)]))
    losses = sorted(key for key in known if key.startswith(_LOSSES))
    return [*(rewards if what != "loss" else []), *(losses if what != "reward" else [])]


def _tell_differences(histories: Sequence[History], panels: Sequence[str], what: What) -> None:
    """Warn of runs without a panel, and of rewards that cannot be compared."""
    for history in histories:
        if not any(history.overall(key) for key in panels):
            kind = "reward or loss" if what == "both" else what
            _log.warning("the log of '%s' has no %s yet, so the picture leaves it out", history.run_id, kind)
    kinds: dict[str, list[str]] = {}
    for history in histories:
        if what != "loss" and history.overall(history.reward_key):
            kinds.setdefault(history.reward_key, []).append(history.run_id)
    if len(kinds) > 1:
        named = "; ".join(f"{key} of {', '.join(runs)}" for key, runs in kinds.items())
        _log.warning("the runs count different rewards (%s), so each kind has a panel: compare runs within one", named)


def _labels(places: Collection[tuple[str, str]], *, several: bool) -> dict[tuple[str, str], str]:
    """Names of the lines: the run if there are ``several``, and the behavior if the run has several."""
    behaviors = Counter(run for run, _ in places)
    return {(run, behavior): ", ".join([run] * several + [behavior] * (behaviors[run] > 1)) for run, behavior in places}


def _smoothed(line: Line, name: str, smooth: int, color: int) -> Line:
    """Smooth a line and its band; single pairs and engines are left out."""
    curve = Curve(line.curve.x, moving_mean(line.curve.y, smooth))
    return Line(name, curve, moving_mean(line.low, smooth), moving_mean(line.high, smooth), color=color)


def _time_along(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.set_xlim(left=0.0)
    last = axes.get_xlim()[1]
    unit, length = ("hours", _HOUR) if last > 2 * _HOUR else ("minutes", _MINUTE) if last > 2 * _MINUTE else ("s", 1.0)
    axes.set_xlabel(f"time ({unit})", fontsize=10)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / length:g}"))
