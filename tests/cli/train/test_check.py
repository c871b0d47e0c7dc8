"""`tau-train check`: what would run, what stands in its way, and nothing started."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main

FILE = """
behaviors:
  Ball:
    trainer_type: ppo
    hyperparameters: {batch_size: 64, buffer_size: 12000, learning_rate: 3e-4, beta_schedule: constant}
    network_settings: {normalize: true, num_layers: 3}
    reward_signals: {extrinsic: {gamma: 0.9, strength: 2}}
    threaded: true
    time_horizon: 7000
    summary_freq: 100000
env_settings: {env_path: 'headless:balance', num_envs: 2, seed: 3}
environment_parameters:
  mass: 2
  wind: {sampler_type: uniform, sampler_parameters: {min_value: 1, max_value: 3}}
"""
UNTRAINABLE = """
behaviors:
  A:
    trainer_type: td3
    reward_signals: {rnd: {}}
  B:
    trainer_type: dqn
    reward_signals: {curiosity: {}}
environment_parameters:
  h:
    curriculum:
      - {name: a, value: 1, completion_criteria: {behavior: C, threshold: 1}}
      - {name: b, value: 2}
"""


@pytest.fixture(autouse=True)
def folder(elsewhere: Path) -> Path:
    (elsewhere / "x.yaml").write_text(FILE)
    (elsewhere / "later.yaml").write_text(UNTRAINABLE)
    return elsewhere


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The JSON report; the exit code agrees with it."""
    code = main(["check", *words, "--json"])
    out, err = capsys.readouterr()
    assert err == ""
    report: dict[str, Any] = json.loads(out)
    assert report["runs"] == (code == 0) == (not report["problems"])
    assert code in (0, 2)
    return report


def test_what_would_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "x.yaml"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == [
        "",
        "Ball",
        "  trainer: ppo, 500,000 decisions, trajectories of 7,000",
        "  network: 3 x 128 hidden units, normalized vectors",
        "  rewards: extrinsic (gamma 0.9, strength 2)",
        "  memory: buffer_size 12,000, batch_size 64",
        "  updates: 83, one for every 6,000 new decisions, of 279 minibatches each",
        "  schedules: learning_rate 0.0003 linear, beta 0.005 constant, epsilon 0.2 linear",
        "  writes: a summary every 100,000, a checkpoint every 500,000 decisions; the newest 5 are kept",
        "",
        "Run",
        "  plays: 2 x headless:balance",
        "  areas: 1 in each, seed 3",
        "  engine: time_scale 20, 84 x 84, quality 5",
        "  mass: 2",
        "  wind: uniform min_value 1.0 max_value 3.0",
        f"  results: creates {Path('results', 'x')}",
        "  learns on: cpu",
        "",
        "Different from mlagents-learn",
        "  - learning uses the CPU; mlagents-learn uses a GPU if there is one, as --torch-device cuda does",
        "  - a full buffer cuts trajectories, and decisions count at once; mlagents-learn waits for their end",
        "  - x.yaml:5: behaviors.Ball.hyperparameters.buffer_size: an update starts with 6,000 new decisions and "
        "reuses the others once; mlagents-learn waits for 12,000, as updates_per_buffer: 1 does",
        "  - x.yaml:6: behaviors.Ball.network_settings.normalize: statistics include a buffer after the update "
        "that uses it; with mlagents-learn, before",
        "",
        "Without effect, or with another effect",
        "  - x.yaml:8: behaviors.Ball.threaded has no effect: learning always runs in parallel with acting",
        "",
        "Warnings",
        "  - x.yaml:5: behaviors.Ball.hyperparameters.buffer_size is not a multiple of batch_size 64: each pass "
        "leaves out 32 decisions",
        "  - x.yaml:9: behaviors.Ball.time_horizon is more than the 6,000 new decisions of an update, so updates "
        "cut trajectories first",
        "",
        "It would run.",
    ]
    assert {path.name for path in folder.iterdir()} == {"x.yaml", "later.yaml"}


