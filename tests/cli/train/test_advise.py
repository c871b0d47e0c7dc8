"""`tau-train advise`: what is measured, shown, written and refused."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.settings import load_settings
from tests.cli.conftest import Refused
from tests.waiting import until


@pytest.fixture(autouse=True)
def _one_core(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)


def test_a_game_is_measured_and_a_file_written(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--num-areas", "4", "--set", "behaviors.*.max_steps=5e4"]
    Path("new.yaml").write_text("mine")
    assert main(["advise", "CartPole", "--seconds", "0.6", "-o", "new.yaml", "--force", *changes]) == 0
    said = capsys.readouterr()
    assert "plays: gym:CartPole-v1, 4 decisions in each exchange" in said.out
    for label in ("speed", "engines", "areas", "as in the file", "room", "algorithm", "time"):
        assert f"\n  {label}: " in said.out
    assert "time scale" not in said.out
    assert "new.yaml is written; train with it: tau-train learn new.yaml" in said.out
    assert "the game 0%" in said.err
    new, old = load_settings("new.yaml"), load_settings("CartPole")
    assert new.behaviors["CartPole-v1"].max_steps == 50_000
    assert new.env_settings.env_path == "gym:CartPole-v1"
    assert new.collection == old.collection
    assert sorted(path.name for path in Path().iterdir()) == ["new.yaml"]


def test_machines_get_everything_and_learn_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "CartPole", "--seconds", "0.6", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    found = json.loads(said.out)
    assert found["measured"]["game"]["rates"]["CartPole-v1"] > 0.0
    assert found["measured"]["costs"]["file"]["CartPole-v1"] > 0.0
    assert found["hours"] > 0.0
    assert found["file"] is None
    Path("new.yaml").write_text(found["yaml"])
    new = load_settings("new.yaml")
    assert new.env_settings.num_areas == found["areas"]
    assert new.env_settings.num_envs == found["engines"]


NOTHING = "env_settings: {env_path: 'gym:CartPole-v1'}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("advise", "CONFIG"),
        ("advise CartPoll", "CartPoll"),
        ("advise nothing.yaml", "has no behaviors, so there is nothing to advise on"),
        ("advise CartPole --env nowhere/game", "nowhere"),
        ("advise CartPole --env gym:CartPoll-v9", "CartPoll"),
        ("advise CartPole --seconds 0", "--seconds 0: must be a number from 0.1 up"),
        ("advise CartPole -o there.yaml", "there.yaml: already exists"),
        ("advise CartPole -o no/new.yaml", "the folder no does not exist"),
        ("advise CartPoleBC", "learns only from recordings"),
        ("advise cartpole_batch", "tau-train batch"),
        ("advise CartPole --env gym:Pendulum-v1 --seconds 0.3", "Pendulum-v1"),
        ("advise CartPole --set cluster.address=local", "leave cluster (--cluster) out"),
    ],
)
def test_bad_input_is_one_sentence(words: str, said: str, refused: Refused) -> None:
    Path("nothing.yaml").write_text(NOTHING)
    Path("there.yaml").write_text("mine")
    assert said in refused(words)
    assert {path.name for path in Path().iterdir()} == {"nothing.yaml", "there.yaml"}
    assert Path("there.yaml").read_text() == "mine"


def test_ctrl_c_keeps_what_was_measured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tau_trainer.search.stillness import Costs

    measure = Costs.measure

    def pressed(self: Any, settings: Any) -> dict[str, float]:
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: self.stopped)
        return measure(self, settings)

    monkeypatch.setattr(Costs, "measure", pressed)
    assert main(["advise", "CartPole", "--seconds", "6"]) == 0
    said = capsys.readouterr()
    assert "stopping; the results so far are kept" in said.err
    assert "speed: " in said.out
    assert "was not measured" in said.out
    _, _, text = said.out.partition("# Made by tau-train advise from CartPole.\n")
    Path("new.yaml").write_text(text)
    assert list(load_settings("new.yaml").behaviors) == ["CartPole-v1"], "the file is shown where none is written"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not [one for one in threading.enumerate() if one.name == "search"]


def test_ctrl_c_at_once_is_one_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tau_trainer.search.advice import Adviser

    run = Adviser.run

    def pressed(self: Any, tell: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: self.stopped)
        return run(self, tell)

    monkeypatch.setattr(Adviser, "run", pressed)
    assert main(["advise", "CartPole", "-o", "new.yaml"]) == 2
    assert "error: the game was not measured, because it was stopped" in capsys.readouterr().err
    assert not Path("new.yaml").exists()
