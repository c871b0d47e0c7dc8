"""Marks, falls, settings and tables of the benchmark of slow games; nothing is trained."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.settings import load_settings
from tests.waiting import HANG_S
from tools._bootstrap.progress import SetupError
from tools.bench import running, slow_games, slow_report, timed_envs
from tools.bench.episodes import STRETCH, Episodes, Falls, Reader, curve, falls, mark
from tools.bench.slow_report import Run, ratio, rivals
from tools.bench.slow_tasks import OURS, TASKS, settings
from tools.bench.timeline import Timeline
from tools.peers import ROOT


def in_turn(returns: Sequence[float], length: int = 10) -> Episodes:
    """Of a single agent: one after the other."""
    return Episodes.of([(i * length, (i + 1) * length, value, 100.0 + i) for i, value in enumerate(returns)])


@given(st.lists(st.integers(0, 1), max_size=30), st.integers(1, 5))
def test_a_mark_is_reached_where_a_window_is_at_it_and_the_next_one_is_too(returns: list[int], window: int) -> None:
    ends = range(window, len(returns) - window + 1)
    at = [end for end in ends if all(returns[end - window : end + window])]
    found = mark(in_turn(returns), 1.0, window)
    assert (found is None) == (not at)
    if found is not None:
        assert found.decisions == 10 * at[0]
        assert found.begun == 10 * (at[0] - window)
        assert found.time == 100.0 + at[0] - 1


def test_the_window_begins_with_the_episode_that_began_first_whichever_ends_first() -> None:
    rows = [(0.0, 50.0, 1.0, 5.0), (20.0, 40.0, 1.0, 4.0), (50.0, 70.0, 1.0, 7.0), (40.0, 60.0, 1.0, 6.0)]
    found = mark(Episodes.of(rows), 1.0, 2)
    assert found is not None
    assert (found.decisions, found.begun, found.time) == (50.0, 0.0, 5.0)


def balance(lost: Sequence[int], at: float = 100.0) -> Episodes:
    """Stretches of twelve whole episodes, and so many that lost their ball in the middle of each."""
    rows: list[tuple[float, float, float, float]] = []
    for number, balls in enumerate(lost):
        middle = number * STRETCH + STRETCH / 2
        rows += [(middle, middle + ball, 50.0, 0.0) for ball in range(balls)]
        rows += [((number - 1) * STRETCH, (number + 1) * STRETCH, at, 0.0)] * 12
    return Episodes.of(rows)


def test_falls_are_counted_after_the_first_summary_at_the_mark() -> None:
    assert falls(balance([60, 40, 20]), 99.0) is None, "no summary at 90"
    found = falls(balance([60, 0, 0, 5, 0, 6, 0, 7, 0, 0, 0, 200]), 99.0)
    assert found == Falls(decisions=10 * STRETCH, low=1, falls=2, most=200)
    assert not found.safe
    assert falls(balance([60, 0, 5, 1]), 99.0) == Falls(2 * STRETCH, 0, 0, 5)


def test_six_balls_in_any_12_000_decisions_are_too_many_wherever_a_stretch_ends() -> None:
    """Four before and four after the border of two stretches: neither is a fall, together they are not safe."""
    rows = [(0.0, STRETCH * (number + 1), 100.0, 0.0) for number in range(4) for _ in range(40)]
    near = [2 * STRETCH + offset for offset in (-4, -3, -2, -1, 1, 2, 3, 4)]
    found = falls(Episodes.of([*rows, *((0.0, float(end), 90.0, 0.0) for end in near)]), 99.0)
    assert found == Falls(3 * STRETCH, 0, 0, 8)
    assert not found.safe


def test_a_curve_is_thin_and_begins_with_what_there_is() -> None:
    points = curve(in_turn(list(range(1000))), 100, 100.0)
    assert points[0] == (1000.0, 99.0, 49.5)
    assert points[-1] == (10_000.0, 999.0, 949.5)
    assert 100 < len(points) <= 200
    assert curve(in_turn([1.0, 3.0]), 100, 100.0) == [(20.0, 1.0, 2.0)]
    assert curve(in_turn([]), 100, 0.0) == []
    together = replace(in_turn([0.0, 4.0, 4.0]), ended=np.array([10.0, 20.0, 20.0]))
    assert [(decisions, mean) for decisions, _, mean in curve(together, 2, 0.0)] == [(20.0, 4.0)]


def told(behavior: str, ended: int, earned: float = 1.5, when: float = 9.0) -> str:
    """What an engine writes of an episode of 1,000 decisions."""
    return json.dumps({"behavior": behavior, "begun": ended - 1000, "ended": ended, "return": earned, "time": when})


def test_a_game_is_read_while_it_is_written(tmp_path: Path) -> None:
    engine, reader = tmp_path / "engine-1.jsonl.episodes", Reader(tmp_path, "Big")
    assert len(reader.read()) == 0
    whole = told("Big?team=0", 20)
    engine.write_text(f"{told('Small?team=0', 10)}\n{whole}\n{whole[:30]}")
    assert reader.read().ended.tolist() == [20.0]
    engine.write_text(f"{told('Small?team=0', 10)}\n{whole}\n{whole}\n")
    assert reader.read().returns.tolist() == [1.5, 1.5]
    (tmp_path / "copy.txt").write_text("7.0 0 0.0 0 0\n8.0 5 2.5 10 15\n9.0 5")
    found = reader.read()
    assert next(zip(found.begun, found.ended, found.returns, found.time, strict=True)) == (10.0, 15.0, 2.5, 8.0)
    assert len(found) == 3


def test_timed_environments_count_the_steps_of_all_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(timed_envs.FOLDER, str(tmp_path))
    monkeypatch.setattr(timed_envs.Timed, "played", 0)
    copies = [gymnasium.make("TimedCartPole-v1") for _ in range(2)]
    for number, env in enumerate(copies):
        env.reset(seed=number)
    over = [False, False]
    while not all(over):
        for number, env in enumerate(copies):
            if not over[number]:
                _, _, over[number], _, _ = env.step(0)
    for env in copies:
        env.close()
    found = Reader(tmp_path, "CartPole-v1").read()
    assert found.begun.tolist() in ([0.0, 1.0], [1.0, 0.0])
    assert found.decisions == found.returns.sum()


@pytest.mark.parametrize("learner", ["sac", "sac-equal", "sac-tuned", "ppo"])
@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_settings_that_can_be_read(task: str, learner: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings(task, learner, 2.0, 10**7)))
    read = load_settings(path)
    name = TASKS[task].behavior if TASKS[task].scene else f"Timed{TASKS[task].behavior}"
    behavior = read.behaviors[name]
    assert behavior.trainer_type == learner.partition("-")[0]
    assert behavior.max_steps >= 10**7
    assert set(read.environment_parameters or {}) == set(TASKS[task].parameters)


def test_the_new_learner_gets_what_a_task_needs_and_no_other_number() -> None:
    hallway = settings("hallway", "sac_ln", "auto", 100)["behaviors"]["Hallway"]
    assert hallway == {
        "trainer_type": "sac_ln",
        "hyperparameters": {"steps_per_update": "auto"},
        "network_settings": {"memory": {"sequence_length": 64, "memory_size": 128}},
        "reward_signals": {"extrinsic": {"gamma": 0.99}},
        "max_steps": 100,
    }
    assert "curiosity" in settings("pyramids", "sac_ln", 2.0, 100)["behaviors"]["Pyramids"]["reward_signals"]
    ball = settings("balance", "sac_ln", 2.0, 100)["behaviors"]["3DBall"]
    assert (ball["hyperparameters"], ball["network_settings"]) == ({"steps_per_update": 2.0}, {})
    (plain,) = settings("balance", "sac", 2.0, 100)["behaviors"].values()
    (equal,) = settings("balance", "sac-equal", 2.0, 100)["behaviors"].values()
    assert [each["hyperparameters"].pop("steps_per_update") for each in (plain, equal)] == [10.0, 2.0]
    assert plain == equal
    copies = [settings("LunarLander-v3", name, 2.0, 100)["env_settings"]["num_areas"] for name in ("ppo", "sac_ln")]
    assert copies == [16, 1]
    continuous = [gymnasium.spec(f"TimedLunarLander{kind}-v3").kwargs.get("continuous") for kind in ("", "Continuous")]
    assert continuous == [None, True]


def test_changes_are_for_ours_or_for_the_learner_they_name() -> None:
    changes = ["sac_ln:reward_signals.extrinsic.strength=100", "hyperparameters.batch_size=77"]
    found = {
        name: next(iter(settings("basic", name, 2.0, 100, changes)["behaviors"].values()))
        for name in ("sac_ln", "sac", "mlagents-sac")
    }
    assert [one["hyperparameters"].get("batch_size") for one in found.values()] == [77, 77, 64]
    assert [one["reward_signals"]["extrinsic"].get("strength") for one in found.values()] == [100, 1.0, 1.0]


def ran(learner: str, begun: float, **values: Any) -> Run:
    first = {"task": "balance", "seed": 1, "step_ms": 0.0, "agents": 12, "most": 100_000, **values}
    return Run(learner=learner, decisions=begun + STRETCH, begun=begun, seconds=begun / 100, **first)


def test_ratios_are_of_medians_and_of_the_better_of_the_others() -> None:
    runs = [ran("sac_ln", value) for value in (4_000.0, 1_000.0, 2_000.0)]
    runs += [ran("sac", 8_000.0), ran("ppo", 40_000.0), ran("sac-equal", 4_000.0)]
    assert str(ratio(runs, ("sac", "ppo"))) == "0.25"
    assert str(ratio(runs, ("sac-equal",))) == "0.50"
    assert str(ratio(runs, ("mlagents-sac",))) == "-"
    assert rivals(("sac_ln", "sac", "ppo")) == ("sac", "ppo")
    assert rivals(("sac_ln", "sac", "mlagents-ppo")) == ("mlagents-ppo",), "the incumbent's where it plays"
    never, one = ran("sac_ln", math.inf), ran("sac", 1.0)
    assert str(ratio([ran("sac_ln", 25_000.0), ran("sac", math.inf)], ("sac",))) == "< 0.25", "of all it was given"
    for found, said in (([never], "not reached"), ([never, never, ran("sac_ln", 1.0)], "not reached")):
        assert str(ratio([*found, one], ("sac",))) == said
    assert str(ratio([ran("sac_ln", 2.0), ran("sac_ln", 2.0), never, one], ("sac",))) == "2.00"


def test_tables_of_marks_ratios_ends_and_falls() -> None:
    runs = [ran("sac_ln", 2_000.0), ran("sac_ln", 4_000.0, seed=2), ran("sac", 40_000.0), ran("ppo", math.inf)]
    runs += [ran("sac_ln", 1_000.0, task="basic", agents=1), ran("sac", 2_000.0, task="basic", agents=1)]
    runs += [
        replace(ran("sac_ln", math.inf, task="Hopper-v5", agents=1, seed=seed), end=100.0 * seed) for seed in (1, 3)
    ]
    fallen = Falls(50_000.0, 0, 0, 2)
    runs.append(replace(ran("sac", 1.0, seed=2), falls=fallen))
    runs.append(replace(ran("sac", 1.0, seed=3), falls=replace(fallen, low=2, falls=1, most=30)))
    runs.append(replace(ran("ppo", 1.0, seed=9), failure="exit codes [1]"))
    text = slow_report.report(runs)
    assert (
        "| `balance` | 12 | 0 | `sac_ln` | 90 | 2 of 2 | 15,000 (14,000-16,000) | 3,000 (2,000-4,000) | 30.0 (" in text
    )
    assert "| `balance` | 12 | 0 | `ppo` | 90 | 0 of 1 | - | - | - |" in text
    assert "| `Hopper-v5` | 1 | 0 | `sac_ln` | 2 | 200 | 100 |" in text
    assert "| `basic` | 1 | 0 | 0.50 | - | - |" in text
    assert "| `balance` | 12 | 0 | `sac` | 1 of 2 | 100,000 | 2 | 1 | 1.00 | 2, 30 |" in text
    assert "- balance-12agents-ppo-9: exit codes [1]" in text
    assert text.index("`balance`") < text.index("`basic`"), "in the order of the tasks"


def test_results_come_back_as_they_were_and_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [(1_000.0, 1.5, 20.0), (2_000.0, 3.0, 95.0)]
    runs = [replace(ran("sac_ln", 2_000.0, step_ms=5.0), curve=points, falls=Falls(1.0, 2, 3, 4)), ran("sac", math.inf)]
    for run in runs:
        path = tmp_path / f"{run.learner}.json"
        path.write_text(json.dumps({"runs": slow_report.document([run])}))
        assert slow_report.read(path) == [run]
    words = ["--read", str(tmp_path / "sac_ln.json"), str(tmp_path / "sac.json"), "--output", str(tmp_path / "both")]
    monkeypatch.setattr(sys, "argv", ["slow_games", *words])
    assert slow_games.main() == 0
    assert len(slow_report.read(tmp_path / "both" / "slow_games.json")) == 2
    assert "| `sac_ln` |" in (tmp_path / "both" / "slow_games.md").read_text()
    pictures = [path.name for path in sorted((tmp_path / "both").glob("*.png"))]
    assert pictures == ["balance-12agents-5ms-decisions.png", "balance-12agents-5ms-minutes.png"]


def plan(words: Sequence[str], cache: Path) -> tuple[slow_games.Plan, list[Run]]:
    return slow_games.plan_of(slow_games.parser().parse_args([*words, "--cache", str(cache)]))


def test_each_learner_plays_what_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_games, "ensure_peer", lambda peer, python, cache: Path(peer.name))
    monkeypatch.setattr(slow_games, "find_python", lambda version: f"python{version}")
    words = ["--tasks", "balance", "Pendulum-v1", "--seeds", "7", "--learners", "sac", "mlagents-ppo", "sbx"]
    made, runs = plan([*words, "--agents", "1", "64", "--step-ms", "0", "5", "--steps-per-update", "auto"], tmp_path)
    balance = [run for run in runs if run.task == "balance"]
    assert {(run.learner, run.agents) for run in balance} == {
        (learner, agents) for learner in ("sac", "mlagents-ppo") for agents in (1, 64)
    }
    assert {(run.learner, run.agents) for run in runs if run.task != "balance"} == {("sac", 1), ("sbx", 1)}
    assert len(runs) == 12
    assert {run.most for run in balance} == {TASKS["balance"].most}
    assert made.steps_per_update == "auto"
    assert set(made.peers) == {"mlagents-ppo", "sbx"}
    _, runs = plan(["--tasks", "LunarLander-v3", "LunarLanderContinuous-v3", *words[3:]], tmp_path)
    assert [(run.task, run.learner) for run in runs if run.learner != "sac"] == [("LunarLanderContinuous-v3", "sbx")]
    _, runs = plan([*words, "--until", "300000"], tmp_path)
    assert {run.most for run in runs} == {300_000}


def test_what_is_not_installed_is_left_out_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    _, runs = plan(["--tasks", "basic", "BipedalWalker-v3", "Hopper-v5", "--seeds", "1"], tmp_path)
    assert {(run.task, run.learner) for run in runs} == {("basic", learner) for learner in OURS}
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "BipedalWalker-v3 is left out: Box2D is not installed",
        "Hopper-v5 is left out: mujoco is not installed",
    ]
    monkeypatch.setattr(slow_games, "find_python", lambda version: None)
    with pytest.raises(SetupError, match=r"needs Python 3\.10"):
        plan(["--learners", "mlagents-ppo"], tmp_path)


@pytest.mark.parametrize("words", [["--set", "hyperparameters.batch_size"], ["--steps-per-update", "often"]])
def test_a_slip_in_the_command_line_is_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        slow_games.parser().parse_args(words)
    assert f"argument {words[0]}: " in capsys.readouterr().err


class Game:
    """Stands in the place of a run: an episode of return 100 a look, from ``learned`` on."""

    def __init__(self, learned: int) -> None:
        self.learned = learned
        self.looks = 0
        self.command: list[str] = []
        self.variables: dict[str, str] = {}

    def play(
        self,
        commands: list[list[str]],
        folder: Path,
        engines: int,
        seconds: float,
        until: Callable[[Timeline], bool],
        may_end: bool,
        variables: dict[str, str],
        patience: float,
    ) -> running.Played:
        (self.command,), self.variables = commands, variables
        assert patience < 1.0, "what a run has learned is of no use"
        assert engines == 1
        self.results = folder / "results"
        self.results.mkdir()
        with (folder / "engine-1.jsonl.episodes").open("w", buffering=1) as file:
            while not until(Timeline(())):
                self.looks += 1
                assert self.looks < 1000, "it goes on for ever"
                earned = 100.0 if self.looks > self.learned else 10.0
                file.write(told("3DBall?team=0", self.looks * 1000, earned, 50.0 + self.looks) + "\n")
        return running.Played(Timeline(()), 50.0, 50.0, 50.0 + self.looks)


def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, game: Game, *words: str) -> Run:
    monkeypatch.setattr(running, "play", game.play)
    words = ("--tasks", "balance", "--learners", "sac", "--seeds", "3", "--work", str(tmp_path), *words)
    made, (run,) = plan(words, tmp_path)
    return slow_games.play(made, run, 0, Event())


def test_a_run_ends_once_its_mark_is_confirmed_or_with_what_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = Game(learned=20)
    run = played(tmp_path, monkeypatch, game, "--turns")
    assert (run.decisions, run.begun, run.seconds) == (31_000.0, 19_000.0, 31.0)
    assert (run.played, run.whole, run.falls) == (43_000.0, 43.0, None)
    assert run.rate == pytest.approx(1000.0)
    assert game.command[:5] == [sys.executable, "-P", "-m", "tau_trainer", "learn"]
    assert game.command[-1] == "--deterministic-collection"
    assert game.variables["PYTHONPATH"].startswith(str(ROOT))
    assert not game.results.exists(), "replay memories are large"
    run = played(tmp_path, monkeypatch, Game(learned=20), "--until", "100000")
    assert (run.decisions, run.played) == (31_000.0, 100_000.0)
    assert run.falls == Falls(decisions=100_000.0 - 36_000.0, low=0, falls=0, most=0)
    run = played(tmp_path, monkeypatch, Game(learned=10**9), "--most", "50000")
    assert (run.decisions, run.played, run.end) == (math.inf, 50_000.0, 10.0), "it does not learn"

    def fail(*_arguments: Any) -> running.Played:
        raise running.RunFailedError("exit codes [3]")

    monkeypatch.setattr(game, "play", fail)
    assert played(tmp_path, monkeypatch, game).failure == "exit codes [3]", "a result too"


def test_the_engine_of_a_run_tells_of_every_episode_and_costs_what_was_asked(tmp_path: Path) -> None:
    made, (run,) = plan(["--tasks", "balance", "--learners", "sac_ln", "--seeds", "3", "--step-ms", "5"], tmp_path)
    command, _ = slow_games.command_of(made, run, tmp_path, 4)
    build = Path(command[command.index("--env") + 1])
    script = next(path for path in (build, build / "Contents" / "MacOS" / build.stem) if path.is_file()).read_text()
    assert "--agents 12 --report-episodes --step-ms 5" in script
    (ball,) = yaml.safe_load((tmp_path / "config.yaml").read_text())["behaviors"].values()
    assert ball["trainer_type"] == "sac_ln"
    assert ball["max_steps"] > run.most, "it does not end by itself, which would take an export's time"
    assert command[command.index("--seed") + 1] == "3"
    assert np.isfinite(float(command[command.index("--base-port") + 1]))


def test_other_programs_play_the_same_game_with_their_own_python(tmp_path: Path) -> None:
    made, (ball, _, pendulum, _) = plan(
        ["--tasks", "balance", "Pendulum-v1", "--learners", "sac", "ppo", "--seeds", "3", "--most", "500"], tmp_path
    )
    made = replace(made, peers={"mlagents-ppo": tmp_path / "bin" / "python", "sbx": Path("python-of-sbx")})
    (tmp_path / "theirs").mkdir()
    theirs, variables = slow_games.command_of(made, replace(ball, learner="mlagents-ppo"), tmp_path / "theirs", 0)
    ours, _ = slow_games.command_of(made, replace(ball, learner="ppo"), tmp_path, 0)
    assert theirs[0] == str(tmp_path / "bin" / "mlagents-learn")
    assert len(theirs[1:]) == len(ours[5:]), "the same flags"
    assert variables == {}, "nothing of our Python's"
    read = [(folder / "config.yaml").read_text() for folder in (tmp_path, tmp_path / "theirs")]
    assert read[0] == read[1], "and the same file"
    crossq, variables = slow_games.command_of(made, replace(pendulum, learner="sbx", step_ms=20.0), tmp_path, 0)
    assert crossq[0] == "python-of-sbx"
    assert crossq[2:] == ["Pendulum-v1", "3", "500"]
    assert (variables[timed_envs.FOLDER], variables[timed_envs.STEP_SECONDS]) == (str(tmp_path), "0.02")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals of this kind")
def test_what_ends_the_benchmark_ends_its_runs_and_keeps_those_that_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    written = Event()

    def play(_plan: slow_games.Plan, run: Run, number: int, stop: Event) -> Run:
        if number == 1:
            assert written.wait(HANG_S)
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.wait(HANG_S)
            ended.append(number)
        return run

    monkeypatch.setattr(slow_games, "play", play)
    monkeypatch.setattr(slow_games, "write", lambda arguments, runs: written.set())
    words = ["--tasks", "basic", "--learners", "sac", "--seeds", "1", "2", "3", "--output", str(tmp_path / "out")]
    made, asked = plan(words, tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    done = slow_games.play_all(made, asked, slow_games.parser().parse_args(words))
    assert signal.getsignal(signal.SIGTERM) == before
    assert ended == [1]
    assert done == asked[:1]