def test_flags_count_as_they_do_for_learn(capsys: pytest.CaptureFixture[str]) -> None:
    words = "x.yaml --env gym:CartPole-v1 --num-envs 3 --seed 9 --run-id mine --results-dir out --max-steps 5000"
    report = checked(capsys, *words.split(), "--set", "behaviors.*.time_horizon=5", "--no-graphics")
    settings = report["settings"]
    assert (settings["env_settings"]["env_path"], settings["env_settings"]["num_envs"]) == ("gym:CartPole-v1", 3)
    assert (settings["env_settings"]["seed"], settings["behaviors"]["Ball"]["max_steps"]) == (9, 5000)
    assert settings["checkpoint_settings"]["run_id"] == "mine"
    assert report["learning"] == {
        "Ball": {"updates": 0, "new_decisions_per_update": 6000, "minibatches_per_update": 279}
    }
    assert any(
        text.startswith("--max-steps is 5,000, which ends before the first update") for text in report["warnings"]
    )
    assert "environment_parameters are for engines; Gymnasium environments ignore them" in report["warnings"]
    assert "--no-graphics has no effect with Gymnasium" in report["without_effect"]


def test_without_a_file_any_behavior_has_the_defaults_and_a_replay_memory_no_trajectories(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "--env", "headless:balance"]) == 0
    assert capsys.readouterr().out.startswith("\nevery behavior\n  trainer: ppo, 500,000 decisions")
    Path("y.yaml").write_text("behaviors: {A: {trainer_type: sac, max_steps: 7000}}")
    assert main(["check", "y.yaml"]) == 0
    assert "  trainer: sac, 7,000 decisions\n" in capsys.readouterr().out


def test_everything_that_stands_in_the_way_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    report = checked(capsys, "later.yaml", "--env", "nothing.x86_64", "--resume")
    assert [problem.split()[1] for problem in report["problems"][:3]] == [
        "behaviors.A.reward_signals.rnd",
        "behaviors.B.reward_signals.curiosity",
        "environment_parameters.h.curriculum[0].completion_criteria.behavior",
    ]
    assert report["problems"][0].startswith("later.yaml:5: behaviors.A.reward_signals.rnd works only with ppo, ")
    # What stands in the way besides the file is told as well.
    assert report["problems"][3].startswith("There is no run to resume in")
    assert report["problems"][4].startswith("no program found at 'nothing.x86_64'")
    assert len(report["problems"]) == 5
    assert main(["check", "later.yaml", "--env", "headless:balance"]) == 2
    out = capsys.readouterr().out
    assert "  h: a: 1 until reward of C is above 1; b: 2\n" in out
    assert out.endswith("\nIt would not run: 3 problems.\n")


def test_all_mistakes_of_a_file_are_told_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.yaml").write_text("behaviors: {A: {max_step: 5}}\nengine_settings: {width: wide}\n")
    report = checked(capsys, "bad.yaml")
    assert report["settings"] is None
    assert report["problems"] == [
        "bad.yaml:1: behaviors.A.max_step: unknown key; did you mean max_steps?",
        "bad.yaml:2: engine_settings.width must be a whole number such as 64 or 1e4, not 'wide'",
    ]
    lenient = checked(capsys, "bad.yaml", "--lenient", "--set", "engine_settings.width=9", "--env", "headless:tau")
    assert lenient["warnings"] == ["bad.yaml:1: behaviors.A.max_step: unknown key, ignored"]


def test_what_learn_and_sweep_refuse_is_told_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("z.yaml").write_text("behaviors: {A: {init_path: nowhere}}\nenvironment_parameters: {mass: 1e39}\n")
    problems = checked(capsys, "z.yaml", "--env", "headless:basic")["problems"]
    assert [problem.split(" is ")[0].split(":")[0] for problem in problems] == [
        "environment_parameters.mass",
        "behaviors.A.init_path nowhere",
    ]
    Path("y.yaml").write_text(
        "behaviors: {A: {trainer_type: ppo, hyperparameters: {batch_size: 64}}}\n"
        "recorders: [mlfow, here]\n"
        "callbacks: [nobody, 'no.such.module:Name']\n"
        "sweep:\n"
        "  space:\n"
        "    hyperparameters.lerning_rate: {loguniform: [1e-5, 1e-2]}\n"
        "    behaviors.B.max_steps: {choice: [5, 6]}\n"
        "    hyperparameters.batch_size: {choice: [64, 0]}\n"
        "    hyperparameters.beta: {loguniform: [1e-5, 1e-2]}\n"
    )
    problems = checked(capsys, "y.yaml", "--env", "headless:basic", "--listen", "999.1.1.1")["problems"]
    assert [problem.split(";")[0] for problem in problems[:6]] == [
        "sweep.space: hyperparameters.lerning_rate: unknown key",
        "sweep.space: behaviors.B.max_steps is for behavior B, which is not in y.yaml",
        "sweep.space: hyperparameters.batch_size must be at least 1, not 0",
        "'mlfow' is not one of the recorders",
        "'here' is not one of the recorders",
        "'nobody' is not one of the callbacks",
    ]
    assert problems[6].startswith("'no.such.module:Name' cannot be loaded")
    assert problems[7].startswith("cannot listen on 999.1.1.1: ")
    assert len(problems) == 8


