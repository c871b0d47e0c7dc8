from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.headless.streams import AgentRandom


def test_first_numbers_are_splitmix64() -> None:
    """The generator's published output for seed 1234567 (its state is set directly)."""
    random = AgentRandom(0, 1)
    random._state[:] = np.uint64(1234567)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    drawn = random.uniform(count=3)[:, 0]
    np.testing.assert_array_equal(drawn, [(number >> 11) * 2.0**-53 for number in expected])


def test_numbers_are_uniform_and_independent_between_agents() -> None:
    draws = AgentRandom(7, 50).uniform(count=2000)
    assert draws.shape == (2000, 50)
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    assert abs(draws.mean() - 0.5) < 0.005
    assert abs(draws.std() - 12**-0.5) < 0.005
    correlation = np.corrcoef(draws.T) - np.eye(50)
    assert np.abs(correlation).max() < 0.12


@given(seed=st.integers(-(2**70), 2**70), agents=st.integers(1, 20), data=st.data())
def test_an_agents_stream_depends_on_seed_and_number_only(seed: int, agents: int, data: st.DataObject) -> None:
    agent = data.draw(st.integers(0, agents - 1))
    alone, crowd = AgentRandom(seed, agent + 1), AgentRandom(seed, agents)
    only = np.array([agent])
    others = np.setdiff1d(np.arange(agents), only)
    expected = [alone.uniform(only)[0, 0] for _ in range(4)]
    drawn = [crowd.uniform(only)[0, 0]]
    crowd.uniform(others, 3)
    drawn.extend(crowd.uniform(only, 2)[:, 0])
    drawn.append(crowd.uniform()[0, agent])
    assert drawn == expected


def test_other_seeds_give_other_numbers() -> None:
    assert not np.array_equal(AgentRandom(1, 8).uniform(), AgentRandom(2, 8).uniform())
