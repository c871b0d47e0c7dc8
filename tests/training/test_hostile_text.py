"""What an engine, a node or a file says is shown by every command, and steers no terminal."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.cli.messages import tell
from tau_trainer.console import Console
from tau_trainer.errors import ActorError, EngineExitedError, SettingsError
from tau_trainer.headless.args import parse_args
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import Scene
from tau_trainer.headless.scenes import create_scene
from tau_trainer.metrics import JsonLines, MetricsHub, terminal_recorder
from tau_trainer.metrics.status import StatusFile
from tau_trainer.metrics.summary import Event
from tau_trainer.specs import Actions, StepBatch
from tests.report.conftest import write_run
from tests.training.fakes import SceneEngine, Stage
from tests.training.hostile import EVIL, RESULT, SNAPSHOT, clean

TOLD = "Evil\\u001b]0;owned\\u0007\\u001b[2J\\u009b31m\\nwarning: all is lost\\r\\u202e[red]x[/red]"
SMALL = ["--max-steps", "200", "--seed", "1", "--set", "behaviors.*.summary_freq=50"]


class Renamed(Scene):
    """A scene whose behavior has another name."""

    def __init__(self, scene: Scene, name: str) -> None:
        self._scene, self._name = scene, name
        self.specs = tuple(replace(spec, name=name) for spec in scene.specs)
        self.agents = scene.agents

    def seed(self, seed: int) -> None:
        self._scene.seed(seed)

    def reset(self, parameters: EnvironmentParameters) -> list[StepBatch]:
        return [replace(batch, behavior=self._name) for batch in self._scene.reset(parameters)]

    def step(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        batches = self._scene.step(dict.fromkeys([self._scene.specs[0].name], actions[self._name]))
        return [replace(batch, behavior=self._name) for batch in batches]

    def update(self, parameters: EnvironmentParameters) -> None:
        self._scene.update(parameters)

    def stats(self) -> Any:
        return self._scene.stats()


@pytest.fixture
def hostile(stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stage:
    """Engines whose behavior has a hostile name, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")

    def make(*given: Any, **more: Any) -> Scene:
        return Renamed(create_scene(parse_args(["--scene", "basic"]), EnvironmentParameters(), seed=1), EVIL)

    monkeypatch.setattr("tests.training.fakes.create_scene", make)
    return stage


def test_a_hostile_behavior_is_trained_and_looked_at(hostile: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "--env", "headless:basic", "--run-id", "run", *SMALL]) == 0
    out, err = map(clean, capfd.readouterr())
    assert f"[INFO] {TOLD}. Step: " in out
    for command in (["status", "run"], ["export", "run"], ["report", "run"], ["plot", "run"], ["evaluate", "run"]):
        main(command)
        out, err = map(clean, capfd.readouterr())
        assert out + err
    assert main(["status", "run", "--json"]) == 0
    told = json.loads(clean(capfd.readouterr().out))
    assert told["run"]["behaviors"][0]["name"] == EVIL, "JSON keeps what there is"
    page = Path("results", "run", "report.html").read_text("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)
    more = ["--resume", "--max-steps", "300", "--json"]
    assert main(["learn", "--env", "headless:basic", "--run-id", "run", *more]) == 0
    out, err = map(clean, capfd.readouterr())
    assert json.loads(out.splitlines()[-1])["type"] == "result"
    assert json.loads(out.splitlines()[-1])["run_id"] == "run"
    assert all(isinstance(json.loads(line), dict) for line in out.splitlines())


def test_what_an_engine_fails_with_is_a_line(hostile: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    async def fail(engine: SceneEngine) -> None:
        raise EngineExitedError(f"engine {engine.index} said {EVIL}")

    hostile.before_step = fail
    assert main(["learn", "--env", "headless:basic", "--run-id", "run", "--max-lifetime-restarts", "1", *SMALL]) != 0
    out, err = map(clean, capfd.readouterr())
    assert TOLD in out + err


@pytest.mark.parametrize("mode", ["live", "plain", "quiet"])
@pytest.mark.parametrize("colours", [True, False])
def test_the_terminal_of_a_run(mode: Any, colours: bool) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=colours, width=200, height=60)
    recorder = terminal_recorder(mode, console=console)
    with MetricsHub([recorder]) as hub:
        hub.warning(EVIL)
        hub.event("pair", message=EVIL)
        hub.episode(EVIL, 0, [1.0], [5])
        hub.flush(EVIL, 100)
        recorder.on_event(Event("error", 0.0, {"message": EVIL}))
        recorder.on_snapshot(SNAPSHOT)
        hub.result(RESULT)
    assert "owned" in clean(file.getvalue(), colours=colours)


def test_a_hostile_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("results", "run")
    folder.mkdir(parents=True)
    (folder / "configuration.yaml").touch()
    file = StatusFile(folder / "status.json")
    file.on_snapshot(SNAPSHOT)
    told = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**told, "host": EVIL, "outcome": EVIL}))
    for command in (["status", "run"], ["status", "run", "--json"], ["status", "run", "--watch"]):
        assert main(command) == 0
        out, _ = map(clean, capfd.readouterr())
        assert "owned" in out


