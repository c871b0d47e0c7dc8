from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tau_trainer.errors import DataError, SettingsError
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes.tau import TauRules, TauScene, resolve_profile
from tau_trainer.specs import Actions, StepBatch
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.profiles import PROFILES, profile_named
from tau_trainer.tau.targets import targets
from tests.headless.scenes.playing import assert_own, begin, step
from tests.headless.scenes.taus import DATA, answer, scene, truth

if TYPE_CHECKING:
    from tests.headless.scenes.conftest import Play


def zeros(batch: StepBatch) -> Actions:
    return answer(np.zeros((len(batch), 3)))


@pytest.mark.parametrize(("profile", "size"), [("tau3", 3), ("tau384", 384)])
def test_spec_of_both_profiles(profile: str, size: int) -> None:
    spec = scene(profile).specs[0]
    assert spec.name == "TauAgent?team=0"
    assert [(sensor.name, sensor.shape) for sensor in spec.observations] == [("VectorSensor_size384", (384,))]
    assert spec.actions.continuous_size == size
    assert spec.actions.discrete_branches == ()


def test_target_sensor_comes_first_and_carries_the_answers_vector() -> None:
    """Unity sorts sensors by name without regard to case: `target` before `VectorSensor_size384`."""
    played = scene(target_sensor=True)
    assert [sensor.name for sensor in played.specs[0].observations] == ["target", "VectorSensor_size384"]
    batch = begin(played)
    for _ in range(3):
        target, prompt = batch.obs
        rows = [int(np.flatnonzero((DATA.train.prompts == one).all(axis=1))[0]) for one in prompt]
        np.testing.assert_array_equal(target, targets(DATA, PROFILES["tau3"])[DATA.train.answer_index[rows]])
        batch = step(played, answer(target))
        np.testing.assert_allclose(batch.reward, 1.0, atol=1e-6)


@pytest.mark.parametrize("name", list(REWARDS))
@pytest.mark.parametrize("profile", ["tau3", "tau384"])
def test_reward_is_the_formulas_of_clipped_actions(name: str, profile: str) -> None:
    played = scene(profile, reward=name, threshold=0.2)
    begin(played)
    generator = np.random.default_rng(0)
    for _ in range(5):
        right = truth(played).copy()
        output = (right + generator.normal(0.0, 0.3, right.shape)).astype(np.float32)
        output[0, 0] = 40.0
        expected = REWARDS[name](np.clip(output, -1.0, 1.0), right, threshold=0.2)
        np.testing.assert_allclose(step(played, answer(output)).reward, expected, atol=1e-6)


def test_on_places_the_next_level_is_wrong_whatever_the_threshold() -> None:
    played = TauScene(dataset=DATA, profile=profile_named("1x41"), agents=6, rules=TauRules(threshold=0.3))
    begin(played)
    right = truth(played).copy()
    beside = right + np.where(right > 0.0, -2 / 40, 2 / 40)
    assert (step(played, answer(beside)).reward == -1.0).all()
    assert (step(played, answer(truth(played).copy())).reward == 1.0).all()


@pytest.mark.parametrize(("profile", "name"), [("tau3", "incremental"), ("tau384", "binary")])
def test_each_profile_pays_by_its_own_formula(profile: str, name: str) -> None:
    played = scene(profile)
    begin(played)
    right = truth(played).copy()
    output = np.zeros_like(right)
    np.testing.assert_allclose(step(played, answer(output)).reward, REWARDS[name](output, right), atol=1e-6)


def test_columns_count_from_the_left() -> None:
    played = scene(columns=1)
    begin(played)
    output = truth(played).copy()
    output[:, 1:] = -output[:, 1:]
    np.testing.assert_allclose(step(played, answer(output)).reward, 1.0, atol=1e-6)


def test_environment_parameters_rule_and_can_change_without_a_reset() -> None:
    parameters = EnvironmentParameters({"reward_type": 4.0, "threshold": 0.5, "columns": 2.0})
    played = scene()
    begin(played, parameters)
    near = truth(played) + np.array([0.4, -0.4, 1.9])
    assert np.all(step(played, answer(near)).reward >= 0.0)
    far = truth(played) * 0.0 - 3.0
    right = truth(played)
    expected = (np.abs(right[:, :2] + 1.0) < 0.5).all(axis=1)
    np.testing.assert_array_equal(step(played, answer(far)).reward, expected)
    parameters.set("reward_type", 1.0)
    played.update(parameters)
    assert np.all(step(played, answer(far)).reward <= 0.0)


