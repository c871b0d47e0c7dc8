from __future__ import annotations

import itertools
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.metrics.charts import Chart, Line
from tau_trainer.metrics.history import Curve
from tau_trainer.report.chart import Detail, Scale, bar, draw, nice_ticks, stack, tick, widths
from tests.report.test_html import Reader

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite)
def test_ticks_are_few_even_and_around_everything(one: float, other: float) -> None:
    low, high = sorted(max(-1e290, min(1e290, value)) for value in (one, other))
    ticks = nice_ticks(low, high)
    reach = ticks[-1] - ticks[0]
    assert 2 <= len(ticks) <= 8
    assert ticks[0] <= low + 1e-5 * reach
    assert ticks[-1] >= high - 1e-5 * reach
    assert all(math.isclose(b - a, reach / (len(ticks) - 1), rel_tol=1e-6) for a, b in itertools.pairwise(ticks))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 60_032.0, [0, 20_000, 40_000, 60_000, 80_000]),
        (-0.39, 1.0, [-0.5, 0.0, 0.5, 1.0]),
        (64.0, 64.0, [60, 62, 64, 66, 68]),
        (0.0, 0.0, [-0.5, 0.0, 0.5]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert nice_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [(0.5, 0.5, "0.5"), (-1e-17, 0.1, "0.0"), (20_000, 5000, "20,000"), (0.015, 0.005, "0.015"), (2e7, 1e7, "2e+07"),
     (2e-7, 1e-7, "2e-07")],
)  # fmt: skip
def test_tick_labels(value: float, step: float, text: str) -> None:
    assert tick(value, step) == text


def test_a_scale_stays_in_its_box() -> None:
    scale = Scale(-1.0, 3.0)
    assert [scale.along(value) for value in (-5.0, -1.0, 1.0, 3.0, 9.0)] == [0, 0, 500, 1000, 1000]
    assert scale.down(3.0) == 0


def drawn(chart: Chart, last: float = 20.0) -> Reader:
    return Reader(draw(chart, last, Detail()))


def test_a_chart_has_its_lines_band_baselines_and_stops() -> None:
    line = Line("<b>mine", Curve([0, 10, 20], [0, 1, 2]), [0, 0.5, 1], [1, 2, 3], {"pair 0": Curve([0, 20], [0, 3])})
    read = drawn(Chart("Losses/Value Loss", (line,), "of two", "reward", {"ridge": 1.5}))
    classes = [attributes.get("class") for _, attributes in read.seen]
    assert (
        classes.count("thick c0") == classes.count("area c0") == classes.count("thin c0") == classes.count("level") == 1
    )
    [path] = [attributes["d"] for _, attributes in read.seen if attributes.get("class") == "thick c0"]
    assert path == "M0 1000L500 667L1000 333"
    text = "\n".join(read.words)
    for told in ("Losses/", "Value Loss", "Band: of two.", "ridge", "10 decisions\n<b>mine: 1 (0.5 to 2)", "reward"):
        assert told in text
    assert "b" not in {tag for tag, attributes in read.seen if attributes}, "a name is no markup"
    assert classes.count("stop") == 3
    read = drawn(Chart("x", (Line("", Curve([0, 5, 20], [1, 2, 3])),)))
    stops = [attributes for _, attributes in read.seen if attributes.get("class") == "stop"]
    ends = [(float(str(one["x"])[:-1]), float(str(one["width"])[:-1])) for one in stops]
    assert [x for x, _ in ends] == pytest.approx([0.0, 12.5, 62.5])
    assert [x + width for x, width in ends] == pytest.approx([12.5, 62.5, 100.0]), "no gaps"


@pytest.mark.parametrize("count", range(20))
def test_small_charts_fill_their_rows(count: int) -> None:
    sixths = [{"whole": 6, "half": 3, "third": 2}[width] for width in widths(count)]
    ends = list(itertools.accumulate(sixths))
    assert len(sixths) == count
    assert sum(sixths) % 6 == 0
    assert {6 * row for row in range(1, sum(sixths) // 6 + 1)} <= set(ends), "no chart goes over the end of a row"


def test_what_is_measured_now_and_then_is_dotted_and_one_value_is_a_dot() -> None:
    read = drawn(
        Chart("x", (Line("v", Curve([5, 10], [1, 2]), dotted=True), Line("t", Curve([10], [2]), star=True, color=1)))
    )
    dots = [attributes for tag, attributes in read.seen if tag == "circle"]
    assert [one["class"] for one in dots] == ["dots c0", "dots c0", "star c1"]
    assert [one["cx"] for one in dots] == ["25%", "50%", "50%"]


def test_detail_bounds_points_and_stops() -> None:
    x = [float(i) for i in range(5000)]
    chart = Chart("x", (Line("", Curve(x, [math.sin(i / 50) for i in x]), x, x),))
    sizes = []
    detail = Detail()
    while True:
        text = draw(chart, 5000.0, detail)
        [path] = re.findall(r'd="([^"]*)" class="thick', text)
        assert path.count("L") < detail.points
        assert text.count('class="stop"') <= detail.stops + 1
        sizes.append(len(text))
        if detail.coarsest:
            break
        detail = detail.coarser
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) > 3


def test_bars_begin_at_zero() -> None:
    assert 'x="25%" width="75%"' in bar(3.0, -1.0, 3.0, "own")
    assert 'x="0%" width="25%"' in bar(-1.0, -1.0, 3.0, "own")


def test_shares_of_a_whole_lie_side_by_side() -> None:
    read = Reader(stack([("a", 1.0), ("b", 3.0)], lambda one: f"{one} s"))
    places = [(one["x"], one["width"]) for _, one in read.seen if str(one.get("class")).startswith("piece")]
    assert places == [("0%", "25%"), ("25%", "75%")]
    assert read.words == ["a: 1.0 s", "b: 3.0 s"]
    assert "nan" not in stack([("a", 0.0)], str)
