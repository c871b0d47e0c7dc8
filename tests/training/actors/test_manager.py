"""Whole runs with actors in processes of their own: what is learned, who is named, what is lost when something dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tau_trainer import load_settings
from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import ActorError, SettingsError
from tau_trainer.evaluation.episodes import EpisodeLog
from tau_trainer.metrics import MetricsHub, PairState, RunReport, keys
from tau_trainer.models import Policy
from tau_trainer.runs.callbacks import EpisodeInfo, EvaluationInfo, LambdaCallback
from tau_trainer.runs.checkpoints import latest_checkpoint
from tau_trainer.runs.session import Session
from tau_trainer.settings import AsyncTrainerSettings, DQNTrainerSettings, NetworkSettings, RunSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.training.actors import evaluator as evaluating
from tau_trainer.training.actors import link as actor_link
from tau_trainer.training.actors.evaluator import Evaluator, _Asked
from tau_trainer.training.actors.link import ActorContext
from tau_trainer.training.actors.manager import ActorPair
from tau_trainer.training.actors.pusher import Pusher, exploring
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.policy_tracker import PolicyTracker
from tau_trainer.training.manager import ParallelTrainerManager
from tau_trainer.training.stored import export_run
from tests.remote.threads import Threads
from tests.trainers import processes
from tests.training.fakes import WAIT_S, Memory, begin, pairs_of, train, until
from tests.training.toys import START_FILE
from tests.waiting import HANG_S

pytestmark = pytest.mark.slow

FILE = """
behaviors:
  Count-v0:
    trainer_type: sac
    hyperparameters: {batch_size: 8, buffer_size: 200000, steps_per_update: 4.0, save_replay_buffer: true}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 100000
    summary_freq: 100
env_settings: {env_path: "gym:tests.training.toys:Count-v0", seed: 7, restarts_rate_limit_n: 3}
execution: async
async_trainer: {actors: 2, n_buffer: 20, eval_interval: 0, sync_interval: 10}
"""


def settings_of(results: Path, run_id: str = "run", file: str = FILE, **overrides: Any) -> RunSettings:
    """Keys with __ in place of dots."""
    config = results / "async.yaml"
    config.write_text(file, "utf-8")
    given = {"checkpoint_settings.results_dir": str(results), "checkpoint_settings.run_id": run_id}
    return load_settings(config, given | {key.replace("__", "."): value for key, value in overrides.items()})


def actors_of(session: Session) -> list[ActorPair]:
    return [cast(ActorPair, pair) for pair in pairs_of(session).parallel.pairs]


def playing(session: Session) -> bool:
    return all(actor.state is PairState.TRAINING and actor.tally.decisions for actor in actors_of(session))


def pids_of(session: Session) -> list[int]:
    return [pid for actor in actors_of(session) if (pid := actor.process.pid) is not None]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def saved(results: Path, run_id: str = "run") -> dict[str, Any]:
    checkpoint = latest_checkpoint(results / run_id / "checkpoints", "Count-v0").checkpoint
    assert checkpoint is not None
    return {**checkpoint.manifest["learner"], "pairs": checkpoint.manifest["pairs"], "tensors": checkpoint.tensors}


def test_a_run_of_ten_opts_ends_though_nothing_is_warm(tmp_path: Path) -> None:
    """border's own case: max_opts 10, warmup 10000, n_buffer 100; everything ends and is joined."""
    memory = Memory()
    warm: dict[str, Any] = {"behaviors__*__hyperparameters__buffer_init_steps": 2000}
    settings = settings_of(
        tmp_path, async_trainer__max_opts=10, **warm, async_trainer__n_buffer=100, async_trainer__actors=1
    )
    report = train_long(settings, memory)
    assert report.outcome == "completed"
    learner = saved(tmp_path)
    assert learner["opts"] == 10
    assert learner["samples"] >= 2000
    assert learner["pairs"]["0"] >= learner["samples"], "decisions, of which the last have no outcome yet"
    lines = [event.message or "" for event in memory.events if event.kind == "actors"]
    assert "samples/s" in lines[0]
    assert "10 opts" in lines[0]
    assert lines[1].startswith(f"actor 0: {report.pairs[0].decisions:,} samples, ")


