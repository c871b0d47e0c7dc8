"""`tau-train record`: a demonstration of a run, or of chance, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.bridge.demonstrations import read_demonstration
from tau_trainer.cli import main
from tau_trainer.settings import load_settings
from tau_trainer.training.api import train
from tests.algorithms.demonstrations import CARTPOLE, balance, demo_file, played
from tests.cli.conftest import Refused

CART = ("--env", "gym:CartPole-v1")


def test_chance_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "any.demo"
    words = ["record", "random", *CART, "--num-areas", "3", "--episodes", "5", "--seed", "4", "-o", str(path)]
    assert main(words) == 0
    demo = read_demonstration(path)
    assert len(demo.returns) >= 5
    said = capsys.readouterr().out
    assert f"written: {path} ({len(demo.returns)} episodes, {int((~demo.ended).sum())} decisions, mean return" in said
    begun = tmp_path / "begun.demo"
    assert main(["record", "random", *CART, "--max-steps", "2", "-o", str(begun)]) == 0
    assert f"written: {begun} (0 episodes, " in capsys.readouterr().out, "it may end before any episode does"
    before = path.read_bytes()
    assert main(words) == 2
    assert "already exists" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0
    assert path.read_bytes() == before  # the same seed, the same game


def test_a_run_plays_what_it_was_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo = demo_file(tmp_path, played(CARTPOLE, balance, copies=3))
    overrides = {
        "default_settings.trainer_type": "bc",
        "default_settings.demo_path": demo,
        "default_settings.max_steps": 20,
        "checkpoint_settings.run_id": "clone",
        "checkpoint_settings.results_dir": str(tmp_path),
        "env_settings.seed": 1,
    }
    train(load_settings(None, overrides), terminal="quiet")
    path = tmp_path / "clone.demo"
    words = ["record", "clone", "--results-dir", str(tmp_path), "--deterministic", "--episodes", "2", "-o", str(path)]
    assert main([*words, *CART]) == 0
    assert len(read_demonstration(path).returns) == 2
    capsys.readouterr()
    assert main([*words, "--env", "gym:Pendulum-v1", "--force"]) == 2
    assert "the run has no policy for behavior 'Pendulum-v1', only for CartPole-v1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nobody", *CART, "-o", "a.demo"], "nobody: no run of this name"),
        (["random", *CART, "-o", "a.txt"], "the name of a demonstration must end in .demo"),
        (["random", *CART, "-o", "a.demo", "--episodes", "0"], "must be at least 1"),
        (["random", "--env", "gym:Nothing-v0", "-o", "a.demo"], "--env gym:Nothing-v0"),
        (["no.module:play", *CART, "-o", "a.demo"], "player no.module:play: ModuleNotFoundError"),
    ],
)
def test_mistakes_are_told_in_a_sentence(words: list[str], said: str, elsewhere: Path, refused: Refused) -> None:
    assert said in refused(["record", *words])
    assert list(elsewhere.iterdir()) == []
