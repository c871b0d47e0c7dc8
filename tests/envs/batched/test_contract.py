"""The contract's own part: resets, starts, agents that leave, the log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.envs.batched import BatchedStep
from tau_trainer.envs.batched.draws import seeds_of
from tests.envs.batched.counting import Counting


def played(env: Counting, steps: int, seed: int = 0) -> list[BatchedStep]:
    generator = torch.Generator().manual_seed(seed)
    env.reset()
    return [env.step(torch.randint(0, 3, (env.num_envs, 2), generator=generator)) for _ in range(steps)]


def test_who_leaves_gets_no_more_rewards_and_ends_once() -> None:
    env = Counting(1)
    env.reset()
    first = env.step(torch.tensor([[2, 0]]))
    assert first.terminated.tolist() == [[True, False]]
    assert env.state["present"].tolist() == [[False, True]]
    second = env.step(torch.tensor([[2, 1]]))
    assert second.rewards.tolist() == [[0.0, 1.0]]
    assert not second.terminated.any()
    assert not second.over.any()


def test_a_limit_truncates_whoever_did_not_end() -> None:
    env = Counting(1, limit=2)
    env.reset()
    env.step(torch.zeros(1, 2, dtype=torch.int64))
    step = env.step(torch.tensor([[0, 2]]))
    assert step.terminated.tolist() == [[False, True]]
    assert step.truncated.tolist() == [[True, False]]
    assert step.over.tolist() == [True]
    assert step.final_observations[0, 0, 1] == 2.0
    assert step.observations[0, 0, 1] == 0.0
    assert env.state["episode"].tolist() == [1]


def test_final_observations_are_the_observations_where_nobody_ends() -> None:
    env = Counting(3)
    env.reset()
    step = env.step(torch.zeros(3, 2, dtype=torch.int64))
    assert step.final_observations is step.observations


@given(seed=st.integers(0, 2**31), starts=st.sampled_from(["drawn", "fixed", "pool"]))
@settings(max_examples=20)
def test_a_step_of_many_copies_is_a_step_of_each(seed: int, starts: str) -> None:
    seeds = seeds_of(seed, 4)
    options: dict[str, Any] = {"starts": starts, "pool": 3}
    together = played(Counting(4, seed=seeds, **options), 30, seed)
    generator = torch.Generator().manual_seed(seed)
    actions = [torch.randint(0, 3, (4, 2), generator=generator) for _ in range(30)]
    for i in range(4):
        alone = Counting(1, seed=seeds[i : i + 1], **options)
        alone.reset()
        for given_actions, wanted in zip(actions, together, strict=True):
            found = alone.step(given_actions[i : i + 1])
            assert all((one[0] == many[i]).all() for one, many in zip(found, wanted, strict=True))


def test_a_reset_touches_only_its_copies() -> None:
    env = Counting(4)
    played(env, 2)
    before = dict(env.state)
    chosen = torch.tensor([False, True, False, False])
    env.reset(chosen)
    for name, values in env.state.items():
        assert (values[~chosen] == before[name][~chosen]).all()
    assert env.state["step"][1] == 0
    assert env.state["episode"][1] == before["episode"][1] + 1
    assert env.reset(chosen)[1, 0, 0] == env.state["sum"][1]
    env.reset()
    assert env.state["episode"].tolist() == [0, 0, 0, 0]


def test_other_seeds_count_from_the_next_reset() -> None:
    env, other = Counting(4, seed=1), Counting(4, seed=2)
    first, wanted = env.reset(), other.reset()
    env.seed(2)
    assert (env.reset(torch.ones(4, dtype=torch.bool)) != wanted).any()
    assert (env.reset() == wanted).all()
    env.seed(seeds_of(1, 4))
    assert (env.reset() == first).all()


def test_how_episodes_start() -> None:
    sums = {}
    for starts in ("drawn", "fixed", "pool"):
        env, found = Counting(2, starts=starts, pool=2), []
        env.reset()
        for _ in range(30):
            found.append(env.state["sum"].clone())
            env.reset(torch.tensor([True, True]))
        sums[starts] = torch.stack(found)
    assert set(sums["drawn"][:, 0].tolist()) == {0, 1, 2, 3, 4}
    assert len(set(sums["fixed"][:, 0].tolist())) == 1
    env = Counting(2, starts="pool", pool=2)
    env.reset()
    assert env._pool is not None
    assert set(sums["pool"].flatten().tolist()) == set(env._pool.states["sum"].tolist())


def test_where_the_device_cannot_be_asked_copies_begin_anew_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = played(Counting(5), 30)
    other = Counting(5)
    other.device = torch.device("meta")  # anything but the CPU
    monkeypatch.setattr(torch, "ones", lambda *shape, dtype, device: torch.full(shape, True))
    for one, two in zip(wanted, played(other, 30), strict=True):
        assert all((a == b).all() for a, b in zip(one, two, strict=True))


def test_the_log_of_one_copy() -> None:
    env = Counting(3)
    env.reset()
    env.watch(1)
    steps = []
    before = []
    for _ in range(12):
        before.append(env.state["sum"][1].clone())
        steps.append(env.step(torch.randint(0, 2, (3, 2))))
    trace = env.trace()
    assert trace["sum"].tolist() == [int(one) for one in before]
    assert (trace["rewards"] == np.stack([step.rewards[1] for step in steps])).all()
    assert trace["over"].tolist() == [bool(step.over[1]) for step in steps]
    assert trace["actions"].shape == (12, 2)
    env.watch(None)
    env.step(torch.zeros(3, 2, dtype=torch.int64))
    assert env.trace() == {}


def test_pictures_are_refused_where_there_are_none() -> None:
    with pytest.raises(NotImplementedError, match="Counting draws no pictures"):
        Counting(1).frame({})