def train_long(settings: RunSettings, memory: Memory | None = None) -> RunReport:
    return begin(settings, memory, "learn").wait(HANG_S)


def test_actors_play_where_messages_are_all_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the wall could be other machines; the one that evaluates is there too."""
    places: list[Threads] = []

    def threads(slots: int, weights: int) -> Threads:
        places.append(Threads(slots, weights))
        return places[-1]

    monkeypatch.setattr(actor_link, "Here", threads)
    arguments: dict[str, Any] = {"async_trainer__max_opts": 40, "async_trainer__eval_interval": 20}
    report = train_long(settings_of(tmp_path, **arguments, env_settings__env_args=["length=10"]))
    assert report.outcome == "completed"
    assert [process.target.name for process in places[0].launched] == ["actor 0", "actor 1", "the evaluator"]
    assert [process.exit_code for process in places[0].launched] == [0, 0, 0]
    learner = saved(tmp_path)
    assert learner["opts"] == 40
    assert learner["algorithm"]["seen"] == learner["samples"] > 0
    assert learner["best"] is not None


def test_what_actors_did_is_what_was_learned_from_and_environments_start_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C after a while: nothing that was acknowledged is missing, also not what actors held; the run goes on."""
    starts = tmp_path / "starts"
    monkeypatch.setenv(START_FILE, str(starts))
    arguments: dict[str, Any] = {"env_settings__env_args": ["slow_start=0.2", "seconds=0.001", "length=10"]}
    memory = Memory()
    session = begin(settings_of(tmp_path, **arguments, async_trainer__eval_interval=50), memory, "learn")
    until(lambda: playing(session) and pairs_of(session).learners[0].progress.opts > 60)
    until(lambda: pairs_of(session).learners[0].tracker.best is not None)
    pids = pids_of(session)
    manager = pairs_of(session).actors
    assert manager is not None
    status = manager.context.place.status
    session.cancel()
    report = session.wait(WAIT_S)
    assert report.outcome == "cancelled"
    assert report.exit_code == 0
    assert all(gone(pid) for pid in pids)

    words = [line.split() for line in starts.read_text().splitlines()]
    assert len(words) == 6, "two actors and an evaluator"
    assert all(
        first == ["begin", pid] and second == ["end", pid]
        for first, second, pid in ((words[i], words[i + 1], words[i][1]) for i in range(0, 6, 2))
    )

    learner = saved(tmp_path)
    data = learner["algorithm"]
    assert data["seen"] == learner["samples"] == len(learner["tensors"]["replay.rewards"])
    assert sum(learner["pairs"].values()) == learner["decisions"] == report.decisions
    made = int(status[:2, 1].sum())
    assert 0 <= made - learner["samples"] <= 4, "what actors held too; not the decisions whose outcome never came"
    assert learner["opts"] == (learner["samples"] - 8) // 4, "all that was earned"
    assert learner["best"]["rank"][0] <= 0.0

    more = settings_of(tmp_path, **arguments, checkpoint_settings__resume=True, async_trainer__actors=1)
    session = begin(more, command="learn")
    until(lambda: playing(session) and pairs_of(session).learners[0].progress.samples > learner["samples"] + 50)
    session.cancel()
    session.wait(WAIT_S)
    later = saved(tmp_path)
    assert later["algorithm"]["seen"] == later["samples"]
    assert later["opts"] == (later["samples"] - 8) // 4
    assert sum(later["pairs"].values()) == later["decisions"] > learner["decisions"]


def test_an_actor_that_is_asked_to_end_is_looked_after_at_once() -> None:
    woken = list[bool]()
    actor = ActorPair.__new__(ActorPair)
    actor.process = cast(Any, SimpleNamespace(wake=lambda: woken.append(actor.finishing)))
    actor.finish()
    assert woken == [True]


