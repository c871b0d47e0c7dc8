"""Prioritized replay against the definitions of Schaul et al. 2016 and border's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.memory.prioritized import Priorities, Tree

FIXTURE = [0.5, 0.2, 0.8, 0.3, 1.1, 2.5, 3.9]
"""border's own test of its SumTree, capacity 8, alpha 1."""


def test_border_s_sum_tree() -> None:
    tree = Tree(8)
    for place, priority in enumerate(FIXTURE):
        tree.set(np.array([place]), priority)
    asked = np.array([0.0, 0.4, 0.5, 0.6, 1.2, 1.6, 2.0, 2.8])
    assert tree.find(asked).tolist() == [0, 0, 0, 1, 2, 3, 4, 4]
    assert tree.root == pytest.approx(9.3)
    tree.set(np.array([7]), 2.0)
    assert tree.root == pytest.approx(11.3)
    assert tree.find(np.array([9.2, 9.4, 11.3])).tolist() == [6, 7, 7]


@given(capacity=st.sampled_from([1, 15, 16, 17, 255, 256, 257, 5000]), seed=st.integers(0, 2**31), minima=st.booleans())
def test_trees_are_what_their_numbers_say(capacity: int, seed: int, minima: bool) -> None:
    rng = np.random.default_rng(seed)
    tree, numbers = Tree(capacity, minima=minima), np.full(capacity, np.inf if minima else 0.0)
    for _ in range(3):
        places = rng.integers(capacity, size=rng.integers(1, 50))
        values = rng.random(len(places)) + 0.01
        tree.set(places, values)
        numbers[places] = values
        np.testing.assert_array_equal(tree.numbers[:capacity], numbers)
        assert tree.root == pytest.approx(numbers.min() if minima else numbers.sum())
    if not minima:
        asked = rng.random(200) * tree.root
        found, cumulative = tree.find(asked), numbers.cumsum()
        assert (cumulative[found] >= asked - 1e-9).all()
        assert (np.where(found > 0, cumulative[found - 1], 0.0) <= asked + 1e-9).all()
        assert (numbers[found] > 0).all()


def filled(rows: int, errors: Any = None, **options: Any) -> Priorities:
    priorities = Priorities(100, **options)
    priorities.append(np.arange(rows))
    if errors is not None:
        priorities.update(np.arange(rows), np.asarray(errors, np.float32))
    return priorities


def drawn(priorities: Priorities, rows: int = 40_000) -> Any:
    places, _ = priorities.draw(np.random.default_rng(0).random((1, rows)))
    return np.bincount(places[0], minlength=3) / rows


def test_rows_are_drawn_in_proportion() -> None:
    expected = (np.array([7.0, 0.0, 1.0]) + 1e-8) ** 0.7
    np.testing.assert_allclose(drawn(filled(3, [7.0, 0.0, 1.0], alpha=0.7)), expected / expected.sum(), atol=0.01)
    np.testing.assert_allclose(drawn(filled(3, [7.0, 0.0, 1.0], alpha=0.0)), 1 / 3, atol=0.01)


def test_every_row_can_be_drawn_and_no_other() -> None:
    priorities = filled(37)
    places, _ = priorities.draw(np.array([[0.0, 1.0, 1.0 - 1e-16, *np.linspace(0, 1, 500)]]))
    assert (places.min(), places.max()) == (0, 36)
    assert len(np.unique(places)) == 37


def test_new_rows_get_the_largest_priority_that_there_was() -> None:
    priorities = filled(2)
    np.testing.assert_array_equal(priorities.state()[0], [1.0, 1.0])
    priorities.update(np.array([0, 1]), np.array([8.0, 0.5]))
    priorities.update(np.array([0]), np.array([0.1]))
    priorities.append(np.array([2]))
    np.testing.assert_allclose(priorities.state()[0], [0.1**0.6, 0.5**0.6, 8.0**0.6], rtol=1e-6)


def test_weights_correct_what_is_drawn_more_often() -> None:
    errors = np.array([4.0, 1.0, 0.25])
    priorities = filled(3, errors, alpha=1.0, beta_0=0.5, beta_final=0.5)
    places, weights = priorities.draw(np.array([[0.1, 0.9, 0.99]]))
    assert places.tolist() == [[0, 1, 2]]
    share = errors / errors.sum()
    whole = (3 * share) ** -0.5
    np.testing.assert_allclose(weights[0], whole / whole.max(), rtol=1e-6)
    assert weights.dtype == np.float32


@pytest.mark.parametrize(("normalize", "largest"), [("All", [0.25, 0.5]), ("Batch", [1.0, 1.0])])
def test_weights_are_normalised_over_all_rows_or_by_batch(normalize: str, largest: list[float]) -> None:
    priorities = filled(3, [4.0, 1.0, 0.25], alpha=1.0, beta_0=0.5, normalize=normalize)
    _, weights = priorities.draw(np.array([[0.1, 0.1], [0.1, 0.9]]))
    np.testing.assert_allclose(weights.max(axis=1), largest, rtol=1e-5)


def test_beta_grows_with_gradient_steps() -> None:
    priorities = filled(1, n_opts_final=4)
    found = []
    for _ in range(6):
        found.append(priorities.beta)
        priorities.update(np.array([0]), np.array([1.0]))
    assert found == pytest.approx([0.4, 0.55, 0.7, 0.85, 1.0, 1.0])


def test_defaults_are_border_s() -> None:
    plain, same = Priorities(5), Priorities(5, alpha=0.6, beta_0=0.4, beta_final=1.0, n_opts_final=500_000)
    assert vars(plain)["_alpha"] == vars(same)["_alpha"]
    assert (plain.beta, plain._betas, plain._until, plain._all) == (0.4, (0.4, 1.0), 500_000, True)


def assert_same(one: Priorities, two: Priorities) -> None:
    for found, wanted in zip(one.state(), two.state(), strict=True):
        np.testing.assert_equal(found, wanted)
    uniform = np.random.default_rng(1).random((2, 50))
    for drawn_by_one, drawn_by_two in zip(one.draw(uniform), two.draw(uniform), strict=True):
        np.testing.assert_array_equal(drawn_by_one, drawn_by_two)
    assert one._minima.root == two._minima.root


def test_what_was_added_and_learned_since_is_taken_back() -> None:
    errors = np.random.default_rng(0).random(90) * 3
    tried, wanted = filled(90, errors), filled(90, errors)
    for places in (np.arange(90, 97), np.arange(20)):  # into free places, and over others
        tried.append(places)
        for _ in range(3):
            tried.update(np.array([3, 95, 3]), np.array([9.0, 0.001, 4.0]))
        tried.undo()
        assert_same(tried, wanted)


def test_what_was_saved_goes_on_the_same() -> None:
    first, second = filled(70, np.random.default_rng(0).random(70)), Priorities(100)
    second.load(*first.state())
    for _ in range(3):
        assert_same(first, second)
        for one in (first, second):
            one.update(np.array([5, 60]), np.array([3.0, 0.2]))
            one.append(np.array([70, 71]))


@pytest.mark.parametrize("wrong", [np.zeros(3), np.ones(500), np.ones((2, 2)), np.array([1.0, np.nan])])
def test_what_are_no_priorities_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="priorities of the replay memory"):
        Priorities(100).load(wrong, {"largest": 1.0, "steps": 0})
