"""Output of a search: a JSON file and a picture in a separate folder, and a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tau_trainer.errors import SettingsError
from tau_trainer.files import atomic_write_json, reason
from tau_trainer.metrics.plot import COLORS, GREY, decisions_along, legend, new_figure, save_figure, style
from tau_trainer.search.compare import Comparison
from tau_trainer.search.lr import LRResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 30
"""Maximum points of a line."""
_ROWS = 12
"""Maximum rows of a sweep's table."""
_DASHES = ("solid", "dashed", "dotted")
_LABELS = {"reward": "mean reward\nof an episode", "loss": "mean loss\nof an update"}
Table = tuple[tuple[str, ...], Sequence[tuple[str, ...]]]
"""Titles of the columns, and rows."""


def check_folder(given: Path | None) -> None:
    """Raises SettingsError if ``given`` is not empty, or not a folder."""
    if given is not None and given.exists() and not (given.is_dir() and not any(given.iterdir())):
        raise SettingsError(f"--output {given}: is not empty; choose a new or empty folder")


def results_folder(name: str, results_dir: Path, given: Path | None = None) -> Path:
    """A new, empty folder: ``given``, or the first free one of ``name``, ``name-2``, ... in ``results_dir``.

    Raises:
        SettingsError: it cannot be created, or ``given`` is not empty.
    """
    check_folder(given)
    path, number = given or results_dir / name, 1
    while given is None and path.exists():
        number += 1
        path = results_dir / f"{name}-{number}"
    try:
        path.mkdir(parents=True, exist_ok=given is not None)
    except OSError as error:
        raise SettingsError(f"--output {path}: cannot create the folder ({reason(error)}); choose another") from error
    return path


def write(result: LRResult | Comparison, folder: Path) -> list[Path]:
    """Write files such as ``lr.json`` and ``lr.png``; returns their paths. Raises TauError if writing fails."""
    name = "lr" if isinstance(result, LRResult) else result.search
    picture = draw_sweep(result) if isinstance(result, LRResult) else draw_comparison(result)
    return [
        atomic_write_json(folder / f"{name}.json", result.to_dict()),
        save_figure(picture, folder / f"{name}.png"),
    ]


def table(result: LRResult | Comparison) -> Table:
    """The table of the result."""
    if isinstance(result, Comparison):
        return _table_of_candidates(result)
    sweep = result.sweep
    count = len(sweep.rates)
    shown = set(np.linspace(0, count - 1, min(count, _ROWS)).round().astype(int).tolist())
    if sweep.best is not None:
        shown.add(sweep.best)
    smoothed, change = sweep.smoothed(), sweep.change()
    rows = [
        (
            f"{sweep.rates[i]:.2e}",
            _short(sweep.values[i]),
            _short(smoothed[i]),
            f"{change[i]:+.3g}",
            "suggested" if i == sweep.best else "",
        )
        for i in sorted(shown)
    ]
    return ("learning rate", f"mean {sweep.metric}", "smoothed", "change a decade", ""), rows


def _table_of_candidates(result: Comparison) -> Table:
    rows = []
    for place, trial in enumerate(result.tried):
        outcome = trial.outcome
        note = trial.error or ("" if outcome.ending == "finished" else outcome.ending)
        means = (_short(outcome.mean("reward")), _short(outcome.mean("loss")))
        counts = (f"{len(outcome.rewards):,}", f"{len(outcome.losses):,}", f"{outcome.decisions:,}")
        best = "best" if place == 0 and result.best is not None else ""
        rows.append((trial.name, *means, *counts, note or best))
    return (result.search, "mean reward", "mean loss", "episodes", "updates", "decisions", ""), rows


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def draw_sweep(result: LRResult) -> Figure:
    """Plot of reward or loss over the learning rate, and of its rate of change."""
    sweep = result.sweep
    figure, (top, bottom) = new_figure("learning rate", 2)
    top.plot(sweep.rates, sweep.values, "o", color=COLORS[0], alpha=0.35, markersize=4, label="single steps")
    top.plot(sweep.rates, sweep.smoothed(), color=COLORS[0], linewidth=2.4, label="smoothed")
    bottom.plot(sweep.rates, sweep.change(), color=COLORS[1], linewidth=2.0)
    bottom.axhline(0.0, color=GREY, linewidth=1.0)
    style(top, _LABELS[sweep.metric])
    style(bottom, "change\na decade")
    if result.suggestion is not None:
        for axes in (top, bottom):
            axes.axvline(result.suggestion, color=COLORS[2], linewidth=1.4, linestyle="dashed")
        top.plot([], [], color=COLORS[2], linestyle="dashed", label=f"suggested: {result.suggestion:.2g}")
    bottom.set_xscale("log")
    bottom.set_xlabel("learning rate", fontsize=10)
    legend(top)
    return figure


def draw_comparison(result: Comparison) -> Figure:
    """Plot of every candidate's smoothed reward or loss over its decisions, best first, with means in the legend."""
    figure, [axes] = new_figure(result.search, 1)
    for place, trial in enumerate(result.tried):
        points = trial.outcome.values(result.metric)
        mean = trial.outcome.mean(result.metric)
        if not points or trial.error is not None:
            continue
        x, y = smoothed_points(points)
        dashes, width = _DASHES[place // len(COLORS) % len(_DASHES)], 2.6 if place == 0 else 1.6
        color, label = COLORS[place % len(COLORS)], f"{trial.name}: {_short(mean)}"
        axes.plot(x, y, linewidth=width, linestyle=dashes, color=color, label=label)
    style(axes, _LABELS[result.metric])
    decisions_along(axes)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="best", framealpha=0.8, edgecolor="none", fontsize=9)
    return figure


def smoothed_points(points: Sequence[tuple[int, float]]) -> tuple[list[float], list[float]]:
    """Means of consecutive points, at most 30 of them: ``x`` and ``y``."""
    parts = [part for part in np.array_split(np.asarray(points, float), _POINTS) if len(part)]
    return [float(part[:, 0].mean()) for part in parts], [float(part[:, 1].mean()) for part in parts]