def test_actors_reach_a_criterion_and_callbacks_hear_of_what_they_played(tmp_path: Path) -> None:
    ended, scored = list[EpisodeInfo](), list[EvaluationInfo]()
    hears = LambdaCallback(on_episode_end=ended.append, on_evaluation_end=scored.append)
    enough: dict[str, Any] = {"behaviors__Count-v0__criterion": -1e9, "behaviors__Count-v0__trial_count": 30}
    episodes: dict[str, Any] = {"env_settings__env_args": ["length=10"], "async_trainer__eval_interval": 10}
    episodes["async_trainer__actors"] = 1
    memory = Memory()
    settings = settings_of(tmp_path, **enough, **episodes)
    manager = ParallelTrainerManager()
    report = manager.start(settings, "learn", recorders=lambda _: [memory], callbacks=[hears]).wait(HANG_S)
    assert report.outcome == "completed"
    assert report.decisions < 50_000
    assert any(event.kind == "criterion" for event in memory.events)
    assert len(ended) >= 30
    assert report.pairs[0].episodes == len(ended)
    assert {info.pair for info in ended} == {0}
    assert all(info.length == 10 and info.behavior == "Count-v0" for info in ended)
    assert scored
    assert all(info.scores[keys.EPISODE_RETURN] <= 0.0 for info in scored)


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


