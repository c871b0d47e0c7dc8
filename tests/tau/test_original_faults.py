"""Faults of the original that concern data and rewards (tau.md 2.4 and 4) and that no other test here would notice."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import DataError
from tau_trainer.tau import dataset as dataset_module
from tau_trainer.tau.data import concat
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.decoding import nearest
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.schema import TauFile, read_tau_file
from tau_trainer.tau.vectors import VectorTable, read_vectors, vectors_path, write_vectors
from tests.tau.conftest import MakeFile

ROWS = [(f"prompt number {n}", f"answer{n % 7}") for n in range(40)]


def test_columns_are_obeyed() -> None:
    """Fault: `--columns` was parsed and then ignored."""
    output, target = np.array([[0.0, 1.0, 1.0]]), np.zeros((1, 3))
    assert [REWARDS["incremental"](output, target, columns=count)[0] for count in (1, 2, 3)] == pytest.approx(
        [1.0, 0.0, -1 / 3]
    )


def test_one_missing_embedding_costs_one_row(make_file: MakeFile) -> None:
    """Fault: a single missing embedding stopped a pair from ever training."""
    path = make_file(ROWS)
    table = read_vectors(vectors_path(path)).as_dict()
    del table["prompt number 5"]
    write_vectors(vectors_path(path), table, "hashing")
    data = load_dataset(path)
    assert len(data.train) == 39
    assert [(problem.row, problem.kind) for problem in data.skipped] == [(6, "missing")]
    sentence = data.skipped_sentence()
    assert sentence is not None
    assert "row 6" in sentence
    assert "tau-train data embed" in sentence


@pytest.mark.parametrize("answer", ["0.75", "they're", "more efficient", "1/2", "well-known"])
def test_punctuation_and_blanks_in_answers_survive(make_file: MakeFile, answer: str) -> None:
    """Fault: the vocabulary deleted punctuation and split words ("0.75" became "075"), the lookup did not."""
    data = load_dataset(make_file([("first prompt", answer), ("second prompt", "075"), ("third prompt", "more")]))
    assert answer in data.answers
    assert data.skipped == ()
    assert data.answers[data.train.answer_index[0]] == answer
    index = data.train.answer_index[:1]
    np.testing.assert_array_equal(nearest(data.answer_vectors[index], data.answer_vectors), index)


def test_data_is_loaded_once_for_all_pairs(make_file: MakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: every pair parsed the file again, into the same list."""
    path = make_file(ROWS)
    calls: list[Path] = []

    def counted(file: Path) -> TauFile:
        calls.append(file)
        return read_tau_file(file)

    monkeypatch.setattr(dataset_module, "read_tau_file", counted)
    loaded = [load_dataset(path) for _ in range(20)]
    assert calls == [path]
    assert all(data is loaded[0] for data in loaded)


def test_lookup_does_not_scan() -> None:
    """Fault: every text was found by walking through the whole table. Here a look-up compares one text, not all."""
    compared = 0

    class Counted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    texts = [f"text {n}" for n in range(500)]
    table = VectorTable("e", tuple(Counted(text) for text in texts), np.ones((500, 384), np.float32))
    compared = 0
    assert table.rows(texts).tolist() == list(range(500))
    assert 500 <= compared < 2000


def test_concat_shuffles_by_seed(make_file: MakeFile, tmp_path: Path) -> None:
    """Fault: concatenation shuffled without a seed."""
    path = make_file(ROWS)
    orders = []
    for number, seed in enumerate((1, 1, 2)):
        output = tmp_path / f"joined{number}.json"
        concat([path], output, seed=seed)
        orders.append([message.turns[0][0] for message in read_tau_file(output).training])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == sorted(prompt for prompt, _ in ROWS)


def test_file_names_keep_their_case(make_file: MakeFile) -> None:
    """Fault: file names were lower-cased, so `data_A0.json` could not be found."""
    path = make_file(ROWS, name="data_A0.json")
    assert len(load_dataset(path).train) == 40
    wrong = path.with_name("DATA_a0.json")
    if not wrong.exists():  # a disk that tells upper and lower case apart
        with pytest.raises(DataError, match=r"there is data_A0\.json; upper and lower case matter"):
            load_dataset(wrong)


def test_stray_blanks_do_not_make_a_text_unknown(make_file: MakeFile) -> None:
    """Fault: stray spaces in the data broke the exact-string lookup."""
    path = make_file([("one", "yes"), ("two", "no")])
    text = path.read_text("utf-8").replace('"one"', '"  one "').replace('"yes"', '"yes "')
    path.write_text(text, "utf-8")
    data = load_dataset(path)
    assert data.skipped == ()
    assert data.train.answer_text == ("yes", "no")


def test_no_model_and_no_network_are_needed_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: one Python process was started for every text to embed."""
    original = builtins.__import__

    def guarded(name: str, *arguments: Any, **options: Any) -> Any:
        assert name.split(".")[0] not in {"torch", "sentence_transformers", "subprocess", "socket"}
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", guarded)
    dataset_module._load.cache_clear()
    assert len(load_dataset().train) >= 600
