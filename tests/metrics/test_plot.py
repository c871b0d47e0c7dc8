from __future__ import annotations

import io
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.lines import Line2D

from tau_trainer.metrics import BaselineScore, JsonLines, MetricsHub, TaskKeys, keys, plot_learning_curve
from tau_trainer.metrics.history import Curve, History, Line
from tau_trainer.metrics.plot import draw, new_figure, save_figure, spread

TASK = TaskKeys("Tau/Mean Reward", "Tau/Success Rate", "Tau/Aggregated Reward")
PNG = b"\x89PNG\r\n\x1a\n"


def record(run_dir: Path, summaries: int = 20, pairs: int = 3) -> None:
    rng = np.random.default_rng(0)
    with MetricsHub([JsonLines(run_dir / "log.jsonl")]) as hub:
        hub.task(TASK)
        hub.baselines({"zeros": BaselineScore(-0.1, 0.03), "ridge": BaselineScore(0.7, 0.96)})
        for number in range(1, summaries + 1):
            for pair in range(pairs):
                hub.add("TauAgent", "Tau/Mean Reward", rng.normal(0.03 * number, 0.1, 50), pair=pair)
                hub.add("TauAgent", "Tau/Success Rate", rng.random(50) < 0.04 * number, pair=pair)
            if number % 5 == 0:
                hub.add("TauAgent", "Validation/Accuracy", 0.04 * number)
            hub.flush("TauAgent", 1000 * number)


def curves(axes: Axes) -> list[Line2D]:
    """Lines that have points: the legend's own have none."""
    return [line for line in axes.lines if len(np.asarray(line.get_xdata()))]


def labels(axes: Axes) -> list[str]:
    """Of the legend."""
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def widest_overflow(figure: Figure) -> float:
    """By how many pixels the widest legend leaves the picture; 0 or less when none does."""
    figure.savefig(io.BytesIO(), format="png")
    boxes = [legend.get_window_extent() for axes in figure.axes if (legend := axes.get_legend())]
    return max(float(max(-box.x0, box.x1 - figure.bbox.width)) for box in boxes)


def test_the_picture_has_content(tmp_path: Path) -> None:
    record(tmp_path)
    path = plot_learning_curve(tmp_path)
    assert path == tmp_path / "learning_curve.png"
    assert path.read_bytes().startswith(PNG)
    image = imread(path)
    height, width = image.shape[:2]
    assert height > 700
    assert width > 1000
    colors = {tuple(color) for color in np.round(image[..., :3].reshape(-1, 3) * 255).astype(int)[::7]}
    assert (0, 0x72, 0xB2) in colors, "the thick line of all pairs"
    assert (0xD5, 0x5E, 0) in colors, "validation accuracy"
    assert (255, 255, 255) in colors
    assert sorted(child.name for child in tmp_path.iterdir()) == ["learning_curve.png", "log.jsonl"]


def test_axes_labels_lines_and_baselines(tmp_path: Path) -> None:
    record(tmp_path)
    figure = draw(History.load(tmp_path))
    assert figure.get_suptitle() == tmp_path.name
    reward, success = figure.axes
    assert reward.get_ylabel() == "mean reward\nof a decision"
    assert success.get_xlabel() == "agent decisions"
    assert labels(success) == ["success in training, single pairs", "success in training", "validation accuracy"]
    widths = [line.get_linewidth() for line in curves(reward)]
    assert widths == [0.9, 0.9, 0.9, 2.8, 1.0, 1.0], "three pairs, all pairs, two baselines"
    assert {text.get_text() for text in reward.texts} == {"zeros", "ridge"}
    assert len(curves(reward)[3].get_xdata()) == 20  # type: ignore[arg-type]


@pytest.mark.parametrize(("summaries", "pairs"), [(0, 0), (1, 1), (1, 4), (2, 200)])
def test_tiny_runs_give_a_picture(tmp_path: Path, summaries: int, pairs: int) -> None:
    record(tmp_path, summaries, pairs)
    assert plot_learning_curve(tmp_path).read_bytes().startswith(PNG)
    nothing = draw(History.load(tmp_path / "without a log")).axes
    assert [text.get_text() for text in nothing[0].texts] == ["no value yet"]


def test_behaviors_and_what_groups_get_are_curves_of_their_own() -> None:
    lines: dict[Line, Curve] = {("A", None): Curve([1, 2], [3, 4]), ("B", None): Curve([1, 2], [5, 6])}
    [axes] = draw(History("r", {"Environment/Cumulative Reward": lines}, {}, {"A": 2, "B": 2})).axes
    assert axes.get_ylabel() == "cumulative reward\nof a finished episode"
    del lines["B", None]
    [groups] = draw(History("r", dict.fromkeys(keys.EPISODE_REWARDS, lines), {}, {"A": 2})).axes
    for drawn, named in ((axes, ["training, A", "training, B"]), (groups, ["training", "of groups"])):
        assert labels(drawn) == named
        assert len({line.get_color() for line in drawn.lines}) == 2


