"""`tau-train init`: the file that it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.errors import EngineError
from tau_trainer.search.first_look import FirstLook
from tau_trainer.settings import load_settings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.training.starting import Announced
from tests.cli.conftest import Refused
from tests.waiting import until

SPEC = BehaviorSpec("A", (ObservationSpec("v", (4,)),), ActionSpec(2))


pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Announced]:
    """What a game announces that is not played."""
    found = [Announced("Walker", SPEC, (0,), 3, (), why="Because.")]
    monkeypatch.setattr(FirstLook, "run", lambda self, tell: found)
    return found


def files() -> list[str]:
    return sorted(path.as_posix() for path in Path().rglob("*"))


def test_a_game_is_looked_at_and_learn_trains_with_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    """From an empty folder to a trained policy, with the commands that it prints."""
    assert main(["init", "my_game", "--env", "gym:CartPole-v1", "--num-areas", "4", "--seconds", "0.4"]) == 0
    said = capsys.readouterr()
    assert files() == ["my_game", "my_game/CartPole-v1.yaml"]
    assert "\nCartPole-v1\n  seen: 4 agents, 4 observations, 1 discrete action (2 choices)\n" in said.out
    assert "\n  trainer_type: " in said.out
    assert "\nmy_game/CartPole-v1.yaml is written.\n" in said.out
    assert "\nNext:\n" in said.out
    check, learn = said.out.splitlines()[-2:]
    assert check.split() == ["tau-train", "check", "my_game/CartPole-v1.yaml"]
    assert learn.split() == ["tau-train", "learn", "my_game/CartPole-v1.yaml"]
    assert "the game 0%: starts" in said.err
    assert main(check.split()[1:]) == 0
    assert main([*learn.split()[1:], "--max-steps", "2200", "--quiet"]) == 0
    assert Path("results/CartPole-v1/CartPole-v1.onnx").is_file()


def test_without_a_game_it_writes_a_file_for_any(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    said = capsys.readouterr()
    assert files() == ["config.yaml"]
    assert "config.yaml is written." in said.out
    assert "It is for any game; with --env GAME, init looks at yours" in said.out
    assert "\n  tau-train learn config.yaml --env GAME\n" in said.out
    assert said.err == ""
    assert load_settings("config.yaml") == load_settings(None)
    assert main(["check", "config.yaml"]) == 0


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("headless:balance", "balance"),
        ("./builds/My Game.x86_64", "My Game"),
        ("pettingzoo:mpe2.simple_spread_v3", "simple_spread_v3"),
        ("editor", "Walker"),
        ("attach:2", "Walker"),
    ],
)
@pytest.mark.usefixtures("looked")
def test_the_file_is_called_after_the_game(env: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "a/b", "--env", env]) == 0
    assert files() == ["a", "a/b", f"a/b/{name}.yaml"]
    assert load_settings(f"a/b/{name}.yaml").env_settings.env_path == (None if env == "editor" else env)
    quoted = f"'a/b/{name}.yaml'" if " " in name else f"a/b/{name}.yaml"
    said = capsys.readouterr().out
    assert f"\n  tau-train learn {quoted}\n" in said
    assert "\nWalker\n  seen: 3 agents, 4 observations, 2 continuous actions\n  trainer_type: ppo. Because.\n" in said


def test_the_editors_file_is_called_after_its_first_behavior_alone(looked: list[Announced]) -> None:
    looked.append(Announced("Other", SPEC, (0,), 3, ()))
    for name in ("Other.yaml", "ppo.yaml"):
        Path(name).write_text("mine")
    assert main(["init", "--env", "editor", "--seconds", "0.1"]) == 0
    assert files() == ["Other.yaml", "Walker.yaml", "ppo.yaml"]


def test_a_hostile_name_is_neither_a_path_nor_a_steering_sequence(
    looked: list[Announced], capsys: pytest.CaptureFixture[str]
) -> None:
    looked[:] = [Announced("../\x1b[31mX\nY: 1", SPEC, (0,), 3, ())]
    assert main(["init", "a", "--env", "editor"]) == 0
    (file,) = Path("a").iterdir()
    assert file.parent.resolve() == Path("a").resolve()
    said, text = capsys.readouterr(), file.read_text("utf-8")
    assert not any("\x1b" in each for each in (said.out, said.err, text, file.name))
    assert list(load_settings(file).behaviors) == ["../\x1b[31mX\nY: 1"]


@pytest.mark.usefixtures("looked")
def test_machines_get_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--env", "game", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out) == {
        "file": "game.yaml",
        "behaviors": {"Walker": {"seen": "3 agents, 4 observations, 2 continuous actions", "trainer_type": "ppo"}},
        "next": ["tau-train check game.yaml", "tau-train learn game.yaml"],
    }


@pytest.mark.parametrize("flag", ["--quiet", "--json"])
@pytest.mark.parametrize(("env", "said"), [("game", ""), ("editor", "press Play\n")])
def test_quiet_says_only_when_to_press_play(
    flag: str,
    env: str,
    said: str,
    looked: list[Announced],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look(self: FirstLook, tell: Any) -> list[Announced]:
        self._say("press Play")
        return looked

    monkeypatch.setattr(FirstLook, "run", look)
    assert main(["init", "--env", env, flag]) == 0
    assert capsys.readouterr().err == said


def test_an_existing_file_is_refused_before_the_game_starts_and_force_writes_over_it(
    looked: list[Announced], refused: Refused, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FirstLook, "run", lambda self, tell: pytest.fail("it started"))
    Path("game.yaml").write_text("mine")
    refused("init --env game")
    monkeypatch.setattr(FirstLook, "run", lambda self, tell: looked)
    assert main(["init", "--env", "game", "--force", "--quiet"]) == 0
    assert list(load_settings("game.yaml").behaviors) == ["Walker"]
    assert files() == ["game.yaml"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("init", "config.yaml already exists; name another folder, or add --force to replace the file"),
        ("init there --env gym:CartPole-v1", "error: there/CartPole-v1.yaml already exists; name another folder"),
        ("init there --env editor", "there/Walker.yaml already exists; name another folder"),
        ("init my.yaml", "my.yaml: init takes a folder"),
        ("init my.yml", "my.yml: init takes a folder"),
        ("init file", "file: init takes a folder"),
        ("init file/more --env editor", "file/more: init takes a folder"),
        ("init new --env nowhere/game --seconds 0", "--seconds 0: must be a number from 0.1 up"),
        ("init new --base-port 0", "--base-port"),
    ],
)
@pytest.mark.usefixtures("looked")
def test_bad_input_is_one_sentence_and_changes_nothing(words: str, said: str, refused: Refused) -> None:
    there = ("config.yaml", "file", "there/CartPole-v1.yaml", "there/Walker.yaml")
    Path("there").mkdir()
    for name in there:
        Path(name).write_text("mine")
    assert said in refused(words)
    assert files() == sorted(["there", *there])
    assert {Path(name).read_text() for name in there} == {"mine"}


@pytest.mark.parametrize("env", ["nowhere/game", "gym:CartPoll-v9", "batched:tau", "pettingzoo:nowhere"])
def test_a_game_that_is_not_there(env: str, refused: Refused) -> None:
    refused(["init", "new", "--env", env])
    assert files() == []


@pytest.mark.parametrize("fails", [False, True])
def test_ctrl_c_writes_nothing(
    fails: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the engine ends well after it, or with an error."""

    def pressed(self: FirstLook, tell: Any) -> list[Announced]:
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: self.stopped)
        if fails:
            raise EngineError("the engine ended")
        return []

    monkeypatch.setattr(FirstLook, "run", pressed)
    assert main(["init", "new", "--env", "game"]) == 130
    said = capsys.readouterr()
    assert said.err == "stopping; nothing is written (press Ctrl-C again to quit at once)\n" + (
        "error: stopped before anything was to be saved\n"
    )
    assert said.out == ""
    assert files() == []
    assert not [thread for thread in threading.enumerate() if thread.name == "search"]


def test_a_folder_that_cannot_be_made_is_one_sentence(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: Path, **_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    assert "error: new: cannot be made (Permission denied); name another folder" in refused("init new")


def test_behaviors_that_cannot_share_a_run_are_refused_before_anything_is_made(
    looked: list[Announced], refused: Refused
) -> None:
    looked.append(Announced("walker", SPEC, (0,), 3, ()))
    assert "'Walker' and 'walker' would share files" in refused("init new --env game")
    assert files() == []
