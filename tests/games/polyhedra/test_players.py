"""Fixed players: known answers, and what each promises."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.envs.batched import Draws
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.errors import SettingsError
from tau_trainer.games.polyhedra import twin
from tau_trainer.games.polyhedra.players import AGENTS, HOSTS, View, found, view_of
from tau_trainer.games.polyhedra.points import subsets
from tau_trainer.games.polyhedra.rules import Position, Rules, drawn, over, played
from tests.games.polyhedra.padding import padded

CPU = torch.device("cpu")


def moment(count: int) -> Draws:
    zeros = torch.zeros(count, dtype=torch.int64)
    return Draws(seeds_of(7, count), zeros, zeros)


def named(host: str, *games: Sequence[Sequence[float]]) -> list[set[int]]:
    """What a host names in these games, which are padded."""
    points = padded(*games)
    chosen = subsets(points.shape[2], CPU)[HOSTS[host](View(points, moment(len(games))))]
    return [set(row.nonzero().flatten().tolist()) for row in chosen]


def test_zeillinger_as_published() -> None:
    assert named("zeillinger", [(0, 0, 4), (5, 0, 1), (1, 5, 1), (0, 25, 0)], [(0, 1, 2), (2, 1, 0)]) == [{0, 2}] * 2
    assert twin.character((5, 0, -3)) == (8, 2)
    assert twin.character((1, 1, -1, -1)) == (2, 4)
    assert named("zeillinger", [(1, 1, 1)]) == [{0, 1}]
    # Differences (2,2,-2,-2,0) and, with fewer extreme entries, (0,0,0,2,-2).
    assert named("zeillinger", [(2, 2, 0, 0, 20), (0, 0, 2, 2, 20), (9, 9, 9, 2, 0), (9, 9, 9, 0, 2)]) == [{3, 4}]


def test_zeillinger_of_equal_pairs_the_first_and_lex_the_least_coordinates() -> None:
    game = [(0, 4, 0, 2), (0, 2, 0, 4), (2, 0, 4, 0), (0, 3, 3, 0)]  # differences (0,2,0,-2) first, then larger ones
    assert named("zeillinger", game) == [{1, 3}]
    later = [(0, 9, 9, 0), (9, 0, 0, 2), (8, 0, 0, 3)]
    assert named("zeillinger", later) == named("zeillinger_lex", later) == [{0, 3}]
    equal = [(0, 0, 2, 0, 7), (0, 0, 0, 2, 7), (2, 0, 9, 0, 0), (0, 2, 9, 0, 0)]
    assert named("zeillinger", equal) == [{2, 3}]
    assert named("zeillinger_lex", equal) == [{0, 1}]


@given(
    st.integers(2, 4).flatmap(
        lambda d: st.lists(st.lists(st.integers(0, 5), min_size=d, max_size=d), min_size=2, max_size=6)
    )
)
def test_zeillinger_and_hitting_sets_as_with_lists(points: list[list[int]]) -> None:
    game = twin.reduced(points)
    assert named("zeillinger", game) == [set(twin.zeillinger(game))]
    if len(game) < 2:
        return
    least = set(twin.hitting(game))
    assert named("weak_spivakovsky", game) == [least]
    for host in ("weak_spivakovsky_min_hitting", "random_spivakovsky"):
        (chosen,) = named(host, game)
        assert len(chosen) == len(least)
        assert all(any(point[k] > 0 for k in chosen) for point in game)


def test_of_minimal_hitting_sets_each_host_has_its_own() -> None:
    game = [(1, 0, 0, 1), (0, 1, 1, 0)]  # hit by {0,1}, {0,2}, {1,3}, {2,3}
    assert named("weak_spivakovsky", game) == [{0, 1}]
    other = [(1, 0, 0, 1), (0, 0, 1, 1), (1, 1, 0, 0)]  # hit by {0,2}, {0,3}, {1,3}
    assert named("weak_spivakovsky", other) == [{0, 2}]
    lists_and_numbers_differ = [(1, 1, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1)]  # {0,1}; as numbers 3 too
    assert named("weak_spivakovsky_min_hitting", lists_and_numbers_differ) == [{0, 1}]
    differ = [(1, 0, 1, 0), (1, 1, 0, 0), (0, 1, 0, 1), (0, 0, 1, 1)]  # {0,3} = 9, {1,2} = 6
    assert named("weak_spivakovsky", differ) == [{0, 3}]
    assert named("weak_spivakovsky_min_hitting", differ) == [{1, 2}]
    seen = {frozenset(one) for one in named("random_spivakovsky", *[game] * 200)}
    assert seen == {frozenset(one) for one in ({0, 1}, {0, 2}, {1, 3}, {2, 3})}


def test_spivakovsky_names_what_sums_to_one_in_every_point() -> None:
    # The nearest point is (2,0,0): coordinate 0. Below it lie (1,3,0) and (0,0,4): projected and then at least 1
    # from the planes with coordinates 1 and 2 only together.
    assert named("spivakovsky", [(2, 0, 0), (1, 3, 0), (0, 0, 4)]) == [{0, 1, 2}]
    assert named("spivakovsky", [(2, 0, 0), (0, 3, 0)]) == [{0, 1}]
    assert named("spivakovsky", [(1, 0, 5), (0, 1, 5)]) == [{0, 1}]


def test_spivakovsky_plays_the_original_game_to_its_end() -> None:
    rules, zeros = Rules(variant="original", unit=12.0), torch.zeros(200, dtype=torch.int64)
    position = drawn(Draws(seeds_of(1, 200), zeros, zeros), 3, 5, 12, rules)
    for step in range(1, 30):
        view = view_of(position, Draws(seeds_of(1, 200), zeros, zeros + step), None, rules)
        actions = HOSTS["spivakovsky"](view)
        assert view.choices is not None
        assert (view.choices.gather(1, actions[:, None])[:, 0] | over(position, rules)).all()
        coords = subsets(3, CPU)[actions]
        position = played(position, coords, AGENTS["random"](view._replace(coords=coords, choices=coords)), rules)
    assert over(position, rules).all()


@pytest.mark.parametrize("host", list(HOSTS))
def test_every_host_names_two_coordinates_or_more_and_every_game_for_itself(host: str) -> None:
    zeros = torch.zeros(64, dtype=torch.int64)
    draws = Draws(seeds_of(3, 64), zeros, zeros)
    points = drawn(draws, 4, 7, 9, Rules(rescale=True)).points
    actions = HOSTS[host](View(points, draws))
    assert actions.dtype == torch.int64
    assert ((actions >= 0) & (actions < 11)).all()
    for i in range(0, 64, 7):
        one = Draws(seeds_of(3, 64)[i : i + 1], zeros[:1], zeros[:1])
        assert HOSTS[host](View(points[i : i + 1], one)) == actions[i]


def test_random_players_choose_all_that_is_allowed_equally_often() -> None:
    count = 12_000
    view = View(torch.zeros(count, 2, 3), moment(count))
    assert torch.bincount(HOSTS["random"](view), minlength=4).tolist() == pytest.approx([3000] * 4, abs=250)
    pairs = torch.bincount(HOSTS["random_pair"](view), minlength=4).tolist()
    assert pairs == pytest.approx([4000, 4000, 4000, 0], abs=250)
    coords = torch.tensor([True, False, True]).expand(count, 3)
    axes = torch.bincount(AGENTS["random"](view._replace(coords=coords)), minlength=3).tolist()
    assert axes == pytest.approx([6000, 0, 6000], abs=350)
    assert axes[1] == 0


def test_agents_choose_among_what_was_named() -> None:
    view = View(torch.zeros(2, 2, 4), moment(2), torch.tensor([[False, True, False, True], [True, True, True, False]]))
    assert AGENTS["choose_first"](view).tolist() == [1, 0]
    assert AGENTS["choose_last"](view).tolist() == [3, 2]


def test_morin_chooses_the_least_weight_and_needs_weights() -> None:
    position = Position(torch.zeros(40, 2, 4), torch.tensor([[1.0, 3.0, 2.0, 2.0]]).expand(40, -1))
    coords = torch.tensor([False, True, True, True]).expand(40, -1)
    chosen = AGENTS["morin"](view_of(position, moment(40), coords, Rules(variant="thom")))
    assert set(chosen.tolist()) == {2, 3}
    with pytest.raises(SettingsError, match="the agent 'morin' needs weights; play the variant 'thom'"):
        AGENTS["morin"](View(torch.zeros(1, 2, 3), moment(1), torch.ones(1, 3, dtype=torch.bool)))


def test_players_are_found_by_name() -> None:
    assert found("host", "zeillinger") is HOSTS["zeillinger"]
    assert found("agent", "random") is AGENTS["random"]
    mine = AGENTS["choose_last"]
    assert found("agent", mine) is mine
    with pytest.raises(SettingsError, match="there is no host named 'zeilinger'; did you mean zeillinger"):
        found("host", "zeilinger")


def test_what_is_observed_is_points_then_coordinates_then_weights() -> None:
    view = View(
        torch.tensor([[[1.0, 9.0], [5.0, 0.0]]]),
        moment(1),
        torch.tensor([[True, True]]),
        torch.tensor([[3.0, 4.0]]),
    )
    assert view.observation().tolist() == [[5, 0, 1, 9, 1, 1, 3, 4]]