def test_a_tracker_and_recordings_that_are_not_there_are_problems(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tau_trainer.metrics.trackers.tracker.find_spec", lambda name: None)
    [problem] = checked(capsys, "x.yaml", "--set", "recorders=[wandb]")["problems"]
    assert problem.startswith("recorders: wandb is not installed: pip install 'tau-trainer[wandb]'")
    Path("here.demo").write_bytes(b"")
    Path("y.yaml").write_text(
        "behaviors:\n"
        "  A: {reward_signals: {gail: {demo_path: demos/a.demo}}, behavioral_cloning: {demo_path: b.demo}}\n"
        "  B: {behavioral_cloning: {demo_path: here.demo}}\n"
    )
    problems = checked(capsys, "y.yaml")["problems"]
    assert [problem.split(";")[0] for problem in problems] == [
        f"behaviors.A.reward_signals.gail.demo_path: there is no demonstration '{Path('demos/a.demo')}'",
        "behaviors.A.behavioral_cloning.demo_path: there is no demonstration 'b.demo'",
    ]


def test_a_run_to_play_has_to_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    [problem] = checked(capsys, "x.yaml", "--inference")["problems"]
    assert problem.startswith("There is no run to play in")
    Path("results", "x").mkdir(parents=True)
    Path("results", "x", "configuration.yaml").write_text("behaviors: {}")
    report = checked(capsys, "x.yaml", "--inference", "--deterministic")
    assert report["problems"] == []
    assert not any("is on during training" in warning for warning in report["warnings"])
    assert any(
        "is on during training" in one for one in checked(capsys, "x.yaml", "--deterministic", "--resume")["warnings"]
    )


def test_a_port_that_is_taken_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        [problem] = checked(capsys, "x.yaml", "--num-envs", "1", "--base-port", port)["problems"]
    assert problem.startswith(f"port {port} is taken by another program")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("x.yaml --set seed", "--set seed: must be KEY=VALUE"),
        ("x.yaml --resume --force", "--resume and --force contradict each other"),
        ("x.yaml --set behaviors.Ball.network_settings.num_layers=1024 --set "
         "behaviors.Ball.network_settings.hidden_units=65536", "behaviors.Ball.network_settings asks for 1024 layers"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_one_problem(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    [problem] = checked(capsys, *words.split())["problems"]
    assert problem.startswith(sentence)
    assert main(["check", *words.split(), "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"error: {problem}\n")


@pytest.mark.parametrize("width", [80, 200])
def test_on_a_terminal_nothing_is_wider_than_it(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["check", "x.yaml"]) == 0
    lines = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= width
    assert "  trainer    ppo, 500,000 decisions, trajectories of 7,000" in [line.rstrip() for line in lines]
    assert any(line.startswith("  -  x.yaml:5: behaviors.Ball.hyperparameters.buffer_size") for line in lines)
    assert len(lines) > {80: 42, 200: 32}[width]  # long sentences are wrapped, none is cut


def test_actors_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["Pendulum", "--execution", "async", "--actors", "3"]
    report = checked(capsys, *words)
    assert any("actors play in separate processes, with weights at most 5,000" in one for one in report["differences"])
    assert not any("with a policy at most" in one for one in report["differences"])
    assert main(["check", *words]) == 0
    assert "  plays: 3 actors, each gym:Pendulum-v1" in capsys.readouterr().out
    rollouts = checked(capsys, "CartPole", "--execution", "async", "--set", "async_trainer.sync_interval=50")
    assert rollouts["problems"] == []
    assert any("in separate processes, a rollout ahead of learning" in one for one in rollouts["differences"])
    assert any("async_trainer.sync_interval has no effect with rollouts" in one for one in rollouts["without_effect"])


def test_a_parameter_servers_learners_have_their_parts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = checked(capsys, "x.yaml", "--set", "devices=3", "--strategy", "parameter_server")
    assert report["learning"]["Ball"]["new_decisions_per_update"] == 2000
    main(["check", "x.yaml", "--set", "devices=3", "--strategy", "parameter_server"])
    assert "learns on: cpu, 3 processes: a parameter server, staleness at most 4\n" in capsys.readouterr().out
