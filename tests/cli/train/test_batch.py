"""`tau-train batch`: flags, run ids, and what is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tau_trainer.cli import main
from tests.cli.conftest import Refused

SMALL = (
    *("--num-envs", "8", "--max-steps", "256", "--seed", "3"),
    *("--set", "behaviors.*.hyperparameters.buffer_size=64", "--set", "behaviors.*.hyperparameters.batch_size=32"),
    *("--set", "evaluation.episodes=2", "--set", "evaluation.max_episode_steps=20"),
)


pytestmark = pytest.mark.usefixtures("elsewhere")


def test_a_run_and_the_same_again_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", "cartpole_batch", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[INFO] cartpole_batch: 8 copies of cartpole on cpu, seed 3"
    assert any(line.startswith("[INFO] cartpole_batch completed: 256 decisions in") for line in lines)
    written = yaml.safe_load(Path("results/cartpole_batch/configuration.yaml").read_text())
    assert written["behaviors"]["agent"]["max_steps"] == 256
    # Nobody chose a run id: the next run has the next number, and goes on under it.
    assert main(["batch", "cartpole_batch", *SMALL, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["type"] for one in records} >= {"summary", "snapshot", "result"}
    last = [one for one in records if one["type"] == "snapshot"][-1]
    assert "agent steps/s" in last["figures"][1]
    assert last["behaviors"][0]["step"] > 0
    assert records[-1]["type"] == "result"
    assert records[-1]["behaviors"][0]["mean_length"] > 0
    assert Path("results/cartpole_batch-2/agent.onnx").is_file()
    assert main(["batch", "--resume", "--run-id", "cartpole_batch-2", "--max-steps", "512", "--quiet"]) == 0
    assert sorted(path.name for path in Path("results/cartpole_batch-2/checkpoints").iterdir()) == [
        "agent-256",
        "agent-512",
    ]
    assert main(["batch", "cartpole_batch", *SMALL, "--run-id", "cartpole_batch", "--force", "--quiet"]) == 0
    one, other = (
        Path(f"results/{name}/checkpoints/agent-256/tensors.safetensors").read_bytes()
        for name in ("cartpole_batch", "cartpole_batch-2")
    )
    assert one == other


def test_its_folder_is_read_by_the_others(capsys: pytest.CaptureFixture[str], refused: Refused) -> None:
    assert main(["batch", "cartpole_batch", *SMALL, "--quiet", "--run-id", "one"]) == 0
    assert main(["report", "one"]) == 0
    page = Path("results/one/report.html").read_text()
    assert "8 x cartpole" in page
    assert "cannot be read" not in page
    assert main(["plot", "one"]) == 0
    assert Path("results/one/plot.png").is_file()
    capsys.readouterr()
    model = Path("results/one/agent.onnx").read_bytes()
    Path("results/one/agent.onnx").unlink()
    assert main(["export", "results/one"]) == 0
    assert Path("results/one/agent.onnx").read_bytes() == model
    assert main(["evaluate", "one"]) == 0
    assert "agent        Evaluation/Episode return" in capsys.readouterr().out
    assert main(["evaluate", "one", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agent"]["Evaluation/Episode return"] > 1.0
    for words in (["export", "results/one"], ["evaluate", "one"]):
        assert "a batched run keeps only its last policies; remove" in refused([*words, "--export", "best"])
    for flag in ("--resume", "--inference"):
        for command in ("learn", "parallel"):
            said = f"use: tau-train batch {flag} --run-id one"
            assert said in refused([command, flag, "--run-id", "one"])
    assert "is for a batched environment" in refused("record one -o one.demo")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name a settings file, such as: tau-train batch cartpole_batch"),
        (["--resume"], "--resume needs the run's --run-id, or the file that it was started with"),
        (["--resume", "--run-id", "nosuch"], "--run-id nosuch: there is no such run in 'results'"),
        (["CartPole"], "environment is missing, so this file is for tau-train learn"),
        (["cartpole_batch", "--num-envs", "0"], "--num-envs must be at least 1, not 0"),
        (["cartpole_batch", "--device", "tpu"], "--device must be cpu, cuda, cuda:N, mps or xpu"),
        (["cartpole_batch", "--num-envs", "10000"], "buffer_size 8,192 is less than one step of 10,000 copies"),
        (["cartpole_batch", "--resume", "--force"], "--resume and --force contradict each other"),
    ],
)
def test_mistakes_are_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("results").exists()


@pytest.mark.parametrize("words", [["--resume"], ["cartpole_batch", "--resume"]])
def test_a_run_of_learn_is_not_gone_on_with(words: list[str], refused: Refused) -> None:
    Path("results/other").mkdir(parents=True)
    Path("results/other/configuration.yaml").write_text("behaviors: {A: {}}")
    said = refused(["batch", *words, "--run-id", "other"])
    assert "is not a run of tau-train batch; use: tau-train learn --resume" in said
    assert [path.name for path in Path("results/other").iterdir()] == ["configuration.yaml"]


def test_learn_names_the_command_for_such_a_file(refused: Refused) -> None:
    assert "is for a batched environment; train it with: tau-train batch" in refused("learn cartpole_batch")