def test_one_that_dies_before_its_first_step_is_replaced_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.01)
    arguments: dict[str, Any] = {"env_settings__env_args": ["dies_at=0", f"once={tmp_path / 'died'}"]}
    report = train_long(settings_of(tmp_path, **arguments, async_trainer__max_opts=10))
    assert report.outcome == "completed"
    assert sorted(pair.restarts for pair in report.pairs) == [0, 1]


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


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_whoever_ends_the_run_waits_for_the_evaluator_for_some_seconds_alone(
    how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for one that is stopped, nor for one that waits to be started again; what was learned is saved."""
    monkeypatch.setattr(evaluating, "_HURRY_S", 0.2)
    memory = Memory()
    arguments: dict[str, Any] = {"env_settings__env_args": ["seconds=0.002"], "async_trainer__eval_interval": 10}
    arguments |= {"env_settings__timeout_wait": 1000}
    session = begin(settings_of(tmp_path, **arguments, async_trainer__actors=1), memory, "learn")
    actors = pairs_of(session).actors
    assert actors is not None
    playing_it = actors.evaluator._process
    until(lambda: actors.context.place.status[-1, 0] > 0)  # its episodes never end
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 1000.0)
    pid = playing_it.pid
    assert pid is not None
    os.kill(pid, how)
    if how is signal.SIGKILL:
        until(lambda: any("ended by SIGKILL" in warning for warning in memory.warnings))
    session.cancel()
    report = session.wait(HANG_S)
    assert report.exit_code == 0
    assert any("one has not ended within 0." in warning for warning in memory.warnings)
    assert report.verdict == f"Exported: the last policy, after {report.decisions:,} decisions."
    assert gone(pid)
    assert saved(tmp_path)["opts"] > 0


def test_an_evaluation_that_does_not_end_holds_no_run_for_ever(tmp_path: Path) -> None:
    memory = Memory()
    arguments: dict[str, Any] = {"env_settings__env_args": ["seconds=0.002"], "async_trainer__eval_interval": 10}
    session = begin(settings_of(tmp_path, **arguments, async_trainer__actors=1), memory, "learn")
    actors = pairs_of(session).actors
    assert actors is not None
    until(lambda: actors.context.place.status[-1, 0] > 0)  # its episodes never end
    object.__setattr__(pairs_of(session).plan, "stall_s", 0.2)  # the watchdog has read it already
    session._run._stop("that is enough")
    assert session.wait(WAIT_S).outcome == "completed"
    assert any("one has not ended within 0.2 s" in warning for warning in memory.warnings)


def test_when_all_actors_are_dead_the_run_ends_with_their_reason(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"env_settings__env_args": ["dies_at=30"], "env_settings__max_lifetime_restarts": 0}
    report = train_long(settings_of(tmp_path, **arguments))
    assert report.outcome == "failed"
    assert report.exit_code == 2
    assert [pair.state for pair in report.pairs] == [PairState.FAILED] * 2
    assert "actor 1 ended by SIGKILL" in (report.pairs[1].error or "")
    assert "not started again: it was restarted 0 times" in (report.pairs[1].error or "")


def test_when_all_die_before_anything_is_learned_nothing_is_left(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"env_settings__env_args": ["dies_at=3"], "env_settings__max_lifetime_restarts": 0}
    session = begin(settings_of(tmp_path, **arguments, async_trainer__actors=1), command="learn")
    with pytest.raises(ActorError, match="ended by SIGKILL"):
        session.wait(HANG_S)
    assert not session.folder.exists() or [path.name for path in session.folder.iterdir()] == ["run_logs"]


def test_a_killed_trainer_takes_its_actors_along(tmp_path: Path) -> None:
    settings_of(tmp_path)
    words = ["--run-id", "run", "--results-dir", str(tmp_path), "--quiet"]
    words += ["--set", "async_trainer.n_buffer=100000", "--set", "async_trainer.actors=1"]  # it says nothing by itself
    words += ["--env-args", "seconds=0.01"]
    trainer = subprocess.Popen(
        [sys.executable, "-m", "tau_trainer", "learn", str(tmp_path / "async.yaml"), *words],
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


def test_actors_fill_rollouts_together_and_act_with_weights_that_are_new(tmp_path: Path) -> None:
    """Pushes are small; who brings some waits for the update where that is asked for."""
    memory = Memory()
    file = FILE.replace("trainer_type: sac", "trainer_type: ppo").replace(
        "{batch_size: 8, buffer_size: 200000, steps_per_update: 4.0, save_replay_buffer: true}",
        "{batch_size: 20, buffer_size: 100, num_epoch: 2}",
    )
    chosen: dict[str, Any] = {"behaviors__Count-v0__max_steps": 1000, "async_trainer__n_buffer": 10}
    settings = settings_of(tmp_path, file=file, collection__max_policy_age=0, **chosen)
    report = train_long(settings, memory)
    assert report.outcome == "completed"
    learner = saved(tmp_path)
    assert learner["decisions"] >= 1000
    assert learner["opts"] == 10 * (updates := learner["algorithm"]["version"])
    assert 100 <= learner["samples"] / updates < 120
    ages = [told[keys.POLICY_AGE].mean for each in memory.summaries if keys.POLICY_AGE in (told := each.statistics)]
    assert ages
    assert sum(ages) / len(ages) < 0.4, "what the others had begun as a rollout became whole: 11 or 22 of 100 here"


@pytest.mark.parametrize(
    ("rollout", "mode", "expected"),
    [(100, "free", ["push", "wait", "sync"]), (0, "lock_step", ["push", "wait", "sync"]), (0, "free", ["push"])],
)
def test_an_actor_that_brings_a_part_of_a_rollout_waits_for_the_update(
    rollout: int, mode: str, expected: list[str]
) -> None:
    done: list[str] = []
    work = SimpleNamespace(sent=lambda: ({}, {}), release=lambda: None)
    trainer = SimpleNamespace(push=lambda data, arrays: done.append("push"), wait=lambda: done.append("wait"))
    pusher = SimpleNamespace(
        algorithm=SimpleNamespace(rollout_size=rollout, ready=lambda counters: work),
        actor=SimpleNamespace(policy=SimpleNamespace(version=0)),
        left=10,
        name="Count-v0",
        sync=lambda: done.append("sync"),
        _uncounted=1,
        _opts=0,
        _rollouts=rollout > 0,
        _async=SimpleNamespace(mode=mode),
        _trainer=trainer,
    )
    Pusher.push(cast(Pusher, pusher), 1)
    assert done == expected


@pytest.mark.parametrize(
    ("rollout", "mode", "least"), [(0, "free", 30), (100, "free", 30), (50, "free", 25), (99, "lock_step", 50)]
)
def test_an_actor_pushes_few_at_once_but_its_share_in_lock_step(rollout: int, mode: str, least: int) -> None:
    settings = AsyncTrainerSettings.model_validate({"actors": 2, "mode": mode, "n_buffer": 30})
    pusher = SimpleNamespace(algorithm=SimpleNamespace(rollout_size=rollout), _async=settings)
    assert Pusher._least.fget(pusher) == least  # type: ignore[attr-defined]


def test_an_exploration_that_the_algorithm_does_not_have_is_refused_in_a_sentence(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, async_trainer__actors=1, async_trainer__exploration=[{"type": "greedy"}])
    with pytest.raises(SettingsError, match="sac explores by its own noise"):
        train(settings, command="learn")


def test_an_algorithm_of_rollouts_that_does_not_say_how_large_they_are_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SAC, "on_policy", True)
    with pytest.raises(
        SettingsError, match="sac learns from its newest policy's experience, but does not say how much"
    ):
        train(settings_of(tmp_path, async_trainer__actors=1), command="learn")


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


def test_every_figure_of_the_run_is_recorded(tmp_path: Path) -> None:
    memory = Memory()
    overrides: dict[str, Any] = {"behaviors__*__summary_freq": 200}
    overrides |= {"async_trainer__max_opts": 200, "async_trainer__eval_interval": 100, "async_trainer__actors": 1}
    train_long(settings_of(tmp_path, **overrides, env_settings__env_args=["length=10", "seconds=0.001"]), memory)
    values: dict[str, float] = {}
    for summary in memory.summaries:
        values |= summary.values
    wanted = {keys.POLICY_LAG, keys.SAMPLES_PER_SECOND, keys.OPTS_PER_SECOND, keys.SAMPLES_PER_OPT}
    wanted |= {keys.AVERAGE_OPT_TIME, keys.AVERAGE_SAMPLE_TIME, keys.EPISODE_RETURN, keys.CUMULATIVE_REWARD}
    assert wanted <= values.keys()
    rates = [
        summary.values[keys.SAMPLES_PER_OPT] for summary in memory.summaries if keys.SAMPLES_PER_OPT in summary.values
    ]
    assert median(rates) == pytest.approx(
        4.0, rel=0.5
    )  # a short last summary may hold what is still to be learned from
    evaluations = [event.fields for event in memory.events if event.kind == "evaluation"]
    opts = [one["opts"] for one in evaluations]
    assert opts[:2] == [100, 200], "floor(max_opts / eval_interval)"
    assert opts[2:] in ([], [200]), "the last policy has seen what was left, if anything was"
    best = saved(tmp_path)["best"]
    scores = [one["score"] for one in evaluations]
    assert best["rank"][0] == max(scores)
    assert best["version"] == evaluations[scores.index(max(scores))]["version"], "the first of equals: strictly better"


def test_the_best_policy_is_the_first_with_the_highest_score() -> None:
    """It is the one of when it was asked for: learning goes on while it plays."""
    evaluator, judge = Evaluator.__new__(Evaluator), PolicyTracker.__new__(PolicyTracker)
    setattr(judge, "best", None)  # noqa: B010 - else nobody believes that it changes
    with MetricsHub() as hub:
        evaluator._context = cast(ActorContext, SimpleNamespace(hub=hub))
        learner = cast(Learner, SimpleNamespace(name="Agent", decisions=1000, tracker=judge))
        kept = list[tuple[int, int]]()
        for version, returns in enumerate(([1.0, 3.0], [], [1.0, 2.0], [2.0, 2.0], [2.5])):
            policy = cast(Policy, SimpleNamespace(version=version))
            evaluator._score(_Asked(learner, policy, 10 * version, 100 + version), returns)
            assert judge.best is not None
            kept.append((judge.best.policy.version, judge.best.decisions))
        assert kept == [(0, 100)] * 4 + [(4, 104)]
        assert hub.flush("Agent", 5).statistics[keys.EPISODE_RETURN].count == 4


def status_of(report: RunReport) -> dict[str, Any]:
    """What ML-Agents' readers are told of the policy that a run ends with."""
    status = json.loads((report.folder / "run_logs" / "training_status.json").read_text())
    final: dict[str, Any] = status["Count-v0"]["final_checkpoint"]
    return final


@pytest.mark.parametrize("best", ["last", "first"])
def test_a_run_that_is_ended_evaluates_its_last_policy_and_says_which_one_it_exports(
    best: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its policies is the best: the lines, the model and the status name the same one."""
    sign = 1.0 if best == "last" else -1.0
    monkeypatch.setattr(EpisodeLog, "mean_return", property(lambda self: next(scores)))
    scores, memory = iter(sign * number for number in range(1, 1000)), Memory()
    arguments: dict[str, Any] = {"env_settings__env_args": ["length=10"], "async_trainer__eval_interval": 20}
    session = begin(settings_of(tmp_path, **arguments, async_trainer__actors=1), memory, "learn")

    def evaluations() -> list[dict[str, Any]]:
        return [dict(event.fields) for event in memory.events if event.kind == "evaluation"]

    until(lambda: len(evaluations()) > 1)
    session.cancel()
    report = session.wait(HANG_S)
    assert (report.outcome, report.exit_code) == ("cancelled", 0)
    learner, last = saved(tmp_path), evaluations()[-1]
    assert last["version"] == learner["algorithm"]["version"], "the last policy is played as well"
    decisions, score = learner["best"]["decisions"], learner["best"]["rank"][0]
    if best == "last":
        assert (decisions, score) == (report.decisions, last["score"])
        said = f"the last policy, after {decisions:,} decisions, which is the best by mean reward too, "
        said += f"with mean reward {score:.3f}"
    else:
        assert (decisions < report.decisions, score) == (True, evaluations()[0]["score"])
        said = (
            f"the best by mean reward, after {decisions:,} decisions, with mean reward {score:.3f}; the last policy, "
        )
        said += f"after {report.decisions:,} decisions, gets mean reward {last['score']:.3f}"
    assert report.verdict == f"Exported: {said}."
    assert (status_of(report)["steps"], status_of(report)["reward"]) == (decisions, score)
    [(again, _)] = export_run(report.folder, tmp_path / "again.onnx")
    assert again.read_bytes() == report.models[0].read_bytes(), "the checkpoint knows it too"


def test_who_asks_twice_waits_for_no_evaluation_and_is_told_what_is_left_out(tmp_path: Path) -> None:
    memory = Memory()
    arguments: dict[str, Any] = {"env_settings__env_args": ["seconds=0.002"], "async_trainer__eval_interval": 10}
    session = begin(settings_of(tmp_path, **arguments, async_trainer__actors=1), memory, "learn")
    actors = pairs_of(session).actors
    assert actors is not None
    until(lambda: actors.context.place.status[-1, 0] > 0)  # its episodes never end
    session.cancel()
    folder = tmp_path / "run" / "checkpoints"
    until(lambda: latest_checkpoint(folder, "Count-v0").checkpoint is not None)  # before the evaluation
    session.cancel()
    report = session.wait(HANG_S)
    assert report.exit_code == 0
    assert report.models == ()
    assert report.verdict == (
        f"Nothing was evaluated or exported, because you pressed Ctrl-C twice. tau-train export {report.folder} "
        f"exports the last policy, after {report.decisions:,} decisions."
    )
    assert not status_of(report)["file_path"].endswith("Count-v0.onnx")
    assert not any("has not ended within" in warning for warning in memory.warnings)
