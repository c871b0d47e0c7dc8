"""`tau-train data`: a user's own Tau file from JSON to targets, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tests.cli.conftest import Refused


def message(prompt: str, answer: str) -> dict[str, Any]:
    turns = [{"role": "User", "message": prompt}, {"role": "Agent", "message": answer}]
    return {"domain": "d", "context": "c", "system": "s", "turns": turns}


@pytest.fixture
def file(elsewhere: Path) -> Path:
    answers = ("one", "two", "three", "four", "five")
    rows = [message(f"What comes {word} times?", word) for word in answers]
    content = {
        "version": "0.1.0",
        "model_name": "m",
        "organization": "o",
        "training_data": rows,
        "evaluation_data": [message("And which is the last?", "five")],
    }
    Path("mine.json").write_text(json.dumps(content), encoding="utf-8")
    return Path("mine.json")


def test_from_a_file_to_its_targets(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "audit", str(file)]) == 2
    out = capsys.readouterr().out
    assert "training_data rows 1, 2, 3, 4, 5: " in out
    assert "evaluation_data row 1: " in out
    assert main(["data", "embed", str(file), "--encoder", "hashing"]) == 0
    assert "embedded by hashing" in capsys.readouterr().out
    assert main(["data", "audit", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clean"] is True
    assert main(["data", "targets", str(file), "--output", "tokens.json"]) == 0
    assert len(json.loads(Path("tokens.json").read_text())["tokens"]) == 5
    assert main(["data", "export-unity", str(file), "--output", "mine.tau"]) == 0
    assert capsys.readouterr().out.endswith(
        "mine.tau holds 5 training and 1 evaluation rows with 5 answers for Unity (0.0 MB).\n"
    )
    assert main(["data", "export-unity", str(file), "-o", "mine.tau", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"] == 5
    assert b"\x04five\x04four\x03one\x05three\x03two" in Path("mine.tau").read_bytes()


def test_the_packaged_data_is_exported_for_unity(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "export-unity", "-o", "tau.tau"]) == 0
    assert capsys.readouterr().out.startswith("tau.tau holds 1584 training and 198 evaluation rows")


def test_files_are_joined_without_repeated_prompts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "concat", str(file), str(file), "--output", "both.json", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["training"], report["evaluation"]) == (5, 1)
    assert Path("both.json").is_file()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("audit none.json", "none.json: no such file; check the path"),
        ("audit .", ".: this is a folder; name a Tau data set (JSON)"),
        ("concat mine.json -o mine.json", "--output mine.json: already exists; choose another name, or add --force"),
        ("targets -o no/x.json", "--output no/x.json: the folder no does not exist; make it first"),
        ("export-unity -o mine.json", "--output mine.json: already exists; choose another name, or add --force"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_the_file_alone(
    file: Path, words: str, sentence: str, refused: Refused
) -> None:
    before = file.read_bytes()
    assert refused(f"data {words}") == f"error: {sentence}"
    assert file.read_bytes() == before
    assert list(Path().iterdir()) == [file]
