"""`tau-train find`: what is tried, what is shown, what is refused."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.cli.train.find import sentence, variations
from tests.cli.conftest import Refused

QUICK = (
    "--set hyperparameters.batch_size=32 --set hyperparameters.buffer_size=128 --set hyperparameters.num_epoch=2 "
    "--num-areas 2 --seed 4"
)


pytestmark = pytest.mark.usefixtures("elsewhere")


def test_a_learning_rate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(f"find lr CartPole --steps 6 --start-lr 1e-5 --end-lr 1e-3 --metric loss {QUICK}".split()) == 0
    shown = capsys.readouterr()
    titles = shown.out.splitlines()[0].split()
    assert " ".join(titles) == "learning rate mean loss smoothed change a decade"
    assert "1.00e-05" in shown.out
    assert "written: results/find-lr/lr.json" in shown.out.replace("\\", "/")
    assert "learning rate 14%: 1.00e-05: mean loss" in shown.err
    found = json.loads(Path("results/find-lr/lr.json").read_text())
    assert len(found["steps"]) == 7
    assert Path("results/find-lr/lr.png").stat().st_size > 10_000
    assert sorted(path.name for path in Path("results").iterdir()) == ["find-lr"]


def test_optimizers_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"find optimizer CartPole --optimizers adam,sgd --decisions 300 --jobs 1 --json --output here {QUICK}"
    assert main(words.split()) == 0
    shown = capsys.readouterr()
    [line] = shown.out.splitlines()
    found = json.loads(line)
    assert {one["name"] for one in found["candidates"]} == {"adam", "sgd"}
    assert {one["decisions"] for one in found["candidates"]} == {300}
    assert [Path(file).name for file in found["files"]] == ["optimizer.json", "optimizer.png"]
    assert not Path("results").exists()


def test_agents_are_files_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    from tau_trainer.settings import dump_settings, load_settings

    other = load_settings("CartPole", {"behaviors.*.network_settings.hidden_units": 16})
    Path("small.yaml").write_text(dump_settings(other))
    words = "find agent CartPole small.yaml --set hyperparameters.learning_rate=1e-9,1e-3 --decisions 200 --jobs 1"
    assert main(f"{words} {QUICK}".split()) == 0
    found = json.loads(Path("results/find-agent/agent.json").read_text())
    names = {f"{file}, learning_rate={rate}" for file in ("CartPole", "small") for rate in ("1e-9", "1e-3")}
    assert {one["name"] for one in found["candidates"]} == names
    assert f"Best by mean reward: {found['best']}." in capsys.readouterr().out


def test_combinations_of_values() -> None:
    assert list(variations([])) == [()]
    assert list(variations(["a=1,2", "b=x"])) == [("a=1", "b=x"), ("a=2", "b=x")]
    assert len(list(variations(["a=1,2", "b=3,4,5"]))) == 6
    assert list(variations(["a=[1, 2]", "b='x,y'"])) == [("a=[1, 2]", "b='x,y'")]
    assert list(variations(["a={x: 1, y: 2}"])) == [("a={x: 1, y: 2}",)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("find lr CartPoll", "CartPoll"),
        ("find lr 3DBall", "it cannot start the editor"),
        ("find lr CartPole --start-lr 1 --end-lr 0.1", "a sweep goes from a learning rate above 0 to a larger one"),
        ("find lr CartPole --steps many", "steps"),
        ("find lr CartPole --metric luck", "metric"),
        ("find lr CartPole --output full", "--output full: is not empty; choose a new"),
        ("find lr CartPole --initialize-from nobody", "--initialize-from nobody: no run of this name"),
        ("find optimizer CartPole --optimizers adam,lion", "lion: unknown optimizer; known: adam"),
        ("find optimizer CartPole --optimizers adam", "a comparison needs at least two candidates"),
        ("find optimizer CartPole --set hyperparameters.optimizer=lion", "optimizer"),
        ("find agent CartPole", "a comparison needs at least two candidates; name more files or more values"),
        ("find agent CartPole CartPole", "CartPole: two candidates have this name"),
        ("find agent CartPole Pendulum --jobs 0", "at least 1 decision and 1 job"),
        ("find agent", "CONFIGS"),
        ("find luck", "luck"),
    ],
)
def test_bad_input_is_one_sentence(words: str, said: str, refused: Refused) -> None:
    Path("full").mkdir()
    Path("full/mine").touch()
    assert said in refused(words)
    assert not Path("results").exists()
    assert [path.name for path in Path("full").iterdir()] == ["mine"]


def test_ctrl_c_keeps_what_was_found(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tau_trainer.search.trial import Trial

    update = Trial.update

    def pressed(self: Any, stats: Any) -> None:
        update(self, stats)
        if len(self.outcome.losses) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            while not self.stopped:
                time.sleep(0.01)

    monkeypatch.setattr(Trial, "update", pressed)
    assert main(f"find optimizer CartPole --decisions 1000000 --jobs 1 {QUICK}".split()) == 0
    shown = capsys.readouterr()
    assert "stopping; the results so far are kept" in shown.err
    assert "stopped" in shown.out
    found = json.loads(Path("results/find-optimizer/optimizer.json").read_text())
    assert [(one["name"], one["ended"]) for one in found["candidates"]] == [("adam", "stopped")]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not [one for one in threading.enumerate() if one.name == "search"]


def test_nothing_found_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"find optimizer CartPole --optimizers adam,sgd --decisions 3 --jobs 1 {QUICK}"
    assert main(words.split()) == 0
    assert "No candidate is best: none has a mean reward yet" in capsys.readouterr().out


def test_what_a_search_comes_to() -> None:
    sweep = {"search": "lr", "metric": "reward", "suggestion": 0.00123, "ended": "it was stopped"}
    assert sentence(sweep).startswith("Suggested: --set 'behaviors.*.hyperparameters.learning_rate=0.0012'. The sweep")
    assert "more --steps or a larger --window. NaN ended the sweep." in sentence(
        sweep | {"suggestion": None, "ended": "NaN"}
    )