def test_independent_policies_are_thin_lines_around_their_mean(tmp_path: Path) -> None:
    with MetricsHub([JsonLines(tmp_path / "log.jsonl")]) as hub:
        hub.task(TASK)
        for step in (100, 200, 300):
            for pair in range(3 if step < 300 else 2):
                hub.add(f"TauAgent-pair{pair}", "Tau/Mean Reward", pair + step, pair=pair)
                hub.flush(f"TauAgent-pair{pair}", step)
    figure = draw(History.load(tmp_path))
    assert widest_overflow(figure) <= 0
    [axes] = figure.axes
    assert [line.get_linewidth() for line in curves(axes)] == [0.9, 0.9, 0.9, 2.8]
    assert all(line.get_zorder() > axes.lines[-1].get_zorder() for line in curves(axes)[:3]), "on top of their mean"
    mean = axes.lines[-1]
    assert list(np.asarray(mean.get_xdata())) == [100, 200, 300]
    assert list(np.asarray(mean.get_ydata())) == [101, 201, 300.5]


def test_the_band_of_a_run_is_in_the_legend_and_within_what_was_seen(tmp_path: Path) -> None:
    with MetricsHub([JsonLines(tmp_path / "log.jsonl")]) as hub:
        for step in (100, 200):
            hub.episode("A", 0, [0.0, 1.0, 1.0, 1.0], [5, 5, 5, 5])
            hub.flush("A", step)
    figure = draw(History.load(tmp_path))
    assert widest_overflow(figure) <= 0
    [axes] = figure.axes
    band = "one standard deviation around the mean, cut at the lowest and highest value"
    assert labels(axes) == ["training", band]
    top = axes.collections[0].get_paths()[0].vertices[:, 1].max()  # type: ignore[union-attr,index]
    assert top == 1.0


def test_the_exported_policy_is_a_star_on_top_also_of_independent_pairs(tmp_path: Path) -> None:
    evaluation = {"exported": "best", "policies": {"best": {"decisions": 150, "accuracy": 0.9, "reward": 0.5}}}
    (tmp_path / "evaluation.json").write_text(json.dumps(evaluation), "utf-8")
    with MetricsHub([JsonLines(tmp_path / "log.jsonl")]) as hub:
        hub.task(TASK)
        for pair in range(2):
            hub.add(f"TauAgent-pair{pair}", "Tau/Mean Reward", 1.0, pair=pair)
            hub.add(f"TauAgent-pair{pair}", "Validation/Reward", 0.5)
            hub.flush(f"TauAgent-pair{pair}", 100)
    reward, accuracy = draw(History.load(tmp_path)).axes
    for axes, value in ((reward, 0.5), (accuracy, 0.9)):
        [star] = [line for line in axes.lines if line.get_marker() == "*"]
        assert (list(np.asarray(star.get_xdata())), list(np.asarray(star.get_ydata()))) == ([150], [value])
        assert star.get_markersize() > 10
        assert all(star.get_zorder() > line.get_zorder() for line in axes.lines if line is not star)
    points = [line for line in curves(reward) if line.get_linewidth() == 0.9]
    assert [line.get_marker() for line in points] == ["o"] * 4, "a pair with a single value is a point"


def test_legends_stay_inside_the_picture(tmp_path: Path) -> None:
    lines: dict[Line, Curve] = {(f"ABehaviorOfSomeLength{n}", None): Curve([1, 2], [n, n]) for n in range(9)}
    steps = {name: 2 for name, _ in lines}
    assert widest_overflow(draw(History("r", {"Environment/Cumulative Reward": lines}, {}, steps))) <= 0
    with MetricsHub([JsonLines(tmp_path / "log.jsonl")]) as hub:
        hub.task(TASK)
        for pair in range(4):
            hub.add(f"TauAgent-pair{pair}", "Tau/Mean Reward", 1.0, pair=pair)
            hub.add(f"TauAgent-pair{pair}", "Tau/Success Rate", 0.5, pair=pair)
            hub.add_all(f"TauAgent-pair{pair}", {"Validation/Accuracy": 0.5, "Validation/Reward": 0.5})
            hub.flush(f"TauAgent-pair{pair}", 100)
    assert widest_overflow(draw(History.load(tmp_path))) <= 0


def test_a_name_with_letters_that_the_font_lacks_is_drawn_without_a_warning(tmp_path: Path) -> None:
    figure = new_figure("\u8ff7\u8def", 1)[0]
    assert save_figure(figure, tmp_path / "a.png").read_bytes().startswith(PNG)


@given(st.lists(st.floats(0, 1), max_size=8).map(sorted))
def test_labels_keep_their_order_and_distance(places: list[float]) -> None:
    moved = spread(places, 0.05)
    assert len(moved) == len(places)
    assert all(upper - lower >= 0.05 - 1e-9 for lower, upper in itertools.pairwise(moved))
    if all(upper - lower >= 0.05 for lower, upper in itertools.pairwise(places)):
        assert moved == pytest.approx(places)
