"""Targets of transitions and of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.algorithms.off_policy.transitions import Transitions, targets
from tau_trainer.settings import MemorySettings
from tests.algorithms.experience import DISCRETE, behavior
from tests.algorithms.replayed import dqn_settings, iqn_settings, sac_ln_settings, settings, trained

NOTHING = torch.zeros(0)
SETTINGS: dict[str, Any] = {"sac": settings, "sac_ln": sac_ln_settings, "dqn": dqn_settings, "iqn": iqn_settings}


def transitions(rewards: torch.Tensor, goes_on: torch.Tensor, begins: torch.Tensor) -> Transitions:
    return Transitions([], [], NOTHING, NOTHING, NOTHING, rewards, goes_on, NOTHING, begins, NOTHING, NOTHING, NOTHING)


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4), n_step=st.integers(1, 6), seed=st.integers(0, 2**20)
)
def test_a_sequence_sums_rewards_up_to_its_end_and_then_adds_a_value(
    lengths: list[int], n_step: int, seed: int
) -> None:
    rng, gammas = np.random.default_rng(seed), np.array([0.9, 0.5])
    rows = sum(lengths)
    rewards, values = rng.normal(size=(2, rows, 2))
    goes_on = (rng.random((rows, 2)) < 0.7).astype(np.float64)  # one stream may continue after an end
    firsts = np.cumsum([0, *lengths[:-1]])
    begins = np.isin(np.arange(rows), firsts)
    wanted = np.zeros((rows, 2))
    for first, length in zip(firsts, lengths, strict=True):
        for row in range(first, first + length):
            weight = np.ones(2)
            last = min(row + n_step, first + length) - 1
            for step in range(row, last + 1):
                wanted[row] += weight * rewards[step]
                weight = weight * gammas * goes_on[step]
            wanted[row] += weight * values[last]
    batch = transitions(*(torch.from_numpy(array) for array in (rewards, goes_on, begins)))
    found = targets(batch, torch.from_numpy(gammas), torch.from_numpy(values), n_step)
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)
    # Without a memory, the replay memory has summed them.
    alone = targets(batch._replace(begins=NOTHING), torch.from_numpy(gammas), torch.from_numpy(values), n_step)
    np.testing.assert_allclose(alone.numpy(), rewards + goes_on * gammas * values, atol=1e-12)


def recurrent(trainer: str, n_step: int) -> OffPolicy:
    network = {"memory": MemorySettings(memory_size=8, sequence_length=4)}
    learner = make_algorithm(
        Setup(behavior(DISCRETE), SETTINGS[trainer](network, n_step=n_step, save_replay_buffer=True), 1)
    )
    assert isinstance(learner, OffPolicy)
    trained(learner)
    return learner


@pytest.mark.parametrize("trainer", SETTINGS)
def test_every_algorithm_sums_the_rewards_of_a_sequence(trainer: str) -> None:
    one, three = recurrent(trainer, 1), recurrent(trainer, 3)
    three.load(*one.state(), fresh=False)
    drawn = one.draw(1)
    for learner in (one, three):
        learner.generator.manual_seed(5)
    again = one.draw(1), three.draw(1)
    torch.testing.assert_close(again[0].rewards, again[1].rewards)  # they are summed later

    def losses(batch: Transitions) -> list[torch.Tensor]:
        told = []
        for learner in (one, three):
            arrays, metadata = learner.state()
            learner.load({name: np.copy(values) for name, values in arrays.items()}, metadata, fresh=False)
            learner.generator.manual_seed(7)
            with torch.no_grad():
                told.append(learner.learn(batch, 1, 0.0))
        return told

    torch.testing.assert_close(*losses(drawn._replace(begins=torch.ones_like(drawn.begins))))
    assert drawn.begins.sum() < len(drawn.begins)
    first, second = losses(drawn)
    assert not torch.allclose(first, second)
