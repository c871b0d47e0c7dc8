"""Pairs that take turns."""

from __future__ import annotations

from tests.training.pairs.pairs import Make


def test_in_turn_one_exchange_each_in_fixed_order(make: Make) -> None:
    team = make(3, 2, exchanges=2, deterministic=True)
    team.run()
    assert team.log == [
        "initialize 0", "initialize 1", "advance 0", "advance 1", "advance 0", "stop 0", "advance 1", "stop 1",
        "initialize 2", "advance 2", "advance 2", "stop 2",
    ]  # fmt: skip


def test_a_pair_that_was_finished_before_takes_no_turn(make: Make) -> None:
    team = make(3, 2, exchanges=2, deterministic=True)
    team.pairs[0].left = 0
    team.run()
    assert team.log[:4] == ["stop 0", "initialize 1", "initialize 2", "advance 1"]
    assert team.states == ["Completed"] * 3


def test_engines_begin_anew_where_the_round_says_so(make: Make) -> None:
    rounds = iter([False, True, False, False])

    async def after_round() -> bool:
        return next(rounds)

    team = make(2, 2, exchanges=3, deterministic=True)
    team.coordinator.round_over = after_round  # type: ignore[method-assign]
    team.pairs[1].fails_at = "anew"
    team.run()
    assert team.log.count("anew 0") == team.log.count("anew 1") == 1
    assert team.states == ["Completed", "Failed"]
