"""Pools of starts, against a plain loop over their weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tau_trainer.envs.batched import Draws, Pool
from tau_trainer.envs.batched.checking import check
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.errors import SettingsError
from tests.envs.batched.counting import Counting

WEIGHTS = [0.0, 3.0, 0.0, 1.0, 4.0, 0.0]
SUMS = torch.arange(6)


class Pooled(Counting):
    def pool(self, count: int) -> Pool:
        return Pool({"sum": SUMS.to(self.device)}, WEIGHTS)


def at(seeds: torch.Tensor, episode: int = 0) -> Draws:
    return Draws(seeds, torch.full_like(seeds, episode), torch.zeros_like(seeds))


def plainly(bits: int) -> int:
    """The start whose share of [0, 1) a number of 32 bits lies in."""
    drawn, before = ((bits >> 32) & (2**32 - 1)) / 2**32, 0.0
    for index, weight in enumerate(WEIGHTS):
        before += weight / sum(WEIGHTS)
        if drawn < before:
            return index
    raise AssertionError("the shares are all of it")


def test_starts_are_those_of_a_plain_loop_and_as_frequent_as_their_weights() -> None:
    draws = at(seeds_of(5, 20_000))
    found = Pool({"sum": SUMS}, WEIGHTS).draw(draws)["sum"]
    assert found.tolist() == [plainly(bits) for bits in draws.bits(2**20).tolist()]
    shares = found.bincount(minlength=6) / len(found)
    assert shares.tolist() == pytest.approx([weight / 8 for weight in WEIGHTS], abs=0.015)
    assert set(found.tolist()) == {1, 3, 4}, "what has no weight is never drawn"


@pytest.mark.parametrize("weights", [[1e-300, 0.0], [1e300, 0.0], torch.tensor([5, 0])])
def test_weights_count_beside_each_other_alone(weights: Any) -> None:
    found = Pool({"sum": torch.arange(2)}, weights).draw(at(seeds_of(1, 1000)))["sum"]
    assert not found.any()


def test_what_has_no_weight_is_not_drawn_by_a_number_at_its_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [0, 2**32 * 3 // 8, 2**31, 2**32 - 1]  # where those before end; the last number of all
    monkeypatch.setattr(Draws, "bits", lambda self, stream: torch.tensor(shares) << 32)
    assert Pool({"sum": SUMS}, WEIGHTS).draw(at(seeds_of(1, 4)))["sum"].tolist() == [1, 3, 4, 4]


def test_weights_whose_sum_is_no_number_count_too() -> None:
    found = Pool({"sum": torch.arange(2)}, [1.7e308, 1.7e308]).draw(at(seeds_of(1, 1000)))["sum"]
    assert found.float().mean().item() == pytest.approx(0.5, abs=0.06)


def test_without_weights_all_are_alike() -> None:
    found = Pool({"sum": SUMS}).draw(at(seeds_of(2, 20_000)))["sum"]
    assert (found.bincount(minlength=6) / len(found)).tolist() == pytest.approx([1 / 6] * 6, abs=0.015)


def test_episodes_begin_from_the_environments_own_pool_and_go_on_after_a_restore() -> None:
    env = Pooled(64, starts="pool", seed=3)
    every, begun = torch.ones(64, dtype=torch.bool), list[list[int]]()
    env.reset()
    for _ in range(4):
        begun.append(env.state["sum"].tolist())
        env.reset(every)
    assert {one for row in begun for one in row} == {1, 3, 4}
    again, alone = Pooled(64, starts="pool", seed=3), Pooled(1, starts="pool", seed=seeds_of(3, 64)[7:8])
    again.reset()
    alone.reset()
    assert alone.state["sum"].tolist() == [begun[0][7]]
    assert again.state["sum"].tolist() == begun[0]
    again.state = {name: values.clone() for name, values in env.state.items()}
    for one in (env, again):
        one.reset(every)
    assert (again.state["sum"] == env.state["sum"]).all()
    assert again.state["sum"].tolist() != begun[-1]


@pytest.mark.parametrize(
    ("states", "weights", "says"),
    [
        ({}, None, "a pool of starts has none; give at least one state"),
        ({"a": torch.ones(0)}, None, "has 0 of 'a'"),
        ({"a": torch.ones(2), "b": torch.ones(3)}, None, "has 2 of 'a', 3 of 'b'; give"),
        ({"a": torch.ones(2)}, [1.0], r"invalid weights of shape \[1\]; give 2 finite numbers"),
        ({"a": torch.ones(2)}, [1.0, -1.0], "not all of them 0"),
        ({"a": torch.ones(2)}, [1.0, float("nan")], "finite"),
        ({"a": torch.ones(2)}, [0.0, 0.0], "not all of them 0"),
    ],
)
def test_what_is_no_pool_is_a_sentence(states: dict[str, torch.Tensor], weights: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Pool(states, weights)


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ({"total": SUMS}, "the pool of starts does not fit: "),
        ({"sum": SUMS, "more": SUMS}, "pool gives 'more', and begin does not"),
        ({"sum": SUMS.float()}, "'sum' is float32 [] in the pool, but int64 [] in begin"),
        ({"sum": SUMS[:, None]}, "'sum' is int64 [1] in the pool, but int64 [] in begin"),
    ],
)
def test_a_pool_that_does_not_fit_is_refused_and_check_env_finds_it(states: dict[str, torch.Tensor], says: str) -> None:
    class Wrong(Counting):
        def pool(self, count: int) -> Pool:
            return Pool(states)

    with pytest.raises(SettingsError) as raised:
        Wrong(2, starts="pool").reset()
    assert says in str(raised.value)
    findings = check(lambda count, **options: Wrong(count, **options), copies=2, steps=3)
    assert any(says in sentence for sentence in findings.sentences)


def test_check_env_finds_nothing_wrong_with_a_pool_that_fits() -> None:
    for starts in ("drawn", "pool"):
        findings = check(lambda count, starts=starts, **options: Pooled(count, starts=starts, **options), steps=30)
        assert findings.sentences == []
