"""What pairs of fixed players are worth at Hironaka's game, against figures of others."""

from __future__ import annotations

import math

import pytest
import torch

from tau_trainer.games.polyhedra.matches import JAX, MatchSettings, get_rho_for_pair, match, rho_matrix
from tau_trainer.games.polyhedra.players import View

FIVE = MatchSettings(max_num_points=5)
TRAINER = [
    # host, agent, at 20 points (of 20,000 games for random, 10,000 for pairs), at 5 points (of 10,000)
    ("random", "random", 0.165, 0.198),
    ("random", "choose_first", 0.042, 0.069),
    ("random_pair", "random", 0.146, 0.179),
    ("random_pair", "choose_first", 0.050, 0.083),
]
JAX_RULE = [
    ("random", 0.200, 0.091, 0.091),
    ("random_pair", 0.179, 0.103, 0.102),
    ("all_coord", 0.251, 0.032, 0.032),
    ("zeillinger", 0.256, 0.160, 0.166),
]
MATCHES = [
    # games in 10,000 turns, published and simulated anew by others
    ("random_pair", "choose_first", 488, 522),
    ("random_pair", "random", 1481, 1470),
    ("all_coord", "choose_first", 10, 13),
    ("all_coord", "random", 2139, 2113),
    ("zeillinger", "choose_first", 719, None),
    ("zeillinger", "random", 1898, None),
]


def assert_close(host: str, agent: str, setting: MatchSettings, wanted: float, theirs: int, games: int = 1200) -> None:
    """``wanted`` is of ``theirs`` games and rounded to three digits."""
    found = get_rho_for_pair(host, agent, games, setting, seed=4)
    error = math.hypot(float(found.error), float(found.error) * math.sqrt(games / theirs))
    assert abs(float(found.rho) - wanted) <= 3 * error + 0.0005


@pytest.mark.parametrize(("host", "agent", "twenty", "five"), TRAINER)
def test_rho_as_the_trainer_counts(host: str, agent: str, twenty: float, five: float) -> None:
    assert_close(host, agent, MatchSettings(), twenty, 10_000, games=800)
    assert_close(host, agent, FIVE, five, 10_000)


@pytest.mark.parametrize(("host", "random", "first", "last"), JAX_RULE)
def test_rho_as_the_jax_trainer_counts(host: str, random: float, first: float, last: float) -> None:
    for agent, wanted in (("random", random), ("choose_first", first), ("choose_last", last)):
        assert_close(host, agent, JAX, wanted, 20_000)


@pytest.mark.parametrize(("host", "agent", "published", "again"), MATCHES)
def test_games_in_a_match(host: str, agent: str, published: int, again: int | None) -> None:
    parts, copies = 16, 10
    games = match(host, agent, 10_000 // parts, copies, seed=9, step_threshold=1000).double()
    ours = (games.mean() - 1) * parts + 1
    one_match = games.std() * math.sqrt(parts) + 1
    for theirs in (published, again):
        assert theirs is None or abs(float(ours) - theirs) <= 3 * float(one_match) * math.sqrt(1 + parts / copies)


def test_rho_counts_turns_exactly() -> None:
    """Two points in two dimensions: a host that names both ends them in one turn, or never with the wrong reply."""
    setting = MatchSettings(dimension=2, max_num_points=2, max_value=3, max_steps=7)
    lengths: list[int] = []

    def stubborn(view: View) -> torch.Tensor:
        here = view.points[..., 0] >= 0
        lengths.append(int((here.sum(dim=1) == 2).sum()))
        return torch.zeros(len(view.points), dtype=torch.int64)

    found = get_rho_for_pair(stubborn, "choose_first", 500, setting, seed=1)
    assert 0 < lengths[0] < 500
    assert len(lengths) <= 7
    turns = sum(lengths)
    assert float(found.rho) == pytest.approx(lengths[0] / turns)
    spread = [length for length in range(1, 8) for _ in range(_ended(lengths, length))]
    mean = turns / lengths[0]
    variance = sum((one - mean) ** 2 for one in spread) / (lengths[0] - 1)
    assert float(found.error) == pytest.approx(math.sqrt(variance / lengths[0]) / mean**2)


def _ended(going: list[int], length: int) -> int:
    """Games of that many turns, from how many were going before each turn; the last ones are cut."""
    before, after = (going[i] if i < len(going) else 0 for i in (length - 1, length))
    return before - (after if length < 7 else 0)


def test_a_matrix_has_a_row_for_each_host() -> None:
    hosts, agents = {"a": "all_coord", "b": "random"}, {"x": "random", "y": "choose_first", "z": "choose_last"}
    found = rho_matrix(hosts, agents, 60, FIVE)
    assert found.rho.shape == found.error.shape == found.unfinished.shape == (2, 3)
    assert found.rho[1, 2] == get_rho_for_pair("random", "choose_last", 60, FIVE).rho
    assert found.unfinished[0, 1] > 0.3
