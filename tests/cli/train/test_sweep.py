"""`tau-train sweep`: what is asked for, shown and refused; trials on a cluster are in tests/cluster/sweeps.py."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.cli.train import sweep as command
from tau_trainer.search.member import TrialReport
from tau_trainer.settings import load_settings
from tests.cli.conftest import Refused

RATE = "hyperparameters.learning_rate"
FILE = f"""
behaviors:
  CartPole-v1: {{trainer_type: ppo, max_steps: 1000, hyperparameters: {{beta: 0.0}}}}
env_settings: {{env_path: "gym:CartPole-v1", seed: 3}}
sweep: {{trials: 2, space: {{{RATE}: {{loguniform: [1e-5, 1e-2]}}}}}}
"""


@pytest.fixture(autouse=True)
def _file(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: SimpleNamespace())
    Path("pole.yaml").write_text(FILE)


class Tuned(ModuleType):
    """Stands where Ray Tune would: tells what it is given to tell."""

    def __init__(self) -> None:
        super().__init__("tau_trainer.search.tuning")
        self.story: list[tuple[str, float, TrialReport]] = []
        self.over: tuple[str, ...] = ("trial-1", "trial-2")
        self.calls: list[dict[str, Any]] = []

    def run_trials(self, sweep: Any, connection: Any, told: Any, **given: Any) -> None:
        self.calls.append({"settings": sweep.settings, "folder": sweep.folder, "connection": connection, **given})
        (sweep.folder / "tune").mkdir(exist_ok=True)
        for name, rate, report in self.story:
            sweep.record(name, {RATE: rate}, report)
            told(name, {RATE: rate}, report)
        for name in self.over:
            sweep.ended(name)


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> Tuned:
    @contextmanager
    def connected(cluster: Any, say: Any) -> Iterator[Any]:
        say("connecting")
        yield SimpleNamespace(check=lambda program: None, described="two nodes", asked=cluster)

    module = Tuned()
    module.story = [
        ("trial-1", 1e-3, TrialReport(500, 20.0)),
        ("trial-2", 1e-4, TrialReport(500, 10.0)),
        ("trial-1", 1e-3, TrialReport(1000, 40.0, ended=True)),
    ]
    monkeypatch.setattr("tau_trainer.training.elsewhere.connected", connected)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("tau_trainer.search.tuning", module, raising=False)
    return module


def test_a_table_the_best_settings_and_where_they_are(tuned: Tuned, capsys: pytest.CaptureFixture[str]) -> None:
    words = "sweep pole.yaml --trials 3 --jobs 2 --cluster local:2 --set hyperparameters.beta=0.01 --seed 7"
    assert main(words.split()) == 0
    shown = capsys.readouterr()
    assert "two nodes" in shown.err
    assert "trial-1 50%: reward 20" in shown.err
    assert shown.out.splitlines()[0].split() == ["trial", "learning_rate", "decisions", "mean", "reward"]
    assert "Best by mean reward: trial-1; to train with its settings, run: tau-train learn" in shown.out
    assert "continue it with --resume" in shown.out, "of three trials two have come"
    [call] = tuned.calls
    assert (call["jobs"], call["resume"], call["connection"].asked.address) == (2, False, "local:2")
    assert call["settings"].env_settings.seed == 7
    assert call["settings"].behaviors["CartPole-v1"].hyperparameters.beta == 0.01
    best = load_settings("results/sweep-pole/best.yaml")
    assert best.behaviors["CartPole-v1"].hyperparameters.learning_rate == 1e-3
    assert Path("results/sweep-pole/tune").is_dir()


def test_it_goes_on_with_the_newest_until_there_is_nothing_to_do(
    tuned: Tuned, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned.over = ()
    assert main(["sweep", "pole.yaml", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert {trial["ended"] for trial in first["trials"]} == {"finished", "unfinished"}
    tuned.over = ("trial-1", "trial-2")
    assert main(["sweep", "pole.yaml", "--resume", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["complete"], found["best"]) == (True, "trial-1")
    assert [call["resume"] for call in tuned.calls] == [False, True]
    assert not Path("results/sweep-pole/tune").exists(), "there is nothing to go on with"
    assert main(["sweep", "pole.yaml", "--resume"]) == 2
    assert "is complete; start a new one without --resume" in capsys.readouterr().err
    assert main(["sweep", "pole.yaml", "--quiet"]) == 0
    assert tuned.calls[-1]["folder"].name == "sweep-pole-2"


def test_no_trial_could_be_run(tuned: Tuned, capsys: pytest.CaptureFixture[str]) -> None:
    tuned.story = [("trial-1", 1e-3, TrialReport(ended=True, error="no such game"))]
    tuned.over = ("trial-1",)
    assert main(["sweep", "pole.yaml"]) == 2
    assert "error: every trial failed, the first with: no such game" in capsys.readouterr().err


def test_nothing_is_left_of_one_that_could_not_begin(tuned: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tuned, "run_trials", fail)
    assert main(["sweep", "pole.yaml"]) == 130
    assert list(Path("results").iterdir()) == []


def test_what_has_reported_stays_where_it_is_broken_off(tuned: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a second Ctrl-C; the first asks for the end."""
    asked: list[str] = []
    monkeypatch.setattr(tuned, "interrupt", lambda: asked.append("to end"), raising=False)
    run = tuned.run_trials

    def pressed_twice(*args: Any, **given: Any) -> None:
        run(*args, **given)
        signal.raise_signal(signal.SIGINT)
        assert asked == ["to end"]
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(tuned, "run_trials", pressed_twice)
    assert main(["sweep", "pole.yaml"]) == 130
    assert asked == ["to end"]
    assert Path("results/sweep-pole/reports.jsonl").is_file()


