from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.metrics import keys
from tau_trainer.models import Policy
from tau_trainer.settings import PPOTrainerSettings, TauSettings
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.tau.baselines import score
from tau_trainer.tau.task import TauTask, acting
from tests.tau.conftest import MakeFile

SETTINGS = PPOTrainerSettings.model_validate({"network_settings": {"hidden_units": 8, "num_layers": 1}})
TARGETED = BehaviorSpec(
    "TauAgent?team=0", (ObservationSpec("prompt", (384,)), ObservationSpec("target", (3,))), ActionSpec(3)
)


def task_of(**settings: Any) -> TauTask:
    return TauTask(TauSettings.model_validate(settings))


def policy_of(size: int) -> Policy:
    spec = BehaviorSpec("TauAgent?team=0", (ObservationSpec("prompt", (384,)),), ActionSpec(size))
    return make_algorithm(Setup(spec, SETTINGS, seed=1)).snapshot()


@pytest.mark.parametrize(("profile", "size"), [("tau3", 3), ("tau384", 384)])
def test_quick_scores_are_of_the_validation_rows_and_the_evaluation_of_the_others(profile: str, size: int) -> None:
    task = TauTask(TauSettings.model_validate({"profile": profile}))
    policy, data = policy_of(size), task.dataset
    quick, whole = task.quick_scores(policy), task.evaluate(policy)
    chosen_by, reported = (
        score(acting(policy), data, task.profile, task.formula, rows) for rows in (data.validation, data.test)
    )
    assert quick == {keys.VALIDATION_ACCURACY: chosen_by.accuracy, keys.VALIDATION_REWARD: chosen_by.reward}
    assert (whole.accuracy, whole.reward) == (reported.accuracy, reported.reward)
    assert chosen_by.reward != reported.reward
    assert (whole.rows, whole.rows_validation, whole.rows_train) == (99, 99, 1584)


def test_acting_is_deterministic_and_in_range() -> None:
    act = acting(policy_of(3))
    prompts = np.random.default_rng(0).normal(size=(9, 384)).astype(np.float32) * 50
    assert np.array_equal(act(prompts), act(prompts))
    assert np.abs(act(prompts)).max() <= 1.0


def test_baselines_follow_the_reward() -> None:
    task, other = task_of(), task_of(reward={"formula": "binary"})
    assert list(task.baselines) == ["zeros", "constant", "majority", "ridge", "nearest", "logistic"]
    assert other.baselines["zeros"].reward != task.baselines["zeros"].reward
    assert task.baselines["ridge"].accuracy > 0.5 > task.baselines["majority"].accuracy


def test_the_formula_is_the_profiles_own_where_none_is_named() -> None:
    chosen: list[dict[str, Any]] = [
        {},
        {"profile": "tau384"},
        {"profile": "tau384", "reward": {"formula": "difference"}},
    ]
    formulas = [TauTask(TauSettings.model_validate(settings)).formula.name for settings in chosen]
    assert formulas == ["incremental", "binary", "difference"]


def test_rewards_need_a_target_only_where_the_trainer_pays() -> None:
    blind = BehaviorSpec(TARGETED.name, TARGETED.observations[:1], TARGETED.actions)
    assert task_of().rewarder(TARGETED).width == 3
    with pytest.raises(SettingsError, match=r"'TauAgent' has no sensor named 'target'.*tau\.reward\.source=engine"):
        task_of().rewarder(blind)
    assert task_of(reward={"source": "engine", "credit": "aggregate"}).rewarder(blind).width == 1


@pytest.mark.parametrize(
    ("sensors", "actions"),
    [((383,), ActionSpec(3)), ((384,), ActionSpec(4)), ((384,), ActionSpec(3, (2,))), ((384, 1), ActionSpec(3))],
)
def test_a_behavior_that_cannot_be_shown_the_held_out_rows(sensors: tuple[int, ...], actions: ActionSpec) -> None:
    spec = BehaviorSpec("TauAgent", tuple(ObservationSpec(str(size), (size,)) for size in sensors), actions)
    with pytest.raises(SettingsError, match=r"takes? a prompt of 384 numbers and answer with 3.*--no-evaluate"):
        task_of().check(spec)


def test_rows_that_cannot_be_used_are_told_of_where_they_would_be_evaluated(make_file: MakeFile) -> None:
    data = make_file([("1 + 1?", "2"), ("2 + 1?", "3"), "bad"], [("2 + 2?", "4")])
    left_out, undivided = task_of(data=data).warnings
    assert "training_data row 3" in left_out
    assert "has 1 usable evaluation rows, fewer than 8" in undivided
    assert task_of(data=data, evaluate=False).warnings == ()
    assert task_of().warnings == ()


def test_nothing_to_evaluate_on_is_known_before_anything_starts(make_file: MakeFile, tmp_path: Path) -> None:
    data = make_file([("1 + 1?", "2"), ("2 + 1?", "3")])
    with pytest.raises(DataError, match="evaluation"):
        task_of(data=data)
    assert not task_of(data=data, evaluate=False).evaluates


@pytest.mark.parametrize(("size", "profile"), [(3, "tau3"), (384, "tau384")])
def test_a_build_of_another_profile_is_told_by_its_number_of_actions(size: int, profile: str) -> None:
    task = task_of(profile="1x29")
    sentence = rf"'TauAgent' answers with {size} numbers, and the profile 1x29 has 1; .*--set tau.profile={profile}"
    target = ObservationSpec("target", (size,))
    build = BehaviorSpec("TauAgent?team=0", (ObservationSpec("prompt", (384,)), target), ActionSpec(size))
    with pytest.raises(SettingsError, match=sentence):
        task.rewarder(build)
    with pytest.raises(SettingsError, match=sentence):
        task.check(task.visible(build))


def test_on_places_the_next_level_is_wrong() -> None:
    task = task_of(profile="1x41", reward={"threshold": 0.3})
    spec = BehaviorSpec("TauAgent", (ObservationSpec("prompt", (384,)), ObservationSpec("target", (1,))), ActionSpec(1))
    step = np.float32(2 / 40)
    actions = Actions(np.array([[0.5], [0.5 + step], [0.5 - step]], np.float32), np.zeros((3, 0), np.int32))
    shown = (np.zeros((3, 384), np.float32), np.full((3, 1), 0.5, np.float32))
    result = task.rewarder(spec).decided(np.arange(3), actions, shown)
    assert result is not None
    assert result.reward[:, 0].tolist() == [1.0, -1.0, -1.0]
    assert task.formula.threshold == 0.025
