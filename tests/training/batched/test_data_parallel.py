"""Ranks with a share of the copies each are one process with all of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.errors import SettingsError
from tau_trainer.metrics import MetricsHub, Summary, keys
from tau_trainer.settings.run import RunSettings
from tau_trainer.training.batched.api import train_batched
from tau_trainer.training.batched.playing import Playing
from tau_trainer.training.batched.policies import PolicyEntry
from tau_trainer.training.learning.learner import Shared
from tests.algorithms.batched.together import Threads, together
from tests.remembering import Memory
from tests.trainers import processes
from tests.training.fakes import newest

COUNTING = "tests.envs.batched.counting:Counting"
PPO = {"batch_size": 40, "buffer_size": 192, "num_epoch": 2, "learning_rate": 1e-3}


def settings(environment: str = COUNTING, num_envs: int = 12, **policy: Any) -> RunSettings:
    return RunSettings.model_validate(
        {
            "environment": {"name": environment, "num_envs": num_envs},
            "behaviors": {
                "all": {"network_settings": {"hidden_units": 16, "num_layers": 1}, "max_steps": 10_000, **policy}
            },
            "env_settings": {"seed": 5},
        }
    )


def ppo(**numbers: Any) -> dict[str, Any]:
    return {"trainer_type": "ppo", "hyperparameters": {**PPO, **numbers}}


def a2c(**numbers: Any) -> dict[str, Any]:
    return {"trainer_type": "a2c", "hyperparameters": {"buffer_size": 192, "learning_rate": 1e-2, **numbers}}


def trained(chosen: RunSettings, ranks: Ranks, updates: int) -> dict[str, Any]:
    """What one rank comes to."""
    recorder = Memory()
    playing = Playing(chosen, ranks, Shared(MetricsHub([recorder])))
    entry = playing.policies[0]
    if not ranks.first:
        with contextlib.suppress(threading.BrokenBarrierError):
            playing.follow()
        assert not told_by(entry), "what nobody reads does not grow"
        playing.shared.hub.close()  # recorders have everything then
        return {"arrays": entry.learner.algorithm.state()[0], "told": newest_in(recorder.summaries[0])}
    while entry.learner.version < updates:
        playing.advance()
    found = {"episodes": playing.count_episodes(), "copies": playing.copies_state()}
    if isinstance(ranks, Threads):
        ranks.over()
    return {"arrays": entry.learner.algorithm.state()[0], "told": told_by(entry)} | found


def told_by(entry: PolicyEntry) -> dict[str, float]:
    """Statistics of the newest update, which are gone then."""
    return newest_in(entry.learner.progress.hub.flush(entry.name, 0))


def newest_in(summary: Summary) -> dict[str, float]:
    times = {keys.DECISIONS_PER_SECOND, keys.TRAIN_SECONDS, keys.UPDATE_SECONDS}
    return {name: statistics.last for name, statistics in summary.statistics.items() if name not in times}


CASES = {
    "ppo": settings(**ppo()),
    "minibatches are normalised": settings(**ppo(normalize_advantage="minibatch")),
    "nothing is clipped": settings(**ppo(max_grad_norm=None, shared_critic=True)),
    "gradients are clipped": settings(**ppo(max_grad_norm=0.01)),
    "observations are normalised": settings(**ppo(), network_settings={"normalize": True, "hidden_units": 8}),
    "continuous actions": settings("pendulum", **ppo(), network_settings={"normalize": True, "hidden_units": 8}),
    "a2c": settings(**a2c()),
    "a2c in batches": settings(**a2c(batch_size=50, normalize_advantage=True, normalize_return=True)),
}


@pytest.mark.parametrize(("case", "count"), [*((case, 2) for case in CASES), ("ppo", 3)])
def test_ranks_are_one_process(case: str, count: int) -> None:
    chosen = CASES[case]
    wanted = trained(chosen, Ranks(), 3)
    found = together(count, lambda ranks: trained(chosen, ranks, 3))
    assert wanted["episodes"] or case == "continuous actions"
    for one in found:
        for name, values in wanted["arrays"].items():
            assert one["arrays"][name] == pytest.approx(values, rel=1e-3, abs=2e-5), name
        assert one["told"] == pytest.approx(wanted["told"], rel=1e-3, abs=1e-4)
    for name, pair in wanted["episodes"].items():
        assert found[0]["episodes"][name] == pytest.approx(pair)
    for name, tensor in wanted["copies"].items():
        assert tensor.dtype == found[0]["copies"][name].dtype
        assert found[0]["copies"][name].numpy() == pytest.approx(tensor.numpy(), abs=1e-3), name
    first = found[0]["arrays"]
    assert all((one["arrays"][name] == first[name]).all() for one in found for name in first), "to the bit on all ranks"


def test_open_counts_continue_and_checkpoints_of_earlier_versions_have_no_extremes() -> None:
    chosen = settings(**ppo())
    playing = Playing(chosen)
    playing.advance()
    copies = playing.copies_state()
    resumed, older = Playing(chosen), Playing(chosen)
    resumed.load_copies(playing.collector.steps, copies)
    lowest, highest = float(copies.pop("scores.lowest").min()), float(copies.pop("scores.highest").max())
    older.load_copies(playing.collector.steps, copies)
    returns = resumed.count_episodes()["all"].returns
    assert (returns.min, returns.max) == (lowest, highest)
    unknown = older.count_episodes()["all"].returns
    assert (unknown.count, unknown.mean) == (returns.count, returns.mean)
    assert np.isnan([unknown.min, unknown.max]).all()
    for _ in range(3):
        older.advance()
    known = older.count_episodes()["all"].returns
    assert known.min <= known.mean <= known.max


def run(tmp_path: Path, run_id: str, devices: int = 1, **changes: Any) -> RunSettings:
    constant = {f"{name}_schedule": "constant" for name in ("learning_rate", "beta", "epsilon")}
    chosen = settings("cartpole", 16, **ppo(buffer_size=512, batch_size=128, **constant)).model_dump(mode="json")
    chosen |= {
        "evaluation": {"episodes": 0},
        "checkpoint_settings": {"run_id": run_id, "results_dir": str(tmp_path)},
        "devices": devices,
    }
    chosen["behaviors"]["all"] |= {"max_steps": 4096, "summary_freq": 1024, **changes}
    return RunSettings.model_validate(chosen)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run in one process."""
    return train_batched(run(tmp_path_factory.mktemp("alone"), "it"), "quiet").folder


