from __future__ import annotations

import math

import numpy as np
import pytest

from tau_trainer.evaluation.episodes import EpisodeLog, EpisodeScores, earned


def floats(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def rows(*values: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.array(values, np.intp)


def step(scores: EpisodeScores, chosen: np.ndarray[tuple[int], np.dtype[np.intp]], *own: float) -> None:
    """A group gets ten times as much, and a tenth is learned from."""
    values = floats(*own)
    scores.step(chosen, scores.acted(chosen), own=values, group=10 * values, paid=values * np.float32(0.1))


def end(
    scores: EpisodeScores, chosen: np.ndarray[tuple[int], np.dtype[np.intp]], *own: float
) -> tuple[dict[str, list[float]], list[float]]:
    values = floats(*own)
    returns, lengths = scores.end(
        chosen, scores.acted(chosen), own=values, group=10 * values, paid=values * np.float32(0.1)
    )
    return {kind: sums.tolist() for kind, sums in returns.items()}, lengths.tolist()


def test_returns_and_lengths_of_an_episode() -> None:
    scores = EpisodeScores()
    step(scores, rows(0, 1), 9.0, 9.0)  # came before any decision of the episode
    step(scores, rows(0, 1), 1.0, 2.0)
    step(scores, rows(0), 1.0)
    returns, lengths = end(scores, rows(0, 1), 0.5, 0.25)
    assert returns == {"own": [2.5, 2.25], "group": [25.0, 22.5], "paid": pytest.approx([0.25, 0.225])}
    assert lengths == [3.0, 2.0]
    assert scores.episodes == 2
    assert end(scores, rows(0), 7.0) == ({"own": [], "group": [], "paid": []}, []), "without a decision it is none"
    assert scores.episodes == 2
    step(scores, rows(0), 100.0)
    assert end(scores, rows(0), 1.0)[0]["own"] == [1.0], "the next begins at zero"


def test_a_kind_that_nobody_pays_is_0() -> None:
    scores = EpisodeScores()
    scores.step(rows(0), scores.acted(rows(0)), own=floats(1.0))
    returns, _ = scores.end(rows(0), scores.acted(rows(0)), own=floats(2.0))
    assert {kind: sums.tolist() for kind, sums in returns.items()} == {"own": [2.0], "group": [0.0], "paid": [0.0]}


def test_rows_beyond_the_first_table_and_clear() -> None:
    scores = EpisodeScores()
    step(scores, rows(1000), 0.0)
    assert scores.acted(rows(1000, 5)).tolist() == [True, False]
    scores.clear()
    assert not scores.acted(rows(1000)).any()


def test_who_is_alone_earns_what_he_gets_himself() -> None:
    assert earned([1.0, 2.0], [0.5, math.nan]).tolist() == [1.5, 2.0]
    assert earned([1.0, 2.0], []).tolist() == [1.0, 2.0]


def test_the_mean_return_does_not_depend_on_the_order() -> None:
    returns = [0.1, 1e8, 0.7, -1e8, 3.0]
    assert EpisodeLog(returns).mean_return == EpisodeLog(sorted(returns)).mean_return == pytest.approx(0.76)
    assert (len(EpisodeLog()), EpisodeLog().mean_return) == (0, None)
