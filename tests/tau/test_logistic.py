"""The logistic classifier: what it must get right, and that its strength is chosen by rows it was not fitted on."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.specs import Float64Array, FloatArray, IntArray
from tau_trainer.tau import logistic
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.logistic import fit_logistic


def unit(rows: Float64Array) -> FloatArray:
    scaled: FloatArray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return scaled


def clouds(
    classes: int, each: int, spread: float, seed: int = 0, size: int = 32
) -> tuple[FloatArray, IntArray, FloatArray, IntArray]:
    """Unit vectors around ``classes`` centres: some to fit, some to check."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, size))
    index = np.repeat(np.arange(classes), each).astype(np.int32)
    first, second = (unit(centres[index] + spread * rng.normal(size=(len(index), size))) for _ in range(2))
    return first, index, second, index


def test_it_tells_clouds_apart() -> None:
    prompts, classes, fresh, wanted = clouds(20, 6, 0.5)
    assert (fit_logistic(prompts, classes)(fresh) == wanted).mean() > 0.95


def test_classes_keep_their_numbers() -> None:
    prompts, classes, _, _ = clouds(3, 5, 0.1)
    renamed = np.array([7, 2, 40], np.int32)[classes]
    found = fit_logistic(prompts, renamed)(prompts)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, renamed)


@pytest.mark.parametrize("rows", [1, 2])
def test_hardly_anything_to_learn_from(rows: int) -> None:
    prompts, classes, fresh, _ = clouds(rows, 1, 0.1)
    assert set(fit_logistic(prompts, classes)(fresh)) <= set(classes.tolist())
    assert set(fit_logistic(prompts, np.full(rows, 5, np.int32))(fresh)) == {5}


def test_the_weights_are_where_the_loss_is_flat() -> None:
    """Far along the path the gradient of the penalised loss is all but gone."""
    prompts, classes, _, _ = clouds(4, 10, 0.6)
    inputs = logistic._with_one(prompts - prompts.mean(axis=0))
    squares, axes = np.linalg.eigh((inputs.T @ inputs).astype(np.float64))
    rotated = (inputs @ axes).astype(np.float32)
    curvature = (0.5 * squares).astype(np.float32)[:, None]
    weights = logistic._path(rotated, classes, 4, curvature, (1.0,) * 12)[-1]
    gradient = rotated.T @ logistic._excess(rotated @ weights, classes) + weights
    assert np.abs(gradient).max() < 1e-3
    begin = rotated.T @ logistic._excess(np.zeros((40, 4), np.float32), classes)
    assert np.abs(begin).max() > 1.0


def test_the_strength_is_the_one_that_does_best_on_rows_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels by a coin: what fits the noise least is right most often, though it is right least often on its own."""
    prompts, classes, fresh, _ = clouds(2, 60, 0.1)
    noisy = np.where(np.random.default_rng(1).random(120) < 0.2, 1 - classes, classes).astype(np.int32)
    monkeypatch.setattr(logistic, "STRENGTHS", (1.0, 1e-7))
    monkeypatch.setattr(logistic, "STEPS", 200)
    assert (fit_logistic(prompts, noisy)(fresh) == classes).mean() > 0.95
    monkeypatch.setattr(logistic, "STRENGTHS", (1e-7,))
    assert (fit_logistic(prompts, noisy)(fresh) == classes).mean() < 0.95


def test_many_rows_and_classes_are_quick() -> None:
    """A comparison of strengths on fewer rows chooses well for all (5,000 of 250 answers take 2 s of one core)."""
    prompts, classes, fresh, wanted = clouds(80, 20, 1.0, size=384)
    assert len(prompts) > logistic.MOST_COMPARED
    assert (fit_logistic(prompts, classes)(fresh) == wanted).mean() > 0.9


def test_few_rows_of_many_answers_take_a_weak_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unit vectors lie close together: under a strong penalty the answers that are frequent win every time."""
    data = load_dataset()
    answers = data.train.answer_index
    few = np.concatenate(
        [np.flatnonzero(answers == answer)[: 12 if answer < 11 else 2] for answer in range(data.training_answers)]
    )
    prompts, classes = data.train.prompts[few], answers[few]

    def accuracy() -> float:
        return float((fit_logistic(prompts, classes)(data.evaluation.prompts) == data.evaluation.answer_index).mean())

    chosen = accuracy()
    monkeypatch.setattr(logistic, "STRENGTHS", logistic.STRENGTHS[:1])
    assert chosen > accuracy() + 0.1
