"""`tau-train learn`: mlagents-learn's flags and meaning."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.settings import PPOTrainerSettings, dump_settings
from tests.cli.conftest import Refused


def test_every_flag_of_mlagents_learn_arrives(training: Any) -> None:
    words = """learn 3DBall --env=build --num-envs=4 --num-areas 2 --run-id=x --results-dir out --seed 3
        --base-port 6006
        --no-graphics --no-graphics-monitor --timeout-wait 30 --force --deterministic --torch-device cpu --width 100
        --height 90 --quality-level 1 --time-scale 10 --target-frame-rate 60 --capture-frame-rate 30
        --max-lifetime-restarts -1 --restarts-rate-limit-n 2 --restarts-rate-limit-period-s 5 --debug
        --env-args --num-envs 9 -x --help"""
    assert main(words.split()) == 0
    name, settings, _ = training.calls[0]
    assert name == "learn"
    assert settings.env_settings.model_dump() == {
        "env_path": "build",
        "env_args": ("--num-envs", "9", "-x", "--help"),
        "base_port": 6006,
        "num_envs": 4,
        "num_areas": 2,
        "timeout_wait": 30,
        "seed": 3,
        "max_lifetime_restarts": -1,
        "restarts_rate_limit_n": 2,
        "restarts_rate_limit_period_s": 5,
    }
    assert settings.engine_settings.model_dump() == {
        "width": 100,
        "height": 90,
        "quality_level": 1,
        "time_scale": 10.0,
        "target_frame_rate": 60,
        "capture_frame_rate": 30,
        "no_graphics": True,
        "no_graphics_monitor": True,
    }
    assert settings.behaviors["3DBall"].network_settings.deterministic is True
    assert (settings.checkpoint_settings.run_id, settings.checkpoint_settings.results_dir) == ("x", "out")
    assert settings.debug is True
    assert settings.torch_settings.device == "cpu"
    assert (settings.checkpoint_settings.resume, settings.checkpoint_settings.force) == (False, True)


def test_without_words_it_waits_for_the_editor_with_defaults(training: Any) -> None:
    assert main(["learn"]) == 0
    settings = training.settings
    assert settings.env_settings.env_path is None
    assert settings.default_settings == PPOTrainerSettings()
    assert settings.checkpoint_settings.run_id == "ppo"
    assert 0 <= settings.env_settings.seed < 10000
    assert settings.tau is None


def test_a_flag_equal_to_its_default_counts_as_given(training: Any) -> None:
    Path("x.yaml").write_text(
        "behaviors: {A: {}}\nenv_settings: {env_path: build, num_envs: 8, base_port: 7000}\n"
        "checkpoint_settings: {run_id: mine}"
    )
    assert main(["learn", "x.yaml"]) == 0
    assert (training.settings.env_settings.num_envs, training.settings.env_settings.base_port) == (8, 7000)
    assert training.settings.checkpoint_settings.run_id == "mine"
    words = "learn x.yaml --num-envs 1 --env editor --base-port 5005 --run-id ppo"
    assert main(words.split()) == 0
    assert training.settings.env_settings.env_path is None
    assert (training.settings.env_settings.num_envs, training.settings.env_settings.base_port) == (1, 5005)
    assert training.settings.checkpoint_settings.run_id == "ppo"


def test_deprecated_flags_are_accepted_with_a_warning(training: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "--load", "--train", "--torch", "--tensorflow"]) == 0
    assert training.settings.checkpoint_settings.resume is True
    err = capsys.readouterr().err
    assert "warning: --load is deprecated and means --resume" in err
    for flag in ("--train", "--torch", "--tensorflow"):
        assert f"warning: {flag} has no effect" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--num-envs 0 --env x", "--num-envs must be at least 1, not 0"),
        ("--num-envs 2", "env_settings: num_envs is 2, but there is only one editor; name a build"),
        ("--num-areas 0", "--num-areas must be at least 1, not 0"),
        ("--inference --force", "--inference plays an existing run, and --force would replace it"),
        ("--torch-device gpu", "--torch-device must be cpu, cuda, cuda:N, mps or xpu, not 'gpu'"),
        ("--timeout-wait soon", "--timeout-wait must be a whole number such as 64 or 1e4, not 'soon'"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_starts(
    training: Any, words: str, sentence: str, refused: Refused
) -> None:
    assert refused(f"learn {words}").startswith(f"error: {sentence}")
    assert training.calls == []


@pytest.mark.usefixtures("training")
def test_what_a_file_asks_for_that_cannot_be_says_so(refused: Refused) -> None:
    Path("x.yaml").write_text("behaviors:\n  A:\n    self_play: {}\nexecution: async\n")
    assert refused("learn x.yaml --env build") == (
        "error: x.yaml:3: behaviors.A.self_play needs execution: sync, where one process knows which team learns; "
        "remove it, or change execution"
    )


def begun(training: Any, name: str, *words: str) -> None:
    """A run that is there, of which nothing but its settings is."""
    assert main(["learn", "Basic", "--env", "headless:basic", "--run-id", name, *words]) == 0
    Path("results", name).mkdir(parents=True)
    Path("results", name, "configuration.yaml").write_text(dump_settings(training.settings))


@pytest.mark.parametrize("words", ["--resume --run-id b", "--inference --run-id b", "--inference --initialize-from b"])
def test_without_a_file_it_takes_the_runs_own(training: Any, words: str) -> None:
    begun(training, "b", "--seed", "5")
    assert main(["learn", *words.split()]) == 0
    settings = training.settings
    assert list(settings.behaviors) == ["Basic"]
    assert (settings.env_settings.seed, settings.env_settings.env_path) == (5, "headless:basic")
    assert settings.checkpoint_settings.run_id == "b"
    assert settings.checkpoint_settings.resume is ("--resume" in words)
    assert settings.checkpoint_settings.inference is ("--inference" in words)


def test_a_run_is_called_after_its_file_or_what_it_plays_with_a_number(training: Any) -> None:
    Path("x.yaml").write_text("behaviors: {A: {}}")
    for words, expected in [
        ("x.yaml --env build", "x"),
        ("x.yaml --env build", "x-2"),
        ("--env gym:CartPole-v1", "CartPole-v1"),
        ("--env gym:my_package.worlds:Maze-v0", "Maze-v0"),
        ("--env gym:ALE/Pong-v5", "ALE_Pong-v5"),
        ("--env pettingzoo:mpe2.simple_spread_v3", "simple_spread_v3"),
        ("--env games/Tower.x86_64", "Tower"),
        ("--env unreal:games/Ball.exe", "Ball"),
        ("--env editor", "ppo"),
        ("", "ppo-2"),
        ("--force", "ppo-2"),
        ("x.yaml --env build --resume", "x-2"),
        ("x.yaml --env build --inference", "x-2"),
    ]:
        assert main(["learn", *words.split()]) == 0
        assert training.settings.checkpoint_settings.run_id == expected
        Path("results", expected).mkdir(parents=True, exist_ok=True)


def test_resume_without_a_file_means_the_newest_run_of_that_name(training: Any) -> None:
    for number, name in enumerate(("ppo", "ppo-2"), start=5):
        begun(training, name, "--seed", str(number))
    assert main(["learn", "--resume"]) == 0
    settings = training.settings
    assert (settings.checkpoint_settings.run_id, settings.env_settings.seed) == ("ppo-2", 6)


@pytest.mark.parametrize("key", ["behaviors.*.trainer_type", "behaviors.Basic.trainer_type"])
def test_the_trainer_type_of_a_run_cannot_change(training: Any, key: str, refused: Refused) -> None:
    begun(training, "b")
    resume = ["learn", "--resume", "--run-id", "b", "--set"]
    assert main([*resume, f"{key}=ppo"]) == 0
    assert refused([*resume, f"{key}=sac"]) == (
        f"error: --set {key}: the trainer type of a run cannot change when you resume it; leave this out, or start a "
        "new run with another --run-id"
    )


@pytest.mark.parametrize("command", ["learn x.yaml", "parallel x.yaml"])
def test_a_run_of_batch_is_not_gone_on_with(training: Any, command: str, refused: Refused) -> None:
    Path("x.yaml").write_text("behaviors: {A: {}}\nenv_settings: {env_path: build}")
    Path("results/other").mkdir(parents=True)
    Path("results/other/configuration.yaml").write_text("environment: {name: cartpole}\npolicies: {agent: {}}")
    assert refused(f"{command} --resume --run-id other") == (
        "error: --resume: 'results/other' is not a run of tau-train learn or parallel; use: "
        "tau-train batch --resume --run-id other, or choose another --run-id"
    )
    assert training.calls == []


def test_who_names_actors_wants_them(training: Any) -> None:
    words = ["learn", "Pendulum", "--actors", "2"]
    assert main(words) == 0
    assert (training.settings.execution, training.settings.async_trainer.actors) == ("async", 2)
    assert main([*words, "--execution", "sync"]) == 0
    assert training.settings.execution == "sync"


def test_all_output_goes_to_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    log = tmp_path / "ü 'log'.txt"
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    assert main(["learn", str(tmp_path / "none.yaml"), "--log", str(log)]) == 2
    sys.stdout.close()
    assert log.read_text("utf-8").startswith("error: ")
    assert "none.yaml" in log.read_text("utf-8")
    monkeypatch.undo()
    assert capfd.readouterr() == ("", "")
    assert main(["learn", "Basic", "--log", str(tmp_path)]) == 2
    assert "--log" in capfd.readouterr().err