def spoiled(value: Any) -> Any:
    """Every text and every key of JSON with hostile text behind it."""
    if isinstance(value, str):
        return value + EVIL
    if isinstance(value, dict):
        return {name: spoiled(inner) for key, inner in value.items() for name in (key, f"{key}{EVIL}")}
    return [*map(spoiled, value)] if isinstance(value, list) else value


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    "command",
    [
        ["report", "run"],
        ["plot", "run"],
        ["evaluate", "run"],
        ["export", "run"],
        ["hub", "push", "run", "me/run", "--dry-run", "x"],
    ],
)
def test_hostile_files_of_a_run(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_run(tmp_path / "results" / "run")
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        hub.add(EVIL, f"Environment/{EVIL}", 2.0)
        hub.episode(EVIL, 0, [1.0], [5])
        hub.flush(EVIL, 6000)
        hub.event("note", message=EVIL)
    for name in ("evaluation.json", "run.json"):
        (folder / name).write_text(json.dumps(spoiled(json.loads((folder / name).read_text()))))
    code = main(command)
    out, err = map(clean, capfd.readouterr())
    assert code in (0, 2), err
    assert out + err
    for page in folder.rglob("*.html"):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page.read_text("utf-8"))
    for card in Path().rglob("README.md"):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", card.read_text("utf-8").split("\n---\n", 1)[1])


@pytest.mark.parametrize(
    "command",
    [
        ["status", EVIL], ["evaluate", EVIL], ["check", EVIL], ["learn", "--resume", "--run-id", EVIL], [EVIL],
        ["learn", f"--{EVIL}"], ["learn", "--set", f"{EVIL}=1"], ["headless", "--scene", EVIL], ["match", EVIL, EVIL],
    ],
)  # fmt: skip
def test_words_of_the_command_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    out, err = map(clean, capfd.readouterr())
    assert out + err


def test_a_hostile_settings_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evil.yaml"
    path.write_text(json.dumps({"behaviors": {EVIL: {EVIL: 1, "trainer_type": EVIL}}, EVIL: 5}), "utf-8")
    for command in ("check", "learn", "upgrade"):
        main([command, str(path)])
        out, err = map(clean, capfd.readouterr())
        assert command == "upgrade" or "owned" in out + err
    path.write_text(json.dumps({"behaviors": {EVIL: {}}}), "utf-8")
    assert main(["check", str(path)]) in (0, 2)
    assert "owned" in clean("".join(capfd.readouterr()))


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ActorError(f"actor 1 on {EVIL} failed: {EVIL}"),
        lambda: ExceptionGroup(EVIL, [ActorError(EVIL), EngineExitedError(EVIL)]),
        lambda: RuntimeError(EVIL),
        lambda: SettingsError(f"2 problems in the settings:\n  {EVIL}\n  b", (EVIL, "b")),
    ],
)
def test_what_an_actor_or_a_defect_says(
    make: Callable[[], BaseException], debug: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        raise make()
    except BaseException as error:
        tell(error, debug=debug)
    out, err = capfd.readouterr()
    clean(err, traceback=debug)
    assert out == ""
    assert "owned" in err
    if not debug:
        lines = err.splitlines()
        assert all(line.startswith(("error: ", "  ")) for line in lines)
