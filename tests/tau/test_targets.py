"""Targets: the PCA projection and its conventions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import SettingsError
from tau_trainer.specs import Float64Array
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.profiles import PROFILES, profile_named
from tau_trainer.tau.targets import TokenProjection, targets
from tests.tau.conftest import MakeFile


def _vectors(rows: int, seed: int, width: int = 20) -> Float64Array:
    return np.random.default_rng(seed).normal(size=(rows, width)) * np.linspace(0.5, 2.0, width)


@given(st.integers(4, 30), st.integers(0, 5))
def test_targets_fill_the_range_exactly(rows: int, seed: int) -> None:
    data = _vectors(rows, seed)
    result = TokenProjection.fit(data, 3).apply(data)
    np.testing.assert_allclose(result.min(axis=0), -1.0, atol=1e-9)
    np.testing.assert_allclose(result.max(axis=0), 1.0, atol=1e-9)


def test_axes_are_those_of_the_covariance() -> None:
    data = _vectors(40, 1)
    projection = TokenProjection.fit(data, 3)
    standard = (data - data.mean(axis=0)) / data.std(axis=0)
    values, vectors = np.linalg.eigh(np.cov(standard.T))
    for component in range(3):
        reference = vectors[:, np.argsort(values)[::-1][component]]
        assert abs(float(reference @ projection.axes[component])) == pytest.approx(1.0, abs=1e-9)


def test_sign_and_row_order_do_not_matter() -> None:
    data = _vectors(25, 2)
    projection = TokenProjection.fit(data, 3)
    shuffled = TokenProjection.fit(data[::-1], 3)
    np.testing.assert_allclose(projection.apply(data), shuffled.apply(data), atol=1e-9)
    largest = np.abs(projection.axes).argmax(axis=1)
    assert (projection.axes[np.arange(3), largest] > 0.0).all()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_small_vocabularies_leave_the_other_components_at_zero(rows: int) -> None:
    data = _vectors(rows, 3)
    result = TokenProjection.fit(data, 3).apply(data)
    assert np.isfinite(result).all()
    assert not result[:, rows - 1 :].any()
    assert len(np.unique(result.round(6), axis=0)) == rows


def test_constant_columns_do_no_harm() -> None:
    data = _vectors(10, 4)
    data[:, 5] = 1.25
    assert np.isfinite(TokenProjection.fit(data, 3).apply(data)).all()


def test_only_training_answers_shape_the_projection(make_file: MakeFile) -> None:
    training = [(f"prompt {word}", word) for word in ("red", "green", "blue", "yellow", "black")]
    alone = load_dataset(make_file(training, name="a.json"))
    with_more = load_dataset(make_file(training, [("another", "extraordinarily"), ("more", "zzzz")], name="b.json"))
    first, second = (targets(data, PROFILES["tau3"]) for data in (alone, with_more))
    np.testing.assert_allclose(first, second[:5], atol=1e-6)
    assert second.shape == (7, 3)
    assert (np.abs(second) <= 1.0).all()


def test_profiles_and_sharing() -> None:
    data = load_dataset()
    assert targets(data, PROFILES["tau384"]) is data.answer_vectors
    tau3 = targets(data, PROFILES["tau3"])
    assert tau3 is targets(data, PROFILES["tau3"])
    assert tau3.dtype == np.float32
    assert not tau3.flags.writeable


def test_with_two_answers_the_sign_does_not_hang_on_rounding() -> None:
    """All loadings are equally large then: the first one is positive."""
    for seed in range(50):
        axes = TokenProjection.fit(_vectors(2, seed, width=384), 3).axes
        assert axes[0, 0] > 0.0


@pytest.mark.parametrize("name", ["1x33", "1x41", "2x6", "6x2"])
def test_every_answer_has_a_place_of_its_own(name: str) -> None:
    data, profile = load_dataset(), profile_named(name)
    assert profile.levels is not None
    found = targets(data, profile)
    assert found.shape == (len(data.answers), profile.action_size)
    assert found.dtype == np.float32
    assert found is targets(data, profile)
    assert not found.flags.writeable
    level = (found + 1.0) * (profile.levels - 1) / 2.0
    np.testing.assert_allclose(level, np.rint(level), atol=1e-4)
    assert (found.min(axis=0) == -1.0).all()
    assert (found.max(axis=0) == 1.0).all()
    places = np.unique(np.rint(level), axis=0)
    assert len(places) == data.training_answers


def test_the_first_number_follows_the_first_component() -> None:
    data = load_dataset()
    first = TokenProjection.fit(data.answer_vectors, 1).apply(data.answer_vectors)[:, 0]
    order = np.argsort(first)
    assert (np.diff(targets(data, profile_named("1x33"))[order, 0]) > 0.0).all()
    assert (np.diff(targets(data, profile_named("2x6"))[order, 0]) >= 0.0).all()


def test_an_answer_that_is_never_trained_takes_the_place_of_the_one_most_like_it(make_file: MakeFile) -> None:
    data = load_dataset(make_file([("a?", "red"), ("b?", "green"), ("c?", "blue")], [("d?", "greenish")]))
    found = targets(data, profile_named("1x3"))[:, 0].tolist()
    assert sorted(found[:3]) == [-1.0, 0.0, 1.0]
    assert found[3] == found[data.answers.index("green")]


def test_more_answers_than_places_are_refused(make_file: MakeFile) -> None:
    data = load_dataset(make_file([("a?", "red"), ("b?", "green"), ("c?", "blue")]))
    with pytest.raises(SettingsError, match=r"has 3 answers in training, but the profile 1x2 has places for 2"):
        targets(data, profile_named("1x2"))
