from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard

from tau_trainer.metrics import JsonLines, MetricsHub
from tau_trainer.report import RunRecord
from tau_trainer.sharing.card import code, environment_of, mean_reward, model_card
from tests.report.conftest import write_run


def card_of(folder: Path, *models: str) -> str:
    return model_card(RunRecord.load(folder), "me/my-run", models)


def front_matter(card: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(card.split("\n---\n")[0].removeprefix("---\n"))
    return read


def episodes(folder: Path) -> Path:
    """A run of `learn`: episodes, no task."""
    write_run(folder)
    (folder / "evaluation.json").unlink()
    (folder / "log.jsonl").unlink()
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        for step, returns in ((100, [1.0]), (200, [10.0, 14.0])):
            hub.episode("Ball", 0, returns, [5] * len(returns))
            hub.flush("Ball", step)
    return folder


def test_the_hub_and_people_read_it(tmp_path: Path) -> None:
    card = card_of(write_run(tmp_path / "first"), "TauAgent.onnx")
    head = front_matter(card)
    assert head["library_name"] == "ml-agents"
    assert head["tags"] == [
        "unity-ml-agents", "ml-agents", "deep-reinforcement-learning", "reinforcement-learning", "tau-trainer",
        "ML-Agents-TauAgent", "ppo",
    ]  # fmt: skip
    parsed: Any = ModelCard(card).data
    assert parsed.model_name == "first"
    assert {one.metric_type: one.metric_value for one in parsed.eval_results} == {
        "mean_reward": "0.500",
        "accuracy": 0.9,
    }
    assert {one.task_type for one in parsed.eval_results} == {"reinforcement-learning"}

    for told in (
        "# **ppo** playing **TauAgent**",
        "It beats zeros.",
        "| test accuracy | 90.0 % |",
        "| decisions | 5,000, 400 a second |",
        "![The learning curve](learning_curve.png)",
        "| ridge (strongest baseline) | 96.0 % | +0.700 |",
        "| **this policy** | 90.0 % | +0.500 |",
        "- `TauAgent.onnx`",
        "    tau-train hub pull me/my-run\n    tau-train evaluate my-run\n",
        "    tau-train parallel --resume --run-id my-run --max-steps N\n",
    ):
        assert told in card


def test_the_reward_of_episodes_has_its_deviation(tmp_path: Path) -> None:
    folder = episodes(tmp_path / "r")
    assert mean_reward(RunRecord.load(folder)) == (
        12.0, 2.0, "of the episodes in the last summary of training, exploration included",
    )  # fmt: skip
    card = card_of(folder)
    assert front_matter(card)["model-index"][0]["results"][0]["metrics"][0]["value"] == "12.00 +/- 2.00"
    assert "evaluate" not in card
    assert "    tau-train learn --resume" in card
    assert "In Unity" not in card


def test_what_groups_get_stands_beside_what_agents_get(tmp_path: Path) -> None:
    folder = episodes(tmp_path / "r")
    (folder / "log.jsonl").unlink()
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        hub.episode("Ball", 0, [0.0, 0.0], [5, 5], [1.0, 2.0])
        hub.flush("Ball", 100)
    card = card_of(folder)
    assert "| mean reward | 0.00 +/- 0.00, of the episodes in the last summary of training" in card
    assert "| mean group reward | 1.50 +/- 0.50, of the episodes of groups in the last summary of training" in card
    metrics = front_matter(card)["model-index"][0]["results"][0]["metrics"]
    assert {one["type"]: one["value"] for one in metrics} == {
        "mean_reward": "0.00 +/- 0.00",
        "mean_group_reward": "1.50 +/- 0.50",
    }


def test_nothing_learned_has_no_figures(tmp_path: Path) -> None:
    folder = episodes(tmp_path / "r")
    (folder / "log.jsonl").write_text(json.dumps({"type": "event", "kind": "note", "fields": {}}) + "\n", "utf-8")
    assert "model-index" not in front_matter(card_of(folder))


@pytest.mark.parametrize(
    ("path", "name"), [("gym:CartPole-v1", "CartPole-v1"), ("headless:tau", "TauAgent"), ("/some/Build", "TauAgent")]
)
def test_what_it_plays(path: str, name: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", env_settings__env_path=path)
    assert environment_of(RunRecord.load(folder)) == name
    assert f"ML-Agents-{name}" in front_matter(card_of(folder))["tags"]


EVIL = "<script>alert(1)</script> | x |\n# Heading `code` ![i](http://x) ---"


def test_names_of_a_user_are_text(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    settings = {"behaviors": {EVIL: {"trainer_type": "ppo"}}}
    (folder / "configuration.yaml").write_text(json.dumps(settings), "utf-8")
    told = json.loads((folder / "evaluation.json").read_text("utf-8"))
    told["baselines"][EVIL] = told["baselines"]["zeros"]
    (folder / "evaluation.json").write_text(json.dumps(told), "utf-8")
    card = card_of(folder, f"{EVIL}.onnx")
    parsed: Any = ModelCard(card).data
    assert parsed.library_name == "ml-agents"
    body = card.split("\n---\n", 1)[1].replace(code(f"{EVIL}.onnx"), "")
    assert "<script" not in body.replace("\\<script", "")
    assert "\n# Heading" not in body
    assert "](http" not in body.replace("\\]\\(", "").replace("\\](", "")
    assert front_matter(card)["tags"][5] == "ML-Agents--script-alert-1-script-x-Heading-code-i-http-x----"
