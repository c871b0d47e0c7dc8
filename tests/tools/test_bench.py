"""The benchmark's own machinery: runs that end well and badly, configurations, curves and tables."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.waiting import HANG_S, until_gone
from tools._bootstrap.progress import SetupError
from tools.bench import __main__ as driver
from tools.bench import (
    asynchronous,
    batched,
    gym,
    learner,
    running,
    scale,
    scenes,
    soak,
    tables,
    trainers,
    versus_mlagents,
)
from tools.bench.trainers import Case, Incumbent, Job
from tools.bench.versus_mlagents import Result
from tools.peers import ROOT

posix = pytest.mark.skipif(os.name == "nt", reason="the benchmarks need a POSIX shell")

PROGRAM = """
import json, os, sys, time
path = os.path.join(sys.argv[1], f"engine-{os.getpid()}.jsonl")
for second in range(1000):
    if second == int(sys.argv[2]):
        sys.exit(int(sys.argv[3]))
    row = {"time": time.time(), "decisions": 12 * second, "exchanges": second, "episodes": second, "mean_return": 1.0}
    with open(path, "a") as stream:
        stream.write(json.dumps(row) + "\\n")
    time.sleep(0.02)
"""


def program(folder: Path, end_after: int = -1, code: int = 0) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(folder), str(end_after), str(code)]


@posix
def test_a_run_counts_every_engine_to_its_time_or_goal_and_leaves_no_process(tmp_path: Path) -> None:
    played = running.play([program(tmp_path), program(tmp_path)], tmp_path, 2, 0.6)
    assert len(played.timeline.engines) == 2
    assert played.started < played.ready < played.ended
    assert played.timeline.rate(played.ready, played.timeline.end()) > 100
    for engine in played.timeline.engines:
        until_gone(engine.pid)
    (tmp_path / "goal").mkdir()
    enough = running.play(
        [program(tmp_path / "goal")], tmp_path / "goal", 1, 1000.0, lambda timeline: timeline.total(time.time()) >= 60
    )
    assert enough.timeline.total(enough.ended) >= 60


@posix
def test_a_program_that_ends_early_is_a_failure_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(running.RunFailedError, match=r"exit codes \[3\]"):
        running.play([program(tmp_path, 10, 3)], tmp_path, 1, 30.0)
    with pytest.raises(running.RunFailedError, match="No module named nowhere"):
        running.play([[sys.executable, "-m", "nowhere"]], tmp_path, 5, 30.0)


@posix
def test_a_program_may_end_by_itself_where_that_is_said(tmp_path: Path) -> None:
    played = running.play([program(tmp_path, 20)], tmp_path, 1, 30.0, may_end=True)
    assert played.timeline.total(math.inf) == 12 * 19
    with pytest.raises(running.RunFailedError):
        running.play([program(tmp_path, 40, 1)], tmp_path, 2, 30.0, may_end=True)
    (tmp_path / "bare").mkdir()
    words = [sys.executable, "-c", "import os; print(os.environ['TAU_BENCH_WORD'])"]
    heard = {"TAU_BENCH_WORD": "heard"}
    bare = running.play([words], tmp_path / "bare", 0, HANG_S, may_end=True, variables=heard)
    assert bare.timeline.engines == ()
    assert (tmp_path / "bare" / "program-0.log").read_text() == "heard\n"


@posix
def test_engines_of_a_reporting_build_report_by_process(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    build = running.reporting_build(folder, "balance", ["--agents", "3"])
    script = build / "Contents" / "MacOS" / build.stem if build.is_dir() else build
    last = next(line for line in script.read_text().splitlines() if line.startswith("exec "))
    assert "--agents 3" in last
    assert last.index('"$@"') < last.index("--report-file")
    assert last.endswith('/"engine-$$.jsonl"')
    assert os.access(script, os.X_OK)


def test_both_trainers_get_the_same_flags_word_for_word(tmp_path: Path) -> None:
    python = tmp_path / "peer" / "bin" / "python"
    job = Job(Case(4, 12, 0.0), "learning", tmp_path / "b", tmp_path / "c.yaml", tmp_path, 6100, 7)
    (ours,) = trainers.Ours().commands(job)
    (theirs,) = Incumbent(python).commands(job)
    assert ours[:2] == [trainers.Ours().tau_train(), "learn"]
    assert theirs[0] == str(python.with_name("mlagents-learn"))
    assert ours[2:] == theirs[1:]
    assert "--num-envs" in ours
    wire = replace(job, layer="wire")
    assert len(trainers.Ours().commands(wire)) == 1
    assert [command[3] for command in Incumbent(python).commands(wire)] == ["0", "1", "2", "3"], "one for each engine"


@posix
def test_an_earlier_trainer_is_the_one_of_its_own_checkout(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"run `python3 tools/bootstrap\.py setup`"):
        trainers.Ours.before(tmp_path)
    program = tmp_path / ".venv" / "bin" / "tau-train"
    program.parent.mkdir(parents=True)
    program.touch()
    before = trainers.Ours.before(tmp_path)
    job = Job(Case(2, 12, 0.0), "wire", tmp_path / "b", tmp_path / "c.yaml", tmp_path, 6100, 7)
    (wire,) = before.commands(job)
    assert wire[:2] == [str(program.with_name("python")), str(tmp_path / "tools" / "bench" / "drive_ours.py")]
    (learn,) = before.commands(replace(job, layer="learning"))
    assert learn[0] == str(program)
    assert before.name == "before"


@pytest.mark.parametrize("layer", ["inference", "learning"])
def test_configuration_is_the_shipped_one_but_for_its_end(layer: trainers.Layer, tmp_path: Path) -> None:
    shipped = yaml.safe_load((ROOT / "configs" / "3DBall.yaml").read_text())["behaviors"]["3DBall"]
    path = trainers.write_config(tmp_path / "c.yaml", "3DBall", trainers.config_changes(layer))
    written = yaml.safe_load(path.read_text())["behaviors"]["3DBall"]
    assert written["max_steps"] == trainers.FOREVER
    buffer = written["hyperparameters"]["buffer_size"]
    assert buffer == (versus_mlagents.CYCLES["3DBall"] if layer == "learning" else trainers.NO_UPDATE_BUFFER)
    for key in ("network_settings", "reward_signals", "time_horizon", "summary_freq"):
        assert written[key] == shipped[key]
    for name, cycle in versus_mlagents.CYCLES.items():
        (behavior,) = yaml.safe_load((ROOT / "configs" / f"{name}.yaml").read_text())["behaviors"].values()
        assert cycle in (None, behavior["hyperparameters"]["buffer_size"]), name


def write_events(folder: Path, points: list[tuple[int, float]]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for step, value in points:
        summary = Summary(value=[Summary.Value(tag=versus_mlagents.REWARD, simple_value=value)])
        writer.add_event(Event(step=step, wall_time=float(step), summary=summary))
    writer.close()


def test_reward_curves_come_from_the_event_files(tmp_path: Path) -> None:
    write_events(tmp_path / "run" / "3DBall", [(12_000, 1.0), (24_000, 3.0)])
    curve = versus_mlagents.reward_curve(tmp_path)
    assert curve == [(12_000, 1.0), (24_000, 3.0)]
    assert versus_mlagents.reward_curve(tmp_path, "Self-play/ELO") == []
    assert versus_mlagents.reward_at(curve, 18_000) == pytest.approx(2.0)
    assert math.isnan(versus_mlagents.reward_at(curve, 6_000))
    assert math.isnan(versus_mlagents.reward_at([], 6_000))
    assert versus_mlagents.common_decisions([curve, [(12_000, 0.0)]]) == 12_000
    assert versus_mlagents.common_decisions([curve, []]) == 0
    assert versus_mlagents.reward_curve(tmp_path / "nothing") == []


def test_medians_ratios_and_dashes() -> None:
    assert tables.median([3.0, math.nan, 1.0, 2.0]) == 2.0
    assert tables.spread([1000.0, 3000.0, 2000.0]) == "2,000 (1,000-3,000)"
    assert tables.spread([1500.0]) == "1,500"
    assert tables.spread([]) == "-"
    assert tables.ratio([2000.0, 4000.0, 3000.0], [300.0]) == "10.0x"
    assert tables.ratio([1.0], []) == "-"
    assert tables.markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert tables.machine()["cores"] == os.cpu_count()


def test_tables_replace_their_own_part_of_a_document_and_are_written_with_the_machine(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n<!-- begin a -->\nold\n<!-- end a -->\n\nafter\n")
    tables.insert(page, "a", "new")
    tables.insert(page, "b", "other")
    tables.insert(page, "a", "newer")
    text = page.read_text()
    assert text.startswith("# Title\n\n<!-- begin a -->\n\nnewer\n\n<!-- end a -->\n\nafter\n")
    assert text.count("other") == 1
    assert "old" not in text
    assert "\nnew\n" not in text
    arguments = argparse.Namespace(output=tmp_path / "out", document=tmp_path / "other.md")
    tables.write(arguments, "wire", "| a |", {"runs": [1]})
    written = json.loads((tmp_path / "out" / "wire.json").read_text())
    assert written["runs"] == [1]
    assert written["machine"]["cores"] == os.cpu_count()
    assert "| a |" in arguments.document.read_text()


def test_every_path_of_learning_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "MINIBATCHES", 2)
    times = learner.time_minibatches(learner.Shape(4, 8, 1, 2, 16), 2)
    assert list(times) == ["textbook", "by torch's differentiation", "by hand"]
    assert all(len(rounds) == 2 and min(rounds) > 0 for rounds in times.values())
    assert learner.minibatch_table({"tiny": times}).count("1.00x") >= 1


def test_a_learner_costs_the_memory_of_all_processes_but_the_engines() -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(1000)"]
    with subprocess.Popen(sleep) as engine, subprocess.Popen(sleep) as process:
        try:
            both = learner.resident_megabytes([engine.pid, process.pid])
            trainer = learner.resident_megabytes([engine.pid])
        finally:
            engine.kill()
            process.kill()
    assert trainer > both > 1.0
    assert math.isnan(learner.resident_megabytes([]))


def test_report_shows_ratios_rewards_and_failures(tmp_path: Path) -> None:
    def plan_of(*words: str) -> versus_mlagents.Plan:
        words = ("--agents", "12", "--work", str(tmp_path), *words)
        return versus_mlagents.make_plan(versus_mlagents.parser().parse_args(words), ("mlagents-learn", "tau-train"))

    plan = plan_of("--engines", "1", "--step-ms", "0", "--runs", "2")
    (case,) = plan.cases
    results = [Result("tau-train", "wire", case, 0, rate=20_000.0)]
    for run in range(2):
        results.append(Result("mlagents-learn", "learning", case, run, rate=1000.0, curve=[(12_000, 1.0 + run)]))
        results.append(Result("tau-train", "learning", case, run, rate=12_000.0, curve=[(12_000, 2.0), (24_000, 50.0)]))
    results.append(Result("tau-train", "learning", case, 2, failure="exit codes [1]"))
    text = versus_mlagents.report(plan, results)
    learning = text.split("### learning")[1]
    assert "| 1 x 12 | 0 | 1,000 (1,000-1,000) | 12,000 (12,000-12,000) | 12.0x | 60% |" in learning
    assert "1.5, 2.0 at 12,000" in learning
    assert "- learning 1x12-0ms tau-train run 2: exit codes [1]" in learning
    for runs, figures in (1, ["single runs"] * 2), (2, ["median (lowest-highest)", "median of runs"]):
        plan = plan_of("--layers", "learning", "--reward-decisions", "24000", "--runs", str(runs))
        headings = [line for line in versus_mlagents.report(plan, []).splitlines() if line.startswith("###")]
        assert [heading.rpartition(", ")[2] for heading in headings] == figures


def test_install_without_python_3_10_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(versus_mlagents, "find_python", lambda version: None)
    with pytest.raises(SetupError, match=r"needs Python 3\.10 and none was found"):
        versus_mlagents.install(None, tmp_path)


def summary(step: int, reward: float | None, behavior: str = "Hallway") -> str:
    values = {} if reward is None else {"Environment/Cumulative Reward": reward}
    return json.dumps({"type": "summary", "behavior": behavior, "step": step, "elapsed": step / 10, "values": values})


def test_a_scene_has_its_mark_where_a_summary_says_so(tmp_path: Path) -> None:
    log, rewards = tmp_path / "log.jsonl", [-1.0, 0.2, 0.7, 0.5, 0.9]
    lines = [summary(100 * i, reward) for i, reward in enumerate(rewards)]
    other = [json.dumps({"type": "event"}), summary(1, 0.9, "Another"), summary(2, None)]
    log.write_text("\n".join([*other, *lines]), encoding="utf-8")
    found = scenes.outcome_of("hallway", 3, log)
    assert (found.decisions, found.seconds, found.whole) == (200, 20.0, 40.0)
    assert found.end == pytest.approx(0.7)
    log.write_text("\n".join(lines[:2]), encoding="utf-8")
    never = scenes.outcome_of("hallway", 5, log)
    assert math.isnan(never.decisions)
    assert "hallway seed 5: never" in scenes.line(never)
    text = scenes.table([found, replace(found, seed=4, decisions=300), never])
    assert "| `hallway` | 0.7 | 2 of 3 | 250 (200-300) |" in text
    log.write_text("\n".join(other), encoding="utf-8")
    assert scenes.outcome_of("hallway", 3, log).failure == "no episode ended"


def test_a_peer_is_beside_ours_on_the_same_work_alone() -> None:
    """As many copies, both learning; pairs are told apart, and ours at other sizes is beside nobody."""
    one, many = batched.Cell("cartpole", 1), batched.Cell("cartpole", 100)
    peer = f"Stable-Baselines3's A2C{batched.LEARNING}"
    found = [
        *(batched.Rate(one, what, steps) for what, steps in (("env", 9e6), ("learning", 30.0), (peer, 10.0))),
        *(batched.Rate(one, what, steps) for what, steps in (("learning", 80.0), (peer, 40.0))),
        batched.Rate(many, "learning", 9e9),
    ]
    [line] = batched.beside(found).splitlines()[2:]
    assert line.startswith("| Stable-Baselines3's A2C, with learning | `cartpole`, 1 | 1 | 25 (10-40) ")
    assert line.endswith("| 55 (30-80) | 2.50 (2.00-3.00) |")


def test_a_peer_learns_with_our_algorithm_rollout_network_and_numbers() -> None:
    cell = batched.Cell("cartpole", 10)
    asked = json.loads(batched.as_baselines3(cell, 2.0, True))
    settings: Any = batched.a2c(cell)
    assert (asked["copies"], asked["hidden"], asked["n_steps"]) == (10, [64, 64], 32)
    assert settings.hyperparameters.buffer_size == settings.hyperparameters.batch_size == 10 * 32
    numbers = settings.hyperparameters
    assert asked["gamma"] == settings.reward_signals["extrinsic"].gamma
    assert (asked["learning_rate"], asked["gae_lambda"]) == (numbers.learning_rate, numbers.lambd)


@pytest.mark.parametrize("table", [gym.TASKS, asynchronous.TASKS])
def test_what_differs_from_a_peer_stands_in_its_row(table: Any) -> None:
    module, task = (gym, "Pendulum-v1") if table is gym.TASKS else (asynchronous, "Pendulum-v1")
    runs = [gym.Outcome(task, name, 1, 1.0, 1.0, 1.0) for name in ("tau-train", "Stable-Baselines3")]
    text = gym.table(runs) if module is gym else asynchronous.table(task, runs)
    ours, theirs = text.splitlines()[2:]
    assert "tau-train: SAC, " in ours
    assert "2 x 64 units" in ours
    assert "Stable-Baselines3: SAC, " in theirs
    assert "2 x 256 units" in theirs


def test_the_driver_runs_each_benchmark_by_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [])
    for name in driver.NAMES:
        with pytest.raises(SystemExit) as left:
            driver.main([name, "--help"])
        assert left.value.code == 0
        assert f"usage: python -m tools.bench {name} " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        driver.main(["tables"])
    assert "invalid choice: 'tables'" in capsys.readouterr().err

    def missing() -> int:
        raise SetupError("tau-train is missing")

    monkeypatch.setattr(scenes, "main", missing)
    assert driver.main(["scenes"]) == 2
    assert capsys.readouterr().err == "scenes: tau-train is missing\n"


def test_a_model_of_the_linear_points_says_what_the_machine_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a millisecond a decision on two cores 2,000 decisions/s, and so four engines of 500."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    costs = dict.fromkeys(scale.KINDS, 0.0002)
    rates = {1: 500.0, 2: 980.0, 4: 1500.0}
    points = [scale.Point(3, engines, rate, costs, 0.0) for engines, rate in rates.items()]
    said = scale.model(points, 0.0001)
    assert said.startswith("From 2 engines: a decision computes 1,000 us on all sides, so 2 cores make at most 2,000 ")
    assert "| 4 | 2,000 | 1,500 |" in said
    limits = scale.limits_of(points[1], 0.0001)
    assert limits["learning: one thread"] == pytest.approx(10_000)
    assert limits["taking in: the trainer's other threads, of which one runs at a time"] == pytest.approx(10_000)
    assert limits["cores of 100 machines, 2 each"] == pytest.approx(200 / 0.0006)
    assert "| 98% |" in scale.table(points)


def test_computing_is_that_of_the_processes_of_one_run(tmp_path: Path) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs /proc")
    words = [sys.executable, "-c", "import time; sum(range(10**6)); print(flush=True); time.sleep(1000)"]
    with subprocess.Popen(words, env={**os.environ, "TAU_BENCH_RUN": "mark"}, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            found = dict(scale.computing("TAU_BENCH_RUN=mark"))
            assert 1 < gym.resident("TAU_BENCH_RUN=mark") < 100, "megabytes"
        finally:
            process.kill()
    assert list(found) == [process.pid]
    assert found[process.pid][0] == "ray", "neither of ours"


def test_a_soak_sees_how_long_nothing_was_decided() -> None:
    assert soak.longest_rest([0, 0, 0, 5, 6, 6, 6, 9, 9]) == 2
    if Path("/proc/self/status").exists():
        assert soak.resident(os.getpid()) > 10**6
