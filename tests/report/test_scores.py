"""Scores and differences of runs on their page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np

from tau_trainer.metrics import JsonLines, MetricsHub
from tau_trainer.runs.checkpoints import save_checkpoint
from tau_trainer.settings import dump_settings, load_settings
from tests.report.conftest import write_run
from tests.report.pages import page, section, words


def test_several_runs_are_one_thing_with_seeds(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 2), ("c", 3))]
    text = page(*folders)
    assert "a and 2 more" in words(text)
    told = section(text, "runs")
    assert "mean ± standard deviation" in told
    assert "90.0 % ± 0.0 %" in told
    assert "These runs have the same settings, except for seed and name." in told
    assert "Band: lowest to highest of 3 runs around their mean." in section(text, "reward")
    assert "1, 2, 3 -1" in section(text, "settings")
    assert all(f"policy of {name}" in section(text, "evaluation") for name in "abc")
    assert all(f"{name}: TauAgent-4000 best" in section(text, "checkpoints") for name in "abc")


def test_runs_that_are_not_one_thing_are_told_and_many_differences_are_a_folded_table(tmp_path: Path) -> None:
    one, other = write_run(tmp_path / "a"), write_run(tmp_path / "b", tau__agents=8)
    text = page(one, other)
    assert '<details open=""><summary class="warn">' in text, "few of them are open"
    assert "These runs differ in more than their seed: in 1 setting. key a b tau.agents 32 8" in section(text, "runs")
    assert "agents 32, 8 32" in section(text, "settings")
    (other / "configuration.yaml").write_text(dump_settings(load_settings("Pendulum")), "utf-8")
    text = page(one, other)
    [(opening, fold)] = re.findall(r'(<details[^>]*>)(<summary class="warn">.*?)</details>', text, re.DOTALL)
    assert opening == "<details>", "closed"
    count = re.search(r"in more than their seed: in (\d+) settings", words(fold))
    assert count
    assert int(count[1]) > 75
    assert fold.count("<tr>") == 1 + int(count[1])
    assert "behaviors.TauAgent.trainer_type ppo absent" in words(fold)


def test_a_run_without_a_task_has_no_evaluation(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    (folder / "evaluation.json").unlink()
    (folder / "log.jsonl").unlink()
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        hub.episode("Ball", 0, [1.0, 3.0], [10, 20])
        hub.flush("Ball", 100)
    text = page(folder)
    assert "evaluation" not in re.findall(r'section id="([^"]*)"', text)
    assert "Band: one standard deviation around the mean, cut at the lowest and highest value." in section(
        text, "reward"
    )


def test_what_groups_get_is_told_and_marks_the_best(tmp_path: Path) -> None:
    """Agents that get nothing themselves: the group's reward is a figure, and says which checkpoint is best."""
    run = write_run(tmp_path / "r")
    (run / "evaluation.json").unlink()
    (run / "log.jsonl").unlink()
    shutil.rmtree(run / "checkpoints")
    for step in (2000, 4000, 5000):
        weights = {"model.weight": np.zeros(8, np.float32)}
        save_checkpoint(run / "checkpoints", step, weights, {"learner": {}}, 0, name="TauAgent")
    with MetricsHub([JsonLines(run / "log.jsonl")]) as hub:
        for step, group in ((1000, 1.0), (3000, 9.0), (5000, 2.0)):
            hub.episode("TauAgent", 0, [0.0], [5], [group])
            hub.flush("TauAgent", step)
    text = page(run)
    assert "reward of the last summary +0.000 group reward of the last summary +2.000" in words(text)
    assert "TauAgent-4000 best 4,000 +0.000 +9.000" in section(text, "checkpoints")
