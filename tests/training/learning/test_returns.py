"""A behavior that has learned enough is done: unit by unit, in whole runs, and across a resume."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import RunFinishedError
from tau_trainer.metrics import MetricsHub, RunReport
from tau_trainer.runs.callbacks import LambdaCallback
from tau_trainer.training.learning.returns import EpisodeReturns
from tau_trainer.training.manager import ParallelTrainerManager
from tests.training.fakes import WAIT_S, Memory, Stage, ppo_settings, tau_settings, train
from tests.training.learners import make_learner

SHORT: dict[str, Any] = {"env_settings__env_args": ["--max-decisions", "10"]}


def ending(criterion: float, trials: int) -> dict[str, Any]:
    return {**SHORT, "behaviors__TauAgent__criterion": criterion, "behaviors__TauAgent__trial_count": trials}


def returns(criterion: float | None, trials: int) -> EpisodeReturns:
    return EpisodeReturns(ppo_settings(criterion=criterion, trial_count=trials))


def test_the_first_episode_at_which_the_mean_of_the_newest_reaches_the_criterion() -> None:
    one = returns(2.0, 3)
    assert not one.add([9.0, 9.0]), "two episodes are no three"
    assert not one.add([-13.0])
    assert one.mean == pytest.approx(5 / 3)
    assert not one.add([9.0 - 1.0, 10.9]), "8 + -13 + 10.9 is below 6"
    assert one.add([0.0, 0.0, -12.0]), "-13 has left the window, and what follows the first hit counts no more"
    assert one.mean == pytest.approx((8.0 + 10.9 + 0.0) / 3)
    assert one.reached


def test_reaching_is_at_least() -> None:
    assert returns(1.0, 2).add([1.0, 1.0])
    assert not returns(1.0, 2).add([1.0, 0.999])


def test_without_a_criterion_nothing_is_reached_and_the_mean_is_known() -> None:
    one = returns(None, 2)
    assert not one.add([5.0, 7.0, 9.0])
    assert (one.mean, one.reached) == (8.0, False)


def test_no_number_counts_for_nothing() -> None:
    one = returns(1.0, 2)
    assert not one.add([float("nan"), 1.0, float("inf")])
    assert one.add([1.0])


def test_another_trial_count_goes_on_with_what_is_there() -> None:
    one, fewer, more = returns(None, 3), returns(1.5, 2), returns(1.5, 4)
    one.add([0.0, 1.0, 2.0])
    fewer.load(one.state())
    more.load(one.state())
    assert fewer.reached
    assert more.mean is None


@pytest.mark.parametrize("policy", ["shared", "independent"])
def test_a_run_ends_as_one_that_is_done(stage: Stage, tmp_path: Path, memory: Memory, policy: str) -> None:
    settings = tau_settings(tmp_path, **ending(-1000.0, 6), tau__policy=policy, behaviors__TauAgent__max_steps=4000)
    report = train(settings, memory)
    assert (report.outcome, report.exit_code) == ("completed", 0)
    assert report.decisions < 1000
    assert report.models
    assert all(path.is_file() for path in report.models)
    assert report.evaluation is not None
    assert list((report.folder / "checkpoints").glob("TauAgent*-*"))
    told = [event.message or "" for event in memory.events if event.kind == "criterion"]
    assert len(told) == {"shared": 1, "independent": 2}[policy], "each learner looks at its own episodes"
    assert "has reached its criterion" in told[0]
    assert "newest 6 episodes" in told[0]
    assert "(criterion: -1000)" in told[0]
    assert memory.summaries[-1].training is False


def test_a_criterion_that_is_not_reached_ends_nothing(stage: Stage, tmp_path: Path) -> None:
    assert train(tau_settings(tmp_path, **ending(1000.0, 2))).decisions == 400


def test_learn_ends_too(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    settings = tau_settings(tmp_path, tau=None, env_settings__env_path="headless:basic", env_settings__num_envs=2)
    own = settings.behaviors["TauAgent"].model_copy(
        update={"criterion": -1000.0, "trial_count": 3, "max_steps": 100_000}
    )
    report = train(settings.model_copy(update={"behaviors": {"Basic": own}}), memory, "learn")
    assert (report.outcome, report.exit_code) == ("completed", 0)
    assert report.decisions < 50_000


def test_a_finished_run_is_not_resumed_unless_more_is_asked_for(stage: Stage, tmp_path: Path) -> None:
    def run(criterion: float, **more: Any) -> RunReport:
        return train(
            tau_settings(tmp_path, **ending(criterion, 4), **more),
        )

    first = run(-1000.0)
    with pytest.raises(RunFinishedError, match=r"has already reached its criterion.*raise --criterion"):
        run(-1000.0, checkpoint_settings__resume=True)
    again = run(1000.0, checkpoint_settings__resume=True)
    assert first.decisions < 400
    assert again.decisions == 400


def test_a_resumed_run_stops_where_the_run_that_was_never_interrupted_does(stage: Stage, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        **ending(1e9, 12),
        "collection__deterministic": True,
        "behaviors__TauAgent__max_steps": 1120,
        "behaviors__TauAgent__checkpoint_interval": 160,
        "behaviors__TauAgent__keep_checkpoints": 0,
    }
    found: list[float] = []
    watch = LambdaCallback(on_episode_end=lambda info: found.append(info.reward))
    ParallelTrainerManager().start(tau_settings(tmp_path, "free", **options), callbacks=[watch]).wait(WAIT_S)
    means = [sum(found[end - 12 : end]) / 12 for end in range(12, len(found) + 1)]
    # The highest mean but for rounding, if it comes late enough for checkpoints before it.
    criterion = max(means[len(means) // 2 :])
    options |= ending(criterion - 1e-6, 12)
    whole = train(tau_settings(tmp_path, "whole", **options))
    assert 320 < whole.decisions < 1120
    cut = tmp_path / "cut"
    whole.folder.rename(cut)
    paths = sorted((cut / "checkpoints").glob("TauAgent-*"), key=lambda path: int(path.name.split("-")[1]))
    states = [json.loads((path / "manifest.json").read_text())["content"]["learner"] for path in paths]
    assert [len(one["recent_returns"]) for one in states][-1] == 12
    assert all(one["decisions"] < two["decisions"] for one, two in pairwise(states))
    for path in paths[-1:]:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    resumed = train(tau_settings(tmp_path, "cut", **options, checkpoint_settings__resume=True))
    assert resumed.decisions == whole.decisions
    last = json.loads((cut / "checkpoints" / paths[-1].name / "manifest.json").read_text())["content"]["learner"]
    assert last["recent_returns"] == states[-1]["recent_returns"]


def test_a_learner_that_had_learned_enough_is_done_when_it_is_restored(hub: MetricsHub, memory: Memory) -> None:
    """Of several behaviors, the others go on."""
    one = make_learner(hub, criterion=1.0, trial_count=2)
    one.ended(np.array([3.0, 2.0, -9.0], np.float32))
    assert one.done
    again, more = (make_learner(hub, criterion=criterion, trial_count=2) for criterion in (1.0, 3.0))
    for each in (again, more):
        each.restore(*one.state())
    assert again.done
    assert not more.done
    hub.drain(5.0)
    assert [event.kind for event in memory.events].count("criterion") == 1
