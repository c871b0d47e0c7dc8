"""Which policy is the best where nothing is validated and the last may have lost what the best knows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms.off_policy.dqn import DQN
from tau_trainer.algorithms.off_policy.iqn import IQN
from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.evaluation.candidates import ScoredPolicy, validation_after
from tau_trainer.metrics import MetricsHub
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import ActionSpec
from tau_trainer.training.learning.learner import Learner, Shared
from tau_trainer.training.learning.policy_tracker import EPISODES
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.learning.returns import EpisodeReturns
from tau_trainer.training.plan import make_plan
from tau_trainer.training.stored import export_run
from tests.training.fakes import Stage, newest, train, vector_spec
from tests.training.learners import learn, make_learner
from tests.training.pairs.test_collector import cut_off, hashes

SPEC = vector_spec(4, ActionSpec(0, (3,)), "Basic?team=0")


def look(learner: Learner, decisions: int, *returns: float) -> None:
    """Episodes end, and an update is over after so many decisions: its policy may be looked at."""
    learner.ended(np.array(returns, np.float32))
    learner.progress.decisions = decisions
    weights = {name: array + 1 for name, array in learner.policy.weights.items()}
    policy = learner.algorithm.policy(weights, learner.policy.version + 1)
    learner.act_with(policy)
    assert learner.tracker.validate_if_due(policy) == {}


def best_of(learner: Learner) -> ScoredPolicy:
    assert learner.tracker.best is not None
    return learner.tracker.best


@pytest.fixture
def learner(hub: MetricsHub, executor: ThreadPoolExecutor) -> Learner:
    made = make_learner(hub)
    made.tracker.watches = True
    return made


HALF = EPISODES // 2


def test_the_best_has_the_best_episodes_around_it(learner: Learner) -> None:
    look(learner, 100, *[5.0] * HALF)
    look(learner, 200, *[9.0] * (HALF - 1))
    assert learner.tracker.best is None, "the first waits for one more, and the second for its turn"
    look(learner, 300, 9.0)
    best = best_of(learner)
    assert (best.decisions, best.rank, best.policy.version, best.chosen_by) == (100, (7.0, 0.0), 1, "mean reward")
    look(learner, 400, *[5.0] * HALF)
    best = best_of(learner)
    assert (best.decisions, best.rank) == (300, (7.0, 0.0)), "of equals the newest"
    look(learner, 500, *[1.0] * HALF)
    look(learner, 600, *[12.0] * HALF)
    assert best_of(learner) is best, "what is worse is passed over"
    look(learner, 700, *[10.0] * HALF)
    best = best_of(learner)
    assert (best.decisions, best.rank) == (600, (11.0, 0.0))


def test_a_policy_is_looked_at_as_where_it_is_validated(learner: Learner) -> None:
    look(learner, 200, *[5.0] * HALF)
    due = validation_after(200, learner.progress.max_steps)
    look(learner, due - 1, *[7.0] * HALF)
    assert learner.tracker.best is None
    look(learner, due)
    assert learner.tracker.best is not None


def test_a_run_that_goes_on_after_a_checkpoint_and_one_that_is_resumed_choose_the_same(
    learner: Learner, hub: MetricsHub, executor: ThreadPoolExecutor
) -> None:
    look(learner, 100, *[5.0] * HALF)
    look(learner, 200, *[9.0] * HALF)
    again = make_learner(hub)
    again.tracker.watches = True
    again.restore(*learner.state())
    before, restored = best_of(learner), best_of(again)
    np.testing.assert_equal(before.policy.weights, restored.policy.weights)
    for decisions, mean in ((300, 9.0), (400, 9.0), (500, 3.0)):
        chosen = []
        for one in (learner, again):
            look(one, decisions, *[mean] * HALF)
            best = best_of(one)
            chosen.append((best.decisions, best.rank))
        assert chosen[0] == chosen[1]
    assert chosen[0] == (300, (9.0, 0.0))


@pytest.mark.parametrize("watches", [True, False])
def test_where_the_last_policy_is_no_matter_of_luck_nothing_chooses(learner: Learner, watches: bool) -> None:
    learner.tracker.watches = watches
    for _ in range(5):
        learn(learner)
        learner.ended(np.full(EPISODES, 9.0, np.float32))
    assert (learner.tracker.best is not None) == watches


ENDS = {"behavior": "Basic", "threshold": 0.5, "measure": "progress"}
LESSONS = {"curriculum": [{"name": "easy", "value": 1.0, "completion_criteria": ENDS}, {"name": "hard", "value": 2.0}]}


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
    ("more", "watches"),
    [
        ({}, True),
        ({"behaviors__Basic__trainer_type": "iqn"}, True),
        ({"behaviors__Basic__trainer_type": "sac"}, False),
        ({"behaviors__Basic__trainer_type": "sac", "validator": lambda policy: {}}, True),
        ({"behaviors__Basic__save_best_only": True}, False),
        ({"behaviors__Basic__self_play": {}}, False),
        ({"environment_parameters__height": LESSONS}, False),
        ({"environment_parameters__height": 1.0}, True),
        ({"execution": "async"}, False),
    ],
)
def test_who_is_judged_so(hub: MetricsHub, tmp_path: Path, more: dict[str, Any], watches: bool) -> None:
    """Whose policy may fall where nothing else chooses, and whatever learns where there is a validator."""
    assert (DQN.falls, IQN.falls, PPO.falls, SAC.falls) == (True, True, False, False)
    given = {key: value for key, value in more.items() if key != "validator"}
    plan = make_plan("learn", settings(tmp_path, **given), tmp_path / "run_logs")
    pool = LearnerPool(plan, Shared(hub, more.get("validator")))
    try:
        assert pool.learner(0, SPEC).tracker.watches == watches
    finally:
        pool.close()


@pytest.mark.parametrize("export", ["best", "last"])
def test_what_is_exported_is_the_best_and_not_the_last_dip(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, export: str
) -> None:
    """The first policy whose episodes are known was the best, and returns fall ever since."""
    falling = iter(range(1000, 0, -1))
    known = EpisodeReturns.mean_of
    monkeypatch.setattr(EpisodeReturns, "mean_of", lambda self, most: known(self, most) and float(next(falling)))
    report = train(settings(tmp_path, checkpoint_settings__export=export), None, "learn")
    learner = newest(report.folder, "Basic").manifest["learner"]
    assert learner["best"]["rank"] == [1000.0, 0.0]
    assert learner["best"]["version"] < learner["algorithm"]["version"]
    chosen = f"the best by mean reward, after {learner['best']['decisions']:,} decisions"
    said = export_run(report.folder, tmp_path / "again")[0][1]
    assert said.startswith(chosen if export == "best" else "the last policy, after ")
    assert report.models[0].read_bytes() == (tmp_path / "again" / "Basic.onnx").read_bytes()


def test_a_resumed_run_chooses_what_the_run_that_was_never_interrupted_does(stage: Stage, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "collection__deterministic": True,
        "env_settings__seed": 2,
        "behaviors__Basic__checkpoint_interval": 200,
        "behaviors__Basic__keep_checkpoints": 0,
        "behaviors__Basic__hyperparameters__save_replay_buffer": True,
    }
    whole = train(settings(tmp_path, **given), None, "learn")
    cut_off(whole, tmp_path / "cut", 1)
    given |= {"checkpoint_settings__run_id": "cut", "checkpoint_settings__resume": True}
    assert hashes(train(settings(tmp_path, **given), None, "learn")) == hashes(whole), "the best among the arrays"
    assert newest(whole.folder, "Basic").manifest["learner"]["best"]["decisions"] > 200, "chosen since it was cut off"
