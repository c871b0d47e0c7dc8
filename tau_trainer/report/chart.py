"""Charts as SVG that stretches with the page: lines are in a scaled box, text and dots outside it keep their size."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tau_trainer.metrics.charts import Chart, Line, thin, thin_band
from tau_trainer.metrics.format import format_percent
from tau_trainer.metrics.history import Curve
from tau_trainer.metrics.plot import spread
from tau_trainer.report.html import Markup, element, join
from tau_trainer.report.numbers import Shown, compact, exact

_BOX = 1000
"""Width and height of the box for lines, in its own units."""
_LEAST_SPAN = 1e-9
"""Values whose span is below this share of their size count as equal."""
_HUGE = 1e290
MOST_COLORS = 6
_LABEL_GAP = 0.085
"""Smallest distance between two names of baselines, as a share of the chart's height."""
_LONGEST_NAME = 11
"""Number of characters of a baseline's name that fit next to a chart."""
_MOST_TOLD = 10
"""Maximum number of lines in a tooltip."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Resolution of charts."""

    points: int = 240
    """Maximum number of points of a line, and of its band."""
    stops: int = 60
    """Number of places of a chart with a tooltip."""

    @property
    def coarser(self) -> Detail:
        """Half of the resolution, but always enough to show a shape."""
        return Detail(max(12, self.points // 2), max(6, self.stops // 2))

    @property
    def coarsest(self) -> bool:
        """True if it cannot become coarser."""
        return self == self.coarser


@dataclass(frozen=True, slots=True)
class Scale:
    """Converts values to places in the box."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """0 at ``low`` and below, 1 at ``high`` and above."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def along(self, value: float) -> int:
        """Horizontal place in the box, from the left."""
        return round(_BOX * self.share(value))

    def down(self, value: float) -> int:
        """Vertical place in the box, from the top."""
        return round(_BOX * (1.0 - self.share(value)))


Width = Literal["large", "whole", "half", "third"]
"""Widths of a chart on a wide page, as shares of a row; ``large``: a whole row, and higher."""


def widths(count: int) -> list[Width]:
    """Widths of ``count`` charts that fill every row: thirds, and halves at the end if thirds would leave a gap."""
    if count == 1:
        return ["whole"]
    halves = min({0: 0, 1: 4, 2: 2}[count % 3], count)
    return ["third" if i < count - halves else "half" for i in range(count)]


def draw(chart: Chart, last: float, detail: Detail, *, width: Width = "whole", band_told: bool = False) -> Markup:
    """The chart with its title, legend and tooltips, as a ``figure``.

    ``last``: decisions at its right edge, more than 0; ``band_told``: what its band means stands above already.
    """
    x = Scale(0.0, last)
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0] if chart.share else nice_ticks(*_y_range(chart))
    y = Scale(ticks[0], ticks[-1])
    shown = format_percent if chart.share else exact
    box = element(
        "svg",
        *(_band(line, x, y, detail) for line in chart.lines),
        *(_thin_lines(line, x, y, detail) for line in chart.lines),
        *(_thick_line(line, x, y, detail) for line in chart.lines),
        viewBox=f"0 0 {_BOX} {_BOX}",
        preserveAspectRatio="none",
        width="100%",
        height="100%",
    )
    plot = element(
        "svg",
        *_grid(ticks, y, chart.share),
        *_x_labels(x),
        _levels(chart.levels, y),
        box,
        *(dot for line in chart.lines for dot in _dots(line, x, y, detail)),
        *_stops(chart, x, detail, shown),
        class_="plot" + (" named" if chart.levels else ""),
        role="img",
        aria_label=f"{chart.title} over decisions",
    )
    group, _, name = chart.title.rpartition("/")
    caption = element(
        "figcaption",
        element("b", element("small", f"{group}/") if group else None, name),
        element("span", chart.unit, class_="unit") if chart.unit else None,
        _newest(chart, shown),
        _legend(chart, band_told),
    )
    return element("figure", caption, plot, class_=f"chart {width}")


def _newest(chart: Chart, shown: Shown) -> Markup | None:
    """The last value, if there is only one line."""
    if len(chart.lines) != 1 or not chart.lines[0].curve.y:
        return None
    return element("span", shown(chart.lines[0].curve.y[-1]), class_="newest")


def _legend(chart: Chart, band_told: bool) -> Markup | None:
    lines = chart.lines if len(chart.lines) > 1 else ()
    items = [element("li", line.name, class_=f"{_color(line.color)} {_mark(line)}") for line in lines]
    if chart.band and not band_told:
        items.append(element("li", band_sentence(chart.band), class_="band"))
    if chart.left_out:
        items.append(element("li", f"{chart.left_out:,} behaviors more are in log.jsonl"))
    return element("ul", *items, class_="legend") if items else None


def band_sentence(band: str) -> str:
    """Meaning of the band."""
    return f"Band: {band}."


def _color(number: int) -> str:
    return f"c{number % MOST_COLORS}"


def _mark(line: Line) -> str:
    return "star" if line.star else "dots" if line.dotted else "line"


def _y_range(chart: Chart) -> tuple[float, float]:
    values = [value for line in chart.lines for value in (*line.curve.y, *line.low, *line.high)]
    values += [value for line in chart.lines for member in line.members.values() for value in member.y]
    values += chart.levels.values()
    return min(values, default=0.0), max(values, default=1.0)


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers from at most ``low`` to at least ``high``, at even distances of 1, 2 or 5 times a power of ten.

    About ``count`` steps; where both ends are nearly equal, around them.
    """
    low, high = max(-_HUGE, min(low, high)), min(_HUGE, max(low, high))
    if high - low <= _LEAST_SPAN * max(abs(low), abs(high), 1e-250):
        reach = abs(low) * 0.05 or 0.5
        low, high = low - reach, high + reach
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * 0.999)
    begin, end = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    return [i * step for i in range(begin, max(end, begin + 1) + 1)]


def _grid(ticks: Sequence[float], y: Scale, share: bool) -> Iterator[Markup]:
    for value in ticks:
        place = f"{100 * (1 - y.share(value)):.4g}%"
        yield element("line", x1="0", x2="100%", y1=place, y2=place, class_="grid zero" if value == 0 else "grid")
        text = f"{100 * value:.0f} %" if share else tick(value, ticks[1] - ticks[0])
        yield element("text", text, x="-6", y=place, dy="0.32em", class_="y")


def tick(value: float, step: float) -> str:
    """``value`` with as many decimals as ``step`` needs."""
    if abs(value) < step / 1e6:
        value = 0.0
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if decimals > 4 or abs(value) >= 1e6:
        return f"{value:.4g}"
    return f"{value:,.{decimals}f}"


def _x_labels(x: Scale) -> Iterator[Markup]:
    for value in nice_ticks(0.0, x.high):
        if value <= x.high:
            anchor = "start" if value == 0.0 else "end" if x.share(value) > 0.9 else "middle"
            place = {"x": f"{100 * x.share(value):.4g}%", "y": "100%", "dy": "1.35em"}
            yield element("text", compact(value), text_anchor=anchor, class_="x", **place)


def _levels(levels: Mapping[str, float], y: Scale) -> Markup | None:
    """Dashed lines, with their names right of the chart, moved apart if two are nearly equal."""
    if not levels:
        return None
    order = sorted(levels, key=lambda name: levels[name])
    places = spread([y.share(levels[name]) for name in order], _LABEL_GAP)
    lines, labels = list[Markup](), list[Markup]()
    for name, place in zip(order, places, strict=True):
        at, beside = (f"{100 * (1 - share):.4g}%" for share in (y.share(levels[name]), place))
        lines.append(element("line", x1="0", x2="100%", y1=at, y2=at, class_="level"))
        labels.append(element("line", x1="2", x2="10", y1=at, y2=beside, class_="lead"))
        short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        labels.append(element("text", short, element("title", name), x="13", y=beside, dy="0.32em", class_="name"))
    beside = element("svg", *labels, x="100%", overflow="visible")
    return join([*lines, beside])


def _band(line: Line, x: Scale, y: Scale, detail: Detail) -> Markup | None:
    if not line.low or len(line.curve.x) < 2:
        return None
    xs, low, high = thin_band(line.curve.x, line.low, line.high, detail.points)
    around = [*zip(xs, high, strict=True), *zip(reversed(xs), reversed(low), strict=True)]
    return element("path", d=f"M{_path(around, x, y)}Z", class_=f"area {_color(line.color)}")


def _thin_lines(line: Line, x: Scale, y: Scale, detail: Detail) -> Markup:
    drawn = [member for member in line.members.values() if len(member.x) > 1]
    most = max(12, detail.points // 2)
    return join(_stroke(thin(member, most), x, y, f"thin {_color(line.color)}") for member in drawn)


def _thick_line(line: Line, x: Scale, y: Scale, detail: Detail) -> Markup | None:
    if line.star or len(line.curve.x) < 2:
        return None
    return _stroke(thin(line.curve, detail.points), x, y, f"thick {_color(line.color)}{' dotted' * line.dotted}")


def _stroke(curve: Curve, x: Scale, y: Scale, class_: str) -> Markup:
    return element("path", d=f"M{_path(zip(curve.x, curve.y, strict=True), x, y)}", class_=class_)


def _path(points: Iterable[tuple[float, float]], x: Scale, y: Scale) -> str:
    return "L".join(f"{x.along(a)} {y.down(b)}" for a, b in points)


def _dots(line: Line, x: Scale, y: Scale, detail: Detail) -> Iterator[Markup]:
    """Single points: curves of one value, values that are rarely measured, and test scores."""
    curves = list(line.members.values()) if line.star and line.members else [line.curve]
    for curve in curves:
        if line.star or len(curve.x) == 1 or (line.dotted and len(curve.x) <= detail.stops // 2):
            for a, b in zip(curve.x, curve.y, strict=True):
                place = {"cx": f"{100 * x.share(a):.4g}%", "cy": f"{100 * (1 - y.share(b)):.4g}%"}
                kind = f"{_mark(line)} {_color(line.color)}"
                yield element("circle", r="6" if line.star else "3", class_=kind, **place)


def _stops(chart: Chart, x: Scale, detail: Detail, shown: Shown) -> Iterator[Markup]:
    """Vertical strips over the whole chart, each with the tooltip of its place."""
    longest = max(chart.lines, key=lambda line: len(line.curve.x)).curve.x
    places = sorted(set(longest[:: max(1, math.ceil(len(longest) / detail.stops))]) | {longest[-1]}) if longest else []
    for i, place in enumerate(places):
        left = x.share((places[i - 1] + place) / 2) if i else 0.0
        right = x.share((place + places[i + 1]) / 2) if i + 1 < len(places) else 1.0
        tip = element("title", _tooltip(chart, place, shown))
        yield element(
            "rect", tip, x=f"{100 * left:.4g}%", width=f"{100 * (right - left):.4g}%", height="100%", class_="stop"
        )


def _tooltip(chart: Chart, place: float, shown: Shown) -> str:
    """The lines' values at that number of decisions, or their last values before it."""
    rows = [f"{place:,.0f} decisions"]
    for line in chart.lines[:_MOST_TOLD]:
        at = _index(line.curve.x, place)
        if at is None:
            continue
        text = shown(line.curve.y[at])
        if line.low:
            text += f" ({shown(line.low[at])} to {shown(line.high[at])})"
        rows.append(f"{line.name}: {text}" if line.name else text)
        for name, member in line.members.items():
            inside = _index(member.x, place)
            if inside is not None:
                rows.append(f"   {name}: {shown(member.y[inside])}")
    return "\n".join(rows)


def _index(x: Sequence[float], place: float) -> int | None:
    """The last point at or before ``place``."""
    found = bisect_right(x, place) - 1
    return found if found >= 0 else None


def bar(value: float, low: float, high: float, class_: str) -> Markup:
    """A bar between 0 and ``value`` on a scale from ``low`` (at most 0) to ``high``."""
    scale = Scale(low, high)
    begin, end = sorted((scale.share(0.0), scale.share(value)))
    inner = element("rect", x=f"{100 * begin:.4g}%", width=f"{100 * (end - begin):.4g}%", height="100%", class_=class_)
    return element("svg", inner, class_="bar", aria_hidden="true")


def stack(parts: Sequence[tuple[str, float]], text: Shown) -> Markup:
    """A bar of shares, side by side; ``parts``: name and amount, in the order of their colours."""
    whole = sum(amount for _, amount in parts) or 1.0
    pieces, at = list[Markup](), 0.0
    for number, (name, amount) in enumerate(parts):
        width = 100 * amount / whole
        tip = element("title", f"{name}: {text(amount)}")
        pieces.append(
            element("rect", tip, x=f"{at:.4g}%", width=f"{width:.4g}%", height="100%", class_=f"piece {_color(number)}")
        )
        at += width
    return element("svg", *pieces, class_="stack", role="img", aria_label="how the time was spent")
