from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tau_trainer.cli import main
from tau_trainer.errors import TauError
from tau_trainer.metrics import JsonLines, MetricsHub, keys
from tau_trainer.report.picture import draw_runs
from tests.report.conftest import append, write_run


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Three seeds of one thing, and one run with other settings."""
    alike = [write_run(tmp_path / f"ball-{seed}", seed) for seed in (1, 2, 3)]
    other: Any = {"behaviors__*__hyperparameters__learning_rate": 0.5}
    return [*alike, write_run(tmp_path / "other", 4, **other)]


def labels(axes: Any) -> list[str]:
    return [line.get_label() for line in axes.get_lines()]


def test_runs_that_differ_in_their_seed_are_one_band(runs: list[Path]) -> None:
    [axes] = draw_runs(runs).axes
    assert labels(axes) == ["ball (3 runs)", "other"]
    assert axes.get_legend() is not None
    mean, other = (np.asarray(line.get_ydata()) for line in axes.get_lines())
    single = [np.asarray(draw_runs([run]).axes[0].get_lines()[0].get_ydata()) for run in runs]
    np.testing.assert_allclose(mean, np.mean(single[:3], axis=0))
    np.testing.assert_allclose(other, single[3])
    band: Any = axes.collections[0].get_paths()[0].vertices
    first = [point[1] for point in band if point[0] == 1000.0]
    assert min(first) == pytest.approx(min(one[0] for one in single[:3]))
    assert max(first) == pytest.approx(max(one[0] for one in single[:3]))


def test_one_run_has_no_name_in_the_legend_and_the_band_of_its_pairs(runs: list[Path]) -> None:
    figure = draw_runs(runs[:1])
    [axes] = figure.axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["lowest to highest of 2 pairs"]
    [loss] = draw_runs(runs[:1], "loss").axes
    assert (loss.get_legend(), loss.get_ylabel()) == (None, "policy loss")
    assert figure.get_suptitle() == "ball-1"
    assert axes.get_xlabel() == "agent decisions"
    assert [axes.get_ylabel() for axes in draw_runs(runs[:1], "both").axes] == ["mean reward", "policy loss"]
    raw, smooth = (np.asarray(draw_runs(runs[:1], smooth=n).axes[0].get_lines()[0].get_ydata()) for n in (1, 3))
    np.testing.assert_allclose(smooth[1:-1], (raw[:-2] + raw[1:-1] + raw[2:]) / 3)


def write_log(folder: Path, **curves: list[float]) -> Path:
    """A run of two behaviors, by ``BEHAVIOR_KEY`` with the key's last words, and nothing but its log."""
    folder.mkdir()
    names = {"reward": keys.CUMULATIVE_REWARD, "group": keys.GROUP_CUMULATIVE_REWARD, "loss": keys.POLICY_LOSS}
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        for step in range(len(next(iter(curves.values())))):
            for name, values in curves.items():
                behavior, _, key = name.partition("_")
                hub.add(behavior, names[key], values[step])
            for behavior in dict.fromkeys(name.partition("_")[0] for name in curves):
                hub.flush(behavior, 1000 * (step + 1))
    return folder


def colors(axes: Any) -> dict[str, str]:
    """Of every line that is drawn, by its name in the legend, the colour; the legend names the band besides."""
    shown = {line.get_label(): line.get_color() for line in axes.get_lines() if len(line.get_xdata())}
    band = {"lowest to highest of 2 pairs"} if axes.collections else set()
    named = {text.get_text() for text in axes.get_legend().get_texts()}
    assert named == shown.keys() | band, "none is without a name"
    return shown


