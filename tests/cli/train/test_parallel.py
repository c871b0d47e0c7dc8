"""`tau-train parallel`: from words to the settings of a run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.settings import RunSettings, dump_settings
from tests.cli.conftest import Refused


def test_without_words_it_trains_tau3_on_four_headless_engines(
    training: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parallel"]) == 0
    name, settings, options = training.calls[0]
    assert name == "parallel"
    assert settings.env_settings.env_path == "headless:tau"
    assert (settings.tau.profile, settings.tau.pairs, settings.tau.policy) == ("tau3", 4, "shared")
    assert settings.tau.max_concurrent is None
    assert settings.checkpoint_settings.run_id == "tau3"
    assert settings.env_settings.seed >= 0
    assert options.pop("command_line")[0] == "tau-train"
    assert options == {"terminal": "auto"}
    assert (settings.checkpoint_settings.resume, settings.checkpoint_settings.force) == (False, False)
    assert capsys.readouterr().out == "", "what a run has to say, its recorders say"


def stored(settings: RunSettings) -> None:
    """A run that is there, of which nothing but its settings is."""
    Path("results", "tau3").mkdir(parents=True)
    Path("results", "tau3", "configuration.yaml").write_text(dump_settings(settings))


def test_every_flag_arrives(training: Any) -> None:
    words = """parallel tau384 --pairs 8 --max-concurrent 2 --policy independent --env headless:balance --run-id r
        --results-dir out --seed 7 --max-steps 1e5 --deterministic-collection --base-port 6000 --agents 64
        --credit aggregate --no-evaluate --data mine.json --time-scale 1.5 --torch-device cpu --timeout-wait 5
        --set tau.reward.window=4 --set behaviors.*.hyperparameters.beta=1e-2 --quiet"""
    assert main(words.split()) == 0
    settings = training.settings
    tau = settings.tau
    assert (tau.profile, tau.pairs, tau.max_concurrent, tau.policy) == ("tau384", 8, 2, "independent")
    assert (tau.agents, tau.reward.credit, tau.reward.window, tau.evaluate) == (64, "aggregate", 4, False)
    assert tau.data == Path("mine.json")
    env = settings.env_settings
    assert (env.env_path, env.seed, env.base_port, env.timeout_wait) == ("headless:balance", 7, 6000, 5)
    assert (settings.checkpoint_settings.run_id, settings.checkpoint_settings.results_dir) == ("r", "out")
    assert settings.behaviors["TauAgent"].max_steps == 100_000
    assert settings.behaviors["TauAgent"].hyperparameters.beta == 0.01
    assert settings.collection.deterministic is True
    assert (settings.engine_settings.time_scale, settings.torch_settings.device) == (1.5, "cpu")
    assert training.calls[-1][2]["terminal"] == "quiet"


def test_the_exit_code_is_the_reports_and_its_output_that_of_recorders(
    training: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    training.report.exit_code = 2
    assert main(["parallel", "--json"]) == 2
    assert capsys.readouterr().out == ""
    assert training.calls[0][2]["terminal"] == "json"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--pairs -3", "--pairs must be at least 1, not -3"),
        ("--max-steps 0", "--max-steps must be at least 1, not 0"),
        ("--seed -2", "--seed must be at least -1, not -2"),
        ("--base-port 99999", "--base-port must be at most 65535, not 99999"),
        ("--env headless:tua", "--env: tua is not a headless scene; did you mean headless:tau?"),
        ("--env editor --pairs 4", "--pairs 4: there is only one editor; leave --pairs out, set the number of"),
        ("--env attach:3 --pairs 4", "--pairs 4: --env attach:3 sets how many engines may connect, and each is a pair"),
        ("--env editor --set tau.pairs=2", "--pairs 2: there is only one editor"),
        ("--run-id ../x", "--run-id must be a plain folder name"),
        ("--resume --force", "--resume and --force contradict each other; give one of them"),
        ("--set seed", "--set seed: must be KEY=VALUE, such as env_settings.seed=1"),
        ("--set tau.pears=1", "--set tau.pears: unknown key; did you mean pairs?"),
        ("--set tau.pairs=[", "--set tau.pairs=[: its value is not valid YAML; quote it"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_starts(
    training: Any, words: str, sentence: str, refused: Refused, tmp_path: Path
) -> None:
    assert refused(f"parallel {words}").startswith(f"error: {sentence}")
    assert training.calls == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("training")
def test_a_mistake_in_the_file_names_file_and_line(refused: Refused, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("behaviors:\n  TauAgent:\n    max_step: 5\n")
    said = "error: mine.yaml:3: behaviors.TauAgent.max_step: unknown key; did you mean max_steps?"
    assert refused("parallel mine.yaml") == said
    assert main(["parallel", "mine.yaml", "--lenient"]) == 0
    assert "behaviors.TauAgent.max_step: unknown key, ignored" in capsys.readouterr().err


def test_runs_without_an_id_are_numbered(training: Any) -> None:
    for taken, expected in [((), "tau3"), (("tau3",), "tau3-2"), (("tau3-2", "tau3-9", "tau3-x"), "tau3-10")]:
        for name in taken:
            Path("results", name).mkdir(parents=True, exist_ok=True)
        assert main(["parallel"]) == 0
        assert training.settings.checkpoint_settings.run_id == expected


def test_force_resume_and_inference_without_an_id_mean_the_latest_run(training: Any) -> None:
    for name in ("tau3", "tau3-2"):
        Path("results", name).mkdir(parents=True)
    assert main(["parallel", "--force"]) == 0
    assert training.settings.checkpoint_settings.run_id == "tau3-2"
    for flag in ("--resume", "--inference"):
        assert main(["parallel", "tau3", flag]) == 0
        assert training.settings.checkpoint_settings.run_id == "tau3-2"


@pytest.mark.parametrize("words", [[], ["--run-id", "tau3"]])
def test_resume_goes_on_with_the_settings_of_the_run(training: Any, words: list[str]) -> None:
    assert main(["parallel", "--pairs", "2", "--seed", "11", "--env", "a/build", "--force"]) == 0
    stored(training.settings)
    assert main(["parallel", "--resume", "--max-steps", "9", *words]) == 0
    settings = training.settings
    assert (settings.tau.pairs, settings.env_settings.seed) == (2, 11)
    assert settings.env_settings.env_path == "a/build"
    assert settings.behaviors["TauAgent"].max_steps == 9
    assert settings.checkpoint_settings.run_id == "tau3"
    assert (settings.checkpoint_settings.resume, settings.checkpoint_settings.force) == (True, False)


def test_the_editor_takes_one_pair_and_engines_that_join_have_one_each_whatever_the_file_says(training: Any) -> None:
    assert main(["parallel", "--env", "attach:3"]) == 0
    assert training.settings.tau.pairs == 3
    assert main(["parallel", "--env", "editor", "--agents", "12"]) == 0
    settings = training.settings
    assert (settings.env_settings.env_path, settings.tau.pairs, settings.tau.agents) == (None, 1, 12)
    stored(training.settings)
    assert main(["parallel", "--resume"]) == 0
    assert training.settings.env_settings.env_path is None, "a resumed run stays with the editor"


def test_what_the_file_says_counts_unless_a_flag_says_otherwise(training: Any) -> None:
    text = "env_settings: {env_path: a/build, seed: 5}\ncheckpoint_settings: {run_id: mine, force: true}\n"
    Path("mine.yaml").write_text(f"behaviors: {{A: {{}}}}\ntau: {{pairs: 3}}\ndebug: true\n{text}")
    assert main(["parallel", "mine.yaml", "--seed", "-1"]) == 0
    settings = training.settings
    assert logging.getLogger("tau_trainer").level == logging.DEBUG
    assert (settings.env_settings.env_path, settings.tau.pairs) == ("a/build", 3)
    assert (settings.checkpoint_settings.run_id, settings.checkpoint_settings.force) == ("mine", True)
    assert settings.env_settings.seed != 5 or settings.env_settings.seed >= 0
    assert main(["parallel", "mine.yaml", "--resume"]) == 0
    checkpoint = training.settings.checkpoint_settings
    assert (checkpoint.resume, checkpoint.force) == (True, False)


def test_a_plain_mlagents_file_gets_pairs(training: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parallel", "3DBall", "--env", "headless:balance"]) == 0
    assert (training.settings.tau.pairs, training.settings.checkpoint_settings.run_id) == (4, "3DBall")
    Path("many.yaml").write_text("behaviors: {A: {}}\nenv_settings: {num_envs: 3, env_path: a/build}")
    assert main(["parallel", "many.yaml"]) == 0
    assert training.settings.tau.pairs == 3
    capsys.readouterr()
    assert main(["parallel", "many.yaml", "--pairs", "2"]) == 0
    assert training.settings.tau.pairs == 2
    assert "num_envs (3) is ignored; tau.pairs (--pairs) is 2" in capsys.readouterr().err


def test_data_of_ones_own_take_the_file_that_follows_them(training: Any) -> None:
    assert main(["parallel", "--data", "mine.json"]) == 0
    settings = training.settings
    assert (settings.tau.profile, settings.tau.data) == (None, Path("mine.json"))
    assert (settings.env_settings.env_path, settings.checkpoint_settings.run_id) == ("headless:tau", "tau")
    assert main(["parallel", "--data", "mine.json", "--env", "Build/Game.x86_64"]) == 0
    assert training.settings.tau.profile == "tau3"
    assert main(["parallel", "tau3", "--data", "mine.json"]) == 0
    assert training.settings.tau.profile == "tau3"
