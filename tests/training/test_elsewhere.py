"""Where actors run: how many fit, what is refused, and that nobody pays for a cluster who has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tau_trainer.errors import ClusterError, SettingsError
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.training.elsewhere import machines_of
from tau_trainer.training.plan import RunKind, make_plan
from tests.waiting import HANG_S

FILE = """
behaviors: {A: {trainer_type: sac}}
env_settings: {env_path: "gym:CartPole-v1"}
cluster: {address: local}
"""


class Cluster:
    """A connection, as far as it is asked here."""

    room = 4
    described = "here has 4 CPU, 1 CPU for each process"

    def __init__(self) -> None:
        self.checked: list[str | None] = []
        self.closed = 0
        self.place: Any = SimpleNamespace

    def check(self, program: str | None) -> None:
        self.checked.append(program)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr("tau_trainer.cluster.connection.Cluster", lambda settings: found)
    return found


def load(folder: Path, **overrides: Any) -> RunSettings:
    path = folder / "a.yaml"
    path.write_text(FILE, "utf-8")
    return load_settings(path, {key.replace("__", "."): value for key, value in overrides.items()})


def placed(settings: RunSettings, command: RunKind = "learn") -> tuple[RunSettings, list[str]]:
    """Settings as they are on a cluster, and what was said."""
    said = list[str]()
    with machines_of(command, settings, said.append) as (found, places):
        assert places is not None
    return found, said


def test_as_many_actors_as_nodes_have_room_for_and_one_that_evaluates(tmp_path: Path, cluster: Cluster) -> None:
    settings, said = placed(load(tmp_path))
    assert settings.async_trainer.actors == 3
    assert said == [
        "starting a private Ray cluster on this machine (local)",
        "3 actors (execution: async) on here has 4 CPU, 1 CPU for each process",
    ]
    assert placed(load(tmp_path, async_trainer__eval_interval=0))[0].async_trainer.actors == 4
    settings, said = placed(load(tmp_path, async_trainer__actors=1, cluster__address="head:6379"))
    assert settings.async_trainer.actors == 1
    assert said[0] == "connecting to the Ray cluster at head:6379"
    assert said[1].startswith("1 actor (execution: async) on ")
    assert (cluster.checked, cluster.closed) == ([None] * 3, 3)
    assert make_plan("learn", settings, tmp_path).pairs == 1


def test_more_than_fit_are_refused_before_anything_waits(tmp_path: Path, cluster: Cluster) -> None:
    text = r"^the cluster has room for 4 processes, but you ask for 4 actors and one that evaluates \(eval_interval: 0 "
    text += r"removes it\)"
    with pytest.raises(ClusterError, match=text + ": here has 4 CPU, .*; lower --actors or cluster.resou"):
        placed(load(tmp_path, async_trainer__actors=4))
    assert cluster.closed == 1


def test_pairs_are_as_many_actors_so_many_at_a_time(tmp_path: Path, cluster: Cluster) -> None:
    given = {"cluster.address": "local", "env_settings.env_path": "headless:tau", "tau.pairs": 6}
    settings, _ = placed(load_settings("tau3", given), "parallel")
    plan = make_plan("parallel", settings, tmp_path)
    assert (plan.pairs, plan.max_concurrent, settings.async_trainer.eval_interval) == (6, 4, 0)
    assert plan.asynchronous
    assert plan.engine_args == plan.task.engine_args(()) if plan.task is not None else False
    with pytest.raises(
        ClusterError, match=r"room for 4 processes, but you ask for 5 pairs at a time: .* lower --max-concurrent or"
    ):
        placed(load_settings("tau3", given | {"tau.max_concurrent": 5}), "parallel")
    with pytest.raises(SettingsError, match=r"^parallel does not run in lock_step on a cluster; remove"):
        placed(load_settings("tau3", given | {"async_trainer.mode": "lock_step"}), "parallel")
    computed = load_settings("tau3", given | {"env_settings.env_path": "batched:tau", "tau.policy": "independent"})
    with pytest.raises(SettingsError, match=r"^--env batched:tau is one computation on this machine; remove"):
        make_plan("parallel", computed, tmp_path)


@pytest.mark.parametrize("kind", ["", "unreal:", "godot:"])
def test_a_build_is_looked_for_by_its_whole_path(
    kind: str, tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the nodes: here there may be none."""
    monkeypatch.chdir(tmp_path)
    settings, _ = placed(load(tmp_path, env_settings__env_path=f"{kind}builds/game"))
    assert cluster.checked == [str(tmp_path / "builds" / "game")]
    assert settings.env_settings.env_path == f"{kind}{cluster.checked[0]}"
    make_plan("learn", settings, tmp_path)


def test_who_plays_what_was_learned_needs_no_cluster(tmp_path: Path) -> None:
    settings = load(tmp_path, checkpoint_settings__inference=True)
    with machines_of("learn", settings, print) as (same, places):
        assert (same, places) == (settings, None)


def test_without_a_cluster_nothing_of_it_is_loaded() -> None:
    """Neither Ray nor what speaks with it."""
    program = """
import sys
import tau_trainer.cli.train.learn, tau_trainer.training.api, tau_trainer.training.pairs.collector
from tau_trainer.settings import RunSettings
from tau_trainer.training.elsewhere import machines_of
with machines_of("learn", RunSettings(execution="async"), print):
    print(sorted(name for name in sys.modules if name.partition(".")[0] == "ray" or "tau_trainer.cluster" in name))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True, timeout=HANG_S
    )
    assert told.stdout == "[]\n"
