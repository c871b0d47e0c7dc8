"""`tau-train upgrade`: what is written where, and what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.cli import main
from tau_trainer.settings.loading import load_settings
from tests.cli.conftest import Refused
from tests.settings.test_upgrading import CURRICULA, PPO_016

FLAT = "# Mine.\nBall:\n  trainer: ppo\n  batch_size: 64  # small\n  hidden_units: 32\n"


@pytest.fixture(autouse=True)
def folder(elsewhere: Path) -> Path:
    (elsewhere / "old.yaml").write_text(FLAT)
    return elsewhere


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_result_stands_beside_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upgrade", "old.yaml"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[-1] == ("written: old-upgraded.yaml, without comments, which stay in old.yaml")
    assert Path("old.yaml").read_text() == FLAT
    assert (
        Path("old-upgraded.yaml").read_text().startswith("# Converted by tau-train upgrade from old.yaml.\nbehaviors:")
    )
    behavior = load_settings("old-upgraded.yaml").behaviors["Ball"]
    assert (behavior.hyperparameters.batch_size, behavior.network_settings.hidden_units) == (64, 32)
    assert names(folder) == {"old.yaml", "old-upgraded.yaml"}


def test_a_result_that_is_there_already_is_not_overwritten_unasked(refused: Refused) -> None:
    Path("old-upgraded.yaml").write_text("mine")
    said = "error: --output old-upgraded.yaml: already exists; choose another name, or add --force"
    assert refused("upgrade old.yaml") == said
    assert Path("old-upgraded.yaml").read_text() == "mine"
    assert main(["upgrade", "old.yaml", "--force"]) == 0
    assert Path("old-upgraded.yaml").read_text() != "mine"


def test_in_place_keeps_what_was(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upgrade", "old.yaml", "--in-place"]) == 0
    assert capsys.readouterr().out.endswith("written: old.yaml, without comments, which stay in old.yaml.bak\n")
    assert Path("old.yaml.bak").read_text() == FLAT
    assert load_settings("old.yaml").behaviors["Ball"].hyperparameters.batch_size == 64
    # A second time it is of today's form.
    assert main(["upgrade", "old.yaml", "--in-place"]) == 0
    assert capsys.readouterr().out == (
        "old.yaml is already up to date; nothing was written. See what it does: tau-train check old.yaml\n"
    )
    assert names(folder) == {"old.yaml", "old.yaml.bak"}


def test_in_place_does_not_lose_an_earlier_copy(refused: Refused) -> None:
    Path("old.yaml.bak").write_text("earlier")
    assert "old.yaml.bak: already exists" in refused("upgrade old.yaml --in-place")
    assert (Path("old.yaml").read_text(), Path("old.yaml.bak").read_text()) == (FLAT, "earlier")


def test_several_files_become_the_one_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("trainer.yaml").write_text(PPO_016)
    Path("lessons.yaml").write_text(CURRICULA)
    assert main(["upgrade", "trainer.yaml", "lessons.yaml", "-o", "new.yaml"]) == 0
    text = Path("new.yaml").read_text()
    assert text.startswith("# Converted by tau-train upgrade from trainer.yaml, lessons.yaml.\n")
    assert "environment_parameters:" in text
    assert capsys.readouterr().out.endswith("stay in trainer.yaml, lessons.yaml\n")


def test_the_remedy_that_learn_names_works(refused: Refused) -> None:
    remedy = refused("learn old.yaml --env x").split("tau-train ")[1]
    assert main(remedy.split()) == 0
    assert load_settings("old-upgraded.yaml").behaviors["Ball"].hyperparameters.batch_size == 64


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "old.yaml -o old.yaml",
            "--output old.yaml: this is an input file; use --in-place, which keeps a copy as .bak",
        ),
        ("old.yaml -o new.yaml --in-place", "--in-place and --output contradict each other; give one of them"),
        ("old.yaml -o none/new.yaml", "--output none/new.yaml: the folder none does not exist; make it first"),
        ("none.yaml", "none.yaml: no such file; check the path"),
        ("broken.yaml", "broken.yaml:1: is not valid YAML"),
        ("wrong.yaml", "wrong.yaml: behaviors.A.hyperparameters.batch_size must be a whole number such as 64 or 1e4"),
        ("gone.yaml --in-place", "gone.yaml:1: A.trainer is imitation, which ML-Agents dropped in 0.11"),
        ("", "FILES is missing; see: tau-train upgrade --help"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    words: str, sentence: str, folder: Path, refused: Refused
) -> None:
    Path("broken.yaml").write_text("A: {trainer: ppo")
    Path("wrong.yaml").write_text("A: {trainer: ppo, batch_size: many}")
    Path("gone.yaml").write_text("A: {trainer: imitation}")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert refused(f"upgrade {words}").startswith(f"error: {sentence}")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
