from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.errors import ExportError
from tau_trainer.export.build import build_model, memory_size
from tau_trainer.export.cases import Case, random_observations
from tau_trainer.export.reference import Reference
from tau_trainer.export.session import run_case, session_of
from tau_trainer.models import ActorCritic
from tau_trainer.settings import MemorySettings
from tests.export.conftest import MakeNetwork
from tests.export.distribution import SAMPLES, check_distribution, clipped_gaussian
from tests.networks import IMAGE, policy_of

RNG = np.random.default_rng(0)


def test_moments_of_the_clipped_gaussian() -> None:
    mu, sigma = np.array([0.0, 2.5, -4.0, 1.0, 50.0]), np.array([1.0, 1.5, 2.0, 0.01, 1.0])
    draws = np.clip(np.random.default_rng(0).normal(mu, sigma, (400_000, 5)), -3, 3) / 3
    mean, std = clipped_gaussian(mu, sigma)
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(std, draws.std(axis=0), atol=2e-3)


def _check(model_of: ActorCritic, truth: ActorCritic) -> None:
    spec = truth.spec
    session = session_of(build_model(model_of, spec).SerializeToString())
    visible, log_sigma = tuple(range(len(spec.observations))), truth.action.log_sigma.detach().numpy()
    rng = np.random.default_rng(0)
    check_distribution(session, Reference(truth), spec, visible, log_sigma, memory_size(truth), rng)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("shape", [{}, {"sensors": ((4,), IMAGE), "memory": MemorySettings(memory_size=6)}])
def test_right_models_pass_with_any_seed(network_of: MakeNetwork, shape: dict[str, Any]) -> None:
    for seed in range(5):
        network = network_of(continuous=2, branches=(3, 5), seed=seed, **shape)
        _check(network, network)


def changed(network: ActorCritic, name: str, change: torch.Tensor) -> ActorCritic:
    """A copy of which one tensor is off."""
    other = copy.deepcopy(network)
    other.state_dict()[name].add_(change)
    return other


@pytest.mark.parametrize(
    ("shape", "name", "change", "said"),
    [
        ({"continuous": 2}, "action.log_sigma", [0.5, 0.5], "width of 'continuous_actions' is off"),
        ({"continuous": 2}, "action.log_sigma", [0.0, -0.5], "width of 'continuous_actions' is off"),
        ({"continuous": 2}, "action.bias", [0.0, 0.3], "mean of 'continuous_actions' is off"),
        ({"branches": (2, 4)}, "action.bias", [0, 0, 0.6, 0, 0, -0.6], "'discrete_actions' branch 1"),
    ],
)
def test_wrong_models_are_found(
    network_of: MakeNetwork, shape: dict[str, Any], name: str, change: list[float], said: str
) -> None:
    network = network_of(**shape)
    with torch.no_grad():
        network.action.weight.div_(20.0)  # far from the limit of actions and from certain choices
    with pytest.raises(ExportError, match=said):
        _check(changed(network, name, torch.tensor(change)), network)


def test_squashed_samples_are_the_policys(network_of: MakeNetwork) -> None:
    network = network_of(continuous=3, branches=(4,), squashed=True)
    with torch.no_grad():
        network.action.weight.div_(20.0)
        network.action.bias[3:6] = torch.tensor([-0.7, -40.0, 9.0])  # of which two are beyond the limits
        network.action.weight[:, 4:6] = 0.0
    session = session_of(build_model(network, network.spec).SerializeToString())
    obs = tuple(np.repeat(values, SAMPLES, axis=0) for values in random_observations(network.spec, 1, 1.0, RNG))
    case = Case("many draws", obs, np.zeros((SAMPLES, 4), np.bool_), None)
    theirs = run_case(session, network.spec, case)["continuous_actions"].astype(np.float64)
    ours = policy_of(network).act(obs, None, np.random.default_rng(0)).continuous.astype(np.float64)
    for column in range(3):
        # Kolmogorov and Smirnov's distance of two samples; 1.95 would be exceeded by chance once in a thousand
        values = np.sort(np.concatenate((theirs[:, column], ours[:, column])))
        shares = [np.searchsorted(np.sort(one[:, column]), values, side="right") / SAMPLES for one in (theirs, ours)]
        if column != 1:  # one value, up to rounding
            assert np.abs(shares[0] - shares[1]).max() < 2.5 * np.sqrt(2.0 / SAMPLES)
    assert np.ptp(theirs[:, 1]) < 1e-5
    np.testing.assert_allclose(theirs[:, 1].mean(), ours[:, 1].mean(), atol=1e-5)
