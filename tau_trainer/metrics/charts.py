"""The charts of one run or several: the scalars of each chart, with a mean, a band, and thin lines.

A band shows the spread of things that should be alike, by the best available measure: the lowest to the highest of
several runs; the lowest to the highest of a run's pairs; for one run with one pair, one standard deviation around the
mean of the values behind each point, cut at the lowest and the highest value if the log has them. Nothing is smoothed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tau_trainer.metrics import keys
from tau_trainer.metrics.history import TEST_ACCURACY, TEST_REWARD, Curve, History, mean_curve

REWARD, ACCURACY, SELF_PLAY, LESSONS = "Reward", "Accuracy", "Self-play", "Lessons"
LOSSES, POLICY, UPDATES, GAME, SPEED = "Losses", "Policy", "Updates", "Environment", "Speed"
GROUPS = (REWARD, ACCURACY, SELF_PLAY, LESSONS, LOSSES, POLICY, UPDATES, GAME, SPEED)
"""Groups of charts, in the order of the page."""
_PREFIXES = {
    keys.lesson_number(""): LESSONS,
    "Self-play/": SELF_PLAY,
    "Losses/": LOSSES,
    "Policy/": POLICY,
    "Train/": UPDATES,
    "Perf/": SPEED,
}
_EPISODES = (keys.CUMULATIVE_REWARD, keys.GROUP_CUMULATIVE_REWARD, keys.EPISODE_LENGTH)
_REWARD_OF_SIGNAL = re.compile(r"Policy/.+ Reward")
_NUMBERED = re.compile(r"\b(?P<what>Pair|Agent|Env|Area) \d+\b")
"""Scalars that games send for each of their parts; they share one chart."""
_UNITS = {
    keys.CUMULATIVE_REWARD: "a finished episode",
    keys.GROUP_CUMULATIVE_REWARD: "a finished episode",
    keys.EPISODE_LENGTH: "decisions",
    keys.POLICY_ENTROPY: "nats",
    keys.APPROXIMATE_KL: "nats",
    keys.DECISIONS_PER_SECOND: "decisions a second",
    keys.POLICY_AGE: "versions behind",
    keys.HELD_SECONDS: "seconds a summary",
    keys.UPDATE_SECONDS: "seconds",
    keys.TRAIN_SECONDS: "seconds",
    keys.CLIP_FRACTION: "share of decisions",
}
_SCORES = {"reward": ("Mean reward", "a decision"), "accuracy": ("Accuracy and success", "")}
"""Title and unit of the charts that show the baselines' scores."""
MOST_LINES = 8
"""Maximum of thin lines in a chart; if there are more, only the band is drawn."""
MOST_BEHAVIORS = 12
"""Maximum of thick lines in a chart; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thick line, its band, and the curves that it is the mean of."""

    name: str
    curve: Curve
    low: Sequence[float] = ()
    """Lower end of the band at every point of the curve; empty: no band."""
    high: Sequence[float] = ()
    members: Mapping[str, Curve] = field(default_factory=dict)
    """Thin lines by name."""
    color: int = 0
    """Number of its colour: the same in all charts of a run."""
    part: str = "pair"
    """Name of a member, if all are of one run."""
    dotted: bool = False
    """True for a scalar that is rarely measured: points joined by a thin line."""
    star: bool = False
    """True for a single point: the exported policy on test rows."""
    behavior: str = ""
    """The behavior that it belongs to."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture."""

    title: str
    """The scalar's name, as TensorBoard has it."""
    lines: tuple[Line, ...]
    band: str = ""
    """Meaning of the band, as words after ``Band:``; empty: there is no band."""
    unit: str = ""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Baselines by name."""
    share: bool = False
    """Whether values are shares from 0 to 1."""
    left_out: int = 0
    """Number of behaviors without a line, because there is no room."""


def charts(histories: Sequence[History]) -> dict[str, list[Chart]]:
    """Every scalar of these runs by group, in the order of :data:`GROUPS`; groups without one are left out."""
    task = next((history.task for history in histories if history.task), {})
    known = dict.fromkeys(key for history in histories for key in history.curves)
    found: dict[str, list[Chart]] = {group: [] for group in GROUPS}
    placed = set[str]()
    for group, chart_keys, score in _combined(task):
        chart = chart_of(histories, chart_keys, score)
        if chart is not None:
            found[group].append(chart)
        placed.update(chart_keys)
    families: dict[str, list[str]] = {}
    for key in sorted(known, key=lambda key: (key not in _EPISODES, key)):
        if key not in placed:
            families.setdefault(_NUMBERED.sub(r"\g<what> *", key), []).append(key)
    for title, family in families.items():
        chart = _family(histories, title, family) if len(family) > 1 else chart_of(histories, {family[0]: ""})
        if chart is not None:
            found[group_of(family[0], task)].append(chart)
    return {group: drawn for group, drawn in found.items() if drawn}


def group_of(key: str, task: Mapping[str, str]) -> str:
    """The group of a scalar."""
    if key in _EPISODES or _REWARD_OF_SIGNAL.fullmatch(key):
        return REWARD
    if key == task.get("aggregated"):
        return ACCURACY
    return next((group for prefix, group in _PREFIXES.items() if key.startswith(prefix)), GAME)


def _combined(task: Mapping[str, str]) -> Sequence[tuple[str, dict[str, str], str]]:
    """Charts with several scalars: group, names of the lines by key, and the key of the baselines' score."""
    rewards = {task.get("reward", ""): "training", keys.VALIDATION_REWARD: "validation"}
    shares = {task.get("success", ""): "success in training", keys.VALIDATION_ACCURACY: "validation accuracy"}
    return (
        (REWARD, rewards | {TEST_REWARD: "test, exported policy"}, "reward"),
        (ACCURACY, shares | {TEST_ACCURACY: "test accuracy, exported policy"}, "accuracy"),
    )


