"""Loading a data set: vocabulary, splits, skipped rows."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.errors import DataError
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.encoder import HASHING
from tau_trainer.tau.vectors import read_vectors, vectors_path, write_vectors
from tests.tau.conftest import MakeFile

TRAINING = [("one and one", "two"), ("plural of foot", "feet", "Grammar"), ("two minus zero", "Two")]


def test_splits_share_one_vocabulary(make_file: MakeFile) -> None:
    data = load_dataset(make_file(TRAINING, [("half of four", "two"), ("opposite of no", "yes")]))
    assert data.answers == ("feet", "two", "yes")
    assert data.training_answers == 2
    assert data.train.answer_index.tolist() == [1, 0, 1]
    assert data.evaluation.answer_index.tolist() == [1, 2]
    assert data.split("train") is data.train
    assert data.split("evaluation") is data.evaluation
    assert data.train.domain == ("Basic Math", "Grammar", "Basic Math")
    assert data.train.answer_text == ("two", "feet", "Two")
    assert data.encoder == HASHING
    assert data.skipped == ()
    assert data.skipped_sentence() is None


def test_vectors_are_those_of_the_texts(make_file: MakeFile) -> None:
    path = make_file(TRAINING)
    data, table = load_dataset(path), read_vectors(vectors_path(path))
    np.testing.assert_array_equal(data.train.prompts, table.vectors[table.rows(data.train.prompt_text)])
    np.testing.assert_array_equal(data.answer_vectors, table.vectors[table.rows(data.answers)])
    for array in (data.train.prompts, data.answer_vectors):
        assert array.dtype == np.float32
        assert array.shape[1] == 384
        np.testing.assert_allclose(np.linalg.norm(array, axis=1), 1.0, atol=1e-6)


def test_arrays_cannot_be_changed_by_accident(make_file: MakeFile) -> None:
    data = load_dataset(make_file(TRAINING))
    for array in (data.train.prompts, data.train.answer_index, data.train.row, data.answer_vectors):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_an_edited_file_is_read_again(make_file: MakeFile) -> None:
    first = load_dataset(make_file(TRAINING))
    second = load_dataset(make_file([*TRAINING, ("three and one", "four")]))
    assert (len(first.train), len(second.train)) == (3, 4)


def test_unknown_split() -> None:
    with pytest.raises(ValueError, match="'train', 'evaluation', 'validation', 'test'"):
        load_dataset().split("eval")  # type: ignore[arg-type]


def test_skipped_rows_are_told_in_one_sentence(make_file: MakeFile) -> None:
    data = load_dataset(make_file([*TRAINING, "bad", ("one and one", "three")], [("Plural of foot", "feet")]))
    sentence = data.skipped_sentence()
    assert sentence is not None
    assert "3 rows of" in sentence
    assert "training_data rows 4, 5 and evaluation_data row 1" in sentence
    assert "tau-train data audit" in sentence
    assert [problem.kind for problem in data.skipped] == ["malformed", "duplicate", "leak"]
    assert len(data.evaluation) == 0


def test_no_embedding_at_all_names_rows_and_remedy(make_file: MakeFile) -> None:
    path = make_file(TRAINING, embedded=False)
    with pytest.raises(DataError, match=r"rows 1, 2, 3 have no embedding; run `tau-train data embed") as caught:
        load_dataset(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "said"), [([], "no rows in `training_data`; add some"), (["bad"], r"row 1 .*is not an object.*data audit")]
)
def test_nothing_to_train_on(make_file: MakeFile, rows: list[str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        load_dataset(make_file(rows))


def test_an_answer_without_an_embedding_costs_its_rows(make_file: MakeFile) -> None:
    path = make_file(TRAINING)
    table = read_vectors(vectors_path(path)).as_dict()
    del table["feet"]
    write_vectors(vectors_path(path), table, HASHING)
    data = load_dataset(path)
    assert data.train.prompt_text == ("one and one", "two minus zero")
    assert [str(problem) for problem in data.skipped] == ["training_data row 2: 'feet' has no embedding"]


def held_out(count: int, answer: str = "two") -> list[tuple[str, str]]:
    return [(f"{answer} again, number {number}", answer) for number in range(count)]


def test_half_of_the_evaluation_chooses_and_the_other_is_reported(make_file: MakeFile) -> None:
    data = load_dataset(make_file(TRAINING, held_out(9) + held_out(5, "never trained")))
    assert (len(data.validation), len(data.test)) == (4 + 2, 5 + 3)
    rows = [set(split.row.tolist()) for split in (data.validation, data.test)]
    assert rows[0] & rows[1] == set()
    assert rows[0] | rows[1] == set(data.evaluation.row.tolist())
    unanswerable = [int((split.answer_index >= data.training_answers).sum()) for split in (data.validation, data.test)]
    assert unanswerable == [2, 3], "shared out evenly"
    assert data.undivided_sentence() is None


def test_the_halves_depend_on_the_prompts_alone(make_file: MakeFile) -> None:
    rows = held_out(40)
    data = load_dataset(make_file(TRAINING, rows))
    other = load_dataset(make_file(TRAINING, [(text.upper(), "two") for text, _ in reversed(rows)], name="b.json"))
    chosen_by = {text.lower() for text in data.validation.prompt_text}
    assert {text.lower() for text in other.validation.prompt_text} == chosen_by
    assert chosen_by != {text for text, _ in rows[:20]}, "not the first ones of the file"
    more = load_dataset(make_file(TRAINING, [*rows, ("one more", "two"), ("and one", "two")], name="c.json"))
    kept = {text.lower() for text in more.validation.prompt_text}
    assert len(chosen_by - kept) <= 2, "rows that come later move few others"


def test_few_rows_choose_nothing(make_file: MakeFile) -> None:
    few = load_dataset(make_file(TRAINING, held_out(7)))
    assert (len(few.validation), len(few.test)) == (0, 7)
    sentence = few.undivided_sentence()
    assert sentence is not None
    assert "7 usable evaluation rows, fewer than 8" in sentence
    assert len(load_dataset(make_file(TRAINING, held_out(8), name="b.json")).validation) == 4
