"""The guide about batched environments, run as it stands: its game, its checks, its twin, its training."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tau_trainer.cli import main

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "batched-environments.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where somebody has written down what the guide shows."""
    game, pool, twin, *_ = blocks("python")
    (tmp_path / "crossing.py").write_text(game)
    (tmp_path / "rushed.py").write_text(pool)
    (tmp_path / "crossing_numpy.py").write_text(twin)
    (tmp_path / "crossing.yaml").write_text(blocks("yaml")[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for module in ("crossing", "crossing_numpy", "rushed"):
        sys.modules.pop(module, None)


def test_an_environment_takes_sixty_lines() -> None:
    assert len(blocks("python")[0].splitlines()) <= 60


def test_its_pool_of_starts_has_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-env", "rushed:Rushed", "starts=pool", "--steps", "30"]) == 0
    assert "rushed:Rushed: no fault found" in capsys.readouterr().out


def test_it_has_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-env", "crossing:Crossing", "lanes=3"]) == 0
    assert capsys.readouterr().out == blocks("text")[0]


def test_a_mistake_is_told_as_the_guide_shows(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "92")
    game = (folder / "crossing.py").read_text()
    assert ' * state["present"]' in game
    (folder / "crossing.py").write_text(game.replace(' * state["present"]', ""))
    assert main(["check-env", "crossing:Crossing", "lanes=3"]) == 1
    assert blocks("text")[1] in capsys.readouterr().out


def test_it_is_its_twin(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "check-env crossing:Crossing --against crossing_numpy:Twin --steps 60 limit=12 frogs=4"
    assert main(words.split()) == 0
    assert "equal to crossing_numpy:Twin, within 0.0001" in capsys.readouterr().out
    twin = (folder / "crossing_numpy.py").read_text()
    # another size: Python takes old bytecode for a file that is as long and was written in the same second
    (folder / "crossing_numpy.py").write_text(twin.replace("(0, 1, -1)", "(0, 1, -20)"))
    sys.modules.pop("crossing_numpy")
    assert main(words.split()) == 1
    assert re.search(r"step \d+, copy \d(, agent frog_\d)?: ", capsys.readouterr().out)


def test_it_goes_with_gymnasium_and_pettingzoo() -> None:
    names: dict[str, object] = {}
    exec(blocks("python")[-1], names)
    assert names["rows"].num_envs == 192  # type: ignore[attr-defined]
    assert names["game"].agents == ["frog_0", "frog_1", "frog_2"]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_it_learns(folder: Path) -> None:
    words = ["--run-id", "mine", "--seed", "1", "--max-steps", "250000", "--quiet"]
    assert main(["batch", "crossing.yaml", *words]) == 0
    records = [json.loads(line) for line in (folder / "results" / "mine" / "log.jsonl").read_text().splitlines()]
    values = [one["values"] for one in records if "values" in one]
    means = [each[key] for each in values if (key := "Environment/Cumulative Reward") in each]
    assert means[0] < -0.6
    assert means[-1] > -0.2, "with a quarter of the guide's decisions"
    assert (folder / "results" / "mine" / "frogs.onnx").is_file()
