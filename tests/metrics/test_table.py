from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from tau_trainer.metrics import BehaviorSnapshot, PairMetrics, PairState, RunSnapshot, RunView
from tau_trainer.metrics.snapshot import Usage
from tau_trainer.metrics.table import merge_pairs, state_counts
from tau_trainer.metrics.trend import Trend

Show = Callable[..., str]
Consoles = Callable[..., Console]
Snapshots = Callable[..., RunSnapshot]

GOLDEN = """\
╭─ tau-01 · parallel · data tau.json · seed 7 ─────────────────────────────────╮
│ 4,000 / 8,000 decisions ━━━━━━━━━━━━━━━━━━━━━━━──────────────────────── 50 % │
│ 1,000 decisions/s · elapsed 0:00:12 · left 0:00:08                           │
│ time: game 62 %, acting 30 %, waiting 8 %, learning 45 %                     │
│ CPU 1.4 of 2 cores · memory 412 MB                                           │
│ policy updates 123, taking 5.3 s · acting policy 0.41 updates behind         │
│ engines waited 0.2 s for updates                                             │
│                                                                              │
│ pair  state                       decisions    reward   success  decisions/s │
│    0  Training                        1,000     0.500    25.0 %          250 │
│    1  Training                        1,000     0.501    25.0 %          250 │
│    3  Training                        1,000     0.503    25.0 %          250 │
│    2  Failed                          1,000     0.502    25.0 %          250 │
│  all  3 Training, 1 Failed            4,000     0.501    25.0 %        1,000 │
│                                                                              │
│ validation accuracy 91.3 % · zeros 3.3 % · constant 16.7 % · majority 16.7 % │
│ ridge 96.0 %                                                                 │
│ waiting for the engine                                                       │
╰──────────────────────────────────────────────────────────────────────────────╯
"""


def test_golden(snapshot: Snapshots, show: Show) -> None:
    assert show(RunView(snapshot()), 80, 30) == GOLDEN


@pytest.mark.parametrize("width", [20, 30, 41, 60, 80, 110, 200])
@pytest.mark.parametrize("height", [5, 12, 24, 50])
@pytest.mark.parametrize("pairs", [0, 1, 4, 200])
def test_it_fits_every_console(width: int, height: int, pairs: int, snapshot: Snapshots, show: Show) -> None:
    lines = show(RunView(snapshot(pairs)), width, height).splitlines()
    assert all(len(line) <= width for line in lines)
    assert len(lines[0]) == width, "it uses the width there is"
    if height >= 24 and width >= 60:
        assert len(lines) < height


def test_pairs_that_do_not_fit_are_one_row(snapshot: Snapshots, show: Show) -> None:
    text = show(RunView(snapshot(200)), 100, 24)
    shown = [line for line in text.splitlines() if line[2:6].strip().isdigit() and "%" in line and "/" not in line]
    [more] = [line for line in text.splitlines() if "more" in line]
    hidden = 200 - len(shown)
    assert f"… and {hidden} more: {hidden - 1} Training, 1 Failed" in more
    assert f"{1000 * hidden:,d}" in more
    assert "200,000" in next(line for line in text.splitlines() if " all " in line)
    text = show(RunView(snapshot(30), max_rows=30), 80, 10)
    assert "more" not in text, "whatever the height"
    assert "\n│   29  " in text


def test_pairs_that_run_or_failed_stand_first(show: Show) -> None:
    states = (
        *(PairState.COMPLETED, PairState.IDLE, PairState.FAILED, PairState.TRAINING, PairState.CANCELLED),
        *(PairState.PREPARING, PairState.EVALUATING, PairState.FAILED),
    )
    pairs = tuple(PairMetrics(number, state) for number, state in enumerate(states))
    text = show(RunView(RunSnapshot("r", "parallel", pairs=pairs)), 80, 40)
    shown = [line.split()[1] for line in text.splitlines() if line[2:6].strip().isdigit()]
    assert [int(number) for number in shown] == [3, 5, 6, 2, 7, 1, 0, 4]


def test_a_pair_says_why_it_failed_how_often_it_was_restarted_and_where_it_plays(show: Show) -> None:
    error = "engine 0 exited with exit code 70"
    pairs = (
        PairMetrics(0, PairState.FAILED, error=error),
        PairMetrics(1, PairState.TRAINING, restarts=2),
        PairMetrics(2, PairState.TRAINING, validation_accuracy=0.5, episodes=1234, restarts=1),
    )
    for width, whole in ((160, True), (80, False)):
        run = RunSnapshot("r", "parallel", pairs=pairs, columns=("success", "validation"))
        text = show(RunView(run, {"A": Trend([1.0])}), width, 40)
        assert "Training, 2 restarts " in text
        assert "Training, 1 restart " in text
        assert "Failed: engine 0" in text
        assert (f"Failed: {error}" in text, "1,234" in text, "50.0 %" in text) == (whole,) * 3
    placed = (replace(pairs[2], node="local-2"), PairMetrics(3, PairState.COMPLETED, node="local-1"))
    text = show(RunView(RunSnapshot("run", "learn", pairs=placed)), 100, 30)
    assert "2  Training on local-2, 1 restart " in text
    assert "3  Completed " in text


