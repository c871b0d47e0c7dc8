"""`tau-train report`: finding runs, where the file goes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.cli import main
from tau_trainer.cli.look import report as command
from tau_trainer.errors import TauError
from tests.cli.conftest import Refused
from tests.report.conftest import write_run


@pytest.fixture
def results(elsewhere: Path) -> Path:
    """Two runs in ``results``, in a folder of their own."""
    for seed, name in enumerate(("first", "second")):
        write_run(Path("results", name), seed)
    return Path("results")


@pytest.mark.parametrize("name", ["first", "results/first"])
def test_the_report_lies_with_its_run(name: str, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name for path in (results / "first").iterdir()}
    assert main(["report", name]) == 0
    written = results / "first" / "report.html"
    assert capsys.readouterr().out == f"written: {written} ({written.stat().st_size / 1000:,.0f} kB)\n"
    assert written.read_text("utf-8").startswith("<!doctype html>")
    assert {path.name for path in (results / "first").iterdir()} == before | {"report.html"}
    assert main(["report", name]) == 0, "it is written anew as the run goes on"


def test_elsewhere_nothing_is_overwritten_unasked(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.html").write_text("mine")
    assert main(["report", "first", "--output", "mine.html"]) == 2
    assert Path("mine.html").read_text() == "mine"
    assert "already exists" in capsys.readouterr().err
    assert main(["report", "first", "-o", "mine.html", "--force"]) == 0
    assert "<title>first</title>" in Path("mine.html").read_text("utf-8")
    assert not (results / "first" / "report.html").exists()


def test_several_runs_are_one_report_and_one_elsewhere_is_found_by_its_folder(results: Path) -> None:
    assert main(["report", "first", "second", "-o", "both.html"]) == 0
    assert "<title>first and 1 more</title>" in Path("both.html").read_text("utf-8")
    (results / "first" / "configuration.yaml").unlink()
    assert main(["report", "first", "--results-dir", "results"]) == 0, "its log is enough"
    results.rename("old")
    assert main(["report", "second", "--results-dir", "old"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("report frist", "frist: no run of this name in results; did you mean first?"),
        ("report first second", "a report of several runs has no default path; choose one with --output"),
        ("report first results/first -o x.html", "first results/first: names a run twice"),
        ("report first -o results", "--output results: this is a folder; name a file such as"),
        ("report first -o no/such.html", "--output no/such.html: the folder no does not exist"),
        ("report empty", "'results/empty' has no log.jsonl"),
        ("report torn", "'results/torn/log.jsonl' holds nothing that can be read"),
        ("report", "RUNS is missing; see: tau-train report --help"),
    ],
)
def test_bad_input_is_one_sentence(words: str, sentence: str, results: Path, refused: Refused) -> None:
    for name in ("empty", "torn"):
        (results / name).mkdir()
        (results / name / "configuration.yaml").write_text("behaviors: {}")
    (results / "torn" / "log.jsonl").write_text('{"type": "summ')
    assert refused(words).startswith(f"error: {sentence}")
    assert not list(Path().rglob("*.html"))


def test_a_failure_leaves_the_old_report(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = results / "first" / "report.html"
    old.write_text("old")
    (results / "first" / "log.jsonl").write_text("torn")
    assert main(["report", "first"]) == 2
    assert old.read_text() == "old"

    def full(path: Path, text: str) -> None:
        raise TauError(f"Cannot write '{path}'")

    monkeypatch.setattr(command, "atomic_write_text", full)
    assert main(["report", "second"]) == 2
    assert "error: Cannot write" in capsys.readouterr().err
    assert sorted(path.name for path in (results / "second").iterdir() if path.suffix == ".html") == []
