"""``learning_curve.png``: reward and accuracy over decisions, drawn from the log, so that it can be drawn again.

Thin lines are single pairs, thick ones all pairs together, dashed ones the baselines. Nothing is smoothed. Uses
matplotlib's ``Figure`` and no ``pyplot``: no global state, no window, any thread.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tau_trainer.files import atomic_write_bytes
from tau_trainer.metrics import keys
from tau_trainer.metrics.history import TEST_ACCURACY, TEST_REWARD, Curve, History

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVE_NAME = "learning_curve.png"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Told apart by colour-blind eyes (Okabe & Ito 2008)."""
ACCURACY_COLOR = "#009E73"
TEST_COLOR = "#CC79A7"
BASELINE_COLOR = "#6B6B6B"
MAX_LEGEND_COLUMNS = 4
LABEL_GAP = 0.055
"""Smallest distance between two baseline labels, as a share of the axis."""


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """One kind of curve in one panel."""

    key: str
    name: str
    colors: Sequence[str] = COLORS
    marker: str | None = None


def plot_learning_curve(run_dir: Path) -> Path:
    """Draw ``<run_dir>/learning_curve.png`` from ``log.jsonl`` and ``evaluation.json``; returns its path.

    A run without any summary gives a picture that says so. Raises TauError when the file cannot be written.
    """
    return save_figure(draw(History.load(run_dir)), run_dir / CURVE_NAME)


def draw(history: History) -> Figure:
    """The picture: a panel for reward and, where there is anything binary, one for accuracy and success."""
    given, history = history, history.merge_independent()
    scored = history.task.get("reward", "")
    decided = bool(history.overall(scored))
    reward_key, what = (scored, "decision") if decided else (keys.CUMULATIVE_REWARD, "episode")
    reward_label = f"mean reward\nper {what}"
    reward = [PlotSeries(reward_key, "training")]
    if history.overall(keys.GROUP_CUMULATIVE_REWARD):
        reward.append(PlotSeries(keys.GROUP_CUMULATIVE_REWARD, "of groups", COLORS[1:]))
    if decided:
        reward.append(PlotSeries(keys.VALIDATION_REWARD, "validation", (ACCURACY_COLOR,), "o"))
        reward.append(PlotSeries(TEST_REWARD, "test, exported policy", (TEST_COLOR,), "*"))
    success = [
        PlotSeries(history.task.get("success", ""), "binary success"),
        PlotSeries(keys.VALIDATION_ACCURACY, "validation accuracy", (ACCURACY_COLOR,), "o"),
        PlotSeries(TEST_ACCURACY, "test accuracy, exported policy", (TEST_COLOR,), "*"),
    ]
    two = bool(history.baselines) or any(history.overall(one.key) for one in success)
    figure, panels = new_figure(history.run_id or "learning curve", 2 if two else 1)
    comparable = _baselines(history, "reward") if decided else {}
    _panel(panels[0], history, reward, reward_label, comparable)
    if two:
        _as_percent(panels[1])
        _panel(panels[1], history, success, "share of decisions\nor rows (%)", _baselines(history, "accuracy"))
    _x_axis(panels[-1], history, "agent decisions" if history is given else "agent decisions of each pair")
    return figure


def new_figure(title: str, panels: int) -> tuple[Figure, list[Axes]]:
    """An empty picture, and its panels from top to bottom, which share their horizontal axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 1.6 + 2.6 * panels), dpi=120, layout="constrained", facecolor="white")
    figure.suptitle(title, x=0.012, ha="left", fontweight="bold", fontsize=12)
    return figure, list(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0])


def save_figure(figure: Figure, path: Path) -> Path:
    """Write it as PNG, whole or not at all. Raises TauError when the file cannot be written."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return atomic_write_bytes(path, picture.getvalue())


def _panel(
    axes: Axes, history: History, series: Iterable[PlotSeries], label: str, baselines: Mapping[str, float]
) -> None:
    """Curves, baselines with their names at the right edge, axis label, legend."""
    drawn = [_series(axes, history, one) for one in series]
    style(axes, label)
    if baselines:
        _draw_baselines(axes, baselines)
    if any(drawn):
        legend(axes)
    elif not baselines:
        axes.text(0.5, 0.5, "no value yet", transform=axes.transAxes, ha="center", va="center", color=BASELINE_COLOR)
        axes.set(xticks=[], yticks=[])


