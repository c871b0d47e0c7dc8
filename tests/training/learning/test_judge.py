"""Which policy is the best where nothing is validated and the last may have lost what the best knows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms.off_policy.dqn import DQN
from tau_trainer.algorithms.off_policy.iqn import IQN
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.evaluation.candidates import ScoredPolicy, validation_after
from tau_trainer.metrics import MetricsHub
from tau_trainer.runs.checkpoints import latest_checkpoint
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import ActionSpec
from tau_trainer.training.learning.judge import EPISODES
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.learning.returns import EpisodeReturns
from tau_trainer.training.plan import make_plan
from tau_trainer.training.stored import export_run
from tests.training.fakes import Stage, train, vector_spec
from tests.training.learners import make_learner

SPEC = vector_spec(4, ActionSpec(0, (3,)), "Basic?team=0")


def look(learner: Learner, decisions: int, *returns: float) -> None:
    """Episodes end, and an update is over after so many decisions: its policy may be looked at."""
    learner.ended(np.array(returns, np.float32))
    learner.progress.decisions = decisions
    weights = {name: array + 1 for name, array in learner.policy.weights.items()}
    policy = learner.algorithm.policy(weights, learner.policy.version + 1)
    learner.updates.take(policy)
    assert learner.judge.validate_if_due(policy) == {}


def best_of(learner: Learner) -> ScoredPolicy | None:
    return learner.judge.best


@pytest.fixture
def learner(hub: MetricsHub, executor: ThreadPoolExecutor) -> Learner:
    made = make_learner(hub, executor)
    made.judge.falls = True
    return made


def test_the_best_has_the_best_newest_ten_episodes(learner: Learner) -> None:
    look(learner, 100, *[5.0] * (EPISODES - 1))
    assert best_of(learner) is None, "too few to compare"
    look(learner, 200, 5.0)
    look(learner, 300, *[9.0] * EPISODES)
    best = best_of(learner)
    assert best is not None
    assert (best.decisions, best.rank, best.policy.version, best.chosen_by) == (300, (9.0, 0.0), 3, "mean reward")
    look(learner, 400)
    look(learner, 500, *[1.0] * EPISODES)
    assert best_of(learner) is best, "neither what is equal nor what is worse"
    look(learner, 600, *[9.5] * EPISODES)
    assert best_of(learner) is not best


def test_a_policy_is_looked_at_as_where_it_is_validated(learner: Learner) -> None:
    look(learner, 200, *[5.0] * EPISODES)
    due = validation_after(200, learner.progress.max_steps)
    look(learner, due - 1, *[7.0] * EPISODES)
    assert learner.judge.best is not None
    assert learner.judge.best.decisions == 200
    look(learner, due)
    assert learner.judge.best.decisions == due


def test_a_resumed_learner_knows_what_is_to_be_beaten(
    learner: Learner, hub: MetricsHub, executor: ThreadPoolExecutor
) -> None:
    look(learner, 300, *[9.0] * EPISODES)
    again = make_learner(hub, executor)
    again.judge.falls = True
    again.restore(*learner.state())
    look(again, 400, *[8.0] * EPISODES)
    assert again.judge.best is not None
    assert again.judge.best.decisions == 300
    for name, array in again.judge.best.policy.weights.items():
        np.testing.assert_array_equal(array, learner.policy.weights[name])


def test_where_the_last_policy_is_no_matter_of_luck_nothing_chooses(learner: Learner) -> None:
    learner.judge.falls = False
    look(learner, 300, *[9.0] * EPISODES)
    assert learner.judge.best is None


LESSONS = {
    "curriculum": [
        {
            "name": "easy",
            "value": 1.0,
            "completion_criteria": {"behavior": "Basic", "threshold": 0.5, "measure": "progress"},
        },
        {"name": "hard", "value": 2.0},
    ]
}


def settings(results: Path, **more: Any) -> RunSettings:
    given: dict[str, Any] = {
        "behaviors.Basic.trainer_type": "dqn",
        "behaviors.Basic.max_steps": 600,
        "behaviors.Basic.network_settings.hidden_units": 8,
        "behaviors.Basic.hyperparameters.buffer_init_steps": 50,
        "checkpoint_settings.results_dir": str(results),
        "checkpoint_settings.run_id": "run",
        "env_settings.env_path": "headless:basic",
        "env_settings.seed": 1,
    }
    return load_settings(None, given | {key.replace("__", "."): value for key, value in more.items()})


@pytest.mark.parametrize(
    ("more", "falls"),
    [
        ({}, True),
        ({"behaviors__Basic__trainer_type": "iqn"}, True),
        ({"behaviors__Basic__trainer_type": "sac"}, False),
        ({"behaviors__Basic__save_best_only": True}, False),
        ({"behaviors__Basic__self_play": {}}, False),
        ({"environment_parameters__height": LESSONS}, False),
        ({"environment_parameters__height": 1.0}, True),
        ({"execution": "async"}, False),
    ],
)
def test_who_is_judged_so(hub: MetricsHub, tmp_path: Path, more: dict[str, Any], falls: bool) -> None:
    assert DQN.falls
    assert IQN.falls
    assert not PPO.falls
    pool = LearnerPool(make_plan("learn", settings(tmp_path, **more), tmp_path / "run_logs"), hub)
    try:
        assert pool.learner(0, SPEC).judge.falls == falls
    finally:
        pool.close()


@pytest.mark.parametrize("export", ["best", "last"])
def test_what_is_exported_is_the_best_and_not_the_last_dip(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, export: str
) -> None:
    """The first policy whose ten episodes are known was the best, and returns fall ever since."""
    falling = iter(range(1000, 0, -1))
    known = EpisodeReturns.mean_of
    monkeypatch.setattr(EpisodeReturns, "mean_of", lambda self, most: known(self, most) and float(next(falling)))
    report = train(settings(tmp_path, checkpoint_settings__export=export), None, "learn")
    newest = latest_checkpoint(report.folder / "checkpoints", "Basic").checkpoint
    assert newest is not None
    learner = newest.manifest["learner"]
    assert learner["best"]["rank"] == [1000.0, 0.0]
    assert learner["best"]["version"] < learner["algorithm"]["version"]
    chosen = f"the best by mean reward, of decision {learner['best']['decisions']:,}"
    assert export_run(report.folder, tmp_path / "again")[0][1] == (chosen if export == "best" else "the last policy")
    assert report.models[0].read_bytes() == (tmp_path / "again" / "Basic.onnx").read_bytes()