def learning_charts(history: History) -> list[Chart]:
    """The charts of ``learning_curve.png``: reward, of decisions if a task counts those, and binary values."""
    (_, rewards, score), (_, shares, accuracy) = _combined(history.task)
    if history.reward_key == keys.CUMULATIVE_REWARD:
        rewards = {keys.CUMULATIVE_REWARD: "training", keys.GROUP_CUMULATIVE_REWARD: "of groups"}
        score = ""
    charts = chart_of([history], rewards, score), chart_of([history], shares, accuracy)
    return [chart for chart in charts if chart is not None]


def chart_of(histories: Sequence[History], names: Mapping[str, str], score: str = "") -> Chart | None:
    """One chart of the scalars ``names``, and of the baselines' ``score``; None if there is nothing to draw."""
    lines, bands, left_out = list[Line](), list[str](), 0
    every = list(dict.fromkeys(behavior for history in histories for behavior in history.steps))
    for group, (key, name) in enumerate(names.items()):
        behaviors = dict.fromkeys(behavior for history in histories for behavior in history.overall(key))
        for number, behavior in enumerate(behaviors):
            if number >= MOST_BEHAVIORS:
                left_out += 1
                continue
            parts = [part for part in (name, behavior if len(behaviors) > 1 else "") if part]
            line, band = _line(histories, key, behavior, ", ".join(parts))
            color = group * len(every) + (every.index(behavior) if behavior in every else number)
            lines.append(replace(line, behavior=behavior, color=color))
            bands.append(band)
    if not lines:
        return None
    levels = {
        name: scores[score]
        for history in reversed(histories)
        for name, scores in history.baselines.items()
        if score in scores
    }
    first = next(key for key in names if any(history.overall(key) for history in histories))
    title, usual = _SCORES.get(score, (first, ""))
    band = next(filter(None, bands), "")
    return Chart(title, tuple(lines), band, _UNITS.get(first, usual), levels, score == "accuracy", left_out)