def test_a_console_without_unicode_and_legacy_windows_get_ascii(
    snapshot: Snapshots, show: Show, console: Consoles
) -> None:
    text = show(RunView(snapshot(50)), 80, 20, ascii_only=True)
    assert text.isascii()
    assert "... and" in text
    assert "####" in text
    assert "?" not in text
    target = console(80, 20)
    options = target.options.copy()
    options.legacy_windows = True
    lines = target.render_lines(RunView(snapshot(50)), options)
    assert "".join(segment.text for line in lines for segment in line).isascii()


def test_unknown_values_are_dashes_and_unknown_usage_is_left_out(show: Show) -> None:
    run = RunSnapshot("r", "parallel", pairs=(PairMetrics(0, PairState.PREPARING),), columns=("success",))
    text = show(RunView(run), 80, 20)
    assert "left -" in text
    assert "0 decisions" in text
    assert "%" not in text
    assert " all " not in text
    row = next(line for line in text.splitlines() if "Preparing" in line)
    assert row.split() == ["│", "0", "Preparing", "0", "-", "-", "0.0", "│"]
    text = show(RunView(RunSnapshot("r", "batch", usage=Usage(0.96), time_shares={"acting": 0.254})), 80, 20)
    assert "│ time: acting 25 % · CPU 1.0 cores  " in text
    assert "memory" not in text
    assert "│ policy updates 0, taking 0.0 s  " in text
    assert "behind" not in text, "nothing acts apart from the learner"
    assert "engines" not in text


def test_learn_has_a_row_for_each_engine_with_its_lowest_and_highest_reward(snapshot: Snapshots, show: Show) -> None:
    rewards = [-1.0, 0.5, 0.25]
    trends = {"TauAgent": Trend(rewards, pairs={"0": rewards, "1": [0.125]})}
    text = show(RunView(snapshot(2, "learn"), trends), 120, 30)
    assert "engine  state      reward so far" in text
    assert "pair" not in text
    assert "     0  Training   ▁█▇ -1.000 to 0.500  " in text
    assert "     1  Training   ▁ 0.125 to 0.125  " in text
    assert "reward ▁█▇ 0.250 (-1.000 to 0.500)" in text
    long = show(RunView(snapshot(1, "learn"), {"A": Trend(pairs={"0": [float(i) for i in range(500)]})}), 120, 30)
    [row] = [line for line in long.splitlines() if line.startswith("│      0  ")]
    assert "█ 0.000 to 499.000  " in row
    assert row.endswith("  250 │"), "the curve leaves room for its ends"
    narrow = show(RunView(replace(snapshot(1, "learn"), columns=()), trends), 80, 30)
    assert "0  Training   ▁█▇             " in narrow, "the curve alone, where there is no room for more"


def test_a_run_id_is_not_markup(show: Show) -> None:
    assert "[bold]x[/red]" in show(RunView(RunSnapshot("[bold]x[/red]", "parallel")), 80, 20)


def test_merging_weights_by_decisions() -> None:
    pairs = [
        PairMetrics(0, PairState.TRAINING, 300, 1.0, 0.5, 10.0),
        PairMetrics(1, PairState.TRAINING, 100, 5.0, None, 20.0),
        PairMetrics(2, PairState.FAILED, 0, None, None, 0.0),
    ]
    merged = merge_pairs(pairs)
    assert (merged.decisions, merged.mean_reward, merged.success_rate) == (400, 2.0, 0.5)
    assert merged.decisions_per_second == 30.0
    assert (state_counts(pairs), state_counts(pairs[:2])) == ("2 Training, 1 Failed", "Training")
    idle = [PairMetrics(0, PairState.IDLE, 0, 1.0), PairMetrics(1, PairState.IDLE, 0, 3.0)]
    assert merge_pairs(idle).mean_reward == 2.0


def test_behaviors_show_length_of_episodes_and_gradient_steps_where_they_are_told(show: Show) -> None:
    runner = BehaviorSnapshot("runner", 1000, 2000, steps_per_decision=0.1251)
    behaviors = (BehaviorSnapshot("tagger", 1000, 2000, 3, 0.7, 123.4), runner)
    run = RunSnapshot("r", "batch", behaviors=behaviors, figures=("5 environment steps/s",))
    text = show(RunView(run), 100, 30)
    assert "tagger · step 1,000 / 2,000 · 3 episodes · mean reward 0.700 · episode length 123" in text
    assert text.count("episode length") == 1
    assert "0.13 gradient steps a decision" in text
    assert text.count("gradient steps") == 1
    assert "5 environment steps/s" in text
    learns = RunSnapshot("r", "learn", decisions=400, unit="gradient steps", decisions_per_second=70.0)
    text = show(RunView(learns), 100, 30)
    assert "400 gradient steps" in text
    assert "70 gradient steps/s" in text
    assert "decisions" not in text
