"""Actors in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.settings import AsyncTrainerSettings, DQNTrainerSettings, NetworkSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.training.actors.manager import ActorPair
from tau_trainer.training.actors.pusher import exploring
from tests.trainers import processes
from tests.training.actors.runs import actors_of, gone, playing, saved, settings_of, train_long
from tests.training.fakes import WAIT_S, Memory, begin, until

pytestmark = pytest.mark.slow


def test_an_actor_that_is_asked_to_end_is_looked_after_at_once() -> None:
    woken = list[bool]()
    actor = ActorPair.__new__(ActorPair)
    actor.process = cast(Any, SimpleNamespace(wake=lambda: woken.append(actor.finishing)))
    actor.finish()
    assert woken == [True]


def test_a_killed_actor_is_named_at_once_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(RestartBudget, "PROOF_STEPS", 10)
    memory = Memory()
    session = begin(settings_of(tmp_path, env_settings__env_args=["seconds=0.001"]), memory, "learn")
    until(lambda: playing(session))
    victim, other = actors_of(session)
    pid = victim.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: any("actor 0 ended by SIGKILL" in warning for warning in memory.warnings))
    before, after = victim.tally.decisions, other.tally.decisions
    until(lambda: other.tally.decisions > after)
    until(lambda: victim.tally.decisions > before)
    assert victim.process.pid not in (None, pid)
    assert victim.process.restarts == 1
    again = victim.process.pid
    assert again is not None
    os.kill(again, signal.SIGKILL)
    second = "starting it again in 0.01 s (restart 2)"  # for it has worked meanwhile
    until(lambda: any(second in warning for warning in memory.warnings))
    session.cancel()
    report = session.wait(WAIT_S)
    assert report.exit_code == 0
    assert report.pairs[0].restarts == 2
    told = [event.fields for event in memory.events if "restart" in event.fields]
    assert [(fields["pair"], fields["restart"]) for fields in told] == [(0, 1), (0, 2)]
    learner = saved(tmp_path)
    assert learner["algorithm"]["seen"] == learner["samples"], "what it had pushed is there"


def test_one_whose_environment_hangs_is_ended_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step in a thread cannot be ended; the process that it is in can."""
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.01)
    memory = Memory()
    arguments: dict[str, Any] = {"env_settings__env_args": ["hangs_at=30", f"once={tmp_path / 'hung'}"]}
    arguments |= {"env_settings__timeout_wait": 1, "async_trainer__actors": 1, "async_trainer__max_opts": 20}
    report = train_long(settings_of(tmp_path, **arguments), memory)
    assert report.outcome == "completed"
    assert report.pairs[0].restarts == 1
    assert "actor 0 was ended: it waited 1 s for environment 0 to take a step; raise --timeout-wait" in "".join(
        memory.warnings
    )


def test_a_stopped_one_is_ended_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.01)
    memory = Memory()
    arguments: dict[str, Any] = {"env_settings__env_args": ["seconds=0.001"], "env_settings__timeout_wait": 1}
    session = begin(settings_of(tmp_path, **arguments), memory, "learn")
    until(lambda: playing(session))
    victim = actors_of(session)[0]
    pid = victim.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    until(lambda: any("actor 0 showed no life for 1 s" in warning for warning in memory.warnings))
    assert gone(pid)
    before = victim.tally.decisions
    until(lambda: victim.tally.decisions > before)
    session.cancel()
    assert session.wait(WAIT_S).exit_code == 0


def test_a_killed_trainer_takes_its_actors_along(tmp_path: Path) -> None:
    settings_of(tmp_path)
    words = ["--run-id", "run", "--results-dir", str(tmp_path), "--quiet"]
    words += ["--set", "async_trainer.n_buffer=100000", "--set", "async_trainer.actors=1"]  # it says nothing by itself
    words += ["--env-args", "seconds=0.01"]
    trainer = subprocess.Popen(
        [sys.executable, "-m", "tau_trainer", "learn", str(tmp_path / "settings.yaml"), *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    logs = tmp_path / "run" / "run_logs"
    try:
        until(lambda: (tmp_path / "run" / "log.jsonl").is_file() and processes("actor", trainer.pid))
        until(lambda: '"Training"' in (tmp_path / "run" / "log.jsonl").read_text())
        actors = processes("actor", trainer.pid)
        assert len(actors) == 1
    finally:
        trainer.kill()
        trainer.wait()
    until(lambda: all(_ended(pid) for pid in actors))
    assert (logs / "Actor-0.log").read_text() == ""


def _ended(pid: int) -> bool:
    """Gone, or waiting only for whoever adopted it to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_each_actor_explores_in_its_own_way() -> None:
    """The same weights, one actor that takes the best and one that takes anything; border's Atari actors differ so."""
    spec = BehaviorSpec("One", (ObservationSpec("sight", (2,)),), ActionSpec(discrete_branches=(4,)))
    settings = DQNTrainerSettings(network_settings=NetworkSettings(hidden_units=8))
    each = tuple({"type": "eps_greedy", "eps": eps} for eps in (0.0, 1.0))
    own = AsyncTrainerSettings(actors=2, exploration=each)
    weights, chosen = make_algorithm(Setup(spec, settings, seed=1)).weights(), list[Any]()
    for actor in range(2):
        acting = make_algorithm(Setup(spec, exploring(settings, own.exploration_of(actor)), seed=1))
        policy = acting.policy({name: values.copy() for name, values in weights.items()}, 0)
        same = (np.tile(np.array([0.3, -0.7], np.float32), (1000, 1)),)
        chosen.append(np.bincount(policy.act(same, None, np.random.default_rng(0)).discrete[:, 0], minlength=4))
    assert np.sort(chosen[0]).tolist() == [0, 0, 0, 1000]
    assert chosen[1].min() > 150
