"""``tau-train check-env``: what it shows, and its exit codes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tau_trainer.cli import main

GAME = '''
import torch
from tests.envs.batched.counting import Counting
from tests.envs.batched.test_comparing import CountingTwin

class Good(Counting):
    """Nothing is wrong."""

class Odd(Counting):
    """Waits for the device, and remembers."""
    def advance(self, state, actions, draws):
        if bool(state["sum"].any()):
            self.calls = getattr(self, "calls", 0) + 1
        return super().advance(state, actions, draws)

class Shapeless(Counting):
    def observe(self, state):
        return super().observe(state)[:, 0]

class Unspaced(Counting):
    def __init__(self, num_envs, **options):
        super().__init__(num_envs, **options)
        del self.action_space

class Neither:
    pass

class Wrong(CountingTwin):
    def __init__(self, *, limit=6):
        super().__init__(limit=limit, wrong="rewards")

class Long(Counting):
    def advance(self, state, actions, draws):
        found = super().advance(state, actions, draws)
        return found._replace(terminated=found.terminated & False, truncated=found.truncated & False)
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "check_env_game.py").write_text(GAME)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    yield
    sys.modules.pop("check_env_game", None)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    code = main(["check-env", "--steps", "15", *words])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_what_has_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, err = said(capsys, "check_env_game:Good", "limit=3", "--copies", "4")
    assert code == 0
    assert err == "checking check_env_game:Good\n"
    assert lines[0] == "check_env_game:Good: 2 agents, observations Box [2] float32, actions Discrete(3)"
    assert lines[1].startswith("4 copies, 15 steps each on cpu; ")
    assert lines[1].endswith(" episodes ended")
    assert len(lines) == 12
    assert all(line.startswith("  ok     ") for line in lines[2:-1])
    assert lines[-1] == "check_env_game:Good: no fault found"


def test_faults_are_sentences_below_what_they_are_about(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, _ = said(capsys, "check_env_game:Odd")
    assert code == 1
    at = lines.index("  fault  nothing is changed in place, or remembered outside of the state")
    assert lines[at + 1] == " " * 11 + "advance changes self.calls; keep a copy's data in its state"
    assert "  fault  no step waits for the device, and constants are on it" in lines
    assert "  -      a copy among many plays as it does alone: not checked" in lines
    assert lines[-1] == "check_env_game:Odd: 2 faults found"
    assert all(len(line) <= 100 and line == line.rstrip() for line in lines)


def test_what_could_not_be_looked_at_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, _ = said(capsys, "check_env_game:Shapeless", "--against", "check_env_game:Good")
    assert code == 1
    assert lines[1] == "  ok     agents and spaces"
    assert lines[2] == "  fault  tensors have their shapes and types, and finite numbers"
    assert "  -      equal to check_env_game:Good, within 0.0001: not checked" in lines
    assert lines[-1] == "check_env_game:Shapeless: 1 fault found"
    code, lines, _ = said(capsys, "check_env_game:Unspaced")
    assert code == 1
    assert lines[:3] == [
        "check_env_game:Unspaced",
        "  fault  agents and spaces",
        " " * 11 + "__init__ does not set self.action_space; set it there",
    ]


def test_it_is_compared_with_its_twin_or_another(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, _ = said(capsys, "cartpole", "limit=5")
    assert code == 0
    assert "  ok     equal to its twin in numpy, within 0.0001" in lines
    assert "  ok     pictures" in lines
    code, lines, _ = said(capsys, "check_env_game:Good", "limit=4", "--against", "check_env_game:Wrong")
    assert code == 1
    at = lines.index("  fault  equal to check_env_game:Wrong, within 0.0001")
    found = lines[at + 1].strip()
    assert found.startswith("step 3, copy ")
    assert ", agent right: rewards is " in found
    assert found.endswith(" in check_env_game:Wrong")
    assert said(capsys, "check_env_game:Good", "--against", "check_env_game:Wrong", "--tolerance", "1")[0] == 0


def test_an_episode_that_never_ends_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines, _ = said(capsys, "check_env_game:Long")
    assert lines[1].endswith("no episode ended; also try more --steps")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["cartpol"], "error: no batched environment is named 'cartpol'; did you mean cartpole?"),
        (["cartpole", "limits=3"], "error: cartpole has no argument 'limits'; did you mean limit?"),
        (["cartpole", "limit=abc"], "error: cartpole: limit is 'abc'; it must be a whole number"),
        (["cartpole", "limit"], "error: limit: must be NAME=VALUE, an argument of cartpole"),
        (["cartpole", "--copies", "1"], "error: --copies 1: must be at least 2"),
        (["cartpole", "--tolerance", "0"], "error: --tolerance 0.0: must be more than 0"),
        (["cartpole", "--device", "gpu"], "error: device is 'gpu', which torch does not know; use cpu or cuda"),
        (
            ["cartpole", "--against", "pendulu"],
            "error: no batched environment is named 'pendulu'; did you mean pendulum?",
        ),
        (
            ["cartpole", "--against", "check_env_game:Neither"],
            "error: 'check_env_game:Neither' is neither a batched environment nor a twin with advance and observe",
        ),
        (["check_env_game:Neither"], "error: 'check_env_game:Neither' is not a subclass of "),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, err = said(capsys, *words)
    assert code == 2
    assert lines == []
    assert text in err
    assert "Traceback" not in err
