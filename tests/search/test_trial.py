from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.errors import SettingsError
from tau_trainer.search.trial import Trial, loss_of, shortened, state_of, usual_decisions, with_numbers
from tau_trainer.settings import load_settings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.search.conftest import quick

CARTPOLE = BehaviorSpec("CartPole-v1", (ObservationSpec("observation", (4,)),), ActionSpec(0, (2,)))


def test_a_trial_trains_as_long_as_it_is_told_and_repeats_itself() -> None:
    first, second = (Trial(quick(), 600).run() for _ in range(2))
    assert first == second
    assert first.decisions == 600
    assert first.ending == "finished"
    assert len(first.losses) == 4, "the last decision of an agent is no experience yet"
    assert first.losses[0][0] == 130
    assert sum(reward for _, reward in first.rewards) == pytest.approx(600, abs=130), "CartPole pays one a decision"
    assert first.last == max(first.rewards[-1][0], first.losses[-1][0])


def test_nothing_that_exists_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    numpy_before = np.random.get_state(legacy=False)
    before = random.getstate(), torch.random.get_rng_state(), torch.get_num_threads()
    drawn: list[float] = []

    def draws(loss: float) -> None:
        drawn.extend((random.random(), np.random.rand(), torch.rand(()).item(), loss))

    settings = quick(checkpoint_settings__resume=True, checkpoint_settings__force=False)
    Trial(settings, 300, on_update=draws).run()
    assert len(drawn) == 8
    assert random.getstate() == before[0]
    np.testing.assert_equal(np.random.get_state(legacy=False), numpy_before)
    assert torch.equal(torch.random.get_rng_state(), before[1])
    assert torch.get_num_threads() == before[2]
    assert [path.name for path in tmp_path.rglob("*")] == ["temporary"]


def test_it_begins_with_a_live_learners_weights() -> None:
    settings = quick(learning_rate=1e-12)
    algorithm = make_algorithm(Setup(CARTPOLE, settings.of_behavior("CartPole-v1"), seed=77))
    assert isinstance(algorithm, PPO)
    algorithm.parameters.optimizer.parameters.mul_(4.0)  # fresh weights choose each action about as often
    algorithm.parameters.optimizer.exp_avg.fill_(0.5)
    before, _ = state_of(algorithm)
    seen: list[dict[str, Any]] = []

    def look(_: float) -> None:
        [learner] = trial._pairs.learners  # type: ignore[union-attr]
        seen.append(learner.algorithm.state()[0])

    trial = Trial(settings, 300, begin=state_of(algorithm), on_update=look)
    trial.run()
    assert len(seen) == 2
    np.testing.assert_allclose(seen[0]["model.action.weight"], before["model.action.weight"], atol=1e-6)
    assert seen[0]["model.action.weight"].any()
    assert seen[0]["optimizer.exp_avg"].max() > 0.1, "moments too"


def test_it_can_be_stopped_before_and_while_it_runs() -> None:
    early = Trial(quick(), 10_000)
    early.stop()
    assert early.run().decisions < 1000
    assert early.outcome.ending == "stopped"

    def enough(_: float) -> None:
        later.stop()

    later = Trial(quick(), 100_000, on_update=enough)
    assert later.run().ending == "stopped"
    assert len(later.outcome.losses) == 1


def test_a_rate_is_learned_with_from_the_next_update_on() -> None:
    rates: list[float] = []

    def look(_: float) -> None:
        [learner] = trial._pairs.learners  # type: ignore[union-attr]
        rates.append(learner.algorithm.learning_rate(0.5))  # type: ignore[union-attr]
        trial.learn_with(10.0 ** -(3 + len(rates)))

    trial = Trial(quick(learning_rate=1e-3), 450, on_update=look)
    trial.run()
    assert rates == pytest.approx([1e-3, 1e-4, 1e-5])


def test_an_algorithm_with_a_rate_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PPO, "learning_rate", lambda self, progress: 0.25)
    trial = Trial(quick(), 1000, on_update=lambda loss: trial.learn_with(1e-3))
    with pytest.raises(SettingsError, match=r"learning rate 0\.001, but reports 0\.25, so learning rates cannot be"):
        trial.run()


def test_what_becomes_nan_has_diverged() -> None:
    outcome = Trial(quick(learning_rate=1e30), 2000).run()
    assert outcome.ending == "diverged"
    assert outcome.mean("reward") is None


def test_there_is_no_editor_to_try_on() -> None:
    with pytest.raises(
        SettingsError, match="it cannot start the editor or engines that connect by themselves; name a build"
    ):
        Trial(load_settings("3DBall"))


def test_losses_are_summed_but_the_policys() -> None:
    assert loss_of({"Losses/Policy Loss": -9.0, "Losses/Q1 Loss": 1.0, "Losses/Q2 Loss": 2.0, "Policy/X": 4.0}) == 3.0
    assert loss_of({"Losses/Policy Loss": -9.0}) == -9.0
    assert loss_of({"Policy/Learning Rate": 1.0}) is None


def test_usual_lengths() -> None:
    assert usual_decisions(load_settings("CartPole")) == 20 * 1024 + 1
    assert usual_decisions(load_settings("Pendulum")) == 10_100
    assert usual_decisions(load_settings("CartPole", {"behaviors.*.max_steps": 3000})) == 3000
    assert usual_decisions(load_settings(None)) == 20 * 10240 + 1


def test_settings_of_a_trial() -> None:
    whole = shortened(quick(cluster__address="local:2"), 700)
    assert (whole.cluster, whole.execution) == (None, "sync"), "it plays in its own process, wherever that is"
    short = whole.of_behavior("CartPole-v1")
    numbers: Any = short.hyperparameters
    assert (numbers.learning_rate_schedule, numbers.beta_schedule, short.max_steps) == ("constant", "constant", 700)
    assert with_numbers(quick(), optimizer="adamw").of_behavior("CartPole-v1").hyperparameters.weight_decay == 0.01
    assert with_numbers(load_settings(None), learning_rate=0.5).of_behavior("Any").hyperparameters.learning_rate == 0.5
