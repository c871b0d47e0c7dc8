"""`tau-train headless` hands every word to the engine's own parser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.cli import main
from tau_trainer.cli.parts.headless import _THREADS
from tests.cli.conftest import Refused


@pytest.fixture(autouse=True)
def _variables_end_with_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets them for its process, and other tests start processes from this one."""
    for name in _THREADS:
        monkeypatch.setenv(name, "1")


def test_a_build_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headless", "--scene", "basic", "--agents", "3", "--write-build", str(tmp_path)]) == 0
    assert len(list(tmp_path.iterdir())) == 1
    assert "wrote" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--scene tua", "--scene: invalid choice: 'tua'"),
        ("--scene tau --agents 0 --mlagents-port 5004", "--agents"),
        ("--scene tau", "--mlagents-port"),
    ],
)
def test_bad_input_is_one_sentence(words: str, sentence: str, refused: Refused) -> None:
    assert sentence in refused(f"headless {words}")


def test_help_is_the_engines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["headless", "--help"])
    assert left.value.code == 0
    assert "--mlagents-port" in capsys.readouterr().out
