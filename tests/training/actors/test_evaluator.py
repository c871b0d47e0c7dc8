"""Evaluation beside actors."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.evaluation.episodes import EpisodeLog
from tau_trainer.metrics import MetricsHub, RunReport, keys
from tau_trainer.models import Policy
from tau_trainer.runs.checkpoints import latest_checkpoint
from tau_trainer.runs.session import Session
from tau_trainer.training.actors import evaluator as evaluating
from tau_trainer.training.actors.evaluator import Evaluator, _Asked
from tau_trainer.training.actors.link import ActorContext
from tau_trainer.training.actors.manager import ActorManager
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.policy_tracker import PolicyTracker
from tau_trainer.training.stored import export_run
from tests.training.actors.runs import gone, saved, settings_of
from tests.training.fakes import WAIT_S, Memory, begin, pairs_of, until
from tests.waiting import HANG_S

pytestmark = pytest.mark.slow


def evaluated(results: Path, memory: Memory, **more: Any) -> tuple[Session, ActorManager]:
    """A run whose evaluator plays episodes that never end."""
    chosen: dict[str, Any] = {"env_settings__env_args": ["seconds=0.002"], "async_trainer__eval_interval": 10, **more}
    session = begin(settings_of(results, **chosen, async_trainer__actors=1), memory, "learn")
    actors = pairs_of(session).actors
    assert actors is not None
    until(lambda: actors.context.place.status[-1, 0] > 0)
    return session, actors


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_whoever_ends_the_run_waits_for_the_evaluator_for_some_seconds_alone(
    how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for one that is stopped, nor for one that waits to be started again; what was learned is saved."""
    monkeypatch.setattr(evaluating, "_HURRY_S", 0.2)
    memory = Memory()
    session, actors = evaluated(tmp_path, memory, env_settings__timeout_wait=1000)
    playing_it = actors.evaluator._process
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
    session, _ = evaluated(tmp_path, memory)
    object.__setattr__(pairs_of(session).plan, "stall_s", 0.2)  # the watchdog has read it already
    session._run._stop("that is enough")
    assert session.wait(WAIT_S).outcome == "completed"
    assert any("one has not ended within 0.2 s" in warning for warning in memory.warnings)


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
    session, _ = evaluated(tmp_path, memory)
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
