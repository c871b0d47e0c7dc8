"""Generated data sets as a user's may be: their rows, what a run's files say, and that a small one is learned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tau_trainer import ParallelTrainerManager, load_settings
from tau_trainer.tau.vectors import vectors_path
from tools.bench.own_data import Outcome, dataset, outcome_of, prompt_of, table
from tools.bench.own_data_rules import HELD_OUT_OPENINGS, TOPICS, TRAINED, TRAINED_OPENINGS

VECTORS = Path(__file__).parent / "data" / "own_data.vectors.npz"
"""MiniLM's, of the set of 8 answers with number 1: `tau-train data embed` makes them anew where the rules change."""


@pytest.mark.parametrize("answers", [26, 80, 240])
def test_a_set_has_so_many_answers_and_no_held_out_wording_in_training(answers: int) -> None:
    found, again, other = dataset(answers, 1), dataset(answers, 1), dataset(answers, 2)
    assert found == again != other
    assert len({row["turns"][1]["message"] for row in found["training_data"]}) == answers
    assert len(found["evaluation_data"]) > 10 * answers
    trained, held_out = ([prompt_of(row) for row in found[f"{part}_data"]] for part in ("training", "evaluation"))
    assert len(set(trained)) == len(trained)
    openings = tuple(opening for opening in HELD_OUT_OPENINGS if opening)
    assert all(prompt.startswith(openings) for prompt in held_out)
    assert not any(prompt.startswith(openings) for prompt in trained)


def test_one_of_three_things_or_more_that_an_answer_is_right_for_is_never_trained() -> None:
    prompts = dict[str, list[str]]()
    for row in dataset(26, 1)["training_data"]:
        prompts.setdefault(row["turns"][1]["message"], []).append(prompt_of(row).lower())
    many = {answer: things for topic in TOPICS for answer, things in topic.subjects().items() if len(things) > 2}
    asked = many.keys() & prompts.keys()
    assert asked
    for answer in asked:
        assert not all(any(thing.lower() in prompt for prompt in prompts[answer]) for thing in many[answer])


def test_no_wording_is_trained_and_held_out() -> None:
    assert not set(TRAINED_OPENINGS) & set(HELD_OUT_OPENINGS)
    for topic in TOPICS:
        assert len(set(topic.wordings)) == len(topic.wordings) > TRAINED
    every = [answer for topic in TOPICS for answer in topic.subjects()]
    assert len(set(every)) == len(every)
    with pytest.raises(ValueError, match=f"there are 2 to {len(every)}"):
        dataset(len(every) + 1, 1)


def test_what_a_run_was_worth() -> None:
    baselines = {"nearest": {"accuracy": 0.9}, "logistic": {"accuracy": 0.8}}
    policies = {"last": {"accuracy": 0.7, "decisions": 1000}}
    text = {"baselines": baselines, "policies": policies, "accuracy": 0.885, "rows": 100, "wall_seconds": 4.0}
    near = outcome_of(26, 3, text)
    assert near.accuracy == {"policy": 0.885, "last": 0.7, "nearest": 0.9, "logistic": 0.8}
    assert near.margin == pytest.approx(-0.5)
    far = Outcome(26, 4, 100, 3000, {**near.accuracy, "policy": 0.8}, 6.0)
    perfect = Outcome(26, 5, 100, 3000, {"nearest": 1.0, "logistic": 0.9, "policy": 0.99}, 6.0)
    assert perfect.margin < -1.0  # a rival without errors has no standard error either
    row = table([near, far]).splitlines()[-1]
    assert row.startswith("| 26 | 2,000 (1,000-3,000) | 84.2 (80.0-88.5) | 70.0 (70.0-70.0) |")
    assert row.endswith("| 1 of 2 | 5 (4-6) |")


def test_a_small_set_is_learned_as_well_as_by_those_who_are_given_the_answers(tmp_path: Path) -> None:
    data = tmp_path / "own.json"
    data.write_text(json.dumps(dataset(8, 1)), "utf-8")
    shutil.copy(VECTORS, vectors_path(data))
    changes = {"tau.data": str(data), "checkpoint_settings.results_dir": str(tmp_path), "env_settings.seed": 1}
    settings = load_settings("tau", {**changes, "behaviors.TauAgent.max_steps": 40_000, "tau.pairs": 1})
    report = ParallelTrainerManager().start(settings, recorders=lambda folder: []).wait()
    written = load_settings(report.folder / "configuration.yaml")
    assert written.tau is not None
    assert written.tau.profile == "1x8"
    assert written.behaviors["TauAgent"].network_settings.action_levels == 8
    found = outcome_of(8, 1, json.loads((report.folder / "evaluation.json").read_text("utf-8")))
    assert found.rows == 104
    assert found.margin >= -1.0
