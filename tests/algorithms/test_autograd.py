from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tau_trainer.algorithms.autograd import AutogradEpochs
from tau_trainer.algorithms.losses import minibatch_loss
from tau_trainer.algorithms.minibatches import new_statistics
from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.settings import MemorySettings, PPOHyperparameters
from tests.algorithms.accelerators.test_fused import numbers_for
from tests.algorithms.experience import HYBRID, behavior, random_samples
from tests.networks import IMAGE, LIST, make_network

ROWS, BATCH = 24, 8


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("limit", [0.0, 0.3])
@pytest.mark.parametrize("shared", [False, True])
def test_epochs_of_any_network_equal_torchs_own_optimizer(shared: bool, limit: float) -> None:
    spec = behavior(HYBRID, IMAGE, LIST)
    network = make_network(spec, memory=MemorySettings(memory_size=6), shared_critic=shared)
    samples, plain = random_samples(network, ROWS, 4, masked=True), copy.deepcopy(network)
    parameters = FlatParameters(network, torch.device("cpu"), PPOHyperparameters(weight_decay=0.1))
    numbers = numbers_for(HYBRID, learning_rate=1e-2, max_grad_norm=limit)
    statistics, epochs = new_statistics(samples, ROWS, ROWS // BATCH), AutogradEpochs(network, parameters)
    groups: Any = [{"params": [], "weight_decay": 0.1}, {"params": [], "weight_decay": 0.0}]
    for name, parameter in plain.named_parameters():
        groups[not name.endswith("weight")]["params"].append(parameter)
    optimizer = torch.optim.AdamW(groups, lr=1e-2, eps=1e-8)
    for epoch in range(2):
        epochs.run(numbers, samples, statistics, BATCH)
        for index in range(ROWS // BATCH):
            rows = slice(index * BATCH, (index + 1) * BATCH)
            minibatch = samples.map(lambda values, rows=rows: values[rows])  # type: ignore[misc]
            loss, log_ratio, values, entropies = minibatch_loss(plain, numbers, minibatch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), limit or 1e12)
            optimizer.step()
            torch.testing.assert_close(statistics.log_ratio[rows], log_ratio, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(statistics.values[rows], values, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(statistics.entropy[index], entropies.mean(), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(statistics.gradient_norm[index], norm, rtol=1e-4, atol=1e-5)
        assert int(parameters.optimizer.step) == (epoch + 1) * ROWS // BATCH
    for (name, found), wanted in zip(network.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, msg=name)
        assert wanted.grad is not None
        assert wanted.grad.any(), f"{name} is learned"