def test_split_chooses_the_rows() -> None:
    for name, number in (("train", 0.0), ("evaluation", 1.0)):
        batch = begin(scene(agents=40), EnvironmentParameters({"split": number}))
        rows = DATA.split("train" if name == "train" else "evaluation").prompts
        assert all((rows == one).all(axis=1).any() for one in batch.obs[0])


def test_prompts_are_drawn_uniformly_and_do_not_depend_on_actions(play: Play) -> None:
    generator = np.random.default_rng(1)
    still = play(scene(agents=50, seed=3), zeros, 60)
    wild = play(scene(agents=50, seed=3), lambda batch: answer(generator.normal(size=(len(batch), 3))), 60)
    for one, other in zip(still.batches, wild.batches, strict=True):
        np.testing.assert_array_equal(one.obs[0], other.obs[0])
    seen = np.concatenate([batch.obs[0] for batch in still.batches])
    counts = np.unique(seen, axis=0, return_counts=True)[1]
    assert len(counts) > 0.8 * len(DATA.train)  # of 3,000 draws from 1,584 rows
    assert counts.max() < 20


def test_the_limit_truncates_and_the_last_prompt_is_the_terminal_observation() -> None:
    played = scene(max_decisions=3)
    batch = begin(played)
    for _ in range(2):
        batch = step(played, zeros(batch))
        assert len(batch.terminals) == 0
    last = batch.obs[0]
    batch = step(played, zeros(batch))
    assert batch.terminals.agent_ids.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.terminals.truncated.all()
    np.testing.assert_array_equal(batch.terminals.obs[0], last)
    assert np.all(batch.reward == 0.0)
    assert not np.array_equal(batch.obs[0], last)


def test_a_reward_below_the_threshold_is_a_real_end(play: Play) -> None:
    played = play(
        scene(reward="binary_strict", reward_threshold=-5.0), lambda batch: answer(np.full((len(batch), 3), 9.0)), 12
    )
    assert played.lengths[:6] == [5] * 6
    assert not any(played.truncated)
    np.testing.assert_allclose(played.returns, -5.0)


def test_faithful_terminal_reports_the_limit_as_a_real_end(play: Play) -> None:
    played = play(scene(max_decisions=4, faithful_terminal=True), zeros, 8)
    assert played.lengths == [4] * 12
    assert not any(played.truncated)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"columns": 4.0}, "columns"),
        ({"columns": 0.0}, "columns"),
        ({"threshold": 0.0}, "threshold"),
        ({"reward_type": 9.0}, "reward_type"),
        ({"split": 2.0}, "split"),
        ({"max_decisions": -1.0}, "max_decisions"),
    ],
)
def test_senseless_parameters_are_refused_by_name(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        begin(scene(), EnvironmentParameters(parameters))


def test_an_empty_split_is_a_data_error() -> None:
    empty = replace(DATA.evaluation, prompts=DATA.evaluation.prompts[:0], answer_index=DATA.evaluation.answer_index[:0])
    played = TauScene(dataset=replace(DATA, evaluation=empty), profile=PROFILES["tau3"], agents=1)
    with pytest.raises(DataError, match="evaluation"):
        begin(played, EnvironmentParameters({"split": 1.0}))


def test_profile_parameter_wins_over_the_argument() -> None:
    assert resolve_profile("tau3", EnvironmentParameters()).name == "tau3"
    assert resolve_profile("tau3", EnvironmentParameters({"profile": 0.0})).name == "tau384"
    with pytest.raises(SettingsError, match="profile"):
        resolve_profile("tau3", EnvironmentParameters({"profile": 5.0}))


def test_agents_in_a_crowd_play_as_they_would_alone(play: Play) -> None:
    few, many = (play(scene(agents=n, seed=9, max_decisions=5), zeros, 12).batches for n in (2, 8))
    assert_own(few, many, 2)
