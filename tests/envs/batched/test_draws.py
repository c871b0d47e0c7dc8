"""Random numbers by hash: SplitMix64 as others compute it, and numbers that are spread as they say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.envs.batched.draws import Draws, mixed, seeds_of


def splitmix(state: int, count: int) -> list[int]:
    """Java's SplittableRandom, in Python's unbounded integers."""
    found = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        found.append(z ^ (z >> 31))
    return found


def draws(seeds: int = 1, episode: int = 0, step: int = 0, seed: int = 1) -> Draws:
    own = seeds_of(seed, seeds)
    return Draws(own, torch.full_like(own, episode), torch.full_like(own, step))


def test_the_published_numbers_of_seed_1234567() -> None:
    wanted = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert splitmix(1234567, 5) == wanted
    states = (1234567 + np.arange(1, 6, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.int64)
    assert mixed(torch.from_numpy(states)).numpy().astype(np.uint64).tolist() == wanted


@given(st.integers(-(2**63), 2**63 - 1))
def test_the_finaliser_for_any_number(value: int) -> None:
    start = (value - 0x9E3779B97F4A7C15) % 2**64
    assert int(mixed(torch.tensor([value]))[0]) % 2**64 == splitmix(start, 1)[0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_a_compiled_finaliser_is_the_same(values: list[int]) -> None:
    words = torch.tensor(values, dtype=torch.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.compiler.is_compiling", lambda: True)
        compiled = mixed(words)
    assert torch.equal(compiled, mixed(words))


def test_uniform_numbers_are_uniform() -> None:
    found = draws(1000).uniform(0, 100, low=-1.0, high=3.0).flatten()
    assert found.dtype == torch.float32
    assert -1.0 <= float(found.min()) < -0.99
    assert 2.99 < float(found.max()) < 3.0
    counts = torch.histc(found, 20, -1.0, 3.0)
    assert float(((counts - 5000) ** 2 / 5000).sum()) < 43.8, "chi square, 19 degrees, p = 0.001"


def test_integers_are_uniform() -> None:
    counts = torch.bincount(draws(1000).integers(3, 2, 9, 70).flatten())
    assert counts[:2].tolist() == [0, 0]
    assert float(((counts[2:] - 10_000.0) ** 2 / 10_000).sum()) < 22.5, "chi square, 6 degrees, p = 0.001"


def test_normal_numbers_are_normal() -> None:
    found = draws(1000).normal(5, 100).flatten().double()
    assert float(found.mean()) == pytest.approx(0.0, abs=0.013)
    assert float(found.std()) == pytest.approx(1.0, abs=0.009)
    assert float((found**4).mean()) == pytest.approx(3.0, abs=0.14)


@pytest.mark.parametrize(
    "other", [draws(2, episode=1), draws(2, step=1), draws(2, seed=2)], ids=["episode", "step", "seed"]
)
def test_another_moment_or_seed_has_other_numbers(other: Draws) -> None:
    first, second = draws(2).uniform(0, 10_000), other.uniform(0, 10_000)
    assert abs(float(np.corrcoef(first.flatten(), second.flatten())[0, 1])) < 0.025
    assert (draws(2).uniform(0, 10_000) == first).all()


def test_streams_and_copies_are_independent() -> None:
    first = draws(2)
    rows = torch.cat([first.uniform(0, 10_000), first.uniform(1, 10_000)])
    assert (np.abs(np.corrcoef(rows) - np.eye(4)) < 0.035).all()
