"""What docs/guides/extending.md says of own algorithms, as it stands: DQN, YAML, a second agent, a callback."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tau_trainer import LambdaCallback, load_settings, train
from tau_trainer.cli import main
from tau_trainer.metrics import RunReport
from tau_trainer.runs.checkpoints import latest_checkpoint
from tau_trainer.settings import RunSettings
from tau_trainer.training.stored import export_run

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guides" / "extending.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where somebody has written down what the guide shows."""
    (tmp_path / "my_agents.py").write_text(blocks("python")[0])
    [dqn] = (block for block in blocks("yaml") if block.startswith("# dqn.yaml"))
    (tmp_path / "dqn.yaml").write_text(dqn)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_agents", None)


def settings(run_id: str, env: str = "gym:CartPole-v1", **changes: Any) -> RunSettings:
    given: dict[str, Any] = {
        "checkpoint_settings.run_id": run_id,
        "env_settings.env_path": env,
        "env_settings.seed": 1,
        "collection.learner": "thread",
    }
    return load_settings("dqn.yaml", given | {key.replace("__", "."): value for key, value in changes.items()})


SHORT: dict[str, Any] = {
    "default_settings__max_steps": 600,
    "default_settings__criterion": None,
    "default_settings__hyperparameters__buffer_init_steps": 100,
}


def weights(report: RunReport) -> dict[str, Any]:
    name = report.behaviors[0].name
    checkpoint = latest_checkpoint(report.folder / "checkpoints", name).checkpoint
    assert checkpoint is not None
    return checkpoint.tensors


def test_a_dqn_takes_about_thirty_lines() -> None:
    lines = [line for line in blocks("python")[0].splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 30


@pytest.mark.slow
@pytest.mark.parametrize("mark", [100, pytest.param(200, marks=pytest.mark.nightly)], ids=["half", "whole"])
def test_the_dqn_solves_cartpole(folder: Path, mark: int) -> None:
    """Note.RL's own criterion: ten episodes with a mean of 200. Three seeds take 2,900 to 5,000 decisions to 100."""
    returns: list[float] = []
    watch = LambdaCallback(on_episode_end=lambda info: returns.append(info.reward))
    given = settings("solved", collection__deterministic=True, default_settings__criterion=mark)
    report = train(given, callbacks=[watch], terminal="quiet")
    assert report.outcome == "completed"
    assert report.decisions < mark * 200, "it ended early"
    assert np.mean(returns[-10:]) >= mark
    assert np.mean(returns[:10]) < 60
    assert report.models[0].name == "CartPole-v1.onnx"


def test_it_plays_an_engine_by_the_command_line_and_learns_in_a_process(folder: Path) -> None:
    """Basic is a scene of the headless engine: another process on the other end of the wire."""
    words = (
        "learn dqn.yaml --env headless:basic --run-id wired --max-steps 300 --seed 3 --set collection.learner=process"
    )
    more = ["--set", "default_settings.hyperparameters.buffer_init_steps=100"]
    assert main([*words.split(), *more]) == 0
    run = folder / "results" / "wired"
    assert (run / "Basic.onnx").is_file()
    assert list((run / "Basic").glob("events.out.tfevents.*"))
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [one["values"]["Losses/Policy Loss"] for one in records if "Losses/Policy Loss" in one.get("values", {})]
    assert losses
    assert all(np.isfinite(losses))


def test_it_goes_on_exactly_where_it_was(folder: Path) -> None:
    options = {
        **SHORT,
        "collection__deterministic": True,
        "default_settings__checkpoint_interval": 200,
        "default_settings__keep_checkpoints": 0,
        "default_settings__hyperparameters__save_replay_buffer": True,
    }
    whole = train(settings("whole", **options), terminal="quiet")
    expected = weights(whole)
    cut = folder / "results" / "cut"
    whole.folder.rename(cut)
    for path in (cut / "checkpoints").glob("CartPole-v1-*"):
        if int(path.name.rsplit("-", 1)[1].split(".")[0]) > 250:
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
    assert len(list((cut / "checkpoints").glob("CartPole-v1-*"))) == 1
    resumed = train(settings("cut", **options, checkpoint_settings__resume=True), terminal="quiet")
    found = weights(resumed)
    assert resumed.decisions == whole.decisions
    assert found.keys() == expected.keys()
    assert any(name.startswith("optimizer.0.0.exp_avg") for name in found)
    for name, values in expected.items():
        assert np.array_equal(values, found[name]), name
    assert export_run(resumed.folder)[0][0].is_file()


def test_the_second_agent_learns_also_without_a_model_file(folder: Path) -> None:
    heading, second = blocks("python")[0].split("class DQN")[0], blocks("python")[1]
    source = second.replace("    def build", "    exports = False\n\n    def build")
    (folder / "my_agents.py").write_text(heading + source)
    options = SHORT | {"default_settings__trainer_type": "my_agents:TwoParts"}
    report = train(settings("two", "gym:Pendulum-v1", **options), terminal="quiet")
    assert (report.outcome, report.exit_code, report.models) == ("completed", 0, ())
    assert not list(report.folder.rglob("*.onnx"))
    assert {name.split(".")[1] for name in weights(report) if name.startswith("optimizer.")} == {"0", "1"}


def test_an_agents_own_mistake_is_named(folder: Path) -> None:
    source = (folder / "my_agents.py").read_text()
    (folder / "my_agents.py").write_text(source.replace("batch.action[:, None]", "batch.action"))
    report = train(settings("broken", **SHORT), terminal="quiet")
    assert (report.outcome, report.exit_code) == ("failed", 2)
    assert report.errors[0].startswith("pair 0: my_agents:DQN.loss failed: RuntimeError: ")


def test_the_callback_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = blocks("python")[2]
    assert "info.reward > 400" in example
    example = example.replace("400", "10").replace("load_settings(", "load_settings(*GIVEN) and load_settings(")
    module = ModuleType("example")
    given: dict[str, Any] = {"checkpoint_settings.run_id": "stopped", "collection.learner": "thread"}
    monkeypatch.setattr(module, "GIVEN", (None,), raising=False)
    monkeypatch.setattr("tau_trainer.load_settings", lambda path=None: load_settings(path, given if path else None))
    exec(compile(example, "guide", "exec"), module.__dict__)
    log = (folder / "results" / "stopped" / "log.jsonl").read_text()
    assert "the run ends after" in log
    assert "an episode of 10" in log