def test_it_goes_on_where_the_file_lets_results_be(tuned: Tuned) -> None:
    Path("pole.yaml").write_text(f"{FILE}checkpoint_settings: {{results_dir: elsewhere}}\n")
    tuned.over = ()
    assert main(["sweep", "pole.yaml", "--quiet"]) == 0
    assert main(["sweep", "pole.yaml", "--quiet", "--resume"]) == 0
    assert [str(call["folder"]) for call in tuned.calls] == [str(Path("elsewhere/sweep-pole"))] * 2


def test_pairs_play_the_engine_that_parallel_would(tuned: Tuned) -> None:
    words = f"sweep tau3 --set sweep.metric=accuracy --set sweep.space={{{RATE}:{{uniform:[1e-4,1e-3]}}}}"
    tuned.story = [("trial-1", 1e-3, TrialReport(500, 20.0, 0.5, ended=True))]
    assert main(words.split()) == 0
    assert tuned.calls[0]["settings"].env_settings.env_path == "headless:tau"
    assert tuned.calls[0]["settings"].tau is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sweep CartPole", "there is no section sweep in these settings"),
        ("sweep pole.yaml --jobs 0", "--jobs 0: must be at least 1"),
        ("sweep pole.yaml --resume", "there is no sweep to resume"),
        ("sweep pole.yaml --cluster nowhere", "--cluster must be local"),
        (
            "sweep pole.yaml --set sweep.space={hyperparameters.betta:{choice:[1]}}",
            "sweep.space: hyperparameters.betta: unknown key",
        ),
        (
            "sweep pole.yaml --set sweep.space={hyperparameters.beta:{uniform:[-1,1]}}",
            "sweep.space: hyperparameters.beta must be",
        ),
    ],
)
def test_what_is_refused_before_anything_begins(words: str, said: str, tuned: Tuned, refused: Refused) -> None:
    assert said in refused(words)
    assert tuned.calls == []
    assert not Path("results").exists()


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "pandas" else SimpleNamespace())
    said = "needs Ray Tune, and pandas is missing; install it with: pip install 'tau-trainer[sweep]'"
    assert said in refused("sweep pole.yaml")
    assert not Path("results").exists()