def legend(axes: Axes) -> None:
    """What each line is: above the panel, where it covers no curve; with many names inside it, in a column."""
    names = len(axes.get_legend_handles_labels()[1])
    if names <= MAX_LEGEND_COLUMNS:
        axes.legend(
            loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=names, borderaxespad=0.2, frameon=False, fontsize=9
        )
    else:
        axes.legend(loc="best", framealpha=0.8, edgecolor="none", fontsize=9)


def _series(axes: Axes, history: History, one: PlotSeries) -> bool:
    """Draw the thin lines of pairs below the thick ones of behaviors; false when there is nothing to draw."""
    overall = history.overall(one.key)
    names = sorted(set(overall) | {behavior for behavior, _ in history.pairs(one.key)})
    colors = {name: one.colors[index % len(one.colors)] for index, name in enumerate(names)}
    thin = history.pairs(one.key) if len(history.pairs(one.key)) > 1 else {}
    for (behavior, _), curve in thin.items():
        _line(axes, curve, 0.8, color=colors[behavior], alpha=max(0.15, 0.55 - 0.005 * len(thin)))
    if thin:
        axes.plot([], [], color=one.colors[0], linewidth=0.8, alpha=0.7, label=f"{one.name}, single pairs")
    for behavior, curve in overall.items():
        label = f"{one.name}, {behavior}" if len(overall) > 1 else one.name
        _line(axes, curve, 2.4, one.marker, color=colors[behavior], label=label)
    return bool(names)


def _line(
    axes: Axes,
    curve: Curve,
    width: float,
    marker: str | None = None,
    **style: Any,
) -> None:
    """A curve of one point is a dot: a line would be invisible."""
    mark = marker if marker is not None else "o" if len(curve.x) == 1 else None
    size = 2.2 * width if len(curve.x) <= 40 else 0.0
    order = 3 if width > 1 else 2
    style |= {"linewidth": width, "marker": mark, "markersize": size, "zorder": order, "solid_capstyle": "round"}
    axes.plot(curve.x, curve.y, **style)


def _baselines(history: History, score: str) -> dict[str, float]:
    return {name: scores[score] for name, scores in history.baselines.items() if score in scores}


def _draw_baselines(axes: Axes, baselines: Mapping[str, float]) -> None:
    """Dashed lines; names right of the panel, pushed apart where two are nearly equal."""
    for value in baselines.values():
        axes.axhline(value, color=BASELINE_COLOR, linewidth=1.0, linestyle=(0, (5, 4)), zorder=1)
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
            color=BASELINE_COLOR,
            arrowprops={"arrowstyle": "-", "color": BASELINE_COLOR, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
        )
    axes.set_ylim(low, high)


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move ascending ``places`` as little as a single sweep can, so that neighbours are at least ``gap`` apart.

    Groups that touch are centred on the mean of what they name.
    """
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and _top(groups[-2], gap) + gap > _bottom(groups[-1], gap):
            last = groups.pop()
            groups[-1] += last
    return [_bottom(group, gap) + index * gap for group in groups for index in range(len(group))]


def _bottom(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: Sequence[float], gap: float) -> float:
    return _bottom(group, gap) + gap * (len(group) - 1)


def style(axes: Axes, label: str) -> None:
    """The look of every panel; ``label``: of its vertical axis."""
    axes.set_ylabel(label, fontsize=10)
    axes.grid(visible=True, color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#9A9A9A")
    axes.tick_params(colors="#404040", labelsize=9)
    axes.margins(x=0.01, y=0.08)


def _as_percent(axes: Axes) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0, symbol=""))
    axes.set_ylim(-0.03, 1.03)


def _x_axis(axes: Axes, history: History, label: str) -> None:
    from matplotlib.ticker import EngFormatter

    axes.set_xlabel(label, fontsize=10)
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.set_xlim(left=0.0, right=max([*history.steps.values(), 1]) * 1.01)
