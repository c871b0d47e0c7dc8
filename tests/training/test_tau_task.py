from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.algorithms.ppo import PPO
from tau_trainer.metrics import keys
from tau_trainer.models.policy import Policy
from tau_trainer.settings import TauSettings, TrainerSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.tau import dataset
from tau_trainer.training.tau_task import TauTask, acting

SETTINGS = TrainerSettings.model_validate({"network_settings": {"hidden_units": 8, "num_layers": 1}})


def policy_of(size: int) -> Policy:
    spec = BehaviorSpec("TauAgent?team=0", (ObservationSpec("prompt", (384,)),), ActionSpec(size))
    return PPO(spec, SETTINGS, seed=1).snapshot()


@pytest.mark.parametrize(("profile", "size"), [("tau3", 3), ("tau384", 384)])
def test_quick_scores_are_those_of_the_evaluation(profile: str, size: int) -> None:
    task = TauTask(TauSettings.model_validate({"profile": profile}))
    policy = policy_of(size)
    quick, whole = task.quick_scores(policy), task.evaluate(policy)
    assert quick[keys.HELD_OUT_ACCURACY] == pytest.approx(whole.accuracy)
    assert quick[keys.HELD_OUT_REWARD] == pytest.approx(whole.reward)
    assert whole.rows >= 150


def test_acting_is_deterministic_and_in_range() -> None:
    act = acting(policy_of(3))
    prompts = np.random.default_rng(0).normal(size=(9, 384)).astype(np.float32) * 50
    assert np.array_equal(act(prompts), act(prompts))
    assert np.abs(act(prompts)).max() <= 1.0


def test_baselines_follow_the_reward() -> None:
    names = {"zeros", "constant", "majority", "ridge"}
    task = TauTask(TauSettings())
    assert set(task.baselines) == names
    other = TauTask(TauSettings.model_validate({"reward": {"formula": "binary"}}))
    assert other.formula == "binary"
    assert other.baselines["zeros"].reward != task.baselines["zeros"].reward
    assert task.baselines["ridge"].accuracy > 0.5 > task.baselines["majority"].accuracy


def test_the_data_are_loaded_once() -> None:
    assert TauTask(TauSettings()).dataset is TauTask(TauSettings()).dataset
    assert not dataset.load_dataset(None).train.prompts.flags.writeable
