"""Charts as one PNG, and ``learning_curve.png``: reward and accuracy over decisions, drawn from the log.

Thin dark lines are single pairs, a band is around many, thick lines are all of them together, dashed ones the
baselines, and a star is the exported policy. Nothing is smoothed. Uses matplotlib's ``Figure`` and no ``pyplot``: no
global state, no window, any thread.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tau_trainer.files import atomic_write_bytes
from tau_trainer.metrics.charts import Chart, Line, learning_charts
from tau_trainer.metrics.history import Curve, History

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVE_NAME = "learning_curve.png"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours that colour-blind readers can distinguish (Okabe & Ito 2008)."""
DARK = ("#00344F", "#6B2F00", "#004F3A", "#6B3A53", "#7A5400", "#1C5A75")
"""The same, darker: thin lines on top of thick ones."""
GREY = "#6B6B6B"
BAND_ALPHA = 0.16
MAX_LEGEND, LEGEND_MARK = 120, 4
"""Number of characters that fit above a panel, and that a line's mark takes."""
MAX_LEGEND_ROWS = 3
LABEL_GAP = 0.055
"""Smallest distance between two baseline labels, as a share of the axis."""


def plot_learning_curve(run_dir: Path) -> Path:
    """Draw ``<run_dir>/learning_curve.png`` from ``log.jsonl`` and ``evaluation.json``; returns its path.

    A run without any summary gives a picture that says so. Raises TauError if the file cannot be written.
    """
    return save_figure(draw(History.load(run_dir)), run_dir / CURVE_NAME)


def draw(history: History) -> Figure:
    """The picture: a panel for reward and, if there are binary values, one for accuracy and success."""
    merged = history.merge_independent()
    charts = learning_charts(merged)
    figure, panels = new_figure(history.run_id or "learning curve", max(1, len(charts)))
    for axes, chart in zip(panels, charts, strict=False):
        for line in chart.lines:
            draw_line(axes, line)
        finish(axes, chart)
    if not charts:
        panels[0].text(0.5, 0.5, "no value yet", transform=panels[0].transAxes, ha="center", va="center", color=GREY)
        panels[0].set(xticks=[], yticks=[])
    decisions_along(panels[-1], "agent decisions" if merged is history else "agent decisions of each pair")
    panels[-1].set_xlim(left=0.0, right=max([*merged.steps.values(), 1]) * 1.01)
    return figure


def new_figure(title: str, panels: int) -> tuple[Figure, list[Axes]]:
    """An empty picture and its panels, from top to bottom; they share the horizontal axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 1.6 + 2.6 * panels), dpi=120, layout="constrained", facecolor="white")
    figure.suptitle(title, x=0.012, ha="left", fontweight="bold", fontsize=12)
    return figure, list(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0])


def save_figure(figure: Figure, path: Path) -> Path:
    """Write it as PNG, completely or not at all. Raises TauError if the file cannot be written."""
    picture = io.BytesIO()
    # A name may have letters that the font lacks, such as Japanese ones: they are drawn as boxes.
    warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
    figure.savefig(picture, format="png")
    return atomic_write_bytes(path, picture.getvalue())


def draw_line(axes: Axes, line: Line) -> None:
    """Draw a line with its band, or with its members as thin dark lines; single and rare values as points.

    A star is larger than a point, and on top of everything.
    """
    color, dark = (colors[line.color % len(colors)] for colors in (COLORS, DARK))
    x, y = line.curve.x, line.curve.y
    if line.star:
        stars: dict[str, Any] = {"linestyle": "", "marker": "*", "markeredgecolor": "white", "zorder": 6}
        axes.plot(x, y, color=color, markersize=16, label=line.name, clip_on=False, **stars)
        return
    for member in line.members.values():
        axes.plot(member.x, member.y, color=dark, linewidth=0.9, marker=_alone(member), markersize=3.0, zorder=4)
    if line.members:
        name = f"{line.name}, single {line.part}s".lstrip(", ")
        axes.plot([], [], color=dark, linewidth=0.9, label=name)
    elif line.low:
        axes.fill_between(x, line.low, line.high, color=color, alpha=BAND_ALPHA, linewidth=0)
    marker = "o" if line.dotted else _alone(line.curve)
    size = 5.3 if len(x) <= 40 else 0.0
    axes.plot(x, y, color=color, linewidth=2.8, label=line.name, marker=marker, markersize=size, zorder=3)


def _alone(curve: Curve) -> str | None:
    """The marker of a curve of one point, which has no line."""
    return "o" if len(curve.x) == 1 else None


def finish(axes: Axes, chart: Chart) -> None:
    """Baselines with their names at the right edge, the axis' label, and a legend of several lines or of a band."""
    name = chart.title.rpartition("/")[2].lower()
    unit = "\n(%)" if chart.share else f"\nof {chart.unit}" if chart.unit else ""
    style(axes, name + unit)
    if chart.share:
        from matplotlib.ticker import PercentFormatter

        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0, symbol=""))
        axes.set_ylim(-0.03, 1.03)
    if chart.levels:
        _draw_baselines(axes, chart.levels)
    if chart.left_out:
        axes.plot([], [], " ", label=f"{chart.left_out:,} behaviors more are in log.jsonl")
    banded = [line.color for line in chart.lines if line.low and not line.members]
    if banded and chart.band:
        color, alpha = (COLORS[banded[0] % len(COLORS)], BAND_ALPHA) if len(banded) == 1 else (GREY, 2 * BAND_ALPHA)
        axes.fill_between([], [], [], color=color, alpha=alpha, linewidth=0, label=chart.band)
    if banded or len(axes.get_legend_handles_labels()[1]) > 1:
        legend(axes)


