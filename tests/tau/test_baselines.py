"""Baselines: each is the best of its kind, and none looks at held-out answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tau_trainer.errors import DataError
from tau_trainer.metrics import BaselineScore
from tau_trainer.specs import Float64Array
from tau_trainer.tau.baselines import (
    PENALTIES,
    ConfiguredFormula,
    baselines,
    best_constant,
    fit_ridge,
    predictors,
    strongest,
)
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.profiles import PROFILES
from tau_trainer.tau.targets import targets
from tests.tau.conftest import MakeFile

WANTED = hnp.arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=st.floats(-1, 1))


@given(WANTED, st.sampled_from(sorted(REWARDS)), st.integers(0, 99))
def test_no_other_constant_earns_more(wanted: Float64Array, name: str, seed: int) -> None:
    formula = ConfiguredFormula(name, 0.2)
    best = formula(np.broadcast_to(best_constant(wanted, formula), wanted.shape), wanted).mean()
    others = np.random.default_rng(seed).uniform(-1, 1, (50, wanted.shape[1]))
    others = np.concatenate([others, wanted, np.zeros((1, wanted.shape[1]))])
    if name in ("binary_strict", "binary01"):
        others = wanted
    for constant in others:
        assert formula(np.broadcast_to(constant, wanted.shape), wanted).mean() <= best + 1e-9


def test_ridge_leave_one_out_equals_leaving_one_out() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(14, 5))
    outputs = np.tanh(inputs @ generator.normal(size=(5, 2)) + 0.3 * generator.normal(size=(14, 2))) * 0.5

    def brute(penalty: float) -> float:
        errors = []
        for row in range(len(inputs)):
            kept = np.arange(len(inputs)) != row
            mean, target = inputs.mean(axis=0), outputs.mean(axis=0)
            x, y = inputs[kept] - mean, outputs[kept] - target
            ones = np.ones((len(x), 1))
            design = np.hstack([ones, x])
            weights = np.linalg.solve(design.T @ design + penalty * np.diag([0.0] + [1.0] * 5), design.T @ y)
            errors.append(np.hstack([[1.0], inputs[row] - mean]) @ weights - (outputs[row] - target))
        return float(np.mean(np.square(errors)))

    best = PENALTIES[int(np.argmin([brute(penalty) for penalty in PENALTIES]))]
    mean, target = inputs.mean(axis=0), outputs.mean(axis=0)
    x = inputs - mean
    weights = np.linalg.solve(x.T @ x + best * np.eye(5), x.T @ (outputs - target))
    expected = np.clip((inputs - mean) @ weights + target, -1.0, 1.0)
    np.testing.assert_allclose(fit_ridge(inputs, outputs)(inputs), expected, atol=1e-9)


def test_ridge_with_more_columns_than_rows_stays_finite() -> None:
    generator = np.random.default_rng(1)
    predict = fit_ridge(generator.normal(size=(3, 384)), generator.uniform(-1, 1, (3, 3)))
    output = predict(generator.normal(size=(5, 384)) * 100)
    assert np.isfinite(output).all()
    assert (np.abs(output) <= 1.0).all()


def test_baselines_by_hand(make_file: MakeFile) -> None:
    training = [("alpha", "red"), ("beta", "red"), ("gamma", "blue")]
    data = load_dataset(make_file(training, [("delta", "red"), ("epsilon", "blue"), ("zeta", "green")]))
    profile = PROFILES["tau3"]
    centres = targets(data, profile)
    held_out = centres[data.evaluation.answer_index]
    found = baselines(data, profile, ConfiguredFormula("incremental"))
    assert list(found) == ["zeros", "constant", "majority", "ridge", "nearest", "logistic"]
    zeros = REWARDS["incremental"](np.zeros_like(held_out), held_out).mean()
    assert found["zeros"].reward == pytest.approx(float(zeros))
    red = np.broadcast_to(centres[data.answers.index("red")], held_out.shape)
    assert found["majority"].reward == pytest.approx(float(REWARDS["incremental"](red, held_out).mean()))
    assert found["majority"].accuracy == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", sorted(REWARDS))
def test_no_action_that_ignores_the_prompt_earns_more_than_the_constant(make_file: MakeFile, name: str) -> None:
    """Training here is so unlike the evaluation that what is best there would be worse than zeros."""
    training = [(f"prompt {number}", "far") for number in range(20)] + [("a", "red"), ("b", "blue"), ("c", "green")]
    data = load_dataset(make_file(training, [(f"row {number}", "red") for number in range(16)]))
    formula = ConfiguredFormula(name, 0.2)
    for profile in PROFILES.values():
        found = baselines(data, profile, formula)
        assert found["constant"].reward >= found["zeros"].reward
        assert found["constant"].reward >= found["majority"].reward
        assert found["constant"].reward >= found["ridge"].reward - 1e-6, "ridge sees every prompt ask for the same"


def test_zeros_are_among_what_the_constant_is_chosen_from() -> None:
    wanted = np.array([[0.1, -0.1], [-0.1, 0.1], [0.1, 0.1], [-0.1, -0.1]])
    formula = ConfiguredFormula("binary01", 0.11)
    assert formula(np.broadcast_to(best_constant(wanted, formula), wanted.shape), wanted).mean() == 1.0


def test_nearest_gives_the_answer_of_the_most_similar_prompt(make_file: MakeFile) -> None:
    training = [("the colour of blood", "red"), ("the colour of the sky", "blue"), ("the colour of grass", "green")]
    data = load_dataset(make_file(training, [("colour of the blue sky", "blue"), ("grass, its colour", "green")]))
    predict = predictors(data, PROFILES["tau384"])["nearest"]
    centres = targets(data, PROFILES["tau384"]).astype(np.float64)
    similar = (data.test.prompts @ data.train.prompts.T).argmax(axis=1)
    np.testing.assert_array_equal(predict(data.test.prompts), centres[data.train.answer_index[similar]])
    np.testing.assert_array_equal(predict(data.train.prompts), centres[data.train.answer_index])
    assert baselines(data, PROFILES["tau384"], ConfiguredFormula("binary"))["nearest"].accuracy == 1.0


def test_the_strongest_has_the_most_right_answers_then_the_most_reward() -> None:
    scores = {"zeros": BaselineScore(0.9, 0.1), "ridge": BaselineScore(0.2, 0.5), "nearest": BaselineScore(0.3, 0.5)}
    assert strongest(scores) == "nearest"


def test_baselines_are_worked_out_once_and_scored_on_the_rows_that_are_asked_for() -> None:
    arguments = load_dataset(), PROFILES["tau3"], ConfiguredFormula("incremental")
    assert baselines(*arguments, "validation") is baselines(*arguments, "validation")
    assert baselines(*arguments, "validation")["ridge"] != baselines(*arguments)["ridge"]


def test_without_validation_rows_there_is_nothing_to_show_beside_them(make_file: MakeFile) -> None:
    data = load_dataset(make_file([("a", "red"), ("b", "blue")], [("c", "red")]))
    assert baselines(data, PROFILES["tau3"], ConfiguredFormula("incremental"), "validation") == {}


def test_options_of_the_formula_are_used() -> None:
    data, profile = load_dataset(), PROFILES["tau3"]
    wide = baselines(data, profile, ConfiguredFormula("binary", 3.0))
    assert wide["zeros"].reward == 1.0
    one = baselines(data, profile, ConfiguredFormula("difference", columns=1))
    wanted = targets(data, profile)[data.test.answer_index].astype(np.float64)
    assert one["zeros"].reward == pytest.approx(float(-np.abs(wanted[:, 0]).mean()))


def test_without_held_out_rows_there_is_nothing_to_score(make_file: MakeFile) -> None:
    data = load_dataset(make_file([("a", "b")]))
    with pytest.raises(DataError, match="no usable row in `evaluation_data`"):
        baselines(data, PROFILES["tau3"], ConfiguredFormula("incremental"))


def test_held_out_rows_do_not_shape_the_baselines(make_file: MakeFile) -> None:
    training = [(f"prompt {word}", word) for word in ("red", "green", "blue", "pink", "grey")]
    fitted = []
    for name, evaluation in (("a.json", [("x", "red")]), ("b.json", [("y", "grey"), ("z", "never seen")])):
        data = load_dataset(make_file(training, evaluation, name=name))
        found = predictors(data, PROFILES["tau3"])
        fitted.append({key: predict(data.train.prompts) for key, predict in found.items()})
    for key, output in fitted[0].items():
        np.testing.assert_allclose(output, fitted[1][key], atol=1e-6)