def test_runs_of_different_kinds_have_a_panel_each_and_keep_their_colours(
    runs: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = runs[0] / "log.jsonl"  # of decisions alone, without episodes
    log.write_text(log.read_text("utf-8").replace(keys.CUMULATIVE_REWARD, "Environment/Something"), "utf-8")
    walls = write_log(tmp_path / "walls", A_reward=[1, 2], B_reward=[3, 4], B_group=[5, 6], B_loss=[7, 8])
    decision, episode, group, loss = draw_runs([runs[0], walls], "both").axes
    assert [axes.get_ylabel() for axes in (decision, episode, group, loss)] == [
        "mean reward",
        "cumulative reward",
        "group cumulative reward",
        "policy loss",
    ]
    assert colors(decision).keys() == {"ball-1"}
    assert colors(episode).keys() == {"walls, A", "walls, B"}
    assert colors(group).keys() == {"walls, B"}
    assert colors(loss).keys() == {"ball-1", "walls, B"}
    every = [pair for axes in (decision, episode, group, loss) for pair in colors(axes).items()]
    assert len(dict(every)) == len({*every}) == len({*dict(every).values()}) == 3
    [told] = [record.getMessage() for record in caplog.records]
    assert told == (
        "the runs count different rewards (Tau/Mean Reward of ball-1; Environment/Cumulative Reward of walls), so each "
        "kind has a panel: compare runs within one"
    )


def test_a_run_that_is_left_out_is_named_and_behaviors_without_room_are_counted(
    runs: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    silent = write_log(tmp_path / "silent", A_loss=[1, 2])
    [axes] = draw_runs([runs[3], silent]).axes
    assert labels(axes) == ["other"]
    assert axes.get_legend() is not None, "the title names both"
    assert [record.getMessage() for record in caplog.records] == [
        "the log of 'silent' has no reward yet, so the picture leaves it out"
    ]
    crowd = write_log(tmp_path / "crowd", **{f"B{number}_reward": [1.0, 2.0] for number in range(14)})
    legend = draw_runs([crowd]).axes[0].get_legend()
    assert legend is not None
    assert "2 behaviors more are in log.jsonl" in [text.get_text() for text in legend.get_texts()]


def test_time_goes_on_where_a_run_was_resumed(tmp_path: Path) -> None:
    run = tmp_path
    points = [(1000, 2.0, 1.0), (2000, 5.0, 2.0), (3000, 9.0, 3.0), (2500, 1.0, 4.0), (4000, 3.0, 5.0)]
    summary = {"type": "summary", "behavior": "Ball"}
    lines = [
        {**summary, "step": step, "elapsed": time, "values": {"Environment/Cumulative Reward": reward}}
        for step, time, reward in points
    ]
    resumed = {"type": "event", "kind": "resumed", "elapsed": 0.1, "fields": {"behavior": "Ball", "step": 2000}}
    append(run, *lines[:3], resumed, *lines[3:])
    [axes] = draw_runs([run], along="time").axes
    line: Any = axes.get_lines()[0]
    assert list(line.get_xdata()) == [2.0, 5.0, 10.0, 12.0]
    assert list(line.get_ydata()) == [1.0, 2.0, 4.0, 5.0]
    assert axes.get_xlabel() == "time (s)"
    line = draw_runs([run]).axes[0].get_lines()[0]
    assert list(line.get_xdata()) == [1000, 2000, 2500, 4000]


@pytest.mark.parametrize(
    ("last", "unit", "tick"), [(100.0, "s", "60"), (600.0, "minutes", "1"), (9000.0, "hours", "0.0166667")]
)
def test_long_times_are_told_in_larger_units(last: float, unit: str, tick: str, tmp_path: Path) -> None:
    run = tmp_path
    for step, time in ((1, 0.0), (2, last)):
        append(run, {"type": "summary", "behavior": "B", "step": step, "elapsed": time, "values": {"Losses/X": 1.0}})
    [axes] = draw_runs([run], "loss", "time").axes
    assert axes.get_xlabel() == f"time ({unit})"
    assert axes.xaxis.get_major_formatter()(60.0, None) == tick


def test_what_is_not_there_is_said(runs: list[Path]) -> None:
    (runs[0] / "log.jsonl").write_text("")
    for what in ("reward", "loss", "both"):
        with pytest.raises(TauError, match="is in the log yet"):
            draw_runs(runs[:1], what)
    (runs[1] / "log.jsonl").unlink()
    with pytest.raises(TauError, match=r"has no log\.jsonl, so there is nothing to plot"):
        draw_runs(runs)


def test_the_command(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plot", "ball-1", "--results-dir", "."]) == 0
    with Image.open("ball-1/plot.png") as image:
        assert image.width == 1080
    assert main(["plot", "ball-1", "--results-dir", "."]) == 0, "it is drawn anew as the run goes on"
    words = "plot ball-1 ball-2 other --results-dir . --what both --x time --smooth 2 --output all.png"
    assert main(words.split()) == 0
    assert Path("all.png").stat().st_size > 10_000
    assert main(words.split()) == 2, "nothing is overwritten unasked"
    assert main([*words.split(), "--force"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plot bell-1", "bell-1: no run of this name in .; did you mean ball-1?"),
        (
            "plot ball-1 ball-2",
            "a picture of several runs has no default path; choose one with --output FILE",
        ),
        ("plot ball-1 ./ball-1 --output a.png", "names a run twice"),
        ("plot ball-1 --smooth 0", "--smooth 0: must be at least 1"),
        ("plot ball-1 --output a.jpg", "--output a.jpg: must be a file that ends in .png"),
        ("plot ball-1 --output ball-1", "--output ball-1: must be a file that ends in .png"),
        ("plot ball-1 --what luck", "luck"),
        ("plot", "RUNS"),
    ],
)
def test_bad_input_is_one_sentence(
    words: str,
    said: str,
    runs: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*words.split(), "--results-dir", "."]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert said in errors[0]
    assert not list(tmp_path.rglob("*.png"))
