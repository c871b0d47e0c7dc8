from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.algorithms.off_policy.return_scale import ReturnScale
from tau_trainer.errors import CheckpointError
from tau_trainer.memory import Rollout, TensorRollout
from tests.algorithms.experience import CONTINUOUS, TWO_STREAMS
from tests.algorithms.replayed import Collector, sac_ln, sac_ln_settings

GAMMAS = np.array([0.9, 0.6], np.float32)


def rollouts(seed: int, lengths: list[int]) -> list[Rollout]:
    learner = sac_ln(CONTINUOUS, sac_ln_settings(signals=TWO_STREAMS))
    collector = Collector(learner, seed)
    return [Rollout(collector.collect(steps)) for steps in lengths]


def looped(given: list[Rollout], rewards: list[Any]) -> tuple[float, float]:
    """The scale and the spread, transition by transition."""
    carried: dict[int, Any] = {}
    returns = []
    for rollout, paid in zip(given, rewards, strict=True):
        for row in range(len(rollout)):
            agent = int(rollout.rows[row])
            before = np.zeros(2) if rollout.begins[row] else carried.get(agent, np.zeros(2))
            carried[agent] = before * GAMMAS.astype(np.float64) + paid[row]
            returns.append(carried[agent].sum())
            if rollout.terminated[row] or rollout.truncated[row]:
                carried[agent] = np.zeros(2)
    deviation, largest = float(np.std(returns)), float(np.abs(returns).max()) / 5.0
    return max(deviation, largest), min(max(deviation / largest, 0.1), 1.0)


@given(
    seed=st.integers(0, 50),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    once=st.sampled_from([0.0, 10.0, 1000.0]),
)
def test_scale_and_spread_are_those_of_a_loop_over_transitions(seed: int, lengths: list[int], once: float) -> None:
    """Also if one reward is ``once`` larger than the others."""
    scale, rng = ReturnScale(GAMMAS), np.random.default_rng(seed)
    some = [one for one in rollouts(seed, lengths) if len(one)]
    rewards = [rng.normal(size=(len(one), 2)).astype(np.float32) for one in some]
    if some:
        rewards[0][0] += once
    for rollout, paid in zip(some, rewards, strict=True):
        scale.add(rollout, paid)
    if some:
        assert (scale.value, scale.spread) == pytest.approx(looped(some, rewards), rel=1e-6)


def test_nothing_is_divided_by_zero() -> None:
    scale = ReturnScale(GAMMAS)
    assert (scale.value > 0.0, scale.spread) == (True, 1.0)
    (rollout,) = rollouts(1, [5])
    scale.add(rollout, np.zeros((len(rollout), 2), np.float32))
    assert (0.0 < scale.value < 1e-6, scale.spread) == (True, 1.0)


def test_sources_have_rows_of_their_own() -> None:
    together, apart = ReturnScale(GAMMAS), ReturnScale(GAMMAS)
    first, second = rollouts(3, [3, 3])
    ones = [np.ones((len(one), 2), np.float32) for one in (first, second)]
    together.add(first, ones[0], source=0)
    together.add(second, ones[1], source=0)
    apart.add(first, ones[0], source=0)
    apart.add(second, ones[1], source=1)
    assert together.value != apart.value


@pytest.mark.parametrize("place", [0, 2, 3])
def test_what_no_returns_can_be_is_refused(place: int) -> None:
    values, scale = np.ones(4), ReturnScale(GAMMAS)
    before = scale.value
    values[place] = -1.0
    with pytest.raises(CheckpointError, match="size of returns is negative; use an earlier checkpoint"):
        scale.load({"returns": values})
    assert scale.value == before


def test_an_agent_that_vanished_without_an_end_begins_at_nothing_and_others_come_later() -> None:
    def step(*, begins: bool, row: int = 0) -> Any:
        no = np.zeros(1, np.bool_)
        return SimpleNamespace(rows=np.array([row]), begins=np.array([begins]), terminated=no, truncated=no)

    scale, paid = ReturnScale(np.ones(1, np.float32)), np.ones((1, 1), np.float32)
    for begins in (True, False, False, True):
        scale.add(step(begins=begins), paid)
    returns = [1.0, 2.0, 3.0, 1.0]
    assert scale.value == pytest.approx(max(np.std(returns), 3.0 / 5.0))
    scale.add(step(begins=True, row=2), paid)
    scale.add(step(begins=False), paid)
    assert scale.value == pytest.approx(max(np.std([*returns, 1.0, 2.0]), 3.0 / 5.0)), "and goes on from there"


def test_of_copies_it_is_that_of_a_loop_over_decisions() -> None:
    """From rollout to rollout, an agent that has left counts for nothing; nothing is paid at first."""
    scale, drawn, returns = (
        ReturnScale(np.array([0.9]), torch.zeros(3, 2, 1, dtype=torch.float64)),
        torch.Generator().manual_seed(0),
        [],
    )
    carried = np.zeros((3, 2))
    for steps, size in ((2, 0.0), (4, 1.0), (1, 20.0)):
        chance, rewards = (torch.rand(steps, 3, 2, generator=drawn) for _ in range(2))
        there = chance < 0.8
        rollout = SimpleNamespace(terminated=chance < 0.1, truncated=(chance > 0.1) & (chance < 0.3), present=there)
        paid = size * (rewards - 0.3) * there
        _add(scale, rollout, paid.reshape(-1, 1))
        for place in np.ndindex(steps, 3, 2):
            agent = place[1:]
            if there[place]:
                carried[agent] = 0.9 * carried[agent] + float(paid[place])
                returns.append(carried[agent])
            carried[agent] *= not bool(rollout.terminated[place] | rollout.truncated[place])
        expected = max(float(np.std(returns)), float(np.abs(returns).max()) / 5.0)
        assert float(scale.value) == pytest.approx(expected or 1e-8, rel=1e-6)
    again = ReturnScale(np.array([0.9]), torch.zeros(3, 2, 1, dtype=torch.float64))
    again.load(scale.state())
    for each in (scale, again):
        _add(each, rollout, paid.reshape(-1, 1))
    assert float(again.value) == float(scale.value)
    with pytest.raises(CheckpointError, match="size of returns is negative"):
        again.load({**scale.state(), "returns": np.array([1.0, 0.0, -1.0, 0.0])})


def _add(scale: ReturnScale, rollout: SimpleNamespace, paid: torch.Tensor) -> None:
    nothing = torch.zeros(*rollout.present.shape, 1)
    shown = TensorRollout(
        nothing, nothing, None, paid, after=nothing[0], after_mask=None, final=None, kept={}, **vars(rollout)
    )
    scale.add(shown, paid)
