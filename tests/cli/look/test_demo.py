"""`tau-train demo info`: what recordings are said to hold, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tau_trainer.bridge.demonstrations import write_demonstration
from tau_trainer.cli import main
from tau_trainer.cli.look.demo import facts_of, lines_of
from tests.algorithms.demonstrations import CARTPOLE, PENDULUM, balance, played, swing
from tests.cli.conftest import Refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_demonstration(tmp_path / "cart.demo", played(CARTPOLE, balance, copies=2))
    write_demonstration(tmp_path / "swing.demo", played(PENDULUM, swing, copies=2))
    return tmp_path


def test_everything_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo = played(CARTPOLE, balance, copies=2)
    assert main(["demo", "info", str(folder), "--json"]) == 0
    cart, swung = json.loads(capsys.readouterr().out)["recordings"]
    assert (cart["behavior"], cart["continuous_actions"], cart["discrete_branches"]) == ("CartPole-v1", 0, [2])
    assert cart["sensors"] == [{"name": "observation", "shape": [4], "dtype": "float32"}]
    assert cart["decisions"] == int((~demo.ended).sum())
    assert cart["episodes"] == len(demo.returns)
    assert cart["returns"] == {
        "mean": pytest.approx(demo.returns.mean()),
        "least": demo.returns.min(),
        "most": demo.returns.max(),
    }
    assert cart["lengths"] == cart["returns"], "CartPole pays one a decision"
    assert cart["cut_by_a_limit"] == int(demo.truncated.sum())
    assert (swung["behavior"], swung["continuous_actions"]) == ("Pendulum-v1", 1)
    assert main(["demo", "info", str(folder / "cart.demo")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == lines_of(cart)
    assert lines[0].startswith(f"{folder / 'cart.demo'} (0.0")
    assert lines[2] == "  actions    branches of 2"


def test_episodes_without_an_end_and_forbidden_actions_are_told(tmp_path: Path) -> None:
    demo = played(CARTPOLE, balance, copies=2)
    cut = len(demo) - int(np.flatnonzero(demo.begins)[-1]) - 1  # the last episode but for its end
    rows = slice(len(demo) - cut - 1, len(demo) - 1)
    open_one = replace(
        demo,
        obs=tuple(sensor[rows] for sensor in demo.obs),
        **{name: getattr(demo, name)[rows] for name in ("reward", "begins", "ended", "truncated")},
        actions=type(demo.actions)(demo.actions.continuous[rows], demo.actions.discrete[rows]),
        mask=np.zeros((cut, 2), np.bool_),
    )
    path = tmp_path / "open.demo"
    path.write_bytes(b"x")
    facts = facts_of(path, open_one)
    assert (facts["episodes"], facts["without_end"], facts["decisions"]) == (0, 1, cut)
    assert (facts["returns"], facts["lengths"]) == (None, None)
    lines = lines_of(facts)
    assert lines[2] == "  actions    branches of 2; some were forbidden"
    assert lines[4] == "  episodes   0, 1 without end"
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("name", "said"),
    [("nothing.demo", "there is no demonstration"), ("", "holds no .demo file"), ("bad.demo", "is damaged or invalid")],
)
def test_what_is_no_recording_is_one_sentence(tmp_path: Path, name: str, said: str, refused: Refused) -> None:
    if name == "bad.demo":
        (tmp_path / name).write_bytes(b"\xff" * 50)
    assert said in refused(["demo", "info", str(tmp_path / name)])