def _line(histories: Sequence[History], key: str, behavior: str, name: str) -> tuple[Line, str]:
    """The line of one behavior, and the meaning of its band."""
    having = [history for history in histories if behavior in history.overall(key)]
    curves = {history.run_id: history.overall(key)[behavior] for history in having}
    star, dotted = key in (TEST_ACCURACY, TEST_REWARD), key.startswith("Validation/")
    first = next(iter(curves.values()))
    if len(curves) > 1:
        members = curves
        part, text = "run", f"lowest to highest of {len(curves)} runs around their mean"
        main = mean_curve(list(curves.values()))
    else:
        part, pairs = having[0].part, having[0].pairs(key)
        members = {f"{part} {pair}": curve for (owner, pair), curve in pairs.items() if owner == behavior}
        text = f"lowest to highest of {len(members)} {part}s"
        main = first
    if len(members) > 1:
        thin = members if len(members) <= MOST_LINES else {}
        if star:
            return Line(name, main, members=thin, star=True, part=part), ""
        low, high = band(list(members.values()), main.x)
        return Line(name, main, low, high, thin, part=part, dotted=dotted), text
    if key in _EPISODES or key == having[0].task.get("reward"):
        deviations, lows, highs = (
            dict(zip(curve.x, curve.y, strict=True))
            for spread in having[0].spreads.values()
            for curve in [spread.get(key, {}).get((behavior, None), Curve())]
        )
        if deviations:
            points = [(x, y, deviations.get(x, 0.0)) for x, y in zip(main.x, main.y, strict=True)]
            low = [max(y - deviation, lows.get(x, -np.inf)) for x, y, deviation in points]
            high = [min(y + deviation, highs.get(x, np.inf)) for x, y, deviation in points]
            cut = ", cut at the lowest and highest value" if lows and highs else ""
            return Line(name, main, low, high), f"one standard deviation around the mean{cut}"
    return Line(name, main, dotted=dotted, star=star), ""


def _family(histories: Sequence[History], title: str, family: Sequence[str]) -> Chart:
    """A chart of scalars whose names differ only in a number: their mean, and a band from lowest to highest."""
    lines = list[Line]()
    found = [history.overall(key) for history in histories for key in family]
    behaviors = dict.fromkeys(name for curves in found for name in curves)
    for number, behavior in enumerate(list(behaviors)[:MOST_BEHAVIORS]):
        curves = [by_behavior[behavior] for by_behavior in found if behavior in by_behavior]
        main = mean_curve(curves)
        low, high = band(curves, main.x)
        lines.append(Line(behavior if len(behaviors) > 1 else "mean", main, low, high, color=number))
    text = f"lowest to highest of {len(family)} scalars around their mean"
    return Chart(title, tuple(lines), text, left_out=max(0, len(behaviors) - MOST_BEHAVIORS))


def band(curves: Iterable[Curve], x: Sequence[float]) -> tuple[list[float], list[float]]:
    """Lowest and highest of ``curves`` at every ``x``, linear in between, over the curves that reach this x.

    If none does, the nearest value of any curve counts, so that a band has no holes.
    """
    values = np.array([np.interp(x, curve.x, curve.y, left=np.nan, right=np.nan) for curve in curves if curve.x])
    low = np.min(np.where(np.isnan(values), np.inf, values), axis=0)
    high = np.max(np.where(np.isnan(values), -np.inf, values), axis=0)
    return _filled(low).tolist(), _filled(high).tolist()


def _filled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """``values`` with each infinity replaced by interpolation between the nearest finite numbers."""
    whole = np.flatnonzero(np.isfinite(values))
    if not len(whole):
        return np.zeros_like(values)
    return np.asarray(np.interp(np.arange(len(values)), whole, values[whole]))


def thin(curve: Curve, most: int) -> Curve:
    """At most ``most`` points (4 or more) with the same shape: first, last, and the extremes of each stretch."""
    count = len(curve.x)
    if count <= most:
        return curve
    y = np.asarray(curve.y)
    kept = {0, count - 1}
    for stretch in np.array_split(np.arange(1, count - 1), max(1, (most - 2) // 2)):
        if len(stretch):
            kept |= {int(stretch[np.argmin(y[stretch])]), int(stretch[np.argmax(y[stretch])])}
    chosen = sorted(kept)
    return Curve([curve.x[i] for i in chosen], [curve.y[i] for i in chosen])


def thin_band(
    x: Sequence[float], low: Sequence[float], high: Sequence[float], most: int
) -> tuple[list[float], list[float], list[float]]:
    """At most ``most`` points (3 or more) of a band: the first, the last, and the outermost values of each stretch.

    Returns x, low and high of each.
    """
    count = len(x)
    if count <= most:
        return list(x), list(low), list(high)
    stretches = [part for part in np.array_split(np.arange(1, count - 1), most - 2) if len(part)]
    middle = [x[int(part[len(part) // 2])] for part in stretches]
    lows = [min(low[int(i)] for i in part) for part in stretches]
    highs = [max(high[int(i)] for i in part) for part in stretches]
    return [x[0], *middle, x[-1]], [low[0], *lows, low[-1]], [high[0], *highs, high[-1]]
