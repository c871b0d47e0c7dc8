from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tau_trainer.metrics import BehaviorSnapshot, ResultView, RunReport, result_lines
from tau_trainer.metrics.games import Games

Consoles = Callable[..., Console]
TextOf = Callable[[Console], str]

GOLDEN = """\
╭──────────────────────────────────────────────────────────────────────────────╮
│ tau-01 completed: 200,000 decisions in 0:01:01 (3,279/s while learning)      │
│ pair 2: the engine exited by itself                                          │
│                                                                              │
│ test rows              reward  accuracy                                      │
│ policy                  0.700    93.0 %                                      │
│ zeros                  -0.100     3.3 %                                      │
│ constant                0.120    16.7 %                                      │
│ majority                0.100    16.7 %                                      │
│ ridge                   0.720    96.0 %                                      │
│ policy, training rows       -    97.0 %                                      │
│                                                                              │
│ policy  results/tau-01/TauAgent.onnx                                         │
│                                                                              │
│ The policy beats every baseline.                                             │
╰──────────────────────────────────────────────────────────────────────────────╯
"""


def test_golden(result: RunReport, console: Consoles, text_of: TextOf) -> None:
    target = console(80, 30)
    target.print(ResultView(result))
    assert text_of(target).replace("\\", "/") == GOLDEN
    plain = console(60, 30, ascii_only=True)
    plain.print(ResultView(result))
    assert text_of(plain).isascii()
    assert "The policy beats every baseline." in text_of(plain)
    assert list(result_lines(replace(result, evaluation=None)))[1] == "policy: not evaluated"


def test_a_run_without_evaluation_reports_its_behaviors(console: Consoles, text_of: TextOf) -> None:
    ball = BehaviorSnapshot("3DBall", 5000, 9000, 40, 87.5, window_episodes=12)
    plain = RunReport("3dball", Path("3dball"), "learn", "cancelled", 5000, 7.0, 714.0, behaviors=(ball,))
    assert list(result_lines(plain)) == [
        "3dball cancelled: 5,000 decisions in 0:00:07 (714/s while learning)",
        "3DBall: mean reward 87.500 in its last summary (12 episodes), after 5,000 decisions",
    ]
    target = console(80, 30)
    target.print(ResultView(plain))
    row = next(line for line in text_of(target).splitlines() if "87.500" in line)
    assert row.split() == ["│", "3DBall", "5,000", "40", "87.500", "│"]
    assert "mean rewards: of the episodes in its last summary" in text_of(target)


def test_what_groups_get_stands_beside(result: RunReport, console: Consoles, text_of: TextOf) -> None:
    soccer = BehaviorSnapshot("Soccer", 5000, 9000, 40, 0.0, mean_group_reward=1.25, window_episodes=1)
    clone = BehaviorSnapshot("Clone", 70, 70, 0, 2.0, window="evaluation")
    plain = replace(result, evaluation=None, baselines={}, behaviors=(soccer, clone))
    told = list(result_lines(plain))
    assert (
        told[1]
        == "Soccer: mean reward 0.000, mean group reward 1.250 in its last summary (1 episode), after 5,000 decisions"
    )
    assert told[2] == "Clone: mean reward 2.000 in its last evaluation, after 70 decisions"
    target = console(80, 30)
    target.print(ResultView(plain))
    rows = [line.split() for line in text_of(target).splitlines()]
    assert ["│", "Soccer", "5,000", "40", "0.000", "1.250", "│"] in rows
    assert ["│", "Clone", "70", "0", "2.000", "-", "│"] in rows
    assert "mean rewards: of the episodes in its last summary or its last evaluation" in text_of(target)


def test_results_of_self_play_are_a_table(result: RunReport, console: Consoles, text_of: TextOf) -> None:
    games = Games("newest", 3, 1, 0), Games("snapshot at 20,000", 8, 0, 2, made=20_000)
    soccer = BehaviorSnapshot("Soccer", 5000, elo=1203.12, games=games)
    plain = replace(result, evaluation=None, baselines={}, behaviors=(soccer,))
    found = list(result_lines(plain))
    title = "Soccer at self-play, of all its policies so far; Elo 1203.1"
    assert found[2] == f"{title}:"
    assert found[5] == "  snapshot at 20,000     10    8      0     2  80.0 %  49.0 % to 94.3 %"
    target = console(100, 40)
    target.print(ResultView(plain))
    assert title in text_of(target)
    rows = [line.strip("│ ").split("  ") for line in text_of(target).splitlines()]
    assert any(row[0] == "snapshot at 20,000" and "49.0 % to 94.3 %" in row[-1] for row in rows)