def assert_as_alone(folder: Path, alone: Path) -> None:
    """The same policy at the end."""
    one, other = (newest(each, "all").tensors for each in (alone, folder))
    assert one.keys() == other.keys()
    for name in one:
        assert np.asarray(other[name], float) == pytest.approx(np.asarray(one[name], float), rel=1e-3, abs=1e-4), name


def test_two_processes_are_one_with_the_double_batch(tmp_path: Path, alone: Path) -> None:
    report = train_batched(run(tmp_path, "it", devices=2), "quiet")
    assert (report.outcome, report.decisions) == ("completed", 4096)
    assert not (alone / "run_logs" / "Rank-1.log").exists()
    assert (report.folder / "run_logs" / "Rank-1.log").read_text() == ""
    found = [sorted(path.name for path in (each / "checkpoints").glob("*-*")) for each in (alone, report.folder)]
    assert found[0] == found[1], "rank 0 alone writes"
    assert_as_alone(report.folder, alone)


def test_it_goes_on_with_any_number_of_devices(tmp_path: Path, alone: Path) -> None:
    train_batched(run(tmp_path, "it", max_steps=2048), "quiet")
    chosen = run(tmp_path, "it", devices=2)
    resumed = chosen.checkpoint_settings.model_copy(update={"resume": True})
    report = train_batched(chosen.model_copy(update={"checkpoint_settings": resumed}), "quiet")
    assert report.decisions == 4096
    assert_as_alone(report.folder, alone)


def test_a_dead_rank_ends_the_run_and_what_was_saved_stays(tmp_path: Path) -> None:
    def kill() -> None:
        while not list((tmp_path / "it" / "checkpoints").glob("*")):
            time.sleep(0.05)
        for child in processes("ranks"):
            os.kill(child, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    report = train_batched(run(tmp_path, "it", max_steps=10**9, checkpoint_interval=1024, devices=2), "quiet")
    assert report.outcome == "failed"
    assert report.errors[0].startswith("rank 1 of 2 ended by SIGKILL")
    assert report.exit_code != 0
    assert list((tmp_path / "it" / "checkpoints").glob("*"))


def test_ctrl_c_saves_once(tmp_path: Path) -> None:
    def press() -> None:
        while not list((tmp_path / "it" / "checkpoints").glob("*")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    report = train_batched(run(tmp_path, "it", max_steps=10**9, checkpoint_interval=1024, devices=2), "quiet")
    assert report.outcome == "cancelled"
    assert report.exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "it" / "log.jsonl").read_text().splitlines()]
    steps = [line["fields"]["step"] for line in lines if line.get("kind") == "checkpoint"]
    assert steps[-1] == report.decisions
    assert len(steps) == len(set(steps))
    assert processes("ranks") == []


def test_what_cannot_be_shared_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot divide 16 copies among 3 devices"):
        train_batched(run(tmp_path, "x", devices=3))
    with pytest.raises(SettingsError, match=r"behaviors.all.trainer_type is dqn, which learns in one process only"):
        train_batched(run(tmp_path, "x", devices=2, trainer_type="dqn", hyperparameters={}))
    assert not list(tmp_path.iterdir())
