from __future__ import annotations

import numpy as np
import pytest
import torch

from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.errors import CheckpointError
from tau_trainer.models import ActorCritic
from tau_trainer.settings import MemorySettings
from tests.algorithms.experience import HYBRID, behavior
from tests.networks import IMAGE, make_network, observations

SPEC = behavior(HYBRID, IMAGE)
pytestmark = pytest.mark.usefixtures("toys")


def made(seed: int = 0) -> ActorCritic:
    return make_network(SPEC, memory=MemorySettings(memory_size=6), seed=seed)


def flat(network: ActorCritic) -> FlatParameters:
    return FlatParameters(network, torch.device("cpu"))


def test_moving_into_the_vector_changes_no_answer() -> None:
    network = made()
    obs = observations(SPEC, 4)
    before = network(network.prepare(obs))
    flat(network)
    after = network(network.prepare(obs))
    assert torch.equal(before.outputs, after.outputs)
    assert torch.equal(before.values, after.values)


def test_parameters_are_apart_aligned_and_matrices_first() -> None:
    parameters = flat(made())
    vector = torch.zeros_like(parameters.adam.parameters)
    views = parameters.views(vector)
    for number, view in enumerate(views.values()):
        assert not view.any(), "parameters overlap"
        assert view.storage_offset() % 16 == 0
        view.fill_(number + 1)
    named = dict(parameters.module.named_parameters())
    assert {name: view.shape for name, view in views.items()} == {name: one.shape for name, one in named.items()}
    assert int((vector != 0).sum()) == sum(one.numel() for one in named.values())
    in_front = {name for name, view in views.items() if view.storage_offset() < parameters.decayed}
    assert in_front == {name for name in named if name.endswith("weight")}
    assert not parameters.adam.parameters[vector == 0].any(), "the gaps are zero"


def test_the_module_and_the_vector_are_the_same() -> None:
    network = made()
    parameters = flat(network)
    parameters.adam.parameters.fill_(0.25)
    assert all((parameter == 0.25).all() for parameter in network.parameters())
    network(network.prepare(observations(SPEC, 4))).outputs.sum().backward()
    gradients = parameters.views(parameters.adam.gradient)
    assert gradients["action.bias"].tolist() == [4.0] * 7
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.data_ptr() == gradients[name].data_ptr(), name


@torch.no_grad()
def test_a_backup_is_everything() -> None:
    network = made()
    parameters = flat(network)
    everything = (*parameters.adam, *network.buffers())
    for number, tensor in enumerate(everything):
        tensor.fill_(number + 1)
    backup = parameters.backup()
    for tensor in everything:
        tensor.fill_(torch.nan if tensor.is_floating_point() else 99)
    assert not parameters.finite()
    parameters.restore(backup)
    assert parameters.finite()
    assert all((tensor == number + 1).all() for number, tensor in enumerate(everything))


@torch.no_grad()
def test_state_makes_another_module_the_same() -> None:
    first, second = flat(made(1)), flat(made(2))
    for number, tensor in enumerate((first.adam.exp_avg, first.adam.exp_avg_sq, first.adam.step)):
        tensor.fill_(number + 5)
    state = first.state()
    first.adam.exp_avg.zero_()
    second.load(state)
    for name, tensor in second.module.state_dict().items():
        assert torch.equal(tensor, first.module.state_dict()[name]), name
    assert (second.adam.exp_avg == 5).all()
    assert (second.adam.exp_avg_sq == 6).all()
    assert int(second.adam.step) == 7
    assert "model.memories.0.seen.weight" in state


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("model.action.bias", None, "has no tensor 'model.action.bias'; it was written by another kind of trainer"),
        ("optimizer.exp_avg", None, "has no tensor 'optimizer.exp_avg'"),
        ("normalizer.mean", None, "has no tensor 'normalizer.mean'"),
        ("model.value.bias", np.zeros(3, np.float32), r"has shape \[3\], the settings ask for \[1\]"),
        ("model.value.bias", np.array([np.nan], np.float32), r"'model\.value\.bias' of the checkpoint holds NaN"),
    ],
)
@torch.no_grad()
def test_what_does_not_fit_changes_nothing(name: str, value: np.ndarray | None, said: str) -> None:
    state, other = flat(made(1)).state(), flat(made(2))
    before = other.state()
    del state[name]
    if value is not None:
        state[name] = value
    with pytest.raises(CheckpointError, match=said):
        other.load(state)
    for key, array in other.state().items():
        np.testing.assert_array_equal(array, before[key], key)