def legend(axes: Axes) -> None:
    """The legend: above the panel, so that it covers no curve; with many names, in a column inside it."""
    names = axes.get_legend_handles_labels()[1]
    widths = [len(name) + LEGEND_MARK for name in names]
    columns = len(names) if sum(widths) <= MAX_LEGEND else max(1, MAX_LEGEND // max(widths))
    if len(names) <= MAX_LEGEND_ROWS * columns:
        narrow: dict[str, Any] = {"columnspacing": 1.2, "handlelength": 1.5, "handletextpad": 0.5, "borderaxespad": 0.2}
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, frameon=False, fontsize=9, **narrow)
    else:
        axes.legend(loc="best", framealpha=0.8, edgecolor="none", fontsize=9)


def _draw_baselines(axes: Axes, baselines: Mapping[str, float]) -> None:
    """Dashed lines; names right of the panel, pushed apart where two are nearly equal."""
    for value in baselines.values():
        axes.axhline(value, color=GREY, linewidth=1.0, linestyle=(0, (5, 4)), zorder=1)
    low, high = axes.get_ylim()
    span = (high - low) or 1.0
    order = sorted(baselines, key=lambda name: baselines[name])
    places = spread([(baselines[name] - low) / span for name in order], LABEL_GAP)
    for name, place in zip(order, places, strict=True):
        axes.annotate(
            name,
            xy=(1.0, (baselines[name] - low) / span),
            xytext=(1.025, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color=GREY,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
        )
    axes.set_ylim(low, high)


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move ascending ``places`` in one sweep, so that neighbours are at least ``gap`` apart.

    Groups that touch are centred on the mean of what they name.
    """

    def bottom(group: Sequence[float]) -> float:
        return sum(group) / len(group) - gap * (len(group) - 1) / 2

    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and bottom(groups[-2]) + gap * len(groups[-2]) > bottom(groups[-1]):
            last = groups.pop()
            groups[-1] += last
    return [bottom(group) + index * gap for group in groups for index in range(len(group))]


def style(axes: Axes, label: str) -> None:
    """The look of every panel; ``label``: of its vertical axis."""
    axes.set_ylabel(label, fontsize=10)
    axes.grid(visible=True, color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#9A9A9A")
    axes.tick_params(colors="#404040", labelsize=9)
    axes.margins(x=0.01, y=0.08)


def decisions_along(axes: Axes, label: str = "agent decisions") -> None:
    """Decisions from 0 on the horizontal axis: ``20 k``."""
    from matplotlib.ticker import EngFormatter

    axes.set_xlim(left=0.0)
    axes.set_xlabel(label, fontsize=10)
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
