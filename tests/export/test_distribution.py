from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.export.build import build_model
from tau_trainer.export.cases import Case, random_observations
from tau_trainer.export.session import run_case, session_of
from tau_trainer.settings import MemorySettings
from tests.export.conftest import MakeNetwork
from tests.networks import IMAGE, policy_of

SAMPLES = 4096
RNG = np.random.default_rng(0)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    "shape",
    [{}, {"squashed": True}, {"action_levels": 5}, {"sensors": ((4,), IMAGE), "memory": MemorySettings(memory_size=6)}],
    ids=["gaussian", "squashed", "levels", "image and memory"],
)
def test_samples_of_the_file_are_distributed_as_the_policys(network_of: MakeNetwork, shape: dict[str, Any]) -> None:
    network = network_of(continuous=3, branches=(4, 2), **shape)
    with torch.no_grad():
        network.action.weight.div_(20.0)  # far from the limit of actions and from certain choices
        if "squashed" in shape:
            network.action.bias[3:6] = torch.tensor([-0.7, -40.0, 9.0])  # of which two are beyond the limits
            network.action.weight[:, 4:6] = 0.0
    session, policy = session_of(build_model(network, network.spec).SerializeToString()), policy_of(network)
    obs = tuple(np.repeat(values, SAMPLES, axis=0) for values in random_observations(network.spec, 1, 1.0, RNG))
    mask = np.tile([False, True, False, False, False, False], (SAMPLES, 1))
    state = np.zeros((SAMPLES, 6), np.float32) if "memory" in shape else None
    theirs = run_case(session, network.spec, Case("many draws", obs, mask, state))
    begins = {column.name: column.empty(SAMPLES) for column in policy.state_columns}
    ours = policy.act(obs, mask, np.random.default_rng(0), state=begins).to_env()
    for column in range(3):
        # Kolmogorov and Smirnov's distance of two samples; 1.95 would be exceeded by chance once in a thousand
        pair = theirs["continuous_actions"][:, column].astype(np.float64), ours.continuous[:, column]
        if np.ptp(pair[0]) < 1e-5:  # one value, up to rounding
            np.testing.assert_allclose(pair[0].mean(), pair[1].mean(), atol=1e-5)
            assert "squashed" in shape
            continue
        values = np.sort(np.concatenate(pair))
        shares = [np.searchsorted(np.sort(one), values, side="right") / SAMPLES for one in pair]
        assert np.abs(shares[0] - shares[1]).max() < 2.5 * np.sqrt(2.0 / SAMPLES)
    for branch, size in enumerate((4, 2)):
        drawn = theirs["discrete_actions"][:, branch], ours.discrete[:, branch]
        found, wanted = (np.bincount(one, minlength=size) / SAMPLES for one in drawn)
        np.testing.assert_allclose(found, wanted, atol=0.05)
