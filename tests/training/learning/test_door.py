"""Engines that somebody else starts may be the wrong ones: they are refused, and cost nobody else anything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import EngineRefusedError
from tau_trainer.runs.session import Session
from tau_trainer.settings.run import clash
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.bridge.conftest import free_port
from tests.training.fakes import WAIT_S, Memory, SceneEngine, Stage, begin, newest, pairs_of, settings_from, until
from tests.training.guests import BASIC, Guest, Join, guests, hello_and_exit

THREE = ActionSpec(0, (3,))


def shows(size: int = 5, actions: ActionSpec = THREE, name: str = "Basic?team=0") -> BehaviorSpec:
    return BehaviorSpec(name, (ObservationSpec("vector", (size,)),), actions)


RIGHT, WRONG = shows(), shows(actions=ActionSpec(2))
OTHER = (
    "behavior 'Basic' has other sensors or actions than in this run ({}); start every engine from the same build with "
    "the same arguments, or train this one in another run"
)
WRONGLY = OTHER.format("it has 2 continuous actions and no branches, not 0 continuous actions and branches of [3]")


def refused(port: int, why: str = WRONGLY) -> str:
    return f"the engine on port {port} was refused: {why}; another may join there"


class Run:
    """A run that waits for engines."""

    def __init__(self, join: Join, folder: Path, most: int, **given: Any) -> None:
        self.port, self.memory, self._join = free_port(most), Memory(), join
        chosen: dict[str, Any] = {"env_settings__env_path": f"attach:{most}", "env_settings__base_port": self.port}
        chosen |= {"env_settings__max_lifetime_restarts": 0, "run_id": "run"}
        self.session: Session = begin(settings_from(BASIC, folder, **chosen | given), self.memory, "learn")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.cancel()

    @property
    def warnings(self) -> list[str]:
        return self.memory.warnings

    def joins(self, seat: int, *shown: BehaviorSpec) -> Guest:
        """A game for a port that is open; it is not started."""
        pair = pairs_of(self.session).parallel.pairs[seat]
        until(lambda: pair.environment.absent == f"no engine has joined on port {self.port + seat}")
        return self._join(self.port + seat, *shown)

    def completes(self, decisions: int = 1000) -> None:
        """It comes to its end with the games that play, nothing was restarted, and the right behavior was learned."""
        report = self.session.wait(WAIT_S)
        assert (report.outcome, report.exit_code) == ("completed", 0)
        assert report.decisions >= decisions
        assert [pair.restarts for pair in report.pairs] == [0] * len(report.pairs)
        assert newest(report.folder, "Basic").manifest["learner"]["behavior"]["discrete_branches"] == [3]


@pytest.fixture
def join() -> Iterator[Join]:
    with guests() as made:
        yield made


def play(guest: Guest, *orders: Any) -> Guest:
    """Start it, and wait until it has done that."""
    guest.told(*orders).start()
    assert guest.rests.wait(WAIT_S)
    return guest


def test_the_only_port_is_open_again_for_the_right_one(join: Join, tmp_path: Path) -> None:
    with Run(join, tmp_path, 1) as run:
        play(run.joins(0, RIGHT), 200, "leave")
        wrong = play(run.joins(0, WRONG), 200)
        assert wrong.ended == "sent away"
        until(lambda: run.warnings[-1:] == [refused(run.port)])
        played = run.session.status().decisions
        run.joins(0, RIGHT).told("play").start()
        run.completes()
    assert played <= 201, "nothing was decided for the other"
    assert run.warnings == [f"engine 0 left; another may join on port {run.port}", refused(run.port)]


def test_every_wrong_one_of_several_is_refused(join: Join, tmp_path: Path) -> None:
    with Run(join, tmp_path, 4) as run:
        first = play(run.joins(1, RIGHT), 10)
        wrong = {0: WRONG, 2: shows(4), 3: shows(name="Basic?team=7", actions=ActionSpec(2))}
        for seat, spec in wrong.items():
            assert play(run.joins(seat, spec), 1).ended == "sent away"
        size = OTHER.format("sensor 'vector' has shape [4], not [5]")
        said = [refused(run.port), refused(run.port + 2, size), refused(run.port + 3)]
        until(lambda: run.warnings == said)
        games = [first, *(play(run.joins(seat, RIGHT), 20) for seat in wrong)]
        for game in games:
            game.told("play")
        run.completes()
    assert run.warnings[3:] == []


def test_a_behavior_whose_files_would_be_anothers_is_refused(join: Join, tmp_path: Path) -> None:
    """On Windows and macOS `basic` would write over `Basic`."""
    with Run(join, tmp_path, 2, default_settings__trainer_type="ppo") as run:
        first = play(run.joins(0, RIGHT), 10)
        assert play(run.joins(1, shows(name="basic?team=0")), 1).ended == "sent away"
        why = clash(["Basic", "basic"])
        assert why is not None
        until(lambda: run.warnings == [refused(run.port + 1, why)])
        first.told("play")
        run.completes()
    assert not (tmp_path / "run" / "basic.onnx").exists()


def test_the_first_that_plays_is_right_until_it_leaves_before_the_first_update(join: Join, tmp_path: Path) -> None:
    with Run(join, tmp_path, 2) as run:
        first = play(run.joins(0, WRONG), 20)
        assert play(run.joins(1, RIGHT), 1).ended == "sent away"
        until(lambda: len(run.warnings) == 1)
        first.told("leave").join(WAIT_S)
        until(lambda: len(run.warnings) == 2)
        right = play(run.joins(1, RIGHT), 30)
        assert not right.ended
        until(lambda: len(run.warnings) == 3)
        made = sum(pair.tally.decisions for pair in pairs_of(run.session).parallel.pairs)
        assert 30 <= made <= 31, "what was done for the other does not count"
        assert play(run.joins(0, WRONG), 1).ended == "sent away", "now it is the wrong one"
        right.told("play")
        run.completes()
    turned = "it has 0 continuous actions and branches of [3], not 2 continuous actions and no branches"
    assert run.warnings == [
        refused(run.port + 1, OTHER.format(turned)),
        f"engine 0 left; another may join on port {run.port}",
        "the run starts over with engine 1: the engine that played 'Basic' left before the first update, and this one "
        f"differs: behavior 'Basic' has other sensors or actions than in this run ({turned})",
        refused(run.port),
    ]


def test_another_game_that_left_before_the_first_update_is_not_waited_for(join: Join, tmp_path: Path) -> None:
    with Run(join, tmp_path, 1, default_settings__max_steps=100_000) as run:
        play(run.joins(0, shows(name="Else")), 20, "die")
        run.joins(0, RIGHT).told("play").start()
        run.completes()
    assert run.warnings[1:] == [
        "the run starts over with engine 0: the engine that played 'Else' left before the first update, and this one "
        "differs: another behavior"
    ]
    assert [behavior.name for behavior in run.session.status().behaviors] == ["Basic"]


def test_what_was_learned_from_stays_right(join: Join, tmp_path: Path) -> None:
    """After the first update nobody starts over, though the one that played has left."""
    with Run(join, tmp_path, 2) as run:
        play(run.joins(0, RIGHT), 70, "leave")
        until(lambda: run.session.status().policy_version)
        assert play(run.joins(1, WRONG), 1).ended == "sent away"
        run.joins(1, RIGHT).told("play").start()
        run.completes()


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (shows(name="Elsewhere"), "'Elsewhere'"),
        (shows(name="Basic?team=1", actions=ActionSpec(2)), WRONGLY),
        (BehaviorSpec("Basic", (), THREE), OTHER.format("it has 0 sensors, not 1")),
    ],
    ids=["unknown", "another team", "no sensors"],
)
def test_a_behavior_that_shows_itself_later_is_asked_too(
    join: Join, tmp_path: Path, spec: BehaviorSpec, why: str
) -> None:
    with Run(join, tmp_path, 1) as run:
        game = play(run.joins(0, RIGHT), 20, spec)
        assert game.ended == "sent away"
        until(lambda: len(run.warnings) == 1)
        assert run.warnings[0].startswith(f"the engine on port {run.port} was refused: ")
        assert why in run.warnings[0]
        run.joins(0, RIGHT).told("play").start()
        run.completes()


def test_runs_that_go_on_from_another_know_what_is_right(join: Join, tmp_path: Path) -> None:
    """The engine is the wrong one for ``--resume`` or ``--initialize-from``; the right one may still come."""
    with Run(join, tmp_path, 1) as run:
        play(run.joins(0, RIGHT), 200)
    run.session.wait(WAIT_S)
    resumes = {"checkpoint_settings__resume": True}
    begins = {"run_id": "second", "checkpoint_settings__initialize_from": "run"}
    size = OTHER.format("sensor 'vector' has shape [8], not [5]")
    for most, given, wrong, why in ((2, resumes, WRONG, WRONGLY), (1, begins, shows(8), size)):
        with Run(join, tmp_path, most, **given) as run:
            assert play(run.joins(0, wrong), 1).ended == "sent away"
            until(lambda run=run, why=why: run.warnings == [refused(run.port, why)])  # type: ignore[misc]
            run.joins(0, RIGHT).told("play").start()
            run.completes()
        assert run.warnings[1:] == []


def test_games_that_die_in_the_handshake_are_as_if_they_had_never_come(join: Join, tmp_path: Path) -> None:
    with Run(join, tmp_path, 2) as run:
        for seat in (0, 1):
            run.joins(seat)
            hello_and_exit(run.port + seat)
        until(lambda: len(run.warnings) == 2)
        game = play(run.joins(0, RIGHT), 100)
        run.joins(1)
        hello_and_exit(run.port + 1)
        until(lambda: len(run.warnings) == 3)
        game.told("play")
        run.completes()
    died = "engine {} closed the connection (crashed or was killed?); another may join on port {}"
    assert sorted(run.warnings) == sorted(died.format(seat, run.port + seat) for seat in (0, 1, 1))


def test_a_build_that_differs_from_the_others_is_not_started_again(stage: Stage, tmp_path: Path) -> None:
    """A fresh one would show the same: its pair fails, with the sentence."""

    async def differs(engine: SceneEngine) -> None:
        if engine.index == 1:
            await plays.wait()  # so that this build is known to work
            name = "Basic?team=0"
            engine.specs = {name: shows(3, name=name)}

    async def steps(engine: SceneEngine) -> None:
        if engine.exchanges > 2:
            plays.set()

    plays = asyncio.Event()
    stage.before_reset, stage.before_step = differs, steps
    two: dict[str, Any] = {"env_settings__env_path": "headless:basic", "env_settings__num_envs": 2}
    session = begin(settings_from(BASIC, tmp_path, **two), Memory(), "learn")
    report = session.wait(WAIT_S)
    assert [pair.restarts for pair in report.pairs] == [0, 0]
    assert stage.starts == [0, 1]
    failures = list(session._run.collector.parallel.failures.values())  # type: ignore[attr-defined]
    assert [type(error) for error in failures] == [EngineRefusedError]
    assert report.pairs[1].error == OTHER.format("it has a sensor 'vector', not 'Basic'")
    assert report.pairs[0].decisions >= 1000
