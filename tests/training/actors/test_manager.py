"""Whole runs with actors in processes of their own: what is learned, who is named, what is lost when something dies."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.errors import ActorError, SettingsError
from tau_trainer.metrics import PairState, keys
from tau_trainer.runs.callbacks import EpisodeInfo, EvaluationInfo, LambdaCallback
from tau_trainer.runs.session import Session
from tau_trainer.training.actors import link as actor_link
from tau_trainer.training.manager import ParallelTrainerManager
from tests.remote.threads import Threads
from tests.training.actors.runs import FILE, actors_of, gone, playing, saved, settings_of, train_long
from tests.training.fakes import WAIT_S, Memory, begin, pairs_of, train, until
from tests.training.toys import START_FILE
from tests.waiting import HANG_S

pytestmark = pytest.mark.slow


def pids_of(session: Session) -> list[int]:
    return [pid for actor in actors_of(session) if (pid := actor.process.pid) is not None]


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
