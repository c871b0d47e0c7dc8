"""Generated data sets as a user's may be: their rows, what a run's files say, and that a small one is learned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tau_trainer import ParallelTrainerManager, load_settings
from tau_trainer.tau.schema import text_key
from tau_trainer.tau.standing import Standing
from tau_trainer.tau.vectors import vectors_path
from tools.bench import own_data
from tools.bench.own_data import Outcome, dataset, outcome_of, prompt_of, table
from tools.bench.own_data_rules import (
    REPORTED,
    REPORTED_OPENINGS,
    TOPICS,
    TRAINED,
    TRAINED_OPENINGS,
    TUNING,
    TUNING_OPENINGS,
)

VECTORS = Path(__file__).parent / "data" / "own_data.vectors.npz"
"""MiniLM's, of the tuning set of 8 answers with number 1: if its wordings change, run `tau-train data embed` again."""


@pytest.mark.parametrize("answers", [26, 80, 240])
def test_a_set_has_so_many_answers_and_no_held_out_wording_in_training(answers: int) -> None:
    found, again, other = dataset(answers, 1), dataset(answers, 1), dataset(answers, 2)
    assert found == again != other
    assert len({row["turns"][1]["message"] for row in found["training_data"]}) == answers
    assert len(found["evaluation_data"]) > 10 * answers
    trained, held_out = ([prompt_of(row) for row in found[f"{part}_data"]] for part in ("training", "evaluation"))
    assert len(set(trained)) == len(trained)
    assert all(prompt.startswith(REPORTED_OPENINGS) for prompt in held_out)
    assert not any(prompt.startswith(REPORTED_OPENINGS) for prompt in trained)


def test_one_of_three_things_or_more_that_an_answer_is_right_for_is_never_trained() -> None:
    prompts = dict[str, list[str]]()
    for row in dataset(26, 1)["training_data"]:
        prompts.setdefault(row["turns"][1]["message"], []).append(prompt_of(row).lower())
    many = {answer: things for topic in TOPICS for answer, things in topic.subjects().items() if len(things) > 2}
    asked = many.keys() & prompts.keys()
    assert asked
    for answer in asked:
        assert not all(any(thing.lower() in prompt for prompt in prompts[answer]) for thing in many[answer])


def test_every_wording_is_of_one_kind_of_row_only() -> None:
    openings = TRAINED_OPENINGS + TUNING_OPENINGS + REPORTED_OPENINGS
    assert len(set(openings)) == len(openings)
    for topic in TOPICS:
        kinds = [topic.wordings[kind] for kind in (TRAINED, TUNING, REPORTED)]
        assert min(map(len, kinds)) == 3
        assert len(set().union(*kinds)) == sum(map(len, kinds)) == len(topic.wordings)
    every = [answer for topic in TOPICS for answer in topic.subjects()]
    assert len(set(every)) == len(every)
    with pytest.raises(ValueError, match=f"there are 2 to {len(every)}"):
        dataset(len(every) + 1, 1)


def test_no_row_that_is_reported_is_in_a_set_that_settings_are_chosen_by() -> None:
    def prompts(answers: int, seed: int, tuning: bool, *sections: str) -> set[str]:
        found = dataset(answers, seed, tuning)
        return {text_key(prompt_of(row)) for section in sections for row in found[section]}

    reported, seen = set[str](), set[str]()
    for answers in (26, 240):
        for seed in (1, 2):
            reported |= prompts(answers, seed, False, "evaluation_data")
        for seed in (1, 11):
            seen |= prompts(answers, seed, True, "training_data", "evaluation_data")
    assert min(len(reported), len(seen)) > 2000
    assert not reported & seen


def test_the_command_holds_out_what_chooses_settings_if_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(answers: int, seed: int, tuning: bool) -> None:
        raise AssertionError(answers, seed, tuning)

    monkeypatch.setattr(own_data, "dataset", asked)
    for flags, tuning in ([], False), (["--tuning"], True):
        words = ["own_data", "--answers", "26", "--seeds", "11", "--encoder", "hashing", *flags]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(AssertionError) as found:
            own_data.main()
        assert found.value.args == (26, 11, tuning)


def test_what_a_run_was_worth() -> None:
    baselines = {
        "nearest": {"accuracy": 0.9, "won": 3, "lost": 6},
        "logistic": {"accuracy": 0.8, "won": 12, "lost": 5},
    }
    policies = {"last": {"accuracy": 0.7, "decisions": 1000}}
    text = {"baselines": baselines, "policies": policies, "accuracy": 0.87, "rows": 100, "wall_seconds": 4.0}
    near = outcome_of(26, 3, text)
    assert near.accuracy == {"policy": 0.87, "last": 0.7, "nearest": 0.9, "logistic": 0.8}
    assert (near.rival, near.standing) == ("nearest", Standing(won=3, lost=6))
    assert near.difference == pytest.approx(-0.03)
    assert near.error == pytest.approx(0.03)
    same = Outcome(80, 4, 1000, 3000, {**near.accuracy, "policy": 0.9}, "nearest", Standing(0, 0), 6.0)
    assert (same.difference, same.error) == (0.0, 0.0)
    first, second = table([near, same]).splitlines()[-2:]
    assert first == "| 26 | 3 | 100 | 1,000 | 87.0 | 70.0 | 90.0 | 80.0 | 3 | nearest 6 | -3.0 ± 3.0 | 0.51 | 4 |"
    assert second.startswith("| 80 | 4 | 1,000 | 3,000 | 90.0 |")
    assert second.endswith("| 0 | nearest 0 | +0.0 ± 0.0 | 1 | 6 |")


def test_a_small_set_is_learned_as_well_as_by_those_who_are_given_the_answers(tmp_path: Path) -> None:
    data = tmp_path / "own.json"
    data.write_text(json.dumps(dataset(8, 1, tuning=True)), "utf-8")
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
    assert found.difference >= -found.error
