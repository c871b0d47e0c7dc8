"""Work on a user's own files: embed, audit, concat, targets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tau_trainer.errors import DataError
from tau_trainer.specs import FloatArray
from tau_trainer.tau.data import AuditReport, audit, build_targets, concat, embed
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.encoder import HASHING, HashingEncoder
from tau_trainer.tau.profiles import PROFILES
from tau_trainer.tau.schema import read_tau_file
from tau_trainer.tau.targets import targets
from tau_trainer.tau.vectors import read_vectors, vectors_path, write_vectors
from tests.tau.conftest import MakeFile


class OtherEncoder:
    """A second encoder, to see that vectors are never mixed."""

    name = "other"

    def __init__(self) -> None:
        self.encoded = 0

    def encode(self, texts: Sequence[str]) -> FloatArray:
        self.encoded += len(texts)
        return -HashingEncoder().encode(texts)


def rows(report: AuditReport, kind: str) -> dict[str, list[int]]:
    """Row numbers with a problem of this kind, by section."""
    found: dict[str, list[int]] = {}
    for section, row in sorted({(one.section, one.row) for one in report.problems if one.kind == kind}):
        found.setdefault(section, []).append(row)
    return found


def test_embed_encodes_each_distinct_text_once(make_file: MakeFile) -> None:
    path = make_file([("one", "yes"), ("two", "Yes"), ("three", "no")], [("one", "no")], embedded=False)
    encoder = OtherEncoder()
    told: list[tuple[int, int]] = []
    report = embed(path, encoder, batch_size=2, on_progress=lambda done, of: told.append((done, of)))
    assert told == [(2, 5), (4, 5), (5, 5)]
    assert (report.texts, report.encoded, encoder.encoded) == (5, 5, 5)
    assert report.path == vectors_path(path)
    assert "5 texts embedded by other, 5 of them new" in report.sentence()
    assert report.to_dict()["path"] == str(vectors_path(path))


def test_embed_again_encodes_only_what_is_new(make_file: MakeFile) -> None:
    path = make_file([("one", "yes")], embedded=False)
    embed(path, OtherEncoder())
    make_file([("one", "yes"), ("two", "no")], embedded=False)
    encoder = OtherEncoder()
    report = embed(path, encoder)
    assert (report.texts, report.encoded, encoder.encoded) == (4, 2, 2)
    assert len(load_dataset(path).train) == 2


def test_vectors_of_two_encoders_are_never_mixed(make_file: MakeFile) -> None:
    path = make_file([("one", "yes")])
    report = embed(path, OtherEncoder())
    assert report.encoded == 2
    table = read_vectors(vectors_path(path))
    assert table.encoder == "other"
    np.testing.assert_allclose(table.vectors, -HashingEncoder().encode(table.texts), atol=1e-3)


def test_embed_makes_a_damaged_vector_file_anew(make_file: MakeFile) -> None:
    """It is what everyone who meets such a file is told to do."""
    path = make_file([("one", "yes")])
    vectors_path(path).write_bytes(b"PK damaged")
    with pytest.raises(DataError, match=r"create it again with `tau-train data embed`"):
        load_dataset(path)
    assert embed(path, HashingEncoder()).encoded == 2
    assert len(load_dataset(path).train) == 1


def test_audit_of_a_clean_file(make_file: MakeFile) -> None:
    path = make_file([("one", "yes"), ("two", "no")], [("three", "maybe")])
    report = audit(path)
    assert report.clean
    assert (report.training_usable, report.evaluation_usable) == (2, 1)
    assert (report.answers, report.unseen_answers) == (3, 1)
    assert report.encoder == HASHING
    assert "is clean: 2 training and 1 evaluation pairs" in report.sentence()


def test_audit_reports_every_fault_by_number_and_changes_nothing(make_file: MakeFile) -> None:
    path = make_file([("one", "yes"), "bad", ("two", "no"), ("One", "no"), {}], [("two", "no"), ("new", "yes")])
    table = read_vectors(vectors_path(path)).as_dict()
    del table["two"], table["new"]
    write_vectors(vectors_path(path), table, HASHING)
    before = {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}
    report = audit(path)
    assert not report.clean
    assert rows(report, "malformed") == {"training_data": [2, 5]}
    assert rows(report, "missing") == {"training_data": [3], "evaluation_data": [2]}
    assert rows(report, "duplicate") == {"training_data": [4]}
    assert rows(report, "leak") == {"evaluation_data": [1]}
    assert (report.training_rows, report.evaluation_rows) == (5, 2)
    assert (report.training_usable, report.evaluation_usable) == (1, 0)
    assert "malformed: training_data rows 2, 5; missing: training_data row 3 and evaluation_data row 2" in (
        report.sentence()
    )
    json.dumps(report.to_dict())
    assert {entry.name: entry.read_bytes() for entry in path.parent.iterdir()} == before


def test_audit_groups_what_is_alike(make_file: MakeFile) -> None:
    """One line for each kind of fault in each section, whatever the number of rows."""
    bare = [(f"it's number {number}", 'a "word"') for number in range(300)]
    report = audit(make_file([*bare, "bad", {"turns": [{}]}, {"turns": [{}, {}, {}]}], [("new", "x")], embedded=False))
    lines = [line.partition(": ")[2] for line in report.lines()]
    assert len(report.problems) == 605
    assert lines == [
        'training_data rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 288 more: "it\'s number 0" has no embedding '
        "(the first of them)",
        "training_data row 301: is not an object",
        "training_data rows 302, 303: has 1 turns, but every User turn needs an Agent turn (the first of them)",
        "evaluation_data row 1: 'new' has no embedding (the first of them)",
    ]


def test_audit_names_prompts_with_several_answers(make_file: MakeFile) -> None:
    rows = [("One", "yes"), ("two", "no"), ("one", "no"), ("Two", "No")]
    report = audit(make_file(rows, [("one", "maybe"), ("three", "no")]))
    assert report.conflicts == (
        "'One' has 3 answers, 'yes' (training_data row 1) and 'no' (training_data row 3) and 'maybe' (evaluation_data "
        "row 1); the first counts",
    )
    assert report.lines()[-1].endswith(report.conflicts[0])
    many = audit(make_file([(f"prompt {number}", answer) for number in range(50) for answer in ("yes", "no")]))
    assert len(many.conflicts) == 50
    assert len(many.lines()) == 22
    assert many.lines()[-1].endswith("30 prompts more have several answers")


def test_audit_names_prompts_that_are_in_training_but_for_punctuation(make_file: MakeFile) -> None:
    path = make_file(
        [("What is one?", "yes"), ("two", "no")], [("'what' is one", "yes"), ("three", "no"), ("two!", "no")]
    )
    report, data = audit(path), load_dataset(path)
    assert rows(report, "near-leak") == {"evaluation_data": [1, 3]}
    assert "near-leak: evaluation_data rows 1, 3" in report.sentence()
    assert data.evaluation.prompt_text == ("three",)
    assert len(data.train) == 2
    sentence = data.skipped_sentence()
    assert sentence is not None
    assert "2 rows of" in sentence
    assert "evaluation_data rows 1, 3" in sentence


def test_concat_leaves_near_leaks_out_as_a_run_would(make_file: MakeFile, tmp_path: Path) -> None:
    first = make_file([("one", "yes")], [("two", "no")], name="a.json")
    second = make_file([("two?", "no")], [("one...", "yes"), ("four", "no")], name="b.json")
    report = concat([first, second], tmp_path / "joined.json")
    left_out = [(Path(path).name, problem.row, problem.kind) for path, problem in report.problems]
    assert sorted(left_out) == [("a.json", 1, "near-leak"), ("b.json", 1, "near-leak")]
    assert load_dataset(tmp_path / "joined.json").skipped == ()


def test_audit_counts_agree_with_what_loading_uses(make_file: MakeFile) -> None:
    path = make_file([("one", "yes"), "bad", ("one", "no"), ("two", "no")], [("ONE", "x"), ("three", "yes")])
    report, data = audit(path), load_dataset(path)
    assert (report.training_usable, report.evaluation_usable) == (len(data.train), len(data.evaluation))
    assert sorted(map(str, report.problems)) == sorted(map(str, data.skipped))


def test_audit_of_a_file_without_vectors_or_rows(make_file: MakeFile) -> None:
    report = audit(make_file([("one", "yes")], embedded=False))
    assert report.encoder == ""
    assert rows(report, "missing") == {"training_data": [1]}
    assert len(report.problems) == 2
    assert audit(make_file([], name="empty.json")).clean


def test_concat_joins_drops_and_carries_vectors(make_file: MakeFile, tmp_path: Path) -> None:
    first = make_file([("one", "yes"), ("two", "no")], [("three", "yes")], name="a.json")
    second = make_file([("Two", "no"), ("four", "no"), "bad"], [("one", "yes"), ("five", "no")], name="b.json")
    output = tmp_path / "joined.json"
    report = concat([first, second], output, seed=3)
    assert (report.training, report.evaluation) == (3, 2)
    left_out = [(Path(path).name, problem.row, problem.kind) for path, problem in report.problems]
    assert sorted(left_out) == [("b.json", 1, "duplicate"), ("b.json", 1, "leak"), ("b.json", 3, "malformed")]
    assert "3 rows left out" in report.sentence()
    assert report.lines() == [
        f"{second}: left out training_data row 3: is not an object",
        f"{second}: left out training_data row 1: 'Two' repeats an earlier prompt",
        f"{second}: left out evaluation_data row 1: 'one' is a training prompt too",
    ]
    data = load_dataset(output)
    assert sorted(data.train.prompt_text) == ["four", "one", "two"]
    assert sorted(data.evaluation.prompt_text) == ["five", "three"]
    assert data.skipped == ()
    json.dumps(report.to_dict())


def test_concat_does_not_mix_encoders(make_file: MakeFile, tmp_path: Path) -> None:
    first, second = make_file([("one", "yes")], name="a.json"), make_file([("two", "no")], name="b.json")
    embed(second, OtherEncoder())
    output = tmp_path / "joined.json"
    assert concat([first], output).vectors == 2
    assert concat([first, second], output).vectors == 0
    assert not vectors_path(output).exists()
    assert concat([first, second], output).sentence().endswith(f"make them with: tau-train data embed {output}")


def test_concat_keeps_longer_conversations(make_file: MakeFile, tmp_path: Path) -> None:
    turns = [{"role": role, "message": text} for role, text in zip(("User", "Agent") * 2, "abcd", strict=True)]
    path = make_file([{"turns": turns}])
    concat([path], tmp_path / "joined.json")
    assert read_tau_file(tmp_path / "joined.json").training[0].turns == (("a", "b"), ("c", "d"))


def test_concat_needs_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at least one"):
        concat([], tmp_path / "x.json")


@pytest.mark.parametrize("name", PROFILES)
def test_targets_file_has_the_form_of_tokens_json(tmp_path: Path, name: str) -> None:
    output = tmp_path / "tokens.json"
    report = build_targets(None, PROFILES[name], output)
    data = load_dataset()
    content = json.loads(output.read_text("utf-8"))
    assert content["total_tokens"] == len(content["tokens"]) == report.answers == len(data.answers)
    assert [token["Name"] for token in content["tokens"]] == list(data.answers)
    vectors = np.array([token["Vector"] for token in content["tokens"]])
    np.testing.assert_allclose(vectors, targets(data, PROFILES[name]), atol=1e-6)
    distances = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    assert report.closest == pytest.approx(float(distances[~np.eye(len(vectors), dtype=bool)].min()), abs=1e-4)
    assert f"{name} targets of {report.answers} answers" in report.sentence()
