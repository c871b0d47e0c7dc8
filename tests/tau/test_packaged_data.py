"""Our own data set: honest, complete, and reproducible from its rules."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.tau.baselines import ConfiguredFormula, baselines, strongest
from tau_trainer.tau.data import audit
from tau_trainer.tau.dataset import PACKAGED_DATA, TauDataset, load_dataset
from tau_trainer.tau.encoder import MINILM
from tau_trainer.tau.profiles import PROFILES
from tau_trainer.tau.schema import read_tau_file
from tau_trainer.tau.targets import targets
from tau_trainer.tau.vectors import vectors_path
from tools import tau_data
from tools.tau_data_rules import TOPICS


@pytest.fixture(scope="module")
def data() -> TauDataset:
    return load_dataset()


def test_sizes_and_domains(data: TauDataset) -> None:
    assert len(data.train) >= 600
    assert len(data.evaluation) >= 150
    assert set(data.train.domain) == set(data.evaluation.domain) == {"Basic Math", "Spelling", "Grammar"}
    assert data.encoder == MINILM
    size = PACKAGED_DATA.stat().st_size + vectors_path(PACKAGED_DATA).stat().st_size
    assert size < 4 * 2**20


def test_every_row_can_be_used() -> None:
    assert audit(PACKAGED_DATA).clean


def test_answers_are_one_word_and_known_from_training(data: TauDataset) -> None:
    assert all(answer.isalpha() and answer == answer.lower() for answer in data.answers)
    assert data.training_answers == len(data.answers)
    assert 20 <= len(data.answers) <= 60


def test_held_out_phrasings_were_never_used_for_their_answer(data: TauDataset) -> None:
    """Strip the instance from every sentence: what is left must differ between the splits, answer by answer."""
    used: dict[str, dict[str, set[str]]] = {"train": {}, "evaluation": {}}
    sentences = {
        (phrasing.replace("{x}", instance)[0].upper() + phrasing.replace("{x}", instance)[1:], answer): phrasing
        for topic in TOPICS
        for answer in topic.facts
        for phrasing in topic.phrasings
        for instance in topic.instances(answer)
    }
    for split in (data.train, data.evaluation):
        for prompt, answer in zip(split.prompt_text, split.answer_text, strict=True):
            used[split.name].setdefault(answer, set()).add(sentences[prompt, answer])
    assert used["train"].keys() == used["evaluation"].keys()
    for answer, phrasings in used["train"].items():
        assert not phrasings & used["evaluation"][answer]


def test_the_task_is_learnable_but_not_given_away(data: TauDataset) -> None:
    tau3 = baselines(data, PROFILES["tau3"], ConfiguredFormula("incremental"))
    assert 0.75 <= tau3["ridge"].accuracy <= 0.95
    assert tau3["majority"].accuracy < 0.2
    assert tau3["nearest"].accuracy > 0.9
    assert tau3["logistic"].accuracy > 0.98
    assert strongest(tau3) == "logistic"
    assert tau3["ridge"].reward > tau3["constant"].reward + 0.5
    tau384 = baselines(data, PROFILES["tau384"], ConfiguredFormula("binary"))
    assert tau384["zeros"].reward > 0.85
    assert tau384["ridge"].accuracy > 0.95


def test_answers_are_spread_out_in_three_components(data: TauDataset) -> None:
    centres = targets(data, PROFILES["tau3"])
    distances = np.linalg.norm(centres[:, None] - centres[None], axis=2) + 9.0 * np.eye(len(centres))
    assert distances.min() >= 0.279


def test_the_file_follows_from_the_rules() -> None:
    assert tau_data.to_text(tau_data.build()) == PACKAGED_DATA.read_text("utf-8")
    assert tau_data.main(["--check"]) == 0


def test_another_seed_gives_another_but_equally_valid_file() -> None:
    other = tau_data.build(seed=99)
    packaged = read_tau_file(PACKAGED_DATA)
    assert other.rows == packaged.rows
    assert other.training != packaged.training
    assert tau_data.to_text(tau_data.build(seed=99)) == tau_data.to_text(other)
